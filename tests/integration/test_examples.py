"""The examples do what they say, as a new user runs them."""

import json
import math
import os
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.support import wait_until
from tests.support.live import LiveManager

EXAMPLES = Path(__file__).parents[2] / "examples"
PORT = 18480

pytestmark = [pytest.mark.long, pytest.mark.alone]


def port_is_free() -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", PORT)) != 0


def test_the_service_is_measured_by_its_load_and_keeps_its_target(tmp_path: Path) -> None:
    assert f'("127.0.0.1", {PORT})' in (EXAMPLES / "service.yaml").read_text()
    if not port_is_free():
        pytest.skip(f"port {PORT} is taken")
    live = LiveManager(tmp_path / "state", "--servers", "1")
    live.start()
    try:
        live.run("submit", "-f", str(EXAMPLES / "service.yaml"))
        found = live.wait_for(lambda all_: all_["hello"]["met"] is True)["hello"]
        assert found["achieved"]["throughput_per_second"] > 90
        assert 0 < found["achieved"]["latency_seconds"] < 0.055
        assert {m["source"] for m in found["measured"] if m["trusted"]} == {
            "load generator's report"
        }
        live.run("delete", "hello")
        live.wait_for_all()
        wait_until(port_is_free)
    finally:
        live.kill()


def shorter(tmp_path: Path, name: str, old: str, new: str) -> Path:
    """An example that takes less time."""
    text = (EXAMPLES / name).read_text()
    assert old in text
    (tmp_path / name).write_text(text.replace(old, new))
    return tmp_path / name


def seconds_to_compress() -> int:
    """A minute, and more on a machine on which half a CPU would not compress all in that time."""
    began = time.monotonic()
    sample = "head -c 8388608 /dev/urandom | gzip -9 | wc -c"  # A 32nd of what the example has.
    subprocess.run(["sh", "-c", sample], check=True, stdout=subprocess.DEVNULL)
    return max(60, math.ceil(3 * 32 * (time.monotonic() - began)))


def test_jobs_show_their_progress_and_come_to_their_end(tmp_path: Path) -> None:
    live = LiveManager(tmp_path / "state", "--servers", "1")
    live.start()
    try:
        # It gets as little CPU as its target needs: one of a minute is not waited for so long.
        deadline = "completionTime: 5m", f"completionTime: {seconds_to_compress()}s"
        live.run("submit", "-f", str(shorter(tmp_path, "compress.yaml", *deadline)))
        live.run("submit", "-f", str(shorter(tmp_path, "mixed.yaml", "1_000_001", "300_001")))

        def both_are_measured(all_: dict[str, dict[str, object]]) -> bool:
            return all(all_[name]["achieved"] for name in ("compress", "count-to-a-million"))

        live.wait_for(both_are_measured)
        ended = live.wait_for_all(timeout_seconds=900)
        assert {name: w["phase"] for name, w in ended.items()} == dict.fromkeys(ended, "completed")
        assert ended["compress"]["met"] is True
        assert ended["compress"]["achieved"]["completion_seconds"] > 1
        assert "remaining_seconds" not in {m["name"] for m in ended["compress"]["measured"]}
    finally:
        live.kill()


def test_paragon_profiles_those_that_are_not_short(tmp_path: Path) -> None:
    live = LiveManager(tmp_path / "state", "--servers", "2", "--policy", "paragon")
    live.start()
    try:
        live.run("submit", "-f", str(EXAMPLES / "paragon.yaml"))

        def all_have_run(all_: dict[str, dict[str, object]]) -> bool:
            streams = all_["stream-a"], all_["stream-b"], all_["compute"]
            return all(w["achieved"] for w in streams) and all_["short"]["phase"] == "completed"

        found = live.wait_for(all_have_run, timeout_seconds=480)
        assert found["stream-a"]["met"] is False
        assert "a short job" in live.run("explain", "short")
        assert "measured" in live.run("explain", "stream-a")
        live.run("delete", "stream-a", "stream-b", "compute")
        live.wait_for_all()
    finally:
        live.kill()


def test_the_third_waits_in_its_class_and_then_for_any_server(tmp_path: Path) -> None:
    cpu = sorted(os.sched_getaffinity(0))[0]
    options = ("--policy", "paragon", "--admission", "arq", "--servers", f"one={cpu}")
    live = LiveManager(tmp_path / "state", *options)
    live.start()

    def waits_in(queue: str) -> bool:
        found = json.loads(live.run("get", "queues", "-o", "json"))
        return any(each["first"] == "third" and each["name"].startswith(queue) for each in found)

    try:
        live.run("submit", "-f", str(EXAMPLES / "arq.yaml"))
        wait_until(lambda: waits_in("class-"))
        wait_until(lambda: waits_in("any"), 90)
        assert live.workloads()["third"]["phase"] == "queued"
        ended = live.wait_for_all(timeout_seconds=400)
        assert {name: w["phase"] for name, w in ended.items()} == dict.fromkeys(ended, "completed")
        assert ended["third"]["wait_seconds"] > 30
    finally:
        live.kill()
