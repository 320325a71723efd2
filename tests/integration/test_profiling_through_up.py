"""A copy leaves nothing behind under a whole manager either, whoever is killed amid it.

The workload itself never starts: it reserves more than there is, and is rejected where its target
is seen to be out of reach, so that all that could be found is the copy's.
"""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import wait_until
from tests.support.live import LiveManager, expect_no_processes_with, manifest, ordinary_user
from tests.support.local import names
from tests.support.profiling import COUNTING, MARK, PLACES, PORT, UNTIDY, listens, mounts
from tests.support.sandboxes import NOBODY, census
from wharfinger.engines.local import identity_of_directory
from wharfinger.host.cgroups import find_hierarchies
from wharfinger.host.processes import children_of, descendants

pytestmark = [pytest.mark.long, pytest.mark.alone]

# Many files: of a single one, its size alone is limited.
FILLING = (
    UNTIDY
    + """
import itertools
for number in itertools.count():
    open(f"full{number}", "wb").write(bytes(1 << 20))
"""
)
LASTING = UNTIDY + COUNTING
HURRY = {"cap_bytes": 8 << 20}


class Copied:
    """A manager, the program that it profiles, and what was there before.

    Args:
        manager: Not started.
        work: The program's directory, to be made.
        python: That runs it.
    """

    def __init__(self, manager: LiveManager, work: Path, python: str) -> None:
        self.manager, self.work, self.python = manager, work, python
        work.mkdir()
        (work / "data").write_text("as it was")
        if manager.prefix:
            for path in (work, work / "data"):
                os.chown(path, NOBODY, NOBODY)
        self.before = census(work)
        self.mounts = mounts()

    def submit(self, script: str, seconds: float) -> None:
        """Hand in what is profiled and never placed."""
        self.manager.start()
        self.manager.submit(
            manifest(
                "w",
                target={"rate": "1000G/s"},
                resources={"cpu": "1000", "memory": "256Mi"},
                run={"command": [self.python, "-c", script], "workingDir": str(self.work)},
                measure={"progress": {"regex": "done=([0-9]+)"}},
                profile={"seconds": seconds},
                onMiss="reject",
            )
        )

    def worker(self) -> int:
        """The profiler's process, once the program is at work in its copy."""

        def found() -> int:
            assert self.manager.process is not None
            for worker in children_of(self.manager.process.pid):
                # Keeper, init, program, below a supervisor.
                if any(len(descendants(pid)) >= 3 for pid in children_of(worker)):
                    return worker
            if self.manager.workloads()["w"]["phase"] != "profiling":
                pytest.skip(f"no copy is made here: {self.manager.run('explain', 'w')}")
            return 0

        return wait_until(found, 60.0, "the copy")

    def answer(self) -> str:
        """Wait until it is over; what became of it, for people."""
        over = ("queued", "rejected")
        self.manager.wait_for(lambda found: found["w"]["phase"] in over, 120)
        return self.manager.run("explain", "w", "-o", "wide")

    def leaves_nothing(self) -> None:
        """No file, mount, port, process, cgroup of the copy's."""
        runs = self.manager.state / "runs"
        wait_until(lambda: not runs.exists() or not names(runs), what="no records are left")
        self.manager.clear()
        assert census(self.work) == self.before
        assert set(mounts()) <= set(self.mounts)
        assert not [place for place in PLACES if Path(place, MARK).exists()]
        assert not listens(PORT)
        expect_no_processes_with(str(self.work.parent))
        group = f"wharfinger-{identity_of_directory(runs)}"
        assert not [found for found in find_hierarchies() for _ in found.own.glob(f"{group}*")]
        assert not list(self.work.parent.rglob(".wharfinger-profile-*"))


@pytest.fixture(params=[pytest.param("root", marks=pytest.mark.root), "user"])
def copied(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Copied]:
    """By root, and by an ordinary user: us, where we are one, else another."""
    if request.param == "user" and os.geteuid() == 0:
        with ordinary_user() as user:
            made = Copied(user.manager(hurry=HURRY), user.folder / "work", user.python)
            yield made
            made.manager.clear()
        return
    made = Copied(LiveManager(tmp_path / "state", hurry=HURRY), tmp_path / "work", sys.executable)
    yield made
    made.manager.clear()


def test_an_untidy_program(copied: Copied) -> None:
    copied.submit(LASTING, 2.0)
    copied.worker()
    assert "classified by" in copied.answer()
    copied.leaves_nothing()


def test_one_that_fills_its_disk(copied: Copied) -> None:
    copied.submit(FILLING, 30.0)
    explained = copied.answer()
    if "no sandbox" in explained:
        pytest.skip("no copy is made here")
    assert "not measured: copy: " in explained
    assert "is the most" in explained or "status 1" in explained, explained
    copied.leaves_nothing()


@pytest.mark.parametrize("whom", ["profiler", "supervisor"])
def test_one_that_is_killed_with(copied: Copied, whom: str) -> None:
    copied.submit(LASTING, 60.0)
    worker = copied.worker()
    os.kill(worker if whom == "profiler" else children_of(worker)[0], signal.SIGKILL)
    copied.answer()
    copied.leaves_nothing()


@pytest.mark.parametrize("with_worker", [False, True], ids=["alone", "with its profiler"])
def test_a_manager_that_is_killed_amid_a_copy(copied: Copied, with_worker: bool) -> None:
    """What it started goes, and the next one profiles anew."""
    copied.submit(LASTING, 3.0)
    worker = copied.worker()
    copies = descendants(worker)
    copied.manager.kill()
    if with_worker:
        os.kill(worker, signal.SIGKILL)
    copied.manager.start()
    wait_until(
        lambda: not [pid for pid in copies if Path(f"/proc/{pid}/exe").exists()],
        what="the end of the first copy",
    )
    assert "classified by" in copied.answer()
    copied.leaves_nothing()
