"""All classifications of a workload, from what was measured of it (Quasar 3.2 and 3.4).

Scale-up, scale-out, heterogeneity, tolerated and caused interference: each by a matrix of its own
for each type of workload (``Classifications``). ``Classifier`` makes of them what policies read;
the runtime logs that with the estimator's version, so that a replay needs no estimator.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import exp, hypot, inf, log, sqrt

import numpy as np

from wharfinger.classification.axis import Axis, axes_between, value_on
from wharfinger.classification.paces import Paces, expected, paces
from wharfinger.classification.parallelism import (
    KnownProgramUse,
    Parallelism,
    beyond,
    known_uses,
    own_uses,
    parallelism,
)
from wharfinger.classification.platforms import (
    ByAllocation,
    PlatformRow,
    has_allocations,
    ratio_at,
)
from wharfinger.classification.slo_throughput import slo_throughput
from wharfinger.classification.utility import Aspect, UtilityMatrix
from wharfinger.errors import InvalidInput
from wharfinger.estimators.recommender import Recommender, fit
from wharfinger.estimators.registry import DEFAULT_ESTIMATOR
from wharfinger.model.configuration import Configuration, Setting
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import PROXIES, SATURATED_SHARE, Quantity, as_performance
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.model.profile import (
    Classification,
    Curve,
    Entry,
    Estimate,
    Measurements,
    Origin,
)
from wharfinger.model.workload import LatencyBound, WorkloadType

MIN_ERROR = 0.03
"""Relative: runs of one program differ by this, however steady each is."""
MIN_POINTS = 5.0
"""The same of a score."""
MAX_POINTS = 100.0
TAIL_ERROR = 0.5
"""Relative, of a percentile of latency that is measured for seconds: another minute has another."""


@dataclass(frozen=True, slots=True)
class RowObservations:
    """How one workload did in several settings; missing is missing, never zero.

    All axes start from ``reference``, the first run of the joint plan, which is among
    ``performance``; without any it is a cold start. More performance is better.
    """

    reference: Setting
    performance: Mapping[Setting, Entry] = field(default_factory=dict)
    type: WorkloadType | None = None

    def along(self, kind: Aspect) -> dict[str, Entry]:
        """What was measured along one axis, by its column; everything else as in the reference."""
        return {
            value_on(kind, setting): entry
            for setting, entry in self.performance.items()
            if axes_between(setting, self.reference) in ((), (kind,))
        }


class Classifications:
    """Classifies by utility matrices; learns from each when it is first asked for.

    What has no matrix is not classified; ``fitted`` is what was learnt of these matrices before, as
    ``fit_all`` gives it.
    """

    def __init__(
        self,
        matrices: Mapping[Aspect, UtilityMatrix],
        estimator: str = DEFAULT_ESTIMATOR,
        seed: int = 0,
        fitted: Iterable[tuple[Aspect, Recommender]] = (),
    ) -> None:
        self._matrices = matrices
        self._estimator = estimator
        self._seed = seed
        self._plain: dict[tuple[str, ...], dict[int, int]] = {}
        self._by_rows = {(kind, one.matrix.rows): one for kind, one in fitted}
        self._by_type: dict[tuple[Aspect, WorkloadType | None], Recommender | None] = {}
        self._uses: dict[WorkloadType | None, tuple[KnownProgramUse, ...]] = {}

    def recommender(self, kind: Aspect, type_: WorkloadType | None = None) -> Recommender | None:
        """What was learnt for one classification of one type; ``None`` = no measurements."""
        if (kind, type_) not in self._by_type:
            self._by_type[kind, type_] = self._fit(kind, type_)
        return self._by_type[kind, type_]

    def allocations(self, type_: WorkloadType | None = None) -> dict[int, int]:
        """Columns of scale-up that say nothing but CPU (thousandths): where each is, ascending."""
        recommender = self.recommender(Aspect.SCALE_UP, type_)
        columns = recommender.matrix.columns if recommender else ()
        if columns not in self._plain:
            named = enumerate(map(Configuration.parse, columns))
            plain = {c.cpu_millicpus: j for j, c in named if c == Configuration(c.cpu_millicpus)}
            self._plain[columns] = dict(sorted(plain.items()))
        return self._plain[columns]

    def uses(self, type_: WorkloadType | None) -> tuple[KnownProgramUse, ...]:
        """How many CPUs known programs kept busy, of those that scale-up of a type is learnt of."""
        if type_ not in self._uses:
            matrix = self._matrices.get(Aspect.SCALE_UP)
            self._uses[type_] = known_uses(matrix.rows_for(type_).values()) if matrix else ()
        return self._uses[type_]

    def fit_all(self) -> list[tuple[Aspect, Recommender]]:
        """Learn now all that is learnt when it is first asked for."""
        for kind in self._matrices:
            for type_ in (None, *WorkloadType):
                self.recommender(kind, type_)
        return [(kind, fitted) for (kind, _), fitted in self._by_rows.items()]

    def _fit(self, kind: Aspect, type_: WorkloadType | None) -> Recommender | None:
        matrix = self._matrices.get(kind)
        rows = matrix.known_to(type_) if matrix else None
        if rows is None:
            return None
        # Types with too few programs of their own share one.
        if (kind, rows.rows) not in self._by_rows:
            fitted = fit(self._estimator, rows, scale=kind.scale, seed=self._seed)
            self._by_rows[kind, rows.rows] = fitted
        return self._by_rows[kind, rows.rows]

    def axis(self, kind: Aspect, observed: RowObservations) -> Axis | None:
        """One of scale-up, scale-out and heterogeneity; ``None`` = no measurements."""
        recommender = self.recommender(kind, observed.type)
        if recommender is None:
            return None
        reference = value_on(kind, observed.reference)
        entries = observed.along(kind) if observed.performance else {reference: Entry(1.0)}
        columns = set(recommender.matrix.columns)
        values = {column: entry.value for column, entry in entries.items() if column in columns}
        errors = [max(MIN_ERROR, e.error) for c, e in entries.items() if c != reference]
        noise = max(errors, default=MIN_ERROR if observed.performance else 0.0)
        return Axis(kind, reference, recommender.predict(values), noise**2)

    def scores(
        self,
        kind: Aspect,
        entries: Mapping[SharedResource, Entry],
        type_: WorkloadType | None = None,
    ) -> dict[SharedResource, Estimate]:
        """Tolerated or caused interference by source; a measured one keeps its own error."""
        recommender = self.recommender(kind, type_)
        scores: dict[SharedResource, Estimate] = {}
        if recommender is not None:
            columns = [SharedResource(name) for name in recommender.matrix.columns]
            row = {str(c): measured_score(entries[c]).mean for c in columns if c in entries}
            predicted = recommender.predict(row)
            numbers = zip(columns, predicted.mean, predicted.log_std, strict=True)
            scores = {source: _score(mean, std) for source, mean, std in numbers}
        return scores | {source: measured_score(entry) for source, entry in entries.items()}


def measured_score(entry: Entry) -> Estimate:
    """A measured score; a lower bound says: anything from there to 100, each as likely."""
    error = max(MIN_POINTS, entry.error)
    if not entry.censored or entry.value >= MAX_POINTS:
        return _score(entry.value, error)
    uniform = (MAX_POINTS - entry.value) / 12**0.5
    return _score((entry.value + MAX_POINTS) / 2, hypot(error, uniform))


def _score(mean: float, std: float) -> Estimate:
    return Estimate(float(min(100.0, max(0.0, mean))), float(std))


class Classifier:
    """Fills in rows; its arguments are those of ``Classifications``, scale-up at least."""

    def __init__(
        self,
        matrices: Mapping[Aspect, UtilityMatrix],
        estimator: str = "gaussian",
        seed: int = 0,
        fitted: Iterable[tuple[Aspect, Recommender]] = (),
    ) -> None:
        self.classifications = Classifications(matrices, estimator, seed, fitted)
        self._shapes: dict[WorkloadType | None, Curve] = {}

    def scale_up(self, type_: WorkloadType | None = None) -> Recommender:
        """Of performance by CPU; learnt when it is first asked for, in some 0.1 s.

        Raises:
            InvalidInput: No known program was measured.
        """
        recommender = self.classifications.recommender(Aspect.SCALE_UP, type_)
        if recommender is None:
            raise InvalidInput("no known program was measured by CPU; wharfinger classify measure")
        return recommender

    def shape(self, type_: WorkloadType | None = None) -> Curve:
        """Performance by CPU of any program of a type, relative to that with one CPU."""
        if type_ not in self._shapes:
            columns = tuple(self.classifications.allocations(type_))
            one = max((c for c in columns if c <= 1000), default=columns[0])
            self._shapes[type_] = self._curve({one: Entry(1.0)}, Quantity.RATE, type_)
        return self._shapes[type_]

    def classify(
        self,
        measurements: Measurements,
        type_: WorkloadType | None = None,
        bound: LatencyBound | None = None,
    ) -> Classification:
        """What a workload of a type (``None`` = any) needs.

        Without measurements it is like any known program of its type (cold start, Paragon 3.5).
        Where its latency has a bound, the throughput that it sustains at that is classified too.
        """
        estimator = self.scale_up(type_).estimator
        made = self.classifications
        positive = {
            # A copy that answers no request in time has an infinite latency.
            quantity: {cpu: entry for cpu, entry in row.items() if 0 < entry.value < inf}
            for quantity, row in measurements.performance.items()
        }
        rows = {q: row for q, row in positive.items() if row and q not in PROXIES}
        busy = {cpu: e.value for cpu, e in positive.get(Quantity.CPU, {}).items()}
        curves = {q: self._curve(row, q, type_, _told(row, q, busy)) for q, row in rows.items()}
        held = _held(measurements, curves, bound) if bound else {}
        if held:
            curves[Quantity.HELD] = self._curve(held, Quantity.HELD, type_)
        further = sum(len(row) for row in measurements.further.values())
        servers = self._changes(Aspect.SCALE_OUT, measurements, type_)
        platforms, by_allocation = self._platforms(measurements, type_)
        platform, known = measurements.platform, self._paces(measurements, type_)
        if known is not None and len(known.measured) > 1 and set(curves) == {Quantity.RATE}:
            platform = known.best_known
            curves[Quantity.RATE] = _moved(curves[Quantity.RATE], measurements, known)
            platforms = known.relative_to(platform)
        elif not rows and not platform:
            platform, platforms = self._expected(type_)
        scores = len(measurements.tolerated) + len(measurements.caused)
        return Classification(
            estimator=estimator.name,
            version=str(estimator.version),
            curves=curves,
            shape=self.shape(type_),
            tolerated=made.scores(Aspect.TOLERATED, measurements.tolerated, type_),
            caused=made.scores(Aspect.CAUSED, measurements.caused, type_),
            total=measurements.total,
            measured=sum(map(len, rows.values())) + further + scores,
            platform=platform,
            platforms=platforms,
            servers={int(count): change for count, change in servers.items()},
            held_below_seconds=bound.below_seconds if bound and held else None,
            asked_per_second=_asked(measurements, curves),
            saturating=bound is not None and _is_saturating(measurements, bound),
            idle_latency_seconds=_idle_latency(measurements) if held else None,
            by_allocation=by_allocation,
            scores_measured=scores > 0,
        )

    def _platforms(
        self, measurements: Measurements, type_: WorkloadType | None
    ) -> tuple[dict[str, Estimate], ByAllocation]:
        """Those with the allocation of the run here, and by allocation where columns tell it."""
        recommender = self.classifications.recommender(Aspect.HETEROGENEITY, type_)
        if recommender is None or not has_allocations(recommender.matrix.columns):
            return self._changes(Aspect.HETEROGENEITY, measurements, type_), {}
        observed = _observations(measurements, Aspect.HETEROGENEITY, type_)
        alone = {s: e for s, e in observed.performance.items() if s.servers == 1}
        errors = [max(MIN_ERROR, e.error) for e in alone.values()]
        row = PlatformRow(measurements.platform, alone)
        changes = row.changes(recommender, max(errors, default=0.0))
        cpu = observed.reference.configuration.cpu_millicpus
        return {platform: ratio_at(row, cpu) for platform, row in changes.items()}, changes

    def _paces(self, measurements: Measurements, type_: WorkloadType | None) -> Paces | None:
        """Performance by platform where columns are platforms alone; ``None`` = unknown."""
        recommender = self.classifications.recommender(Aspect.HETEROGENEITY, type_)
        if recommender is None or has_allocations(recommender.matrix.columns):
            return None
        return paces(recommender, by_platform(measurements))

    def _expected(self, type_: WorkloadType | None) -> tuple[str, dict[str, Estimate]]:
        """Of a cold start, where columns are platforms alone."""
        recommender = self.classifications.recommender(Aspect.HETEROGENEITY, type_)
        if recommender is None or has_allocations(recommender.matrix.columns):
            return "", {}
        return expected(recommender)

    def _changes(
        self, kind: Aspect, measurements: Measurements, type_: WorkloadType | None
    ) -> dict[str, Estimate]:
        axis = self.classifications.axis(kind, _observations(measurements, kind, type_))
        if axis is None:
            return {}
        if kind is Aspect.HETEROGENEITY and axis.reference not in axis.prediction.columns:
            return {}  # Relative to an unknown.
        # One by one: what is asked for alone takes no covariance.
        changes = {column: axis.change(column) for column in axis.prediction.columns}
        return {c: Estimate(exp(mean), sqrt(variance)) for c, (mean, variance) in changes.items()}

    def _curve(
        self,
        row: Mapping[int, Entry],
        quantity: Quantity,
        type_: WorkloadType | None,
        used: Parallelism | None = None,
    ) -> Curve:
        """The row filled in; what was measured between columns is a point of its own.

        ``used`` says how many CPUs it can use; ``None`` = unknown.
        """
        measured = self._weighed(
            {
                cpu: Estimate(as_performance(quantity, entry.value), max(MIN_ERROR, entry.error))
                for cpu, entry in row.items()
            },
            type_,
        )
        noise = max([MIN_ERROR, *(point.std for point in measured.values())])
        filled_in = self._filled_in({cpu: point.mean for cpu, point in measured.items()}, type_)
        points = {cpu: replace(p, std=hypot(p.std, noise)) for cpu, p in filled_in.items()}
        points |= measured
        if used is not None:
            known = self.classifications.uses(type_)
            most = round(used.most.cpus * MILLICPUS_PER_CPU)
            level = Estimate(used.most.rate, hypot(MIN_ERROR, row[most].error))
            smallest = min(row) / MILLICPUS_PER_CPU
            points |= beyond(used, smallest, level, points.keys() - measured.keys(), known)
        allocations = tuple(sorted(points))
        # More CPU never means less: where it looks so, it is noise, measured or not.
        means = np.maximum.accumulate([points[cpu].mean for cpu in allocations])
        return Curve(
            allocations,
            tuple(
                Estimate(as_performance(quantity, float(mean)), points[cpu].std)
                for cpu, mean in zip(allocations, means, strict=True)
            ),
        )

    def _filled_in(
        self, measured: Mapping[int, float], type_: WorkloadType | None
    ) -> dict[int, Estimate]:
        entries = self._on_columns(measured, type_)
        named = {Configuration(cpu).name: value for cpu, value in entries.items()}
        predicted = self.scale_up(type_).predict(named)
        means, deviations = predicted.mean, predicted.log_std
        return {
            cpu: Estimate(float(means[j]), float(deviations[j]))
            for cpu, j in self.classifications.allocations(type_).items()
        }

    def _weighed(
        self, measured: Mapping[int, Estimate], type_: WorkloadType | None
    ) -> dict[int, Estimate]:
        """Each entry corrected by its prediction from the others, weighed by their variances.

        An estimator takes entries for exact; on a busy machine they are not.
        """
        if len(measured) < 2:
            return dict(measured)
        weighed = {}
        for cpu, own in measured.items():
            others = {c: point for c, point in measured.items() if c != cpu}
            points = self._filled_in({c: point.mean for c, point in others.items()}, type_)
            told = Curve(tuple(points), tuple(points.values())).at(cpu)
            variance = told.std**2 + max(point.std for point in others.values()) ** 2
            weight = variance / (variance + own.std**2)
            mean = exp(weight * log(own.mean) + (1 - weight) * log(told.mean))
            weighed[cpu] = Estimate(mean, sqrt(weight) * own.std)
        return weighed

    def _on_columns(
        self, measured: Mapping[int, float], type_: WorkloadType | None
    ) -> dict[int, float]:
        """Entries between columns, as the nearest column would have them by the common shape."""
        columns = tuple(self.classifications.allocations(type_))
        entries = {cpu: value for cpu, value in measured.items() if cpu in columns}
        for cpu, value in measured.items():
            free = [column for column in columns if column not in entries]
            if cpu in entries or not free:
                continue
            nearest = min(free, key=lambda column: abs(np.log(column / cpu)))
            shape = self.shape(type_)
            entries[nearest] = value * shape.at(nearest).mean / shape.at(cpu).mean
        return entries


def _told(
    row: Mapping[int, Entry], quantity: Quantity, busy: Mapping[int, float]
) -> Parallelism | None:
    """How many CPUs it can use, by those that it kept busy; ``None`` = that is not told.

    CPU that a service leaves idle says that it is asked for less.
    """
    if quantity not in (Quantity.RATE, Quantity.THROUGHPUT):
        return None
    used = parallelism(own_uses({cpu: entry.value for cpu, entry in row.items()}, busy))
    is_asked_for_less = quantity is Quantity.THROUGHPUT and used is not None and not used.censored
    return None if is_asked_for_less else used


def _moved(curve: Curve, measurements: Measurements, known: Paces) -> Curve:
    """A curve of the platform where copies ran, as on the one that is known best."""
    observed = _observations(measurements, Aspect.HETEROGENEITY, None)
    cpu, here = observed.reference.configuration.cpu_millicpus, known.on(known.best_known)
    level = here.mean / curve.at(cpu).mean
    points = {
        c: Estimate(point.mean * level, point.std)
        for c, point in zip(curve.cpu_millicpus, curve.estimates, strict=True)
    }
    points = dict(sorted((points | {cpu: here}).items()))
    return Curve(tuple(points), tuple(points.values()))


def _held(
    measurements: Measurements, curves: Mapping[Quantity, Curve], bound: LatencyBound
) -> dict[int, Entry]:
    rows, could = measurements.performance, curves.get(Quantity.THROUGHPUT)
    if could is None:
        return {}
    entries = {}
    for cpu, latency in _newest(rows.get(Quantity.LATENCY, {})).items():
        used = rows.get(Quantity.CPU, {}).get(cpu)
        if used is None or latency.value <= 0:
            continue
        estimate = could.at(cpu)
        entries[cpu] = slo_throughput(
            Entry(estimate.mean, estimate.std),
            latency,
            cpu,
            used.value,
            bound.below_seconds,
            bound.percentile,
        )
    return {cpu: entry for cpu, entry in entries.items() if entry.value > 0}


def _newest(row: Mapping[int, Entry]) -> Mapping[int, Entry]:
    """What was observed of the workload itself, once it was: a copy's load was another."""
    observed = {cpu: entry for cpu, entry in row.items() if entry.origin is Origin.OBSERVED}
    return observed or row


