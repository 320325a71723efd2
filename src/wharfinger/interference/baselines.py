"""Forms that are known or simple: the least that another has to be better than.

| name | a set's | is |
|---|---|---|
| ``product`` | performance | the product of the single ones: no interaction |
| ``worst`` | performance | the least of the single ones: one bottleneck, filled by one |
| ``scaled-product`` | drop | that of the product times a coefficient of platform and degree |
| ``multi-bubble-up`` | contention | the sum of the single ones (Pythia 3.2) |
| ``bubble-up`` | contention | the same at one service, the reporter (Pythia 2.1) |

The deviation is what the sampled sets were missed by, at each degree; without any a third of the
drop. ``bubble-flux`` is no form: it probes the running service (Pythia 2.2).
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from wharfinger.interference.form import Predictor, State, floats, listed
from wharfinger.interference.measurements import ContentionSetting, Members, ServiceSets
from wharfinger.model.arrays import Array

UNTRIED = 1 / 3
"""Deviation of the drop, over the drop, where no set was measured."""
_PRIOR_ROWS = 2.0
Combine = Callable[[Members], Array]
"""Drops of sets, from what a form knows of single neighbors; NaN = unknown."""


@dataclass(frozen=True, slots=True, eq=False)
class Simple:
    """Drops by a formula, and how far it was off.

    Attributes:
        combine: The formula.
        service: Whose singles are degree 1.
        off: By degree, root mean square of what it missed, over that of the drops.
        numbers: For ``state``.
    """

    combine: Combine
    service: ServiceSets
    off: Mapping[int, float]
    numbers: State

    def drops(self, members: Members) -> tuple[Array, Array]:
        """By the formula; a single neighbor's as it was measured."""
        degree = members.shape[1]
        if degree == 1:
            return self.service.single[members[:, 0]], self.service.single_errors[members[:, 0]]
        mean = self.combine(members)
        share = self.off.get(degree, max([UNTRIED, *self.off.values()]))
        errors = self.service.single_errors[members]
        return mean, np.sqrt((share * mean) ** 2 + np.sum(errors**2, axis=1))

    def drop(self, members: Sequence[int]) -> tuple[float, float]:
        """Of one set."""
        mean, std = self.drops(np.array([members], dtype=np.intp))
        return float(mean[0]), float(std[0])

    def state(self) -> State:
        """The numbers of the formula, and how far it was off."""
        return {**self.numbers, "off": {str(degree): off for degree, off in self.off.items()}}


def missed(combine: Combine, service: ServiceSets) -> dict[int, float]:
    """By degree, the root mean square error over that of the drops, a little towards a third."""
    off = {}
    for degree, table in service.sets.items():
        errors = combine(table.members) - table.drops
        known = ~np.isnan(errors)
        size = float(np.sum(table.drops[known] ** 2))
        if size > 0:
            prior = _PRIOR_ROWS / (known.sum() + _PRIOR_ROWS)
            share = float(np.sum(errors[known] ** 2)) / size
            off[degree] = float(np.sqrt(share * (1 - prior) + UNTRIED**2 * prior))
    return off


def _off(state: State) -> dict[int, float]:
    off = state["off"]
    assert isinstance(off, Mapping)
    return {int(degree): float(value) for degree, value in off.items()}


@dataclass(frozen=True, slots=True)
class Formula:
    """A form without anything to learn but how far it is off."""

    name: str
    formula: Callable[[ServiceSets, Members], Array]
    version: int = 1

    def fit(self, services: Sequence[ServiceSets]) -> Mapping[ContentionSetting, Predictor]:
        """Look how far it is off."""
        return {each.setting: self._of(each, None) for each in services}

    def restore(self, service: ServiceSets, state: State) -> Predictor:
        """As it was fitted."""
        return self._of(service, _off(state))

    def _of(self, service: ServiceSets, off: Mapping[int, float] | None) -> Simple:
        def combine(members: Members) -> Array:
            return self.formula(service, members)

        return Simple(combine, service, missed(combine, service) if off is None else off, {})


def _product(service: ServiceSets, members: Members) -> Array:
    return np.asarray(service.single[members].sum(axis=1))


