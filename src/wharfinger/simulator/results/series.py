"""How a run was over time, for pictures: noted on request as it changes, and binned at the end."""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.simulator.results.outcome import JobOutcome, Series
from wharfinger.simulator.scenario.jobs import Job

BINS = 240
MOST_GROUPS = 200  # rows of the picture; beyond, servers are taken together
AFTER_EDGES_SECONDS = np.arange(-60.0, 181.0, 15.0)
LATENCY_EDGES_SECONDS = np.geomspace(1e-4, 10.0, 101)


Stretches = NDArray[np.float64]
"""(N, 3) from when to when, and at which level."""


class Changes:
    """A level that changes: when, and to what."""

    def __init__(self) -> None:
        self.times = array("d")
        self.levels = array("d")

    def put(self, now: float, level: float) -> None:
        """It is this from now on."""
        self.times.append(now)
        self.levels.append(level)

    def means(self, edges: NDArray[np.float64]) -> NDArray[np.float64]:
        """(B,) mean over each bin; 0 before the first change.

        >>> changes = Changes()
        >>> changes.put(1.0, 4.0)
        >>> changes.means(np.array([0.0, 2.0, 4.0])).tolist()
        [2.0, 4.0]
        """
        times = np.concatenate(([edges[0]], np.frombuffer(self.times), [np.inf]))
        levels = np.concatenate(([0.0], np.frombuffer(self.levels)))
        times = np.maximum(times, edges[0])
        return _integral(times, levels, edges) / np.diff(edges)


