"""The default form: slow-downs add up after a Box-Cox transform that the data choose.

With x = −ln r the drop of performance, so that exp x is the slow-down, sets are additive in

    φ_k(x) = (exp(k x) − 1) / k

k = −1 adds losses, 0 multiplies (the ``product``), 1 adds excess times, k → ∞ is the ``worst``
neighbor. On top, each neighbor may weigh more or less than it does alone, and each degree:

    φ(x_S) = (1 + γ_d) Σ_w φ(x_w) + Σ_w u_w + ε

    u_w ~ N(0, τ² φ(x_w)² + φ'(x_w)² e_w²)    what w adds beside others, and the error e_w of x_w
    γ_d = γ_(d−1) + N(0, s²), γ_1 = 0          what a degree adds
    ε ~ N(0, φ'(x_S)² (e_S² + σ²))             the error of the run, and what no sum explains

Given (k, τ, s, σ) this is Gaussian. The posterior is computed on the weights u and γ: all that a
fit needs of the sets is a Gram matrix of the neighbors that occur in them, which is added up set by
set. The four are averaged over the evidence on a grid (``evidence.py``), and what is left are
a few components, one for each k.

A service with few sets is fitted together with the others of its platform: γ, k, τ, s and σ are
then shared, and u is of each service.

Source: Box and Cox (1964) for φ; the rest is ours (docs/decisions/0093).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray

from wharfinger.interference.evidence import Block, Component, Regression, posterior
from wharfinger.interference.form import Predictor, State, floats, listed
from wharfinger.interference.measurements import ContentionSetting, Members, ServiceSets
from wharfinger.interference.transform import phi, phi_inverse, phi_slope
from wharfinger.model.arrays import Array

MIN_SETS = 8
"""Of a service that is fitted alone."""
TABLE_NAMES = 512
"""Limit of a service's names whose pairs are all predicted in advance."""
_SMALL_K = 1e-9


@dataclass(frozen=True, slots=True)
class BoxCox:
    """Additive after a Box-Cox transform, with a Gaussian posterior."""

    name: str = "box-cox"
    version: int = 1

    def fit(self, services: Sequence[ServiceSets]) -> Mapping[ContentionSetting, Predictor]:
        """One regression for each service, and one for those of a platform with few sets."""
        groups: dict[tuple[str, str], list[ServiceSets]] = defaultdict(list)
        for each in services:
            rows = sum(map(len, each.sets.values()))
            alone = str(each.setting) if rows >= MIN_SETS else ""
            groups[each.setting.platform, alone].append(each)
        fitted: dict[ContentionSetting, Predictor] = {}
        for group in groups.values():
            fitted |= _fit_together(group)
        return fitted

    def restore(self, service: ServiceSets, state: State) -> Predictor:
        """As it was fitted."""
        components = state["components"]
        assert isinstance(components, Sequence)
        return BoxCoxPredictor(
            service.single,
            service.single_errors,
            service.measured,
            np.asarray(state["slots"], dtype=np.intp),
            tuple(_component(each) for each in components),
        )


def _component(state: State) -> Component:
    weight, k, noise, spread, step = (float(str(state[key])) for key in Component.NUMBERS)
    mean, covariance, degrees, of_degrees, cross = (floats(state, key) for key in Component.ARRAYS)
    columns, more = len(mean), len(degrees)
    return Component(
        weight=weight,
        k=k,
        noise=noise,
        spread=spread,
        step=step,
        mean=mean,
        covariance=covariance.reshape(columns, columns),
        degrees=degrees,
        degree_covariance=of_degrees.reshape(more, more),
        cross=cross.reshape(columns, more),
    )


def _fit_together(services: Sequence[ServiceSets]) -> dict[ContentionSetting, Predictor]:
    """Columns are the neighbors of each service that occur in its sets."""
    blocks: list[Block] = []
    slots, singles, errors = [], [], []
    count = 0
    for each in services:
        usable = {
            degree: table.take(np.flatnonzero(~np.isnan(each.single[table.members]).any(axis=1)))
            for degree, table in each.sets.items()
        }
        occurring = np.zeros(len(each.names), dtype=np.bool_)
        for table in usable.values():
            occurring[table.members.ravel()] = True
        slot = np.full(len(each.names), -1, dtype=np.intp)
        slot[occurring] = count + np.arange(occurring.sum())
        count += int(occurring.sum())
        singles.append(each.single[occurring])
        errors.append(each.single_errors[occurring])
        slots.append(slot)
        blocks += [Block(slot[t.members], t.drops, t.errors) for t in usable.values() if len(t)]
    regression = Regression(np.concatenate(singles), np.concatenate(errors), tuple(blocks))
    components = posterior(regression)
    return {
        each.setting: _of_service(each, slot, components)
        for each, slot in zip(services, slots, strict=True)
    }