def _asked(measurements: Measurements, curves: Mapping[Quantity, Curve]) -> float | None:
    """The most that was asked of a service: what it could do, by how busy it was."""
    could = curves.get(Quantity.THROUGHPUT)
    used = _newest(measurements.performance.get(Quantity.CPU, {}))
    if could is None or not used:
        return None
    return max(could.at(cpu).mean * min(e.value * 1000 / cpu, 1.0) for cpu, e in used.items())


def _idle_latency(measurements: Measurements) -> Estimate | None:
    """By all allocations under which it was not saturated: it hardly hangs on CPU."""
    used = _newest(measurements.performance.get(Quantity.CPU, {}))
    latencies = []
    for cpu, entry in _newest(measurements.performance.get(Quantity.LATENCY, {})).items():
        share = used[cpu].value * 1000 / cpu if cpu in used else 1.0
        # On a busy disk or among neighbors requests may pile up although CPU is idle.
        if share < SATURATED_SHARE and 0 < entry.value < inf:
            latencies.append(log(entry.value * (1 - share)))
    if not latencies:
        return None
    return Estimate(exp(float(np.mean(latencies))), hypot(TAIL_ERROR, float(np.std(latencies))))


def _is_saturating(measurements: Measurements, bound: LatencyBound) -> bool:
    """Whether its load takes all that there is, and yet keeps the bound with the most CPU."""
    used = _newest(measurements.performance.get(Quantity.CPU, {}))
    latency = _newest(measurements.performance.get(Quantity.LATENCY, {}))
    both = sorted(used.keys() & latency.keys())
    if not both or latency[both[-1]].value > bound.below_seconds:
        return False
    return all(used[cpu].value * 1000 >= SATURATED_SHARE * min(cpu, 1000) for cpu in both)


