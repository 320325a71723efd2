"""What states no resources, on this machine: it begins small and at once, and gets what it uses."""

import os
import sys
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


def test_memory_grows_when_it_fills_up_and_small_work_need_not_wait(tmp_path: Path) -> None:
    if not discover(f"test-{os.getpid()}").has_memory:
        pytest.skip("no control group of memory here")
    manager = LiveManager(tmp_path / "state", "--servers", "one=0")
    manager.start()
    try:
        cpu = {"cpu": "200m", "memory": "64Mi"}
        busy = manifest("busy", "/bin/sleep", "600", resources=cpu, expectedDuration="10m")
        hungry = unstated("hungry", sys.executable, "-c", HOLD)
        large = manifest("large", "/bin/true", resources={**cpu, "cpu": "700m"})
        hello = unstated("hello", "/bin/echo", "hello")
        hello["spec"]["run"]["timeLimit"] = "1m"
        manager.submit(busy, hungry, large, hello)
        found = manager.wait_for(lambda found: found["hello"]["phase"] == "completed", 30)
        assert found["large"]["phase"] == "queued"
        assert "ahead of large" in manager.run("explain", "hello")
        assert "expected to start on one" in manager.run("explain", "large")
        manager.wait_for(lambda found: found["hungry"]["memory_bytes"] > 512 << 20)
        assert "resized by measurement" in manager.run("explain", "hungry")
    finally:
        manager.clear()