def _worst(service: ServiceSets, members: Members) -> Array:
    return np.asarray(service.single[members].max(axis=1))


def _sum(service: ServiceSets, members: Members) -> Array:
    contention = service.scale.contention(service.single)
    return service.scale.drops(contention[members].sum(axis=1))


PRODUCT, WORST = Formula("product", _product), Formula("worst", _worst)
MULTI_BUBBLE_UP = Formula("multi-bubble-up", _sum)


@dataclass(frozen=True, slots=True)
class BubbleUp:
    """Contention as one service, the reporter, sees it: the first of a platform in order of names.

    It predicts single neighbors, too, of all other services.
    """

    name: str = "bubble-up"
    version: int = 1

    def fit(self, services: Sequence[ServiceSets]) -> Mapping[ContentionSetting, Predictor]:
        """Contentions of all names at the reporter."""
        reporters: dict[str, ServiceSets] = {}
        for each in services:
            reporters.setdefault(each.setting.platform, each)
        fitted: dict[ContentionSetting, Predictor] = {}
        for each in services:
            reporter = reporters[each.setting.platform]
            caused = reporter.scale.contention(reporter.single)
            by_name = dict(zip(reporter.names, caused.tolist(), strict=True))
            reported = np.array([by_name.get(name, np.nan) for name in each.names])
            if reporter.scale.unit != each.scale.unit:
                reported = np.full(len(each.names), np.nan)
            fitted[each.setting] = self._of(each, reported, None)
        return fitted

    def restore(self, service: ServiceSets, state: State) -> Predictor:
        """As it was fitted."""
        return self._of(service, floats(state, "reported"), _off(state))

    def _of(
        self, service: ServiceSets, reported: Array, off: Mapping[int, float] | None
    ) -> Predictor:
        """With the reporter's drops in the place of the service's own."""
        single = service.scale.drops(reported)
        seen = replace(service, single=single, single_errors=np.abs(single) * UNTRIED)

        def combine(members: Members) -> Array:
            return service.scale.drops(reported[members].sum(axis=1))

        off = missed(combine, service) if off is None else off
        return Simple(combine, seen, off, {"reported": listed(reported)})


@dataclass(frozen=True, slots=True)
class ScaledProduct:
    """One coefficient for each platform and degree, by least squares, towards 1."""

    name: str = "scaled-product"
    version: int = 1

    def fit(self, services: Sequence[ServiceSets]) -> Mapping[ContentionSetting, Predictor]:
        """Coefficients from all services of a platform."""
        sums: dict[tuple[str, int], Array] = defaultdict(lambda: np.zeros(3))
        for each in services:
            for degree, table in each.sets.items():
                product = _product(each, table.members)
                known = ~np.isnan(product)
                x, y = product[known], table.drops[known]
                sums[each.setting.platform, degree] += np.array([x @ x, x @ y, len(x)])
        fitted: dict[ContentionSetting, Predictor] = {}
        for each in services:
            coefficients = {}
            for (platform, degree), (xx, xy, count) in sums.items():
                if platform == each.setting.platform and xx > 0:
                    prior = xx / count  # one row that says 1
                    coefficients[degree] = float((xy + prior) / (xx + prior))
            fitted[each.setting] = self._of(each, coefficients, None)
        return fitted

    def restore(self, service: ServiceSets, state: State) -> Predictor:
        """As it was fitted."""
        coefficients = state["coefficients"]
        assert isinstance(coefficients, Mapping)
        return self._of(service, {int(d): float(c) for d, c in coefficients.items()}, _off(state))

    def _of(
        self,
        service: ServiceSets,
        coefficients: Mapping[int, float],
        off: Mapping[int, float] | None,
    ) -> Predictor:
        last = coefficients[max(coefficients)] if coefficients else 1.0

        def combine(members: Members) -> Array:
            return coefficients.get(members.shape[1], last) * _product(service, members)

        off = missed(combine, service) if off is None else off
        numbers = {"coefficients": {str(degree): c for degree, c in coefficients.items()}}
        return Simple(combine, service, off, numbers)
