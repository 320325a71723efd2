"""The checks of an engine find what they are for, and say what they could not check."""

import time
import unittest
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.engines.base import Engine, LogChunk, LogSource
from wharfinger.testing import EngineHarness, MemoryCluster, MemoryEngine, MemoryPrograms
from wharfinger.testing import engine as checks
from wharfinger.testing.memory import make_server


class DeafToSuspend(MemoryEngine):
    """Says that it suspends, and does nothing."""

    def perform(self, action: act.Action) -> None:
        if not isinstance(action, act.SuspendWorkload):
            super().perform(action)


class SilentAboutStarts(MemoryEngine):
    """Forgets to tell of those that were starting when their server left."""

    def poll(self, timeout_seconds: float = 0.0) -> Sequence[ev.Report]:
        reports = super().poll(timeout_seconds)
        left = any(isinstance(report, ev.ServerLeft) for report in reports)
        return [r for r in reports if not left or getattr(r, "key", None) != "k0"]


class MuteAboutReadiness(MemoryEngine):
    """Says that it probes, and tells nothing of it."""

    def poll(self, timeout_seconds: float = 0.0) -> Sequence[ev.Report]:
        reports = super().poll(timeout_seconds)
        return [r for r in reports if not isinstance(r, ev.ReadinessChanged)]


class WrongAboutEnds(MemoryEngine):
    """Takes one that is not alive for one that was stopped, and forgets what it said last."""

    def poll(self, timeout_seconds: float = 0.0) -> Sequence[ev.Report]:
        return [
            replace(r, reason=r.reason.replace("not-alive", "stopped"), last_output="")
            if isinstance(r, ev.WorkloadFinished)
            else r
            for r in super().poll(timeout_seconds)
        ]


class TakesOutputForLoad(MemoryEngine):
    """Gives what a program prints for what its load generator does."""

    def read_log(
        self, key: str, offset: int = 0, limit_bytes: int = 65536, source: LogSource = "output"
    ) -> LogChunk:
        return super().read_log(key, offset, limit_bytes)


class ByTheWallClock(MemoryEngine):
    """Takes what it has not heard of for an hour for lost."""

    def open(self) -> None:
        self._heard_at_seconds = time.time()
        super().open()

    def poll(self, timeout_seconds: float = 0.0) -> Sequence[ev.Report]:
        lost = abs(time.time() - self._heard_at_seconds) > 3600
        self._heard_at_seconds = time.time()
        if not lost:
            return super().poll(timeout_seconds)
        return [ev.WorkloadVanished(key, "not heard of") for key in ("before0", "after0")]


def harness(
    directory: Path,
    make_engine: Callable[[MemoryCluster], Engine] = MemoryEngine,
    deadline_seconds: float = 60.0,
) -> EngineHarness:
    cluster = MemoryCluster()

    def remove_servers(_engine: Engine) -> None:
        cluster.remove_server("a")
        cluster.put_server(make_server("b"))

    return EngineHarness(
        directory,
        lambda _state: make_engine(cluster),
        MemoryPrograms(cluster),
        remove_servers=remove_servers,
        deadline_seconds=deadline_seconds,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("check", "make_engine", "told"),
    [
        (checks.what_is_suspended_stands_still, DeafToSuspend, "pause in the work"),
        (checks.a_server_that_leaves_while_something_starts, SilentAboutStarts, "start of k0"),
        (checks.readiness_is_reported_by_every_engine, MuteAboutReadiness, "readiness of k"),
        (checks.what_is_not_alive_is_stopped, WrongAboutEnds, "its liveness probe failed"),
        (checks.what_failed_tells_its_last_line, WrongAboutEnds, "its last line was 'cannot'"),
        (
            checks.without_a_load_generator_there_is_no_output_of_one,
            TakesOutputForLoad,
            "k has no load generator",
        ),
        (checks.clock_jumps_change_nothing, ByTheWallClock, "before0 exited with 4"),
    ],
)
def test_a_broken_promise_is_found(
    tmp_path: Path,
    check: Callable[[EngineHarness], None],
    make_engine: Callable[[MemoryCluster], Engine],
    told: str,
) -> None:
    check(harness(tmp_path))
    with pytest.raises(AssertionError, match=told):
        check(harness(tmp_path, make_engine, deadline_seconds=1.0))


def test_what_a_harness_can_not_make_happen_is_said(tmp_path: Path) -> None:
    with pytest.raises(unittest.SkipTest, match="make_elsewhere"):
        checks.servers_that_left_unwatched_take_nothing_with_them(harness(tmp_path))
