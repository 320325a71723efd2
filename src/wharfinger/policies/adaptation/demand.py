"""How the load that a service holds stands to the load that is offered, before its latency tells.

A service that could answer X requests a second and is asked λ has a percentile of its latency near
L = k / (X − λ) (``classification.slo_throughput``). By the utilization law (Denning and Buzen,
1978) ρ = λ / X is the share of its CPU that is busy, so that X = (answered) / ρ. Of X it holds, at
the bound B of its target,

    λ* / X = 1 − (L / B) (1 − ρ)

which is learnt while its CPU is not saturated. λ* over what is offered is its performance over its
target once the load has come, also while the measured latency tells nothing of that yet.

The load has a level, and leaves it as performance does (``levels``): a change counts against the
noise of the measurements before, so that noise is no change of load. Called by ``by_target``.
"""

from dataclasses import dataclass, replace
from math import inf, log, sqrt

from wharfinger.core.lifecycle import Phase
from wharfinger.core.load_history import LoadHistory
from wharfinger.core.state import WorkloadRecord
from wharfinger.core.tracking import DemandTracking, LevelTracking, LoadForecast
from wharfinger.model.allocation import cpu_of
from wharfinger.model.performance import SATURATED_SHARE, Quantity
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.model.view import OffTarget
from wharfinger.model.workload import WorkloadType
from wharfinger.policies.adaptation.demand_settings import DemandSettings
from wharfinger.policies.adaptation.forecast import Forecaster
from wharfinger.policies.adaptation.levels import with_measurement
from wharfinger.policies.adaptation.slack import cpu_used, is_recent

