"""A service that runs on this machine, and what it keeps of its performance beside others.

Neighbors are commands that start again when they end; a bubble is a source of iBench's program. All
are children of this process, and leave nothing when it ends.
"""

import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from math import sqrt
from pathlib import Path
from statistics import fmean, variance

from wharfinger.catalog.quiet import CpuTimes
from wharfinger.errors import Unavailable
from wharfinger.files.contention_sets import CollectedSets
from wharfinger.host.binaries import ibench_path
from wharfinger.ibench.driver import PlainProcess
from wharfinger.model.performance import Quantity
from wharfinger.model.workload import Run, Workload
from wharfinger.profiler.collecting import (
    TRIES,
    Beside,
    Collected,
    CollectionPlan,
    SetCollection,
    SetSample,
)
from wharfinger.profiler.program import OwnProcess
from wharfinger.profiler.session import CommandSession
from wharfinger.profiling.scores import relative
from wharfinger.profiling.steps import ReadFor, RunAt, RunFailed, Stretch

STRETCHES = 6
"""Readings of one look, from which its error is told."""
SETTLE_SECONDS = 0.5
"""From the start of neighbors to the first reading."""
BEGIN_SECONDS = 30.0
"""For a service to tell its first numbers."""
WARM_UP_SECONDS = 1.0
LATE_FACTOR, LATE_SECONDS = 2.0, 1.0
"""A look that took longer by both was suspended on its way, or hardly told anything."""
STARVED_FACTOR, STARVED_SECONDS = 5.0, 10.0
"""A service that tells nothing for as long can't be measured beside these neighbors."""
LEAST_ERROR = 0.001
"""Of a performance: a machine repeats itself no better."""
_AGAIN = 'while :; do "$@" >/dev/null || exit; done'
"""A neighbor that ends starts again, until it fails."""


class ServiceSampler:
    """A service that runs, with its load generator; neighbors come and go beside it.

    Each result is the performance beside a set over that alone just before and just after.
    """

    def __init__(self, plan: CollectionPlan, service: Workload) -> None:
        self._plan = plan
        self._neighbors: Mapping[str, Workload] = {each.name: each for each in plan.neighbors}
        self._session = CommandSession(words_of(service.run), service, {}, cpus=plan.cpus)
        self._alone: list[Stretch] | None = None

    def __enter__(self) -> "ServiceSampler":
        """Start it; raises ``RunFailed`` where it can't be measured."""
        try:
            self._session.begin(BEGIN_SECONDS)
            self._session.run(RunAt(0, warm_up_seconds=WARM_UP_SECONDS))
        except BaseException:
            self._session.close()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self._session.close()

    def sample(self, beside: Beside) -> SetSample:
        """See ``SetSampler``."""
        began, before = time.monotonic(), CpuTimes.read()
        first = self._alone or self._look()
        with self._running(beside) as processes:
            _settle(processes)
            among = self._look()
            _refuse_ended(processes)
        time.sleep(SETTLE_SECONDS)
        self._alone = last = self._look()
        seconds, after = time.monotonic() - began, CpuTimes.read()
        share = (after.busy - before.busy) / max(1, after.total - before.total)
        value, error = _relative_to(among, first, last)
        return SetSample(value, error, seconds, share * _cpu_count())

    def _look(self) -> list[Stretch]:
        """Some readings; once more where the machine stood still meanwhile."""
        for _ in range(TRIES):
            began = time.monotonic()
            wanted = max(self._session.reading_seconds, self._plan.seconds / STRETCHES)
            expected = wanted * STRETCHES
            until = began + max(STARVED_FACTOR * expected, STARVED_SECONDS)
            self._session.run(RunAt(0))
            found: list[Stretch] = []
            while len(found) < STRETCHES:
                stretch = self._session.read(ReadFor(wanted, until))
                if stretch is None:
                    raise RunFailed(f"it told no number for {until - began:.0f} s")
                found.append(stretch)
            if time.monotonic() - began <= max(LATE_FACTOR * expected, expected + LATE_SECONDS):
                break
        return found

    @contextmanager
    def _running(self, beside: Beside) -> Iterator[list[tuple[str, OwnProcess]]]:
        with ExitStack() as undo:
            if beside.bubble_bytes:
                bubble = PlainProcess(_bubble(beside.bubble_bytes, self._plan.batch_cpus))
                undo.callback(bubble.stop)
                if not bubble.wait_for_output(BEGIN_SECONDS) or b"ready" not in _first(bubble):
                    raise Unavailable(f"{beside}: {bubble.last_words()[1].strip()}")
            processes = list[tuple[str, OwnProcess]]()
            for name in beside.neighbors:
                words = ("/bin/sh", "-c", _AGAIN, name, *words_of(self._neighbors[name].run))
                process = OwnProcess(words, self._plan.batch_cpus)
                undo.callback(process.clear)
                processes.append((name, process))
            yield processes