def _integral(
    times: NDArray[np.float64], levels: NDArray[np.float64], edges: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(B,) of a step function over each bin; ``levels[i]`` holds from ``times[i]`` on."""
    sums = np.concatenate(([0.0], np.cumsum(levels[:-1] * np.diff(times[:-1]))))
    at = np.searchsorted(times[:-1], edges, side="right") - 1
    until = sums[at] + levels[at] * (edges - times[at])
    return np.diff(until)


class Recorder:
    """Notes every change of the cluster."""

    def __init__(self) -> None:
        self._allocated = Changes()
        self._used: dict[str, Changes] = {}
        self._capacity: dict[str, float] = {}
        self._latency: dict[str, NDArray[np.float64]] = {}
        self._ran: dict[str, array[float]] = {}
        self._served = array("d")

    def capacity(self, server: str, cpu_millicpus: float) -> None:
        """A server comes or leaves, with so much CPU."""
        self._capacity[server] = cpu_millicpus
        self._used.setdefault(server, Changes())

    def allocated(self, now: float, level: float) -> None:
        """CPU that is given away in all."""
        self._allocated.put(now, level)

    def used(self, now: float, server: str, cpu_millicpus: float) -> None:
        """CPU of a server that does something."""
        self._used[server].put(now, cpu_millicpus)

    def ran(self, job: str, began: float, seconds: float, performance: float) -> None:
        """A job ran for so long from ``began`` on; ``performance`` as in ``Series``."""
        self._ran.setdefault(job, array("d")).extend((began, began + seconds, performance))

    def served(
        self, began: float, seconds: float, answered_per_second: float, in_bound_per_second: float
    ) -> None:
        """A service answered so much for so long, and could within its bound."""
        self._served.extend((began, began + seconds, answered_per_second, in_bound_per_second))

    def latency(self, service: str, seconds: float, latency_seconds: float) -> None:
        """A service's latency was this for so long."""
        histogram = self._latency.get(service)
        if histogram is None:
            histogram = self._latency[service] = np.zeros(len(LATENCY_EDGES_SECONDS) + 1)
        histogram[np.searchsorted(LATENCY_EDGES_SECONDS, latency_seconds)] += seconds

    def series(
        self,
        jobs: Mapping[str, Job],
        fates: Sequence[JobOutcome],
        ended: float,
        phases: Sequence[tuple[str, float]] = (),
    ) -> Series:
        """All of it, from the beginning of the run to ``ended``, in seconds.

        ``phases`` are jobs and when they entered another.
        """
        edges = np.linspace(0.0, max(ended, 1e-9), BINS + 1)
        names = list(self._used)
        per_server = np.array([self._used[name].means(edges) for name in names])
        per_server = per_server.reshape(len(names), BINS)
        capacities = np.array([self._capacity[name] for name in names])
        groups, rows = _grouped(names, per_server, capacities)
        served = np.array(self._served).reshape(-1, 4)
        ran = {name: np.array(each).reshape(-1, 3) for name, each in self._ran.items()}
        return Series(
            edges=edges,
            groups=groups,
            utilization=rows,
            required_cpus=_level(_wanted(jobs, fates, ended)).means(edges) / MILLICPUS_PER_CPU,
            allocated_cpus=self._allocated.means(edges) / MILLICPUS_PER_CPU,
            used_cpus=per_server.sum(axis=0) / MILLICPUS_PER_CPU,
            latency_edges_seconds=np.concatenate(([0.0], LATENCY_EDGES_SECONDS, [np.inf])),
            latency={name: h / h.sum() for name, h in self._latency.items() if h.sum() > 0},
            bounds_seconds={name: b for name in self._latency if (b := _bound(jobs[name]))},
            total_cpus=float(capacities.sum()) / MILLICPUS_PER_CPU,
            ideal_cpus=_level(_ideally(jobs, fates, ended)).means(edges) / MILLICPUS_PER_CPU,
            performance=_mean_level(list(ran.values()), edges),
            after_edges=AFTER_EDGES_SECONDS,
            after_change=_after(ran, fates, ended, phases),
            asked_per_second=_level(_asked(jobs, fates, ended)).means(edges),
            answered_per_second=_sum_of_levels(served[:, [0, 1, 2]], edges),
            in_bound_per_second=_sum_of_levels(served[:, [0, 1, 3]], edges),
        )


def _level(steps: Iterable[tuple[float, float]]) -> Changes:
    """From when it changes by how much."""
    changes = Changes()
    for time, step in sorted(steps):
        changes.put(time, (changes.levels[-1] if changes.levels else 0.0) + step)
    return changes


def _mean_level(stretches: Sequence[Stretches], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """(B,) of all stretches together, weighed by how long they are in each bin."""
    rows = np.concatenate([np.zeros((0, 3)), *stretches])
    ones = np.column_stack([rows[:, :2], np.ones(len(rows))])
    running = _sum_of_levels(ones, edges)
    there = running > 1e-9
    levels = _sum_of_levels(rows, edges)
    return np.where(there, levels / np.where(there, running, 1.0), np.nan)


def _sum_of_levels(rows: Stretches, edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """(B,) mean over each bin of the sum of all stretches."""
    times = rows[:, :2].T.reshape(-1)
    steps = np.concatenate([rows[:, 2], -rows[:, 2]])
    return _level(zip(times.tolist(), steps.tolist(), strict=True)).means(edges)


def _after(
    ran: Mapping[str, Stretches],
    fates: Sequence[JobOutcome],
    ended: float,
    phases: Sequence[tuple[str, float]],
) -> NDArray[np.float64]:
    spans = {fate.name: (fate.submitted_at + fate.wait_seconds, fate.ended_at) for fate in fates}
    times: dict[str, list[float]] = {}
    for name, at in phases:
        times.setdefault(name, []).append(at)
    done = np.zeros(len(AFTER_EDGES_SECONDS) - 1)
    there = done.copy()
    for name, own in times.items():
        began, end = spans[name]
        ends = [*own[1:], ended if end is None else end]
        for since, at, until in zip([began, *own[:-1]], own, ends, strict=True):
            edges = AFTER_EDGES_SECONDS + at
            # Else the later, the more of them are those that are slow, and last.
            if edges[0] < since or edges[-1] > until:
                continue
            there += np.diff(edges)
            starts, stops, levels = ran.get(name, np.zeros((0, 3))).T
            inside = np.clip(edges[None, :], starts[:, None], stops[:, None])
            done += levels @ np.diff(inside, axis=1)
    return np.where(there > 0, done / np.where(there > 0, there, 1.0), np.nan)


def _ideally(
    jobs: Mapping[str, Job], fates: Sequence[JobOutcome], ended: float
) -> Iterator[tuple[float, float]]:
    """From its submission, for as long as it would have taken alone on its best platform."""
    for fate in fates:
        seconds = (ended if fate.ended_at is None else fate.ended_at) - fate.submitted_at
        job = jobs[fate.name]
        ideal = seconds if job.is_service else fate.performance * seconds
        yield fate.submitted_at, float(job.cpu_millicpus)
        yield fate.submitted_at + ideal, -float(job.cpu_millicpus)


def _asked(
    jobs: Mapping[str, Job], fates: Sequence[JobOutcome], ended: float
) -> Iterator[tuple[float, float]]:
    """Of services, from submission to the end of what they are wanted for."""
    for fate in fates:
        job = jobs[fate.name]
        if job.load is None:
            continue
        target = job.workload.target
        most = target.throughput_per_second if target else None
        load = job.load if most is None else job.load.capped(most)
        until, before = min(job.lifetime_seconds, ended - fate.submitted_at), 0.0
        for at, level in zip(load.times, load.per_second, strict=True):
            if at < until:
                yield fate.submitted_at + at, level - before
                before = level
        yield fate.submitted_at + until, -before


def _bound(job: Job) -> float | None:
    target = job.workload.target
    return target.latency.below_seconds if target and target.latency else None


def _wanted(
    jobs: Mapping[str, Job], fates: Sequence[JobOutcome], ended: float
) -> list[tuple[float, float]]:
    changes = []
    for fate in fates:
        job = jobs[fate.name]
        left = fate.submitted_at + fate.wait_seconds
        gone = ended if fate.ended_at is None else fate.ended_at
        changes += [
            (fate.submitted_at, float(job.cpu_millicpus)),
            (max(gone, left), -float(job.cpu_millicpus)),
        ]
    return changes


def _grouped(
    names: Sequence[str], rows: NDArray[np.float64], capacities: NDArray[np.float64]
) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    size = max(1, -(-len(names) // MOST_GROUPS))
    starts = np.arange(0, len(names), size)
    if not len(names):
        return (), rows
    used = np.add.reduceat(rows, starts, axis=0)
    there = np.add.reduceat(capacities, starts)
    labels = tuple(
        names[at] if size == 1 else f"{names[at]} and {min(size, len(names) - at) - 1} more"
        for at in starts.tolist()
    )
    return labels, used / np.maximum(there, 1.0)[:, None]
