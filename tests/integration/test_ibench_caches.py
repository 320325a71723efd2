"""Sources of compute and caches: they press as asked, say what they hold, and let go."""

import os
import signal

import pytest

from tests.integration.test_ibench import CPU, settles
from tests.support import wait_until
from tests.support.ibench import lines_of, program
from wharfinger.ibench.driver import RunningSource, start
from wharfinger.ibench.sources import Source, SourceSetting, signal_here, source_named

pytestmark = pytest.mark.alone

TIMED = ("floating-point", "vector", "l2-bandwidth", "last-level-cache-bandwidth", "prefetcher")
HELD = ("l1-instruction-cache", "l1-data-cache", "tlb", "l2-cache", "last-level-cache")
LINE_BYTES = 64


def setting_of(name: str) -> SourceSetting:
    """On as few CPUs as it needs; skips where it gives no signal."""
    source: Source = source_named(name)
    cpus = tuple(sorted(os.sched_getaffinity(0)))[: source.cpus]
    setting = SourceSetting(source, cpus, report_seconds=0.1)
    here = signal_here(setting)
    if not here.there:
        pytest.skip(f"{name}: {here.reason}")
    return setting


def at(source: RunningSource, intensity: float) -> int:
    """What it holds at that intensity, once it has worked."""
    source.set_intensity(intensity)
    before = source.reports[-1].count if source.reports else 0
    wait_until(lambda: source.next_report().count > before, what="some work")
    return source.reports[-1].footprint_bytes


def rests(source: RunningSource) -> bool:
    """Within a period; a worker that was halted in its turn ends that first."""
    before, after = source.next_report(), source.next_report()
    return (after.count, after.achieved, after.footprint_bytes) == (before.count, 0, 0)


@pytest.mark.parametrize("name", [*TIMED, *HELD, "interconnect"])
def test_it_takes_no_more_than_was_asked_for_and_rests(name: str):
    with start(setting_of(name)) as source:
        # Others may have the CPU, so less can be right; what took too much makes it good later.
        settles(source, 30, 0, 45)
        wait_until(lambda: source.next_report().count > 0, what="some work")
        source.withdraw()
        wait_until(lambda: rests(source), what="it rests")
    before, after = source.reports[-2:]
    moved = {"floating-point": 0, "vector": 0, "l2-bandwidth": 1, "last-level-cache-bandwidth": 1}
    assert after.bytes == after.count * moved.get(name, LINE_BYTES)
    assert after.cpu_seconds - before.cpu_seconds < 0.2 * (after.time_seconds - before.time_seconds)


@pytest.mark.parametrize("name", HELD)
def test_the_footprint_follows_the_intensity(name: str):
    with start(setting_of(name)) as source:
        held = [at(source, intensity) for intensity in (25, 50, 100)]
    full = held[-1]
    assert held == pytest.approx([full / 4, full / 2, full], rel=0.02)


@pytest.mark.parametrize("name", ["l2-bandwidth", "last-level-cache-bandwidth", "prefetcher"])
def test_a_share_of_time_leaves_the_footprint_alone(name: str):
    with start(setting_of(name)) as source:
        low, high = at(source, 5), at(source, 60)
    assert low == high > 0


@pytest.mark.parametrize("name", HELD)
def test_a_footprint_may_be_given(name: str):
    setting_of(name)
    bytes_given = 64 << 10
    with program(name, "--cpus", CPU, "--footprint", bytes_given, "--intensity", 100) as child:
        assert child.stdin is not None
        out, err = child.communicate("", timeout=60)
    assert (child.returncode, err) == (0, "")
    lines = lines_of(
        name, "--cpus", CPU, "--footprint", bytes_given, "--intensity", 100, "--seconds", 0.1
    )
    assert lines[-1]["footprint_bytes"] == bytes_given
    assert "ready" in out


@pytest.mark.parametrize("name", [*TIMED, *HELD, "interconnect"])
def test_a_signal_ends_it_at_full_pressure(name: str):
    setting = setting_of(name)
    cpus = ",".join(map(str, setting.cpus))
    with program(name, "--cpus", cpus, "--intensity", "100") as child:
        assert child.stdout is not None
        child.stdout.readline()
        child.send_signal(signal.SIGTERM)
        assert child.wait(60) == 0


def test_each_worker_takes_its_part_of_what_they_share():
    cpus = tuple(sorted(os.sched_getaffinity(0)))
    if len(cpus) < 2:
        pytest.skip("there is one CPU")
    both = ",".join(map(str, cpus[:2]))
    setting_of("last-level-cache")
    options = ("--footprint", 1 << 20, "--intensity", 100, "--seconds", 0.1)
    one = lines_of("last-level-cache", "--cpus", CPU, *options)[-1]["footprint_bytes"]
    two = lines_of("last-level-cache", "--cpus", both, *options)[-1]["footprint_bytes"]
    # Once where they share the cache, once each where they do not.
    assert two in (one, 2 * one)  # type: ignore[operator] # numbers
