"""ARQ on real programs: one that waits says so, and may take any server when its slack is gone."""

import json
import os
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.live import LiveManager, manifest

pytestmark = [pytest.mark.slow]

LINES = {"progress": {"regex": "done=([0-9]+)"}}
COUNTING = """
import time
done = 0
while True:
    done += 1
    time.sleep(0.05)
    print(f"done={done}", flush=True)
"""


LATE_SECONDS = 10.0
"""So much later than it wants to a busy machine may wake a manager."""
QUEUES = 50
"""So many that what is only predicted needs more than the lowest class."""
CALLS = 12
"""The slack lasts for so many calls of the manager: for twice those that are made meanwhile."""
moment = datetime.fromisoformat


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[LiveManager]:
    """One server with one CPU."""
    cpu = sorted(os.sched_getaffinity(0))[0]
    options = (
        "--policy",
        "paragon",
        "--admission",
        f"arq[queues={QUEUES}]",
        "--servers",
        f"one={cpu}",
    )
    made = LiveManager(tmp_path / "state", *options)
    made.start()
    yield made
    made.clear()
    again = json.loads(made.run("replay", str(tmp_path / "state"), "-o", "json"))
    assert again["same"], again["difference"]


def counting(name: str, **spec: Any) -> dict[str, Any]:
    """Takes most of the CPU that there is, and works on for ever."""
    return manifest(
        name,
        *(sys.executable, "-c", COUNTING),
        target={"rate": "1/s"},
        measure=LINES,
        profile={"mode": "none"},
        resources={"cpu": "800m", "memory": "64Mi"},
        **spec,
    )


def queues(manager: LiveManager) -> dict[str, dict[str, Any]]:
    found = json.loads(manager.run("get", "queues", "-o", "json"))
    return {queue["name"]: queue for queue in found}


def test_a_queued_program_is_diverted_before_its_slack_is_gone(manager: LiveManager) -> None:
    manager.submit(counting("first"))
    manager.wait_for(lambda found: found["first"]["phase"] == "running")
    began = time.monotonic()
    queues(manager)
    slack = min(59, max(8, round(CALLS * (time.monotonic() - began))))
    # It is not profiled, so that it waits for room and for nothing else.
    manager.submit(counting("second", waiting={"within": f"{slack}s"}))
    manager.wait_for(lambda found: found["second"]["phase"] == "queued")
    waiting = {name: queue for name, queue in queues(manager).items() if queue["length"]}
    (name,) = waiting
    assert name.startswith("class-")
    assert waiting[name]["servers"] is not None
    told = manager.run("explain", "second", "-o", "wide")
    assert f"its manifest lets it wait for {slack}s" in told
    assert "it turns to class-" in told
    assert "its queue is decided again at" in manager.run("explain", "second")
    # The next manager diverts it in time, too.
    manager.kill()
    manager.start()

    def may_take_any(found: dict[str, dict[str, Any]]) -> bool:
        return bool(queues(manager)["any"]["length"]) and found["second"]["phase"] == "queued"

    found = manager.wait_for(may_take_any)
    logged = json.loads(manager.run("get", "events", "--kind", "WorkloadDiverted", "-o", "json"))
    submitted = moment(found["second"]["submitted_at"])
    *lower, last = [(event["data"]["queue"], moment(event["logged_at"])) for event in logged]
    # Class by class at their switching times, as long as its slack lasts; then to any server.
    assert lower and last[0] == "any"
    assert (lower[0][1] - submitted).total_seconds() < slack
    order = [int(queue.removeprefix("class-")) for queue in (name, *(each[0] for each in lower))]
    assert order == list(range(order[0], order[0] - len(order), -1))
    assert slack - 0.5 < (last[1] - submitted).total_seconds() < slack + LATE_SECONDS
    assert "it may take any server now" in manager.run("explain", "second", "-o", "wide")
    manager.run("stop", "first")
    manager.wait_for(lambda found: found["second"]["phase"] == "running")
