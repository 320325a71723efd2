"""A fitted form with the names of services and neighbors: what is predicted, saved and loaded."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from wharfinger.errors import InvalidInput, NotFound
from wharfinger.interference.bubble import MAX_DROP, ContentionScale, scale_of
from wharfinger.interference.form import Form, Predictor, floats, listed
from wharfinger.interference.measurements import (
    ContentionMeasurements,
    ContentionSetting,
    ServiceSets,
)
from wharfinger.interference.registry import make_form
from wharfinger.model.arrays import Array, normal_below

FORMAT = 1
NORMAL_90 = 1.6448536269514722
"""Half the width of a normal's 90% interval, in standard deviations."""


@dataclass(frozen=True, slots=True, eq=False)
class SetPredictions:
    """Of sets beside one service.

    Attributes:
        drops: (n,) minus the logarithm of performance relative to alone; NaN = unknown.
        stds: (n,) standard deviations of the drops.
        scale: Of contention.
    """

    drops: Array
    stds: Array
    scale: ContentionScale

    @property
    def performance(self) -> Array:
        """(n,) medians, relative to alone; NaN = unknown."""
        return self._kept(self.drops)

    def interval_90(self) -> tuple[Array, Array]:
        """(n,) low and high ends of the performance."""
        half = NORMAL_90 * self.stds
        return self._kept(self.drops + half), self._kept(self.drops - half)

    @property
    def contention(self) -> Array:
        """(n,) in the unit of the scale; NaN = unknown, or beyond what was measured."""
        return self.scale.contention(self.drops)

    def unsafe(self, qos: float) -> Array:
        """(n,) probability that performance is below a share of alone; 1 where it is unknown.

        >>> from wharfinger.interference.bubble import ExcessTime
        >>> made = SetPredictions(np.array([0.1, np.nan]), np.array([0.01, np.nan]), ExcessTime())
        >>> made.unsafe(0.95).round(2).tolist()
        [1.0, 1.0]
        """
        if not self.scale.tells_performance:
            return np.ones(len(self.drops))
        margin = self.drops + np.log(qos)
        above = normal_below(np.clip(margin / np.maximum(self.stds, 1e-12), -40, 40))
        return np.where(np.isnan(self.drops), 1.0, above)

    def _kept(self, drops: Array) -> Array:
        if not self.scale.tells_performance:
            return np.full(len(drops), np.nan)
        return np.asarray(np.exp(-np.clip(drops, -MAX_DROP, MAX_DROP)))


@dataclass(frozen=True, slots=True, eq=False)
class InterferenceModel:
    """What was learned of every setting.

    Attributes:
        services: By setting, without their sets.
        degrees: By setting, those that were measured.
    """

    form: Form
    services: Mapping[ContentionSetting, ServiceSets]
    predictors: Mapping[ContentionSetting, Predictor]
    degrees: Mapping[ContentionSetting, tuple[int, ...]]

    @classmethod
    def fit(cls, form: Form | str, measurements: ContentionMeasurements) -> "InterferenceModel":
        """Learn from all that was measured."""
        form = make_form(form) if isinstance(form, str) else form
        predictors = form.fit(measurements.services)
        return cls(
            form,
            {each.setting: replace(each, sets={}) for each in measurements.services},
            predictors,
            {each.setting: (1, *each.sets) for each in measurements.services},
        )

    def setting(self, service: str, platform: str = "", load_class: str = "") -> ContentionSetting:
        """The setting that is meant; platform and class need not be named where there is one.

        Raises:
            NotFound: There is none, or it could be several.
        """
        fitting = [
            each
            for each in self.services
            if each.service == service
            and platform in {"", each.platform}
            and load_class in {"", each.load_class}
        ]
        wanted = ContentionSetting(service, platform, load_class)
        if len(fitting) == 1 or wanted in fitting:
            return wanted if wanted in fitting else fitting[0]
        if not fitting:
            there_are = ", ".join(sorted(str(each) for each in self.services)[:10])
            raise NotFound(f"no service {str(wanted)!r} was measured; there are {there_are}")
        some = ", ".join(sorted(str(each) for each in fitting)[:10])
        raise NotFound(f"service {service!r} is one of several: {some}; name platform and class")

    def predict(self, setting: ContentionSetting, sets: Sequence[Sequence[str]]) -> SetPredictions:
        """Of sets of any degree; the empty one slows nothing, an unknown neighbor is unknown."""
        service, predictor = self.services[setting], self.predictors[setting]
        place = {name: at for at, name in enumerate(service.names)}
        drops, stds = np.full((2, len(sets)), np.nan)
        by_degree: dict[int, list[int]] = defaultdict(list)
        for number, one in enumerate(sets):
            if not one:
                drops[number] = stds[number] = 0.0
            elif all(name in place for name in one):
                by_degree[len(one)].append(number)
        for numbers in by_degree.values():
            members = np.array([[place[name] for name in sets[at]] for at in numbers])
            drops[numbers], stds[numbers] = predictor.drops(members)
        return SetPredictions(drops, stds, service.scale)

    def as_json(self) -> dict[str, object]:
        """All of it, for ``from_json``."""
        return {
            "format": FORMAT,
            "model": self.form.name,
            "version": self.form.version,
            "services": [
                {
                    "service": setting.service,
                    "platform": setting.platform,
                    "class": setting.load_class,
                    "neighbors": list(service.names),
                    "single": listed(service.single),
                    "single_errors": listed(service.single_errors),
                    "measured": service.measured.tolist(),
                    "degrees": list(self.degrees[setting]),
                    "scale": service.scale.state(),
                    "state": self.predictors[setting].state(),
                }
                for setting, service in self.services.items()
            ],
        }

    @classmethod
    def from_json(cls, document: object, place: str = "the model") -> "InterferenceModel":
        """The inverse of ``as_json``.

        Raises:
            InvalidInput: It is damaged, or another version's.
        """
        try:
            return cls._restored(document, place)
        except (KeyError, TypeError, ValueError, IndexError, AssertionError) as error:
            raise InvalidInput(f"{place} is damaged ({error}); fit it again") from None

    @classmethod
    def _restored(cls, document: object, place: str) -> "InterferenceModel":
        if not isinstance(document, dict):
            raise TypeError("no object")
        form = make_form(str(document["model"]))
        stated = document["format"], document["version"]
        if stated != (FORMAT, form.version):
            raise InvalidInput(
                f"{place} is of format and version {stated}, this is {(FORMAT, form.version)}; "
                "fit it again"
            )
        services, predictors, degrees = {}, {}, {}
        for each in document["services"]:
            setting = ContentionSetting(
                *(str(each[key]) for key in ("service", "platform", "class"))
            )
            names = tuple(map(str, each["neighbors"]))
            single, errors = floats(each, "single"), floats(each, "single_errors")
            measured = np.array(each["measured"], dtype=np.bool_)
            if not len(names) == len(single) == len(errors) == len(measured):
                raise ValueError("neighbors and their drops differ in number")
            scale = scale_of(each["scale"])
            services[setting] = ServiceSets(setting, names, single, errors, {}, scale, measured)
            predictors[setting] = form.restore(services[setting], each["state"])
            degrees[setting] = tuple(map(int, each["degrees"]))
        return cls(form, services, predictors, degrees)
