"""What states no resources, on this machine: it begins small and at once, and gets what it uses."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.live import LiveManager, manifest
from wharfinger.host.cgroups import discover

HOLD = "import time; held = bytearray(b'x') * (420 << 20); time.sleep(600)"


def unstated(name: str, *command: str) -> dict[str, Any]:
    made = manifest(name, *command)
    del made["spec"]["resources"]
    return made


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[LiveManager]:
    if not discover(f"test-{os.getpid()}").has_memory:
        pytest.skip("no control group of memory here")
    manager = LiveManager(tmp_path / "state", "--servers", f"one={min(os.sched_getaffinity(0))}")
    manager.start()
    yield manager
    manager.clear()


@pytest.mark.long
def test_memory_grows_when_it_fills_up_and_small_work_need_not_wait(manager: LiveManager) -> None:
    cpu = {"cpu": "200m", "memory": "64Mi"}
    busy = manifest("busy", "/bin/sleep", "600", resources=cpu, expectedDuration="10m")
    hungry = unstated("hungry", sys.executable, "-c", HOLD)
    large = manifest("large", "/bin/true", resources={**cpu, "cpu": "700m"})
    hello = unstated("hello", "/bin/echo", "hello")
    hello["spec"]["run"]["timeLimit"] = "1m"
    manager.submit(busy, hungry, large, hello)
    found = manager.wait_for(lambda found: found["hello"]["phase"] == "completed")
    assert found["large"]["phase"] == "queued"
    assert "ahead of large" in manager.run("explain", "hello")
    assert "expected to start on one" in manager.run("explain", "large")
    manager.wait_for(lambda found: found["hungry"]["memory_bytes"] > 512 << 20)
    assert "resized by measurement" in manager.run("explain", "hungry")


@pytest.mark.long
def test_a_second_run_is_placed_by_the_peak_of_the_first(manager: LiveManager) -> None:
    program = (sys.executable, "-c", "held = bytearray(b'x') * (60 << 20)")
    first, second = (unstated(name, *program) for name in ("first", "second"))
    for each in (first, second):
        each["spec"]["profile"] = {"mode": "none"}
    manager.submit(first)
    ended = manager.wait_for(lambda found: found["first"]["phase"] == "completed")
    assert ended["first"]["memory_bytes"] == 512 << 20
    manager.submit(second)
    ended = manager.wait_for(lambda found: found["second"]["phase"] == "completed")
    assert 124 << 20 <= ended["second"]["memory_bytes"] < 256 << 20
    assert "memory: an earlier run used up to" in manager.run("explain", "second")


@pytest.mark.long
@pytest.mark.root
def test_one_that_ran_out_of_memory_comes_back_with_more(
    manager: LiveManager, tmp_path: Path
) -> None:
    size = tmp_path / "mebibytes"
    program = f"held = bytearray(b'x') * (int(open({str(size)!r}).read()) << 20)"
    for name, mebibytes in (("small", 10), ("hog", 250)):
        size.write_text(str(mebibytes))
        made = unstated(name, sys.executable, "-c", program)
        made["spec"]["profile"] = {"mode": "none"}
        manager.submit(made)
        found = manager.wait_for(lambda found, of=name: found[of]["phase"] == "completed")
    # From some 80Mi on it would have to be seen filling up twice within a moment. A kill doubles
    # what it is given, and it may be seen filling that up, too.
    assert found["hog"]["starts"] > 1
    assert 250 << 20 < found["hog"]["memory_bytes"] <= 1 << 30
    assert "memory: it ran out of memory with" in manager.run("explain", "hog")