MIN_SHARE = 0.2
"""Of X, held at the bound: less is told by a latency that has other reasons than load."""
LEAST_BUSY = 0.5
"""Share of its CPU that is busy, below which it is not its load that is too much."""
MAX_RANGE = 4.0
"""Of the noise: two successive measurements that differ by more are a step."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What is offered and held, under these settings."""

    settings: DemandSettings

    def tracking(
        self, record: WorkloadRecord, now: float, settling_seconds: float
    ) -> DemandTracking | None:
        """After its newest measurement; ``None`` = nothing tells what is offered.

        Where that is not told now, or nothing is offered, what was known stays.
        """
        before, offered = record.demand, self._offered(record)
        if offered is None:
            return before and self._stopped(record, before)
        seen, level = log(offered), before.level if before else None
        if before is None or level is None:
            level = LevelTracking(seen, 1, self.settings.offered_noise)
        else:
            level = self._moved(replace(level, noise=self._noise(before, seen)), seen, now)
        share = before.held_share if before else None
        seen_share = self._held_share(record, now, settling_seconds)
        if seen_share is not None:
            weight = self.settings.held_newest_share if share is not None else 1.0
            share = seen_share if share is None else share + weight * (seen_share - share)
        assert record.performance is not None
        at = record.performance.measured_at
        forecast = self._forecast(record, offered, at, settling_seconds)
        return DemandTracking(level, share, seen, offered, at, forecast)

    def _stopped(self, record: WorkloadRecord, before: DemandTracking) -> DemandTracking:
        """The same, and what is noted of the load if that is told to be none."""
        performance = record.performance
        told = performance.trusted(Quantity.OFFERED) if performance is not None else None
        if performance is None or told != 0:
            return before
        return replace(before, seen_per_second=0.0, seen_at=performance.measured_at)

    def _forecast(
        self, record: WorkloadRecord, offered: float, at: float, settling_seconds: float
    ) -> LoadForecast | None:
        settings = self.settings
        if not (settings.forecast and settings.follow_demand):
            return None
        before = record.demand.forecast if record.demand else None
        if before is not None and before.made_at <= at < before.valid_until:
            return before
        history = (record.load_history or LoadHistory()).with_measurement(at, offered)
        forecaster = Forecaster(settings.forecast_seconds, settings.forecast_confidence)
        return forecaster.forecast(history, before, at, settling_seconds)

    def _moved(self, level: LevelTracking, seen: float, now: float) -> LevelTracking:
        """After one more measurement; what is no clear rise is only another level."""
        moved = replace(with_measurement(level, seen, now, self.settings.level), noise=level.noise)
        if moved.changed_at == level.changed_at:
            return moved
        error = level.noise * sqrt(1 / moved.samples + 1 / level.samples)
        if moved.shift >= self.settings.clear_rise * error:
            return moved
        return replace(moved, changed_at=level.changed_at, shift=level.shift)

    def _noise(self, before: DemandTracking, seen: float) -> float:
        """By the differences of successive measurements, to which a step counts once and little.

        The moving range of control charts: unlike deviations from a level it tells noise that is
        larger than was thought.
        """
        known, weight = before.level.noise, self.settings.noise_newest_share
        differs = min(abs(seen - before.newest), MAX_RANGE * known)
        variance = (1 - weight) * known**2 + weight * differs**2 / 2
        return max(self.settings.min_offered_noise, sqrt(variance))

    def held(self, record: WorkloadRecord, *, later: bool = False) -> float | None:
        """λ* over what is offered; ``None`` = unknown.

        What is offered is its level, or what it seems to rise to; ``later`` = or what it is
        forecast to rise to before CPU that is given back now could be had again.
        """
        demand, holds = record.demand, self._holds(record)
        if demand is None or holds is None:
            return None
        held, forecast = holds / demand.offered_per_second, demand.forecast
        if not later or forecast is None or not forecast.tells_change:
            return held
        # For what may come nothing is added here, it is only not given back.
        return min(held, max(1.0, holds / forecast.later_per_second))

    def _holds(self, record: WorkloadRecord) -> float | None:
        """λ*, in requests a second."""
        demand, could = record.demand, _capacity(record)
        if demand is None or demand.held_share is None or could is None:
            return None
        if not self.settings.follow_demand or self._offered(record) is None:
            return None
        return demand.held_share * could

    def soon_short(self, record: WorkloadRecord, now: float) -> OffTarget | None:
        """How far a load that will surely rise soon is above what is held; ``None`` = it is not."""
        demand, performance, holds = record.demand, record.performance, self._holds(record)
        if demand is None or performance is None or holds is None:
            return None
        forecast, adjusted, could = demand.forecast, record.adjusted_at, _capacity(record)
        if forecast is None or not forecast.tells_change or forecast.low_per_second <= holds:
            return None
        if could is None or forecast.mean_per_second < LEAST_BUSY * could:
            return None
        settling = self.settings.rise_settling_seconds
        if record.phase is not Phase.RUNNING or is_recent(adjusted, now, settling):
            return None
        if adjusted is not None and performance.measured_at <= adjusted:
            return None
        used = performance.readings.get(Quantity.CPU)
        return OffTarget(
            holds / forecast.mean_per_second,
            0.0,
            used.value if used else None,
            offered_per_second=forecast.mean_per_second,
            ahead_seconds=forecast.horizon_seconds,
        )

    def short(self, record: WorkloadRecord, now: float) -> OffTarget | None:
        """How far a load that has just risen is above what is held; ``None`` = it is not.

        That it has risen is told against the noise of the load. Nothing else has to last. Where it
        leaves CPU idle, it is not CPU that is short: its latency has other reasons, as neighbors.
        """
        demand, performance, held = record.demand, record.performance, self.held(record)
        if demand is None or performance is None or held is None or held >= 1:
            return None
        could = _capacity(record)
        if could is None or demand.offered_per_second < LEAST_BUSY * could:
            return None
        if record.phase is not Phase.RUNNING:
            return None
        risen_at, settings = demand.level.changed_at, self.settings
        if risen_at is None or not is_recent(risen_at, now, settings.risen_seconds):
            return None
        adjusted = record.adjusted_at
        for_it = adjusted is not None and adjusted >= risen_at
        if for_it and is_recent(adjusted, now, settings.rise_settling_seconds):
            return None
        if for_it and performance.measured_at <= (adjusted or 0.0):
            return None
        used = performance.readings.get(Quantity.CPU)
        return OffTarget(
            held,
            max(0.0, now - risen_at),
            used.value if used else None,
            offered_per_second=demand.offered_per_second,
        )

    def _offered(self, record: WorkloadRecord) -> float | None:
        """Of a service with a bound on its latency; nothing offered has no level."""
        target, performance = record.workload.target, record.performance
        if record.workload.type is not WorkloadType.LATENCY_CRITICAL or performance is None:
            return None
        if target is None or target.latency is None:
            return None
        offered = performance.trusted(Quantity.OFFERED)
        return offered if offered is not None and 0 < offered < inf else None

    def _held_share(
        self, record: WorkloadRecord, now: float, settling_seconds: float
    ) -> float | None:
        """What of X it holds at its bound, by how it does now."""
        performance, target = record.performance, record.workload.target
        assert performance is not None
        assert target is not None and target.latency is not None
        latency, busy = performance.trusted(Quantity.LATENCY), _busy(record)
        if latency is None or busy is None or not 0 < busy < SATURATED_SHARE:
            return None
        if record.probe is not None and record.probe.lowers:
            return None
        changes = (record.started_at, record.adjusted_at, record.phase_since)
        if any(is_recent(at, now, settling_seconds) for at in changes):
            return None
        share = 1 - latency / target.latency.below_seconds * (1 - busy)
        return max(MIN_SHARE, share)


def sized_by(off: OffTarget, held: float | None, record: WorkloadRecord) -> OffTarget:
    """The same by what it holds of what is offered, where that is known.

    A backlog says that its load is too much, not by how much; and a latency far below its bound
    does not say how much CPU can be spared. Where half of its CPU is idle, it is not its load
    that is too much.
    """
    if held is None or off.throttled is not None or record.demand is None:
        return off
    if off.normalized < 1:
        busy = _busy(record)
        if off.normalized < held < 1 and busy is not None and busy >= LEAST_BUSY:
            offered = record.demand.offered_per_second
            return replace(off, normalized=held, offered_per_second=offered)
        return off
    return replace(off, normalized=held) if held < off.normalized else off


def _allocated(record: WorkloadRecord) -> int:
    return cpu_of(record.placements)


def _busy(record: WorkloadRecord) -> float | None:
    """ρ, the share of its CPU that is busy."""
    allocated, used = _allocated(record), cpu_used(record)
    return used * MILLICPUS_PER_CPU / allocated if allocated and used > 0 else None


def _capacity(record: WorkloadRecord) -> float | None:
    """X, in requests a second, by the utilization law; ``None`` = unknown."""
    busy, performance = _busy(record), record.performance
    if busy is None or performance is None:
        return None
    answered = performance.trusted(Quantity.THROUGHPUT)
    return answered / min(busy, 1.0) if answered else None
