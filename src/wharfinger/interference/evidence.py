"""The Gaussian posterior of ``boxcox.py`` on the weights, and the evidence of its four constants.

With X the sets' rows (each member's column 1, or as often as it is there; and for each degree from
2 on the set's Σ φ(x_w) where it has that degree or more), P the prior variances of the weights, W
the inverse variances of the rows and y what the sum leaves,

    A = Xᵀ W X,  h = Xᵀ W y,  B = I + √P A √P

    ln p(y) = −½ (yᵀ W y − hᵀ √P B⁻¹ √P h) − ½ ln |B| + ½ ln |W| + Σ ln φ'(x_S)

(the last as it is a density of x_S). The slope φ' of a set is taken between its drop and that of
Σ φ(x_w), so that what the sum misses is the same in φ over the slope as in drops: with the slope at
the drop itself a large k would hide whatever a sum underestimates. A, h and y'Wy depend on k alone
where all runs have the same error, and else on k and σ: they are added up once for each. The grid
is walked uphill from where a coarse look at some of the sets was best, and as far as the evidence
is worth a share.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from math import exp, log
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wharfinger.errors import InvalidInput
from wharfinger.interference.gram import column_sums, gram
from wharfinger.interference.measurements import Members
from wharfinger.interference.transform import phi, phi_inverse, phi_slope, secant
from wharfinger.model.arrays import Array

KS = (-8.0, -4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
SPREADS = (0.0, 0.05, 0.15, 0.4)
"""τ: of what a neighbor adds beside others, over what it adds alone."""
STEPS = (0.03, 0.15, 0.7)
"""s: of what a degree adds."""
NOISES = (0.0, 0.001, 0.002, 0.004, 0.008, 0.016, 0.04, 0.1)
"""σ: of the drop, beyond errors of measurement."""
_GRID = (KS, SPREADS, STEPS, NOISES)
K_PRIOR = 6.0
NOISE_PRIOR = 0.1
"""Standard deviations of normal priors around 0."""
WORTH = 3.5
"""Logarithm of the evidence below the best at which nothing is looked at any more."""
MAX_COMPONENTS = 4
ALIKE = 1.5
"""Errors of runs that differ by less are taken to be one."""
COARSE_SETS = 600
MAX_COLUMNS = 4000
"""Of the matrix that is factored: 128 MB."""
_Node = tuple[int, int, int, int]


class Block(NamedTuple):
    """Sets of one degree: (n, degree) columns, (n,) drops, (n,) standard errors."""

    members: Members
    drops: Array
    errors: Array


@dataclass(frozen=True, slots=True)
class Component:
    """The posterior given k, averaged over the other constants.

    Attributes:
        weight: Its share of the evidence.
        noise: σ², in drops.
        spread: τ².
        step: s², of degrees beyond those that were measured.
        mean: (columns,) of u.
        covariance: (columns, columns) of u.
        degrees: (degrees − 1,) mean of γ from degree 2 on; ``degree_covariance`` of it.
        cross: (columns, degrees − 1) covariance of u and γ.
    """

    weight: float
    k: float
    noise: float
    spread: float
    step: float
    mean: Array
    covariance: Array
    degrees: Array
    degree_covariance: Array
    cross: Array

    NUMBERS: ClassVar = ("weight", "k", "noise", "spread", "step")
    ARRAYS: ClassVar = ("mean", "covariance", "degrees", "degree_covariance", "cross")

    def of_degree(self, degree: int) -> tuple[float, float, Array]:
        """γ of a degree from 2 on, its variance, and its covariance with u.

        One that was never measured is as the last that was, and less certain by each step.
        """
        last = len(self.degrees) - 1
        variance = self.of_degrees(degree, degree)
        if last < 0:
            return 0.0, variance, np.zeros(len(self.mean))
        at = min(degree - 2, last)
        return float(self.degrees[at]), variance, self.cross[:, at]

    def of_degrees(self, one: int, other: int) -> float:
        """Covariance of γ of two degrees."""
        last = len(self.degrees) + 1
        beyond = max(0, min(one, other) - last) * self.step
        if last < 2:
            return beyond
        at = min(one, last) - 2, min(other, last) - 2
        return float(self.degree_covariance[at]) + beyond

    def of_columns(self, columns: NDArray[np.intp]) -> "Component":
        """With some of the columns."""
        return replace(
            self,
            mean=self.mean[columns],
            covariance=self.covariance[np.ix_(columns, columns)],
            cross=self.cross[columns],
        )


@dataclass(frozen=True, slots=True, eq=False)
class GramSums:
    """XᵀWX, XᵀWy, yᵀWy, ln |W| and Σ ln φ' at some k, and σ."""

    products: Array
    moments: Array
    square: float
    log_weights: float
    log_slopes: float
    rows: int

    def of_variance(self, variance: float) -> "GramSums":
        """Where W was that of a variance of 1."""
        return GramSums(
            self.products / variance,
            self.moments / variance,
            self.square / variance,
            self.log_weights - self.rows * log(variance),
            self.log_slopes,
            self.rows,
        )