def by_platform(measurements: Measurements) -> dict[str, Entry]:
    """Performance where it was measured, with the allocation of the run; more is better."""
    return _observations(measurements, Aspect.HETEROGENEITY, None).along(Aspect.HETEROGENEITY)


_PREFERRED = (Quantity.THROUGHPUT, Quantity.RATE, Quantity.LATENCY)


def _observations(
    measurements: Measurements, kind: Aspect, type_: WorkloadType | None
) -> RowObservations:
    """The runs along an axis, relative to the one here with the same CPU, and those here."""
    further, platform = measurements.further, measurements.platform
    measured = further if any(further.values()) else measurements.performance
    quantity = next((q for q in _PREFERRED if measured.get(q)), None)
    here = measurements.performance.get(quantity, {}) if quantity else {}
    positive = {cpu: entry for cpu, entry in here.items() if entry.value > 0}
    if quantity is None or not positive:
        return RowObservations(Setting(platform, Configuration(1000)), type=type_)
    runs = {one.setting: one.entry for one in further.get(quantity, ())}
    usual = Setting(platform, Configuration(1000))
    along = (s for s in runs if value_on(kind, s) != value_on(kind, usual))
    planned = {setting.configuration.cpu_millicpus for setting in along}
    cpu = max(planned & positive.keys(), default=max(positive))
    reference = Setting(platform, Configuration(cpu))
    runs |= {Setting(platform, Configuration(c)): entry for c, entry in positive.items()}
    performance = {setting: entry for setting, entry in runs.items() if entry.value > 0}
    if quantity is Quantity.LATENCY:
        performance = {
            setting: replace(entry, value=as_performance(quantity, entry.value))
            for setting, entry in performance.items()
        }
    return RowObservations(reference, performance, type=type_)
