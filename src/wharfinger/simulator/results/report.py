"""From the accounts of a run to its report (docs/simulator.md): fates and the summary's numbers."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from wharfinger.model.searches import SearchCounts
from wharfinger.model.workload import Target
from wharfinger.simulator.cluster.accounting import Sums
from wharfinger.simulator.cluster.runs import Account
from wharfinger.simulator.results.outcome import JobOutcome
from wharfinger.simulator.scenario.jobs import Job

UNFINISHED = "unfinished"
IDLE_POWER = 0.5  # of a server that does nothing, as a share of its peak
Losses = tuple[float, float, float, float]  # to platform, allocation, co-runners, waiting
_FAILED = frozenset({"failed", "vanished", "rejected", "revoked"})


@dataclass(frozen=True, slots=True)
class Effort:
    """What the run itself has cost; ``decisions_seconds`` of each placement decided or refused."""

    decisions_seconds: Sequence[float]
    events: int
    wall_seconds: float
    peak_rss_bytes: int


def outcome_of_job(account: Account, end: str, now: float) -> JobOutcome:
    """What became of one job; ``end`` is the manager's last phase, or ``UNFINISHED``."""
    job = account.job
    failed = account.failed or end in _FAILED
    if job.is_service:
        performance, losses = _service(account, now, failed=failed)
        target = performance
    else:
        seconds = _wanted_seconds(account, now)
        performance, losses = _batch(account, seconds, failed=failed)
        target = 0.0 if failed else _over_target(account, seconds, finished=end == "completed")
    finished = not failed and (end == "completed" or job.is_service)
    has_target = job.workload.target is not None
    kept = finished and has_target and target >= 1 - job.workload.tolerance
    first = account.first_run_at
    return JobOutcome(
        name=job.name,
        application=job.application,
        type=str(job.workload.type),
        end=end,
        platform=max(account.on, key=account.on.__getitem__, default=""),
        submitted_at=account.submitted_at,
        ended_at=account.ended_at,
        wait_seconds=(now if first is None else first) - account.submitted_at,
        performance=performance,
        target_performance=min(1.0, target) if has_target else None,
        kept=kept,
        platform_loss=losses[0],
        allocation_loss=losses[1],
        interference_loss=losses[2],
        waiting_loss=losses[3],
        overhead=1.0 if failed and not job.is_service else _overhead(account, now),
        **_requests(account, now),
    )


def _overhead(account: Account, now: float) -> float:
    """Profiling, classification, decisions, moves, waits of all kinds."""
    seconds = _wanted_seconds(account, now)
    return max(0.0, 1 - account.running_seconds / seconds) if seconds > 0 else 0.0


def _wanted_seconds(account: Account, now: float) -> float:
    """From its submission to the end of a job, or of what a service is wanted for."""
    if account.job.is_service:
        return min(account.job.lifetime_seconds, now - account.submitted_at)
    return (now if account.ended_at is None else account.ended_at) - account.submitted_at


def _requests(account: Account, now: float) -> dict[str, float]:
    job, target = account.job, account.job.workload.target
    if job.load is None:
        return {}
    most = target.throughput_per_second if target else None
    load = job.load if most is None else job.load.capped(most)
    until = _wanted_seconds(account, now)
    windows = [(since, min(end, until)) for since, end in job.load.after_rises() if since < until]
    return {
        "requests": load.total(0.0, until),
        "answered": account.answered,
        "in_bound": account.in_bound,
        "requests_after_rises": sum(load.total(*window) for window in windows),
        "answered_after_rises": account.answered_after_rises,
        "in_bound_after_rises": account.in_bound_after_rises,
    }


def _batch(account: Account, seconds: float, *, failed: bool) -> tuple[float, Losses]:
    spans = (account.most_seconds, account.alone_seconds, account.running_seconds, seconds)
    if failed or min(account.best) <= 0 or min(spans) <= 0:
        return 0.0, (0.0, 0.0, 0.0, 1.0)
    ideal = account.ideal_seconds
    steps = [ideal / span for span in spans]
    lost = [before - after for before, after in zip([1.0, *steps], steps, strict=False)]
    return steps[-1], (lost[0], lost[1], lost[2], lost[3])


def _over_target(account: Account, seconds: float, *, finished: bool) -> float:
    """Achieved over target, of a job; what has not finished has achieved no completion."""
    target: Target | None = account.job.workload.target
    if target is None or seconds <= 0:
        return 0.0
    parts = []
    if target.completion_seconds is not None:
        parts.append(target.completion_seconds / seconds if finished else 0.0)
    if target.rate_per_second is not None:
        parts.append(account.done / seconds / target.rate_per_second)
    return min(parts, default=0.0)


def _service(account: Account, now: float, *, failed: bool) -> tuple[float, Losses]:
    wanted = _wanted_seconds(account, now)
    if wanted <= 0 or (failed and account.running_seconds <= 0):
        return 0.0, (0.0, 0.0, 0.0, 1.0)
    most = account.kept_most_seconds / wanted
    alone = account.kept_alone_seconds / wanted
    kept = account.kept_seconds / wanted
    served = account.running_seconds / wanted
    return kept, (served - most, most - alone, alone - kept, 1.0 - served)


