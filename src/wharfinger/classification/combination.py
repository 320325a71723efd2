"""The four classifications together: performance for any platform, share, servers and neighbours.

Quasar 3.3 says that the scheduler combines them and gives no formula. Here, in logarithms, from
the reference run (docs/papers.md):

    ln P(s) = ln P(s₀) + u(c) + o(n) + h(p) − i(neighbours) + ε(s)

u, o and h are the workload's rows of scale-up, scale-out and heterogeneity relative to the
reference s₀, independent Gaussians; i is the drop by the neighbours' pressure (``prediction``);
ε is what adding misses, zero where at most one of the three changes. Its mean and variance for each
setting are learnt from known programs that were measured exhaustively (``misfit_of``). P is then a
Gaussian process over settings, so what is observed of some corrects all of them ("the misfit fed
back"), with their covariances.

Where known programs were measured exhaustively the single classification of all settings is made
as well, and the two are weighed by how sure each is: nearly the better of them on each of three
public data sets (docs/classification.md).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import log, sqrt

import numpy as np

from wharfinger.classification.axis import Axis, are_same
from wharfinger.classification.utility import Kind, UtilityMatrix
from wharfinger.errors import InvalidInput
from wharfinger.estimators.conditional import Gaussian
from wharfinger.estimators.estimator import Prediction
from wharfinger.estimators.matrix import Array
from wharfinger.model.configuration import Setting

AXES = (Kind.SCALE_UP, Kind.SCALE_OUT, Kind.HETEROGENEITY)
UNKNOWN_MISFIT = 0.1
"""Standard deviation of ε, in logarithms, where nobody was measured exhaustively: Table 2's
classifications differ from one another by about as much."""
LEAST_NOISE = 0.01
"""Standard error of any observation, in logarithms."""


def value_on(kind: Kind, setting: Setting) -> str:
    """The column of a classification that a setting has."""
    match kind:
        case Kind.SCALE_UP:
            return setting.configuration.name
        case Kind.SCALE_OUT:
            return str(setting.servers)
        case Kind.HETEROGENEITY:
            return setting.platform
        case _:
            raise InvalidInput(f"{kind} is no axis of a setting")


def axes_between(setting: Setting, reference: Setting) -> tuple[Kind, ...]:
    """Which of the three differ."""
    return tuple(kind for kind in AXES if value_on(kind, setting) != value_on(kind, reference))


def on_axis(setting: Setting, kind: Kind, reference: Setting) -> Setting:
    """The reference with one of its three as in another setting."""
    match kind:
        case Kind.SCALE_UP:
            return replace(reference, configuration=setting.configuration)
        case Kind.SCALE_OUT:
            return replace(reference, servers=setting.servers)
        case _:
            return replace(reference, platform=setting.platform)


@dataclass(frozen=True, slots=True)
class Misfit:
    """What adding the three misses: ε.

    Attributes:
        means: By setting's name, in logarithms, over the root of how many further axes change;
            others 0.
        variance: Of each about its mean, for each further axis that changes.
    """

    means: Mapping[str, float] = field(default_factory=dict)
    variance: float = UNKNOWN_MISFIT**2

    def at(self, setting: Setting, reference: Setting) -> tuple[float, float]:
        """Mean and variance; none where at most one of the three changes."""
        further = len(axes_between(setting, reference)) - 1
        if further < 1:
            return 0.0, 0.0
        return self.means.get(setting.name, 0.0) * sqrt(further), self.variance * further


@dataclass(frozen=True, slots=True, eq=False)
class Observation:
    """Performance of the workload in one setting, in logarithms."""

    setting: Setting
    value: float
    variance: float


@dataclass(frozen=True, slots=True, eq=False)
class Composite:
    """Performance of one workload in any setting.

    Attributes:
        reference: Where it was measured, and what its axes are relative to.
        level: ln of its performance there.
        level_variance: Of that.
        axes: What was classified; without one, nothing is known to change along it.
        misfit: What adding them misses.
        observations: What it did where more than one axis differs from the reference.
        exhaustive: What the single classification says; ``None`` = there is none.
    """

    reference: Setting
    level: float
    level_variance: float
    axes: Mapping[Kind, Axis]
    misfit: Misfit = field(default_factory=Misfit)
    observations: tuple[Observation, ...] = ()
    exhaustive: Prediction | None = None

    def predict(
        self,
        settings: Sequence[Setting],
        drop: Array | None = None,
        drop_variance: Array | None = None,
    ) -> Gaussian:
        """Performance in several settings at once.

        Args:
            settings: K of them.
            drop: (K,) what neighbours take away of the logarithm there; ``None`` = nobody is there.
            drop_variance: (K,) of that.

        Returns:
            (K,) means of ln(performance) and their (K, K) covariance, so that two settings can be
            compared by more than their two intervals.

        Raises:
            InvalidInput: A setting changes what was not classified.
        """
        mean, covariance = self._with_exhaustive(settings, *self.added(settings))
        if drop is not None:
            mean = mean - drop
        if drop_variance is not None:
            covariance = covariance + np.diag(drop_variance)
        return Gaussian(mean, covariance)

    def added(self, settings: Sequence[Setting]) -> tuple[Array, Array]:
        """The sum of the three, given what was observed elsewhere: (K,) means, (K, K) covariance.

        The difference to what was observed goes to each axis, and to ε, by as much as it is unsure.
        """
        wanted = len(settings)
        mean, covariance = self._prior([*settings, *(o.setting for o in self.observations)])
        if not self.observations:
            return mean, covariance
        noise = np.array([max(o.variance, LEAST_NOISE**2) for o in self.observations])
        values = np.array([o.value for o in self.observations])
        cross = covariance[:wanted, wanted:]
        gain = np.linalg.solve(covariance[wanted:, wanted:] + np.diag(noise), cross.T).T
        left = covariance[:wanted, :wanted] - gain @ cross.T
        return mean[:wanted] + gain @ (values - mean[wanted:]), left

    def _prior(self, settings: Sequence[Setting]) -> tuple[Array, Array]:
        """Before anything is observed elsewhere."""
        mean = np.full(len(settings), self.level)
        covariance = np.full((len(settings), len(settings)), self.level_variance)
        for kind in AXES:
            values = [value_on(kind, setting) for setting in settings]
            if kind in self.axes:
                means, between = self.axes[kind].changes(values)
                mean += means
                covariance += between
            elif any(value != value_on(kind, self.reference) for value in values):
                raise InvalidInput(
                    f"{kind} was not classified, and a setting differs in it from the reference "
                    f"{self.reference.name}; measure known programs along it"
                )
        misfits = [self.misfit.at(setting, self.reference) for setting in settings]
        mean += [m for m, _ in misfits]
        same = are_same([setting.name for setting in settings])
        covariance += np.where(same, [v for _, v in misfits], 0.0)
        return mean, covariance

    def _with_exhaustive(
        self, settings: Sequence[Setting], mean: Array, covariance: Array
    ) -> tuple[Array, Array]:
        """Both, weighed by their precision; where they disagree, that much less sure."""
        if self.exhaustive is None:
            return mean, covariance
        columns = {column: j for j, column in enumerate(self.exhaustive.columns)}
        at = [(k, columns[s.name]) for k, s in enumerate(settings) if s.name in columns]
        if not at:
            return mean, covariance
        here, there = (np.array(side) for side in zip(*at, strict=True))
        other = mean.copy()
        other[here] = self.exhaustive.log_mean[there]
        joint = np.zeros_like(covariance)
        joint[np.ix_(here, here)] = self.exhaustive.covariance[np.ix_(there, there)]
        joint[here, here] += self.level_variance
        own = np.ones(len(settings))
        variances = covariance.diagonal()[here]
        own[here] = joint[here, here] / (variances + joint[here, here])
        apart = np.sqrt(own * (1 - own)) * (mean - other)
        a, b = np.sqrt(own), np.sqrt(1 - own)
        both = np.outer(a, a) * covariance + np.outer(b, b) * joint + np.outer(apart, apart)
        return own * mean + (1 - own) * other, both


def misfit_of(known: UtilityMatrix, reference: Setting) -> Misfit:
    """What adding misses, learnt from programs that were measured in many settings.

    Of each program's setting that differs from the reference in two axes or three, the residual is
    its logarithm less the sum of the changes along each. A setting's mean residual over programs is
    drawn towards 0 by as much as it may be chance (empirical Bayes).

    Args:
        known: The exhaustive matrix; columns are settings' names.
        reference: Of the workload that is to be predicted.
    """
    residuals = _residuals(known, reference)
    if not residuals:
        return Misfit()
    counts = np.array([len(found) for found in residuals.values()], dtype=np.float64)
    means = np.array([np.mean(found) for found in residuals.values()])
    freedom = counts.sum() - len(counts)
    if freedom <= 0:
        return Misfit(variance=max(UNKNOWN_MISFIT**2, float(np.mean(means**2))))
    about = sum(float(np.sum((np.array(f) - np.mean(f)) ** 2)) for f in residuals.values())
    within = max(about / freedom, LEAST_NOISE**2)
    between = max(float(np.mean(means**2 - within / counts)), 0.0)
    kept = between / (between + within / counts)
    spread = float(np.mean(within + (1 - kept) ** 2 * between + kept**2 * within / counts))
    shrunk = dict(zip(residuals, (kept * means).tolist(), strict=True))
    return Misfit(shrunk, spread)


def _residuals(known: UtilityMatrix, reference: Setting) -> dict[str, list[float]]:
    """By setting, of each known program for which all it takes was measured."""
    found: dict[str, list[float]] = {}
    settings = {column: Setting.parse(column) for column in known.columns}
    far = {c: s for c, s in settings.items() if len(axes_between(s, reference)) > 1}
    for row in known.rows.values():
        logs = {column: log(entry.value) for column, entry in row.measured.items()}
        base = logs.get(reference.name)
        for column, setting in far.items():
            changed = axes_between(setting, reference)
            steps = [on_axis(setting, kind, reference).name for kind in changed]
            if base is None or column not in logs or not all(step in logs for step in steps):
                continue
            added = base + sum(logs[step] - base for step in steps)
            residual = (logs[column] - added) / np.sqrt(len(steps) - 1)
            found.setdefault(column, []).append(float(residual))
    return found
