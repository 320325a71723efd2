"""Kills of the manager, beside troubles of Slurm, lose nothing and double nothing.

The ordinary tier makes 4 rounds, ``--long`` 20. In each, users hand in work until 20 workloads are
in flight; then one of these begins, each of them once in three rounds: the controller is stopped
and started again, a node's daemon is killed, munge stands still. Meanwhile the manager is killed,
and started again before the trouble is over.
"""

import random
import re
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.integration.test_kill_loop import phases_at_kills
from tests.support.live import LiveManager, expect_no_processes_with
from tests.support.slurm import slurm_batch
from wharfinger.demo.slurm.cluster import SlurmCluster
from wharfinger.errors import EngineFault

IN_FLIGHT = 20
TROUBLES = ("controller", "node", "munge")


@contextmanager
def _trouble(cluster: SlurmCluster, kind: str, node: str) -> Iterator[None]:
    """One of Slurm's parts is away, or is killed, meanwhile."""
    match kind:
        case "controller":
            cluster.controller.stop()
            yield
            cluster.controller.start()
        case "node":
            cluster.slurmd(node).kill()
            yield
            cluster.slurmd(node).start()
        case _:
            cluster.munge.pause()
            yield
            cluster.munge.go_on()


class _Programs:
    """What is handed in: programs that note their start and their end, each with its own status."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        folder.mkdir()
        self.folder = folder
        self.chance = chance
        self.codes: dict[str, int] = {}
        self.go = folder / "go"
        self.waits = f"until [ -e {self.go} ]; do sleep 0.3; done; "

    def let_end(self) -> None:
        """Those that were handed in first last until now."""
        self.go.touch()
        self.waits = ""

    def top_up(self, manager: LiveManager) -> None:
        """Hand in as many as are missing."""
        missing = IN_FLIGHT + len(list(self.folder.glob("*.end"))) - len(self.codes)
        names = [f"w{len(self.codes) + number}" for number in range(missing)]
        self.codes |= {name: self.chance.choice((0, 0, 1, 3, 77, 255)) for name in names}
        if names:
            manager.submit(*(slurm_batch(name, self._script(name)) for name in names))

    def _script(self, name: str) -> str:
        path, seconds = self.folder / name, self.chance.choice((0, 0.2, 1, 3))
        work = f"{self.waits}sleep {seconds}"
        return f"echo $$ >> {path}; {work}; echo >> {path}.end; exit {self.codes[name]}"

    def starts(self) -> dict[str, int]:
        """How often each began."""
        return {name: (self.folder / name).read_text().count("\n") for name in self.codes}


def _accounted(cluster: SlurmCluster) -> set[tuple[str, tuple[int, ...]]]:
    """Exit statuses of each name's jobs that ran, as Slurm's accounting has them.

    The same end of one job counts once, however often it is written.
    """
    line = re.compile(
        r"JobId=(\d+) .* Name=(w\d+) JobState=(?:COMPLETED|FAILED) .* ExitCode=(\d+):"
    )
    found = defaultdict(list)
    for _, name, code in dict.fromkeys(
        line.findall((cluster.directory / "jobcomp.log").read_text())
    ):
        found[name].append(int(code))
    return {(name, tuple(of_name)) for name, of_name in found.items()}


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [4, pytest.param(20, marks=pytest.mark.long)])
def test_kills_lose_nothing_and_double_nothing(
    manager: LiveManager, cluster: SlurmCluster, tmp_path: Path, rounds: int
):
    seed = 7
    chance = random.Random(seed)
    programs = _Programs(tmp_path / "marks", chance)
    strange = ("--mem=64M", "--comment", "wharfinger-run of nobody")
    foreign = cluster.submit("sleep 900", "-w", "n6", *strange)
    held = cluster.submit("exit 1", "--hold", "--comment", "wharfinger: {")
    cluster.wait_until(lambda: cluster.job_states()[str(foreign)] == "RUNNING", "it runs")
    order: list[str] = []
    began = time.monotonic()
    for _ in range(rounds):
        order = order or chance.sample(TROUBLES, len(TROUBLES))
        programs.top_up(manager)
        if programs.waits:  # More than there is room for: at the first kill some run, some wait.
            manager.wait_for(
                lambda found: {"running", "queued"} <= {w["phase"] for w in found.values()}
            )
        time.sleep(chance.uniform(0.5, 2.5))
        with _trouble(cluster, order.pop(), chance.choice(cluster.names)):
            time.sleep(chance.uniform(0.0, 1.0))
            manager.kill()
            programs.let_end()
            manager.start(wait=False)
            time.sleep(chance.uniform(0.5, 2.0))
        manager.wait_until_ready()
    per_round = (time.monotonic() - began) / rounds
    workloads = manager.wait_for_all(timeout_seconds=400)
    about = f"seed {seed}"
    codes = programs.codes
    assert {name: workloads[name]["exit_code"] for name in workloads} == codes, about
    assert programs.starts() == dict.fromkeys(codes, 1), about
    ends = {(name, (code,)) for name, code in codes.items()}
    with suppress(EngineFault):
        cluster.wait_until(lambda: _accounted(cluster) == ends, "accounting has each end once")
    assert _accounted(cluster) ^ ends == set(), about
    states = cluster.job_states()
    assert states[str(foreign)] == "RUNNING"
    assert states[str(held)] == "PENDING"
    assert cluster.job(foreign)["Comment"] == "wharfinger-run"  # As far as its first blank.
    assert cluster.job(held)["Comment"] == "wharfinger:"
    _expect_nothing_left(manager, cluster, tmp_path, {str(foreign), str(held)})
    assert manager.stop() == 0
    caught = phases_at_kills(manager.state)
    print(
        f"\n{rounds} kills, {about}, {per_round:.1f} s each: {len(codes)} workloads, "
        f"caught in {dict(caught)}"
    )
    # Which of the shorter phases a few kills meet is chance.
    assert {"running", "queued"} <= caught.keys()
    assert rounds < 20 or "starting" in caught


def _expect_nothing_left(
    manager: LiveManager, cluster: SlurmCluster, tmp_path: Path, others: set[str]
) -> None:
    """No job, no process, and once all is deleted no record on the shared directory."""
    live = lambda: {  # noqa: E731
        job for job, state in cluster.job_states().items() if state in {"RUNNING", "PENDING"}
    }
    cluster.wait_until(lambda: live() == others, "no other job is left")
    for place in ("shared/runs-", "marks"):
        expect_no_processes_with(str(tmp_path / place))
    manager.run("delete", "--all")
    (runs,) = (tmp_path / "shared").glob("runs-*")
    records = lambda: [run for run in runs.iterdir() if not run.name.startswith(".supervisor-")]  # noqa: E731
    cluster.wait_until(lambda: not records(), "its records are deleted")