def _of_service(
    service: ServiceSets, slot: NDArray[np.intp], components: Sequence[Component]
) -> "BoxCoxPredictor":
    """The columns of one service, renumbered."""
    own = slot[slot >= 0]
    local = np.where(slot >= 0, slot - (own[0] if len(own) else 0), -1)
    return BoxCoxPredictor(
        service.single,
        service.single_errors,
        service.measured,
        local,
        tuple(each.of_columns(own) for each in components),
    )


@dataclass(frozen=True, eq=False)
class BoxCoxPredictor:
    """One service's posterior.

    Attributes:
        single: (names,) drops beside each alone, with (names,) standard errors.
        measured: (names,) whether it was; a completed one bounds no set.
        slots: (names,) columns of the components; −1 = it is in no measured set.
        components: One for each k.
    """

    single: Array
    single_errors: Array
    measured: NDArray[np.bool_]
    slots: NDArray[np.intp]
    components: tuple[Component, ...]
    _parts: "dict[int, list[_Part]]" = field(default_factory=dict, init=False, repr=False)

    def drops(self, members: Members) -> tuple[Array, Array]:
        """The mean over the components; no less than beside fewer of the neighbors that slow it."""
        degree = members.shape[1]
        if degree == 1:
            return self.single[members[:, 0]], self.single_errors[members[:, 0]]
        mean, square = np.zeros((2, len(members)))
        # GramSums do not hang on the order in which a set is written.
        members = np.sort(members, axis=1)
        for part in self._of_degree(degree):
            drop, variance = part.moments(members)
            mean = mean + part.weight * drop
            square = square + part.weight * (variance + drop * drop)
        variance = np.maximum(square - mean * mean, 0.0)
        return np.maximum(mean, self._of_fewer(members)), np.sqrt(variance)

    def _of_fewer(self, members: Members) -> Array:
        """The most of all sets that lack one neighbor which slows it alone."""
        count, degree = members.shape
        fewer = np.concatenate([np.delete(members, at, axis=1) for at in range(degree)])
        if degree == 2:
            drops = self._bounds[fewer[:, 0]]
        elif degree == 3 and self._pairs is not None:
            drops = self._pairs[fewer[:, 0], fewer[:, 1]]
        else:  # Each once: else the time would grow with the orders in which they can be left out.
            sets, where = np.unique(fewer, axis=0, return_inverse=True)
            drops = self.drops(sets)[0][where.reshape(-1)]
        slows = self.single[members.T] >= 0
        left = np.where(slows, drops.reshape(degree, count), -np.inf)
        return np.asarray(left.max(axis=0, initial=-np.inf))

    @cached_property
    def _bounds(self) -> Array:
        return np.where(self.measured, self.single, -np.inf)

    @cached_property
    def _pairs(self) -> Array | None:
        """(names, names) drops beside every pair; ``None`` = too many."""
        size = len(self.single)
        if size > TABLE_NAMES:
            return None
        one, other = np.triu_indices(size)
        table = np.empty((size, size))
        table[one, other] = table[other, one] = self.drops(np.stack([one, other], axis=1))[0]
        return table

    def drop(self, members: Sequence[int]) -> tuple[float, float]:
        """The same of one set, without arrays: a twentieth of the time."""
        if not 2 <= len(members) <= 3 or self._pairs is None:
            mean, std = self.drops(np.array([members], dtype=np.intp))
            return float(mean[0]), float(std[0])
        ordered = sorted(members)
        expected = square = 0.0
        for part in self._of_degree(len(ordered)):
            drop, variance = part.moments_of(ordered)
            expected += part.weight * drop
            square += part.weight * (variance + drop * drop)
        spread = sqrt(max(square - expected * expected, 0.0))
        single, bounds, pairs = self._lists
        if len(ordered) == 2:
            one, other = ordered
            if single[one] >= 0 and bounds[other] > expected:
                expected = bounds[other]
            if single[other] >= 0 and bounds[one] > expected:
                expected = bounds[one]
            return expected, spread
        a, b, c = ordered
        for slows, fewer in ((a, pairs[b][c]), (b, pairs[a][c]), (c, pairs[a][b])):
            if fewer > expected and single[slows] >= 0:
                expected = fewer
        return expected, spread

    @cached_property
    def _lists(self) -> tuple[list[float], list[float], list[list[float]]]:
        assert self._pairs is not None
        return self.single.tolist(), self._bounds.tolist(), self._pairs.tolist()

    def _of_degree(self, degree: int) -> "list[_Part]":
        if degree not in self._parts:
            self._parts[degree] = [
                _Part.of(each, self.single, self.single_errors, self.slots, degree)
                for each in self.components
            ]
        return self._parts[degree]

    def linear(self, sets: Sequence[Members]) -> tuple[Array, Array, Array, float]:
        """The heaviest component as a linear model, for ``design.py``.

        Args:
            sets: By degree, (n, degree) members.

        Returns:
            Rows (all n, weights), the weights' covariance, φ' (all n,) at the drops, and σ².
        """
        component = self.components[0]
        size, highest = len(self.single), max(each.shape[1] for each in sets)
        base = np.nan_to_num(phi(self.single, component.k))
        covariance = np.zeros((size + highest - 1,) * 2)
        seen = np.flatnonzero(self.slots >= 0)
        columns = self.slots[seen]
        covariance[np.ix_(seen, seen)] = component.covariance[np.ix_(columns, columns)]
        for degree in range(2, highest + 1):
            part = _Part.of(component, self.single, self.single_errors, self.slots, degree)
            own = np.diag_indices(size)
            covariance[own] = np.where(self.slots >= 0, covariance[own], np.nan_to_num(part.own))
            at = size + degree - 2
            covariance[:size, at] = covariance[at, :size] = part.along
            for other in range(2, degree + 1):
                shared = component.of_degrees(degree, other)
                covariance[at, size + other - 2] = covariance[size + other - 2, at] = shared
        blocks, slopes = [], []
        for members in sets:
            rows = np.zeros((len(members), size + highest - 1))
            for at in range(members.shape[1]):
                np.add.at(rows, (np.arange(len(members)), members[:, at]), 1.0)
            rows[:, size + members.shape[1] - 2] = base[members].sum(axis=1)
            blocks.append(rows)
            slopes.append(phi_slope(self.drops(members)[0], component.k))
        return np.concatenate(blocks), covariance, np.concatenate(slopes), component.noise

    def state(self) -> State:
        """Columns and components."""
        return {
            "slots": self.slots.tolist(),
            "components": [
                {key: getattr(each, key) for key in Component.NUMBERS}
                | {key: listed(getattr(each, key)) for key in Component.ARRAYS}
                for each in self.components
            ],
        }


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """A component at one degree.

    Attributes:
        base: (names,) φ of the single drop.
        adds: (names,) mean of what each adds beside others, degree included.
        along: (names,) covariance of it with the degree's coefficient.
        own: (names,) its variance where it is in no measured set.
        covariance: (columns + 1, columns + 1), zeros at the end.
        coefficient: Variance of the degree's coefficient.
    """

    weight: float
    k: float
    noise: float
    base: Array
    adds: Array
    along: Array
    own: Array
    covariance: Array
    slots: NDArray[np.intp]
    coefficient: float
    lists: tuple[list[float], list[float], list[float], list[float], list[list[float]], list[int]]

    @classmethod
    def of(
        cls,
        component: Component,
        single: Array,
        errors: Array,
        slots: NDArray[np.intp],
        degree: int,
    ) -> "_Part":
        k = component.k
        base = phi(single, k)
        coefficient, variance, along = component.of_degree(degree)
        seen = slots >= 0
        pad = np.where(seen, slots, len(component.mean))
        adds = base * (1 + coefficient) + np.append(component.mean, 0.0)[pad]
        own = np.where(seen, 0.0, component.spread * base**2 + (phi_slope(single, k) * errors) ** 2)
        covariance = np.pad(component.covariance, ((0, 1), (0, 1)))
        with_degree = np.append(along, 0.0)[pad]
        lists = (
            base.tolist(), adds.tolist(), with_degree.tolist(), own.tolist(),
            covariance.tolist(), pad.tolist(),
        )  # fmt: skip
        return cls(
            component.weight, k, component.noise, base, adds, with_degree, own, covariance, pad,
            variance, lists,
        )  # fmt: skip

    def moments(self, members: Members) -> tuple[Array, Array]:
        """Mean and variance of the drops of (n, degree) sets, their own noise included."""
        degree = members.shape[1]
        total = self.base[members].sum(axis=1)
        z = self.adds[members].sum(axis=1)
        variance = total * (2 * self.along[members].sum(axis=1) + total * self.coefficient)
        slots = self.slots[members]
        for one in range(degree):
            for other in range(one, degree):
                shared = self.covariance[slots[:, one], slots[:, other]]
                same = members[:, one] == members[:, other]
                shared = shared + np.where(same, self.own[members[:, one]], 0.0)
                variance = variance + (shared if one == other else 2 * shared)
        drop = phi_inverse(z, self.k)
        slope = phi_slope(drop, self.k)
        return drop, np.maximum(variance, 0.0) / slope**2 + self.noise

    def moments_of(self, members: Sequence[int]) -> tuple[float, float]:
        """Of one sorted set."""
        base, adds, along, own, covariance, slots = self.lists
        total = z = with_degree = variance = 0.0
        for at, one in enumerate(members):
            total += base[one]
            z += adds[one]
            with_degree += along[one]
            row = covariance[slots[one]]
            variance += row[slots[one]] + own[one]
            for other in members[:at]:
                variance += 2 * row[slots[other]]
                if one == other:
                    variance += 2 * own[one]
        variance += total * (2 * with_degree + total * self.coefficient)
        k = self.k
        if abs(k) < _SMALL_K:
            return z, max(variance, 0.0) + self.noise
        inner = max(1 + k * z, 1e-9)
        return log(inner) / k, max(variance, 0.0) / (inner * inner) + self.noise
