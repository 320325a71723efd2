"""All classifications of a workload, from what was measured of it (Quasar 3.2 and 3.4).

Five independent ones (scale-up, scale-out, heterogeneity, tolerated and caused interference), each
by a matrix of its own for each type of workload, and a sixth that takes all settings at once. What
the first three say is put together in a ``Composite``. ``classifier`` makes of it what a live
manager needs; a simulation or a notebook may use this by itself.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import hypot, log

from wharfinger.classification.axis import Axis
from wharfinger.classification.combination import (
    AXES,
    Composite,
    Misfit,
    Observation,
    axes_between,
    misfit_of,
    value_on,
)
from wharfinger.classification.forgetting import corrected
from wharfinger.classification.utility import Kind, UtilityMatrix
from wharfinger.errors import InvalidInput
from wharfinger.estimators.estimator import Prediction
from wharfinger.estimators.matrix import Transform
from wharfinger.estimators.recommender import Recommender, fit
from wharfinger.estimators.registry import DEFAULT_ESTIMATOR
from wharfinger.model.configuration import Configuration, Setting
from wharfinger.model.interference import SharedResource
from wharfinger.model.profile import Entry, Estimate
from wharfinger.model.workload import WorkloadType

LEAST_ERROR = 0.03
"""Relative: runs of one program differ by this, however steady each is."""
LEAST_POINTS = 5.0
"""The same of a score."""
MOST_POINTS = 100.0


@dataclass(frozen=True, slots=True)
class Found:
    """What was measured of one workload; missing is missing, never zero.

    Attributes:
        reference: The first run of the joint plan: all axes start from it.
        performance: By setting, more is better; the reference is among them. Empty = nothing was
            measured (cold start).
        tolerated: Scores, 0-100.
        caused: Scores, 0-100.
        type: Of workload; ``None`` = not known.
    """

    reference: Setting
    performance: Mapping[Setting, Entry] = field(default_factory=dict)
    tolerated: Mapping[SharedResource, Entry] = field(default_factory=dict)
    caused: Mapping[SharedResource, Entry] = field(default_factory=dict)
    type: WorkloadType | None = None

    @property
    def level(self) -> Entry:
        """Performance of the reference run; without any, 1: the rest is relative to it.

        Raises:
            InvalidInput: Others were measured, and that was not.
        """
        if not self.performance:
            return Entry(1.0)
        if self.reference not in self.performance:
            raise InvalidInput(f"the reference {self.reference.name} was not measured; run it too")
        return self.performance[self.reference]

    def along(self, kind: Kind) -> dict[str, Entry]:
        """What was measured along one axis, by its column; everything else as in the reference."""
        return {
            value_on(kind, setting): entry
            for setting, entry in self.performance.items()
            if axes_between(setting, self.reference) in ((), (kind,))
        }

    def elsewhere(self) -> tuple[Observation, ...]:
        """What was measured where more than one axis differs from the reference."""
        return tuple(
            Observation(setting, log(entry.value), entry.error**2)
            for setting, entry in self.performance.items()
            if len(axes_between(setting, self.reference)) > 1
        )

    def corrected(self, setting: Setting, new: Entry, half_life_seconds: float) -> "Found":
        """What is known once performance was measured again, or in one setting more."""
        entry = corrected(self.performance.get(setting), new, Transform.LOG, half_life_seconds)
        return replace(self, performance={**self.performance, setting: entry})


@dataclass(frozen=True, slots=True, eq=False)
class Characterisation:
    """What a workload needs, as all classifications have it.

    Attributes:
        performance: In any setting.
        tolerated: By source; deviations in points.
        caused: By source.
        measured: How many entries were measured; 0 = it is the average of its type.
    """

    performance: Composite
    tolerated: Mapping[SharedResource, Estimate]
    caused: Mapping[SharedResource, Estimate]
    measured: int


class Classifications:
    """Classifies by utility matrices; learns from each when it is first asked for.

    Args:
        matrices: Those that there are; what has none is not classified.
        estimator: Name in ``wharfinger.estimators.registry``.
        seed: The same gives the same.
        fitted: What was learnt of these matrices before, as ``fit_all`` gives it.
    """

    def __init__(
        self,
        matrices: Mapping[Kind, UtilityMatrix],
        estimator: str = DEFAULT_ESTIMATOR,
        seed: int = 0,
        fitted: Iterable[tuple[Kind, Recommender]] = (),
    ) -> None:
        self._matrices = matrices
        self._estimator = estimator
        self._seed = seed
        self._plain: dict[tuple[str, ...], dict[int, int]] = {}
        self._by_rows = {(kind, one.matrix.rows): one for kind, one in fitted}

    @cached_property
    def _by_type(self) -> dict[tuple[Kind, WorkloadType | None], Recommender | None]:
        return {}

    @cached_property
    def _misfits(self) -> dict[Setting, Misfit]:
        return {}

    def recommender(self, kind: Kind, type_: WorkloadType | None = None) -> Recommender | None:
        """What was learnt for one classification of one type; ``None`` = nobody was measured."""
        if (kind, type_) not in self._by_type:
            self._by_type[kind, type_] = self._fit(kind, type_)
        return self._by_type[kind, type_]

    def allocations(self, type_: WorkloadType | None = None) -> dict[int, int]:
        """Columns of scale-up that say nothing but CPU (thousandths): where each is, ascending."""
        recommender = self.recommender(Kind.SCALE_UP, type_)
        columns = recommender.matrix.columns if recommender else ()
        if columns not in self._plain:
            named = enumerate(map(Configuration.parse, columns))
            plain = {c.cpu_millicpus: j for j, c in named if c == Configuration(c.cpu_millicpus)}
            self._plain[columns] = dict(sorted(plain.items()))
        return self._plain[columns]

    def fit_all(self) -> list[tuple[Kind, Recommender]]:
        """Learn now all that is learnt when it is first asked for."""
        for kind in self._matrices:
            for type_ in (None, *WorkloadType):
                self.recommender(kind, type_)
        return [(kind, fitted) for (kind, _), fitted in self._by_rows.items()]

    def _fit(self, kind: Kind, type_: WorkloadType | None) -> Recommender | None:
        matrix = self._matrices.get(kind)
        known = matrix.known_to(type_) if matrix else None
        if known is None:
            return None
        # Types with too few programs of their own share one.
        if (kind, known.rows) not in self._by_rows:
            fitted = fit(self._estimator, known, scale=kind.scale, seed=self._seed)
            self._by_rows[kind, known.rows] = fitted
        return self._by_rows[kind, known.rows]

    def classify(self, found: Found) -> Characterisation:
        """All of them, from two entries each or from what there is.

        Raises:
            InvalidInput: The reference was not measured, though others were.
        """
        level = found.level
        axes = {kind: axis for kind in AXES if (axis := self.axis(kind, found)) is not None}
        error = max(LEAST_ERROR, level.error) if found.performance else 0.0
        composite = Composite(
            found.reference,
            log(level.value),
            error**2,
            axes,
            self._misfit(found.reference),
            found.elsewhere(),
            self.exhaustive(found),
        )
        scores = len(found.tolerated) + len(found.caused)
        return Characterisation(
            composite,
            self.scores(Kind.TOLERATED, found.tolerated, found.type),
            self.scores(Kind.CAUSED, found.caused, found.type),
            len(found.performance) + scores,
        )

    def axis(self, kind: Kind, found: Found) -> Axis | None:
        """One of scale-up, scale-out and heterogeneity; ``None`` = nobody was measured along it."""
        recommender = self.recommender(kind, found.type)
        if recommender is None:
            return None
        reference = value_on(kind, found.reference)
        entries = found.along(kind) if found.performance else {reference: found.level}
        columns = set(recommender.matrix.columns)
        known = {column: entry.value for column, entry in entries.items() if column in columns}
        errors = [max(LEAST_ERROR, e.error) for c, e in entries.items() if c != reference]
        noise = max(errors, default=LEAST_ERROR if found.performance else 0.0)
        return Axis(kind, reference, recommender.predict(known), noise**2)

    def scores(
        self,
        kind: Kind,
        entries: Mapping[SharedResource, Entry],
        type_: WorkloadType | None = None,
    ) -> dict[SharedResource, Estimate]:
        """Tolerated or caused interference by source; a measured one keeps its own error."""
        recommender = self.recommender(kind, type_)
        found: dict[SharedResource, Estimate] = {}
        if recommender is not None:
            columns = [SharedResource(name) for name in recommender.matrix.columns]
            row = {str(c): measured_score(entries[c]).mean for c in columns if c in entries}
            predicted = recommender.predict(row)
            numbers = zip(columns, predicted.mean, predicted.log_std, strict=True)
            found = {source: _score(mean, std) for source, mean, std in numbers}
        for source, entry in entries.items():
            found[source] = measured_score(entry)
        return found

    def exhaustive(self, found: Found) -> Prediction | None:
        """All settings at once, by one matrix: the alternative of Quasar's Table 2.

        Returns:
            In logarithms, by setting's name; ``None`` where nobody was measured in all settings.
        """
        recommender = self.recommender(Kind.EXHAUSTIVE, found.type)
        if recommender is None:
            return None
        columns = set(recommender.matrix.columns)
        measured = {setting.name: entry.value for setting, entry in found.performance.items()}
        known = {name: value for name, value in measured.items() if name in columns}
        return recommender.predict(known) if known else None

    def _misfit(self, reference: Setting) -> Misfit:
        if reference not in self._misfits:
            matrix = self._matrices.get(Kind.EXHAUSTIVE)
            self._misfits[reference] = misfit_of(matrix, reference) if matrix else Misfit()
        return self._misfits[reference]


def measured_score(entry: Entry) -> Estimate:
    """A measured score; a lower bound says: anything from there to 100, each as likely."""
    error = max(LEAST_POINTS, entry.error)
    if not entry.censored or entry.value >= MOST_POINTS:
        return _score(entry.value, error)
    uniform = (MOST_POINTS - entry.value) / 12**0.5
    return _score((entry.value + MOST_POINTS) / 2, hypot(error, uniform))


def _score(mean: float, std: float) -> Estimate:
    return Estimate(float(min(100.0, max(0.0, mean))), float(std))