def summarise(
    fates: Sequence[JobOutcome],
    sums: Sums,
    *,
    began: float,
    ended: float,
    ideal_seconds: float,
    effort: Effort,
    searches: SearchCounts | None = None,
) -> dict[str, float | int | None]:
    """The report's numbers.

    ``sums`` are from ``began``, the first arrival, to ``ended``; ``ideal_seconds`` is the same
    span, had each job run alone on its best platform at once. ``searches`` are the manager's:
    where there were any their shares are told, too.
    """
    wanted = [fate for fate in fates if fate.type != "best-effort"]
    fillers = [fate.performance for fate in fates if fate.type == "best-effort"]
    performances = [fate.performance for fate in wanted]
    targets = [f.target_performance for f in wanted if f.target_performance is not None]
    kept = [float(f.kept) for f in wanted if f.target_performance is not None]
    waits = [fate.wait_seconds for fate in fates]
    seconds = max(ended - began, 1e-9)
    energy = IDLE_POWER * sums.capacity + (1 - IDLE_POWER) * sums.used
    peak = sums.capacity / seconds * ideal_seconds
    decisions = [1e6 * each for each in effort.decisions_seconds]
    services = [fate for fate in wanted if fate.requests > 0]
    risen = [fate for fate in services if fate.requests_after_rises > 0]
    return {
        "workloads": len(fates),
        "qos_kept_fraction": _mean(kept),
        "performance_mean": _mean(performances),
        "target_performance_mean": _mean(targets),
        "performance_p5": _percentile(performances, 5),
        "time_over_best_mean": _mean([1 / each for each in performances if each > 0]),
        "degraded_over_10pct_fraction": _mean([float(each < 0.9) for each in performances]),
        "degraded_over_20pct_fraction": _mean([float(each < 0.8) for each in performances]),
        "platform_loss_mean": _mean([fate.platform_loss for fate in wanted]),
        "allocation_loss_mean": _mean([fate.allocation_loss for fate in wanted]),
        "interference_loss_mean": _mean([fate.interference_loss for fate in wanted]),
        "waiting_loss_mean": _mean([fate.waiting_loss for fate in wanted]),
        "overhead_fraction_mean": _mean([fate.overhead for fate in wanted]),
        "requests_in_bound_fraction": _share(
            sum(fate.in_bound for fate in services), sum(fate.requests for fate in services)
        ),
        "requests_in_bound_after_rise_fraction": _share(
            sum(fate.in_bound_after_rises for fate in risen),
            sum(fate.requests_after_rises for fate in risen),
        ),
        "throughput_kept_mean": _mean([fate.answered / fate.requests for fate in services]),
        "throughput_kept_after_rise_mean": _mean(
            [fate.answered_after_rises / fate.requests_after_rises for fate in risen]
        ),
        "utilization_cpu_mean": _share(sums.used, sums.capacity),
        "utilization_cpu_to_95pct_mean": _share(sums.most_used, sums.most_capacity),
        "allocated_cpu_mean": _share(sums.allocated, sums.capacity),
        "utilization_cpu_steady_mean": _share(sums.steady_used, sums.steady_capacity),
        "allocated_cpu_steady_mean": _share(sums.steady_allocated, sums.steady_capacity),
        # Best-effort work uses CPU that is not allocated.
        "allocated_over_used_mean": (
            None if fillers else _share(sums.steady_allocated, sums.steady_used)
        ),
        "servers_used_mean": sums.busy / seconds,
        "energy_relative": _share(energy, peak),
        "best_effort_performance_mean": _mean(fillers),
        "failed": sum(fate.end in _FAILED for fate in fates),
        "unfinished": sum(fate.end == UNFINISHED for fate in fates),
        "wait_seconds_p50": _percentile(waits, 50),
        "wait_seconds_p99": _percentile(waits, 99),
        "makespan_seconds": ended - began,
        **(searches.shares() if searches else {}),
        "decision_microseconds_p50": _percentile(decisions, 50),
        "decision_microseconds_p99": _percentile(decisions, 99),
        "events": effort.events,
        "wall_seconds": effort.wall_seconds,
        "peak_rss_bytes": effort.peak_rss_bytes,
    }


def ideal_seconds(
    jobs: Iterable[Job], best: Callable[[str], float], began: float, until: float
) -> float:
    """From ``began`` to the last end, had each job run at once, alone, at its ``best`` rates."""
    ends = [min(until, job.arrives_at + _ideal(job, best)) for job in jobs]
    return max(ends, default=began) - began


def _ideal(job: Job, best: Callable[[str], float]) -> float:
    phases = job.all_phases
    rates = [best(phase.application) for phase in phases]
    if job.work == inf or min(rates) <= 0:
        return job.lifetime_seconds
    ends = [*(phase.from_work for phase in phases[1:]), job.work]
    return sum(
        (end - phase.from_work) / rate for phase, end, rate in zip(phases, ends, rates, strict=True)
    )


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _percentile(values: Sequence[float], percent: float) -> float | None:
    return float(np.percentile(values, percent)) if values else None


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None
