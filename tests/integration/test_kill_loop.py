"""kill -9 of anything at any moment loses nothing and doubles nothing.

The manager is killed again and again while users submit, change and delete workloads and
while these run; supervisors are killed too, and in the end the whole machine "restarts".
Each workload notes its start in a file, so that a second start would show, and ends with
an exit code of its own, which must be the one that the manager tells.
"""

import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support import wait_until
from tests.support.live import (
    ENDED,
    LiveManager,
    as_file,
    expect_no_processes_with,
    kill_processes_with,
    manifest,
)
from wharfinger.core.codec import decode_event
from wharfinger.core.lifecycle import Phase
from wharfinger.core.pipeline import Core
from wharfinger.files.atomic import closing_fd
from wharfinger.host.processes import has_ended, kill_orphans, open_pidfd, send_signal
from wharfinger.host.run_dir import Claim, read_run
from wharfinger.policies.registry import make_policy
from wharfinger.store.sqlite import SqliteStore

KILLS = 50
IN_FLIGHT = 20


@dataclass
class Book:
    """What the users know, written down as they learn it.

    Attributes:
        codes: Exit code with which each workload's program ends by itself.
        acknowledged: Those whose submission was answered.
        revoked: Those that a user wanted stopped, whether or not that was answered.
        vanished: Numbers of those whose supervisor was killed before they had ended.
    """

    codes: dict[str, int] = field(default_factory=dict)
    acknowledged: set[str] = field(default_factory=set)
    revoked: set[str] = field(default_factory=set)
    vanished: set[int] = field(default_factory=set)


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[LiveManager]:
    manager = LiveManager(tmp_path / "state", "--servers", "a=0" if os.cpu_count() == 1 else "2")
    try:
        yield manager
    finally:
        manager.kill()
        runs = manager.runs()
        kill_processes_with(str(tmp_path))
        for path in runs:
            kill_orphans(path)


class Users:
    """Random users: they submit, update and delete, and never wait long."""

    def __init__(self, manager: LiveManager, folder: Path, chance: random.Random) -> None:
        self.manager = manager
        self.folder = folder
        self.chance = chance
        self.book = Book()
        self.calls: list[tuple[subprocess.Popen[str], set[str]]] = []

    def act(self, in_flight: int) -> None:
        """Something that a user would do now."""
        wanted = min(6, IN_FLIGHT + 4 - in_flight)
        if wanted > 0:
            self._submit([self._new_manifest() for _ in range(wanted)])
        live = sorted(self.book.acknowledged - self.book.revoked)
        if live and self.chance.random() < 0.5:
            name = self.chance.choice(live)
            cpu = f"{self.chance.choice([50, 100, 150, 200])}m"
            self.calls.append((self.manager.popen("update", name, "--cpu", cpu), set()))
        if live and self.chance.random() < 0.25:
            name = self.chance.choice(live)
            self.book.revoked.add(name)
            self.calls.append((self.manager.popen("stop", name), set()))

    def hang_up(self, timeout_seconds: float = 0.2) -> None:
        """Note which answers have come; the others are given up."""
        for call, names in self.calls:
            try:
                call.communicate(timeout=timeout_seconds)
            except subprocess.TimeoutExpired:
                call.kill()
                call.communicate()
            if call.returncode == 0:
                self.book.acknowledged |= names
        self.calls.clear()

    def submit_two(self) -> str:
        """One that lasts for a while, and another that waits for it; the first one's name."""
        lasts = self._manifest(0, 10, "50m")
        name: str = lasts["metadata"]["name"]
        self._submit([lasts, self._manifest(0, 0, "50m", after={"completed": [name]})])
        return name

    def _new_manifest(self) -> dict[str, Any]:
        code = self.chance.choice([0, 0, 1, 3, 77, 255])
        seconds = self.chance.choice([0, 0.1, 0.5, 1, 2, 4])
        kind = {"type": "best-effort"} if self.chance.random() < 0.2 else {}
        return self._manifest(code, seconds, self.chance.choice(["50m", "100m", "400m"]), **kind)

    def _manifest(self, code: int, seconds: float, cpu: str, **spec: Any) -> dict[str, Any]:
        name = f"w{len(self.book.codes)}"
        self.book.codes[name] = code
        script = f"echo $$ >> {self.folder}/{name}; sleep {seconds}; exit {code}"
        resources = {"cpu": cpu, "memory": "64Mi"}
        return manifest(name, "sh", "-c", script, resources=resources, **spec)

    def _submit(self, manifests: list[dict[str, Any]]) -> None:
        names = {found["metadata"]["name"] for found in manifests}
        call = self.manager.popen("submit", "-f", "-", text=as_file(*manifests))
        self.calls.append((call, names))


def _kill_a_supervisor(manager: LiveManager, users: Users) -> None:
    """Kill one whose workload runs; what it ran must become vanished."""
    live = [
        (path, run.supervisor)
        for path, run in manager.runs().items()
        if run.started and run.exit is None and run.supervisor and run.supervisor.is_alive()
    ]
    if not live:
        return
    path, supervisor = users.chance.choice(live)
    pidfd = open_pidfd(supervisor)
    if pidfd is None:  # It has ended since.
        return
    with closing_fd(pidfd):
        send_signal(pidfd, signal.SIGKILL)
        assert has_ended(pidfd, 60.0)
    if read_run(path).exit is None:
        # A run directory's name, the key, begins with the number of the submission.
        users.book.vanished.add(int(path.name.split("-")[0]))


