"""A real program's CPU follows its target, up and down, under a real manager."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.live import LiveManager, expect_no_processes_with, manifest

WORK = """
import hashlib
done = 0
while True:
    hashlib.pbkdf2_hmac("sha256", b"x", b"y", 2000)
    done += 1
    print(f"done={done}", flush=True)
"""


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[LiveManager]:
    manager = LiveManager(tmp_path / "state", "--servers", "1", "--policy", "feedback")
    manager.start()
    yield manager
    manager.run("delete", "--all")
    manager.wait_for_all()
    manager.stop()
    expect_no_processes_with(str(tmp_path))


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.root
def test_cpu_is_given_when_it_is_needed_and_given_back_when_not(manager: LiveManager) -> None:
    manager.submit(
        manifest(
            "w",
            "python3",
            "-c",
            WORK,
            type="single-node",
            target={"rate": "1/s"},
            measure={"progress": {"regex": "done=([0-9]+)"}},
        )
    )
    found = manager.wait_for(lambda found: found["w"]["achieved"] is not None)
    alone = found["w"]["achieved"]["rate_per_second"]

    manager.run("update", "w", "--rate", f"{alone * 2.5:.1f}/s")
    grown = manager.wait_for(lambda found: found["w"]["cpus"] > 0.15, 240)["w"]
    assert grown["starts"] == 1, "it was not started again for it"
    explained = manager.run("explain", "w")
    assert "% of its target" in explained
    assert "raised from 0.1" in explained

    manager.run("update", "w", "--rate", f"{alone / 10:.1f}/s")
    manager.wait_for(lambda found: found["w"]["cpus"] < grown["cpus"], 240)
    manager.wait_for(lambda found: found["w"]["met"] is True)