@dataclass(frozen=True, eq=False)
class Regression:
    """Columns and rows.

    Attributes:
        single: (columns,) drop beside each neighbor alone, with (columns,) standard errors.
        blocks: Of each degree, or of several services.
    """

    single: Array
    errors: Array
    blocks: tuple[Block, ...]
    _kept: dict[tuple[float, float | None], GramSums] = field(default_factory=dict)

    @property
    def degrees(self) -> int:
        """The highest."""
        return max((block.members.shape[1] for block in self.blocks), default=1)

    @cached_property
    def common_error(self) -> float | None:
        """Root mean square of all runs, where they are about the same; ``None`` = they are not."""
        errors = np.concatenate([block.errors for block in self.blocks] or [np.zeros(0)])
        if not len(errors) or errors.max() > ALIKE * errors.min():
            return None
        return float(np.sqrt(np.mean(errors**2)))

    def thinned(self, rows: int) -> "Regression":
        """Some of the sets, evenly."""
        total = sum(len(block.drops) for block in self.blocks)
        step = max(1, total // rows)
        thin = tuple(Block(m[::step], d[::step], e[::step]) for m, d, e in self.blocks)
        return Regression(self.single, self.errors, thin)

    def sums(self, k: float, noise: float) -> GramSums:
        """Added up, or kept from before."""
        common = self.common_error
        key = (k, noise if common is None else None)
        if key not in self._kept:
            self._kept[key] = self._added_up(k, None if common is not None else noise)
        found = self._kept[key]
        return found if common is None else found.of_variance(common**2 + noise**2)

    def _added_up(self, k: float, noise: float | None) -> GramSums:
        size, more = len(self.single), self.degrees - 1
        base = phi(self.single, k)
        products, moments = np.zeros((size + more, size + more)), np.zeros(size + more)
        square = log_weights = log_slopes = 0.0
        for members, drops, errors in self.blocks:
            total = base[members].sum(axis=1)
            off = phi(drops, k) - total
            slope = secant(off, drops - phi_inverse(total, k), drops, k)
            variance = slope**2 * (1.0 if noise is None else errors**2 + noise**2)
            weights = 1 / variance
            own, own_moments = gram(members, np.ones(size), off, weights)
            products[:size, :size] += own
            moments[:size] += own_moments
            # A set of degree d has the steps of degrees 2 to d.
            steps = slice(size, size + members.shape[1] - 1)
            beside = column_sums(members, weights * total, size)
            products[:size, steps] += beside[:, None]
            products[steps, :size] += beside
            products[steps, steps] += float(weights @ total**2)
            moments[steps] += float((weights * total) @ off)
            square += float(weights @ off**2)
            log_weights += float(np.log(weights).sum())
            log_slopes += float(np.log(slope).sum())
        rows = sum(len(block.drops) for block in self.blocks)
        return GramSums(products, moments, square, log_weights, log_slopes, rows)

    def root_prior(self, k: float, spread: float, step: float) -> Array:
        """√P."""
        own = (spread * phi(self.single, k)) ** 2 + (phi_slope(self.single, k) * self.errors) ** 2
        return np.asarray(np.sqrt(np.append(own, np.full(self.degrees - 1, step**2))))

    def log_evidence(self, k: float, spread: float, step: float, noise: float) -> float:
        """Of the four constants, their priors included; −∞ where they can't be computed with."""
        sums = self.sums(k, noise)
        root = self.root_prior(k, spread, step)
        size = len(root)
        scaled = root * sums.moments
        # With h below B, the factor's last row is L⁻¹ h: its square is what h explains.
        matrix = np.empty((size + 1, size + 1))
        matrix[:size, :size] = np.outer(root, root) * sums.products
        matrix[size, :size] = matrix[:size, size] = scaled
        matrix[size, size] = float(scaled @ scaled)
        matrix[np.diag_indices_from(matrix)] += 1
        try:
            factor = np.linalg.cholesky(matrix)
        except np.linalg.LinAlgError:
            # For large k the weights of sets span more than floating point does.
            return -np.inf
        explained = float(factor[size, :size] @ factor[size, :size])
        found = -0.5 * (sums.square - explained) - float(np.log(np.diag(factor)[:size]).sum())
        found += 0.5 * sums.log_weights + sums.log_slopes
        return found - 0.5 * (k / K_PRIOR) ** 2 - 0.5 * (noise / NOISE_PRIOR) ** 2

    def weights(self, k: float, spread: float, step: float, noise: float) -> tuple[Array, Array]:
        """Mean and covariance of (columns + degrees − 1,) weights, steps of degrees at the end."""
        sums = self.sums(k, noise)
        root = self.root_prior(k, spread, step)
        matrix = np.outer(root, root) * sums.products
        matrix[np.diag_indices_from(matrix)] += 1
        covariance = np.outer(root, root) * np.linalg.inv(matrix)
        return covariance @ sums.moments, (covariance + covariance.T) / 2


def posterior(regression: Regression) -> list[Component]:
    """Components by k, the heaviest first.

    Raises:
        InvalidInput: More neighbors occur in the sets than a matrix of them can be factored for.
    """
    if len(regression.single) > MAX_COLUMNS:
        raise InvalidInput(
            f"{len(regression.single)} neighbors occur in the sampled sets, more than "
            f"{MAX_COLUMNS}; sample fewer sets (--sample), or take the product (--model product)"
        )
    found = _walk(regression, _starts(regression))
    best = max(found.values())
    shares = {node: exp(value - best) for node, value in found.items() if value > best - WORTH}
    by_k: dict[int, float] = {}
    for node, share in shares.items():
        by_k[node[0]] = by_k.get(node[0], 0.0) + share
    heaviest = sorted(by_k, key=lambda at: (-by_k[at], at))[:MAX_COMPONENTS]
    total = sum(by_k[at] for at in heaviest)
    return [
        _averaged(
            regression,
            by_k[at] / total,
            [(share / by_k[at], node) for node, share in shares.items() if node[0] == at],
        )
        for at in heaviest
    ]


def _starts(regression: Regression) -> list[_Node]:
    """Where a look at some of the sets is best, of two heights that differ."""
    thin = regression.thinned(COARSE_SETS)
    looked = {
        node: thin.log_evidence(*_constants(node))
        for node in product(range(0, len(KS), 2), (2,), (1,), (1, 5))
    }
    return sorted(looked, key=lambda node: -looked[node])[:2]


def _walk(regression: Regression, starts: Sequence[_Node]) -> dict[_Node, float]:
    found: dict[_Node, float] = {}
    best, heap = -np.inf, list[tuple[float, _Node]]()
    for node in starts:
        found[node] = regression.log_evidence(*_constants(node))
        best = max(best, found[node])
        heapq.heappush(heap, (-found[node], node))
    while heap:
        value, node = heapq.heappop(heap)
        if -value < best - WORTH:
            break
        for near in _near(node):
            if near not in found:
                found[near] = regression.log_evidence(*_constants(near))
                best = max(best, found[near])
                heapq.heappush(heap, (-found[near], near))
    return found


def _constants(node: _Node) -> tuple[float, float, float, float]:
    k, spread, step, noise = (axis[at] for axis, at in zip(_GRID, node, strict=True))
    return k, spread, step, noise


def _near(node: _Node) -> Iterator[_Node]:
    for axis, values in enumerate(_GRID):
        for at in (node[axis] - 1, node[axis] + 1):
            if 0 <= at < len(values):
                yield (*node[:axis], at, *node[axis + 1 :])  # type: ignore[misc] # four again


def _averaged(
    regression: Regression, weight: float, nodes: Sequence[tuple[float, _Node]]
) -> Component:
    """Mean and covariance of the mixture over τ, s and σ, exactly."""
    size, more = len(regression.single), regression.degrees - 1
    mean, square = np.zeros(size + more), np.zeros((size + more, size + more))
    noise = spread = step = 0.0
    for share, node in nodes:
        constants = _constants(node)
        one, covariance = regression.weights(*constants)
        mean += share * one
        square += share * (covariance + np.outer(one, one))
        spread += share * constants[1] ** 2
        step += share * constants[2] ** 2
        noise += share * constants[3] ** 2
    covariance = square - np.outer(mean, mean)
    # γ_d is the sum of its steps.
    adds = np.tril(np.ones((more, more)))
    return Component(
        weight,
        _constants(nodes[0][1])[0],
        noise,
        spread,
        step,
        mean[:size],
        covariance[:size, :size],
        adds @ mean[size:],
        adds @ covariance[size:, size:] @ adds.T,
        covariance[:size, size:] @ adds.T,
    )