def words_of(run: Run) -> tuple[str, ...]:
    """The command with its environment and its working directory."""
    given = (f"{name}={value}" for name, value in run.env.items())
    return ("/usr/bin/env", "-C", run.working_directory, *given, *run.command)


def _bubble(size_bytes: int, cpus: Collection[int]) -> list[str]:
    words = [str(ibench_path()), "bubble", "--footprint", str(size_bytes), "--intensity", "100"]
    # It reports so seldom that nobody needs to read.
    words += ["--report-seconds", "3600"]
    return words + (["--cpus", ",".join(map(str, sorted(cpus)))] if cpus else [])


def _first(process: PlainProcess) -> bytes:
    return os.read(process.report_fd, 4096)


def _settle(processes: Sequence[tuple[str, OwnProcess]]) -> None:
    until = time.monotonic() + SETTLE_SECONDS
    while (left := until - time.monotonic()) > 0:
        _refuse_ended(processes)
        time.sleep(min(left, 0.05))


def _refuse_ended(processes: Sequence[tuple[str, OwnProcess]]) -> None:
    for name, process in processes:
        if process.over:
            try:
                process.end()
            except RunFailed as error:
                raise RunFailed(f"{name} {str(error).partition(': ')[2]}") from None


def _relative_to(
    among: Sequence[Stretch], first: Sequence[Stretch], last: Sequence[Stretch]
) -> tuple[float, float]:
    """Performance among neighbors over that alone before and after; its standard error."""
    alone = [*first, *last]
    quantities = set.intersection(*(set(each.values) for each in (*among, *alone)))
    quantities -= {Quantity.CPU, Quantity.REMAINING}
    usual = {q: fmean(each.values[q] for each in alone) for q in quantities}
    usual = {quantity: value for quantity, value in usual.items() if value > 0}
    parts = [
        [told for each in look if (told := relative(_only(each, usual), usual)) is not None]
        for look in (among, first, last)
    ]
    if not all(parts):
        raise RunFailed("it told no number that could be compared")
    beside, before, after = (fmean(part) for part in parts)
    own = (before + after) / 2
    # How far apart the two looks alone are says what the machine did between them.
    drift = (before - after) / 2
    value = beside / own
    noise = _of_mean(parts[0]) + value**2 * (_of_mean([*parts[1], *parts[2]]) + drift**2 / 2)
    return value, max(sqrt(noise) / own, LEAST_ERROR)


def _only(stretch: Stretch, usual: Mapping[Quantity, float]) -> dict[Quantity, float]:
    return {quantity: stretch.values[quantity] for quantity in usual}


def _of_mean(values: Sequence[float]) -> float:
    return variance(values) / len(values) if len(values) > 1 else 0.0


def _cpu_count() -> int:
    return os.cpu_count() or 1


def collect(
    plan: CollectionPlan, path: Path, seconds: float, tell: Callable[[str], None]
) -> Collected:
    """Measure on this machine what the file lacks, for so long at most.

    Raises:
        InvalidInput: The file can't be read.
        RunFailed: A service can't be measured.
    """
    collection = SetCollection(plan, CollectedSets(path), tell)
    until = time.monotonic() + seconds
    for service in plan.services:
        if collection.is_over(until):
            break
        tell(f"{service.name}: starting")
        with ServiceSampler(plan, service) as sampler:
            collection.run(service, sampler, until)
    return collection.done
