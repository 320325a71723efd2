"""What the kernel tells of a process."""

import os
import time

import pytest

from tests.support import wait_until
from wharfinger.errors import Unavailable
from wharfinger.ibench.driver import start
from wharfinger.ibench.sampling import (
    PerfEvent,
    SourceSample,
    counter_of,
    cpu_seconds_of,
    sample,
    takes_cpu_time,
    waited_seconds_of,
)
from wharfinger.ibench.sources import SOURCES, SourceSetting, source_named

CPU = min(os.sched_getaffinity(0))
_SOFTWARE, _TASK_CLOCK = 1, 1


def test_the_schedulers_clock_of_a_process_runs_with_it():
    before, waited = cpu_seconds_of(os.getpid()), waited_seconds_of(os.getpid())
    until = time.process_time() + 0.01
    while time.process_time() < until:
        pass
    assert cpu_seconds_of(os.getpid()) - before >= 0.01
    assert waited_seconds_of(os.getpid()) >= waited


def test_an_event_counts_what_the_process_did():
    event = PerfEvent.opened(os.getpid(), "task clock", _SOFTWARE, _TASK_CLOCK)
    if event is None:
        pytest.skip("no events may be opened here")
    before = event.read()
    until = time.process_time() + 0.01
    while time.process_time() < until:
        pass
    assert event.read() - before >= 5e6  # nanoseconds of the threads that there were
    event.close()


def test_what_bounds_a_rate():
    to_a_peer = SourceSetting(source_named("network-bandwidth"), peer="h:1")
    assert not takes_cpu_time(to_a_peer)
    bounded = {source.name for source in SOURCES if takes_cpu_time(SourceSetting(source))}
    assert {"integer", "memory-bandwidth", "network-bandwidth"} <= bounded
    assert bounded.isdisjoint({"storage-bandwidth", "storage-capacity", "memory-capacity"})


def test_a_sample_is_of_the_time_asked_for():
    with start(SourceSetting(source_named("integer"), (CPU,), report_seconds=1e6)) as source:
        counter = counter_of(source)
        source.set_intensity(30)

        def sampled() -> SourceSample | None:
            # On a busy machine it may get nothing in that time, or a turn take too much.
            (got,) = sample([source], 0.1, [counter])
            assert got.seconds >= 0.1
            return got if 0 < got.achieved < 60 else None

        got = wait_until(sampled, what="about the share of CPU time that was asked for")
        assert got is not None
        assert got.rate_per_second > 0
        assert got.counted is not None and got.counted > 0
        assert got.performance(by_cpu_time=True) >= got.performance(by_cpu_time=False)
        source.withdraw()
        (idle,) = sample([source], 0.05, [counter])
        assert idle.rate_per_second == 0
        assert idle.performance(by_cpu_time=False) == 0


def test_a_source_that_ended_is_told():
    with start(SourceSetting(source_named("integer"), (CPU,))) as source:
        os.kill(source.pid, 15)
        with pytest.raises(Unavailable):
            sample([source], 0.2)