@pytest.mark.long
def test_fifty_kills_lose_and_double_nothing(manager: LiveManager, tmp_path: Path) -> None:
    seed = int(os.environ.get("WHARFINGER_KILL_SEED", "20"))
    chance = random.Random(seed)
    folder = tmp_path / "starts"
    folder.mkdir()
    users = Users(manager, folder, chance)
    longest_seconds = max(0.8, 3 * _command_seconds(manager))
    for _ in range(KILLS):
        manager.start(wait=chance.random() < 0.7)
        users.act(len(_live(manager)))
        time.sleep(chance.uniform(0.0, longest_seconds))
        if chance.random() < 0.3:
            _kill_a_supervisor(manager, users)
        manager.kill()
        users.hang_up()
    _kill_amid_two(manager, users)
    manager.start()
    found = manager.wait_for_all(300)
    _compare(found, users.book, folder, seed)
    assert len(found) >= IN_FLIGHT
    assert manager.stop() == 0
    caught = phases_at_kills(manager.state)
    print(f"\n{KILLS} kills, seed {seed}: {len(found)} workloads, caught in {dict(caught)}")
    # Which of the shorter phases a kill meets is chance; these two the last one has met.
    assert Phase.RUNNING in caught
    assert len(caught) > 1
    # Only the acknowledged end of a workload's tree counts as its end: nothing is left.
    expect_no_processes_with(str(folder))


def _command_seconds(manager: LiveManager) -> float:
    """What a user's command takes here: in less no user is answered."""
    manager.start()
    began = time.monotonic()
    manager.workloads()
    took_seconds = time.monotonic() - began
    manager.kill()
    return took_seconds


def _kill_amid_two(manager: LiveManager, users: Users) -> None:
    """While one runs for certain, and another waits."""
    manager.start()
    name = users.submit_two()
    users.hang_up(60.0)
    manager.wait_for(lambda found: found[name]["phase"] == "running")
    manager.kill()


def _live(manager: LiveManager) -> list[Path]:
    return [path for path, run in manager.runs().items() if run.exit is None]


def phases_at_kills(state: Path) -> Counter[str]:
    """In which phases the live workloads were when a manager was killed, from its log."""
    caught: Counter[str] = Counter()
    replay = Core(make_policy("least-loaded"))
    with SqliteStore.open(state) as store:
        for entry in store.read():
            if entry.kind == "ManagerStarted":
                records = replay.state.workloads.values()
                caught.update(str(r.phase) for r in records if not r.ended)
            replay.apply(entry.time, decode_event(entry.kind, entry.payload))
    return caught


def _compare(found: dict[str, dict[str, Any]], book: Book, folder: Path, seed: int) -> None:
    """Hold what the manager tells against what the users and the programs wrote down."""
    # Deleting one that has ended drops its record: that is what its user wanted.
    lost = book.acknowledged - book.revoked - set(found)
    assert not lost, f"lost, seed {seed}: {sorted(lost)}"
    for name, workload in found.items():
        starts = folder / name
        started = len(starts.read_text().splitlines()) if starts.exists() else 0
        about = f"{name}, seed {seed}: {workload}"
        assert started <= 1, f"started {started} times: {about}"
        assert workload["starts"] >= started, about
        match workload["phase"]:
            case "completed" | "failed":
                assert workload["exit_code"] == book.codes[name], about
                assert started == 1, about
            case "vanished":
                assert workload["uid"] in book.vanished, about
                assert workload["exit_code"] is None, about
            case "revoked":
                assert name in book.revoked, about
            case phase:
                raise AssertionError(f"{phase}: {about}")


@pytest.mark.long
def test_after_a_restart_of_the_machine_what_ran_has_vanished(
    manager: LiveManager, tmp_path: Path
) -> None:
    manager.start()
    sleeper = ("sh", "-c", f"echo on >> {tmp_path}/starts; sleep 1000")
    # Best-effort: where CPUs are only given whole, there may be less than three of them.
    manager.submit(*(manifest(f"ran{i}", *sleeper, type="best-effort") for i in range(3)))
    manager.submit(manifest("waits", "true", resources={"cpu": "100m", "memory": "100Ti"}))
    manager.wait_for(lambda found: all(found[f"ran{i}"]["phase"] == "running" for i in range(3)))
    starts = tmp_path / "starts"
    wait_until(
        lambda: starts.exists() and len(starts.read_text().splitlines()) == 3, what="all began"
    )
    manager.kill()
    bystander = subprocess.Popen(["sleep", "600"])
    try:
        _restart_machine(manager, tmp_path, bystander.pid)
        manager.start()
        found = manager.wait_for(
            lambda found: all(found[f"ran{i}"]["phase"] in ENDED for i in range(3))
        )
        for i in range(3):
            assert found[f"ran{i}"]["phase"] == "vanished"
            assert found[f"ran{i}"]["exit_code"] is None
        assert found["waits"]["phase"] == "queued"
        assert bystander.poll() is None, "a process that merely has an old pid was killed"
        assert len(starts.read_text().splitlines()) == 3
    finally:
        bystander.kill()
        bystander.wait()
    manager.run("delete", "waits")
    assert manager.stop() == 0


def _restart_machine(manager: LiveManager, tmp_path: Path, other_pid: int) -> None:
    """End everything that runs, and let the records be of an earlier boot.

    The processes that the records name now are other ones: pids are given out anew.
    """
    kill_processes_with(str(tmp_path))
    for path in manager.runs():
        kill_orphans(path)
    for path, run in manager.runs().items():
        if run.claim is Claim.TAKEN:
            for record in ("claim", "started"):
                text = (path / record).read_text()
                (path / record).write_text(_of_an_earlier_boot(text, other_pid))


def _of_an_earlier_boot(record: str, pid: int) -> str:
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert boot_id in record
    words = record.replace(boot_id, "00000000-0000-0000-0000-000000000000").split(" ")
    words[1] = str(pid)
    return " ".join(words)
