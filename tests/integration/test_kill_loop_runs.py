"""kill -9 of the manager at any moment: restarts, arrays, schedules and dependencies go on.

Beside ``test_kill_loop``: here programs fail at times and are started again, wait for others, have
limits of time and number, and users restart, suspend, stop, delete and submit them again. What is
true is what the programs write down themselves: each start with the key that it was given, under a
lock that a second one of the same name could not take, and in one of the places that its array has.
"""

import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.live import (
    ENDED,
    LiveManager,
    as_file,
    expect_no_processes_with,
    kill_processes_with,
    manifest,
)
from wharfinger.core import events as ev
from wharfinger.core.codec import decode_event
from wharfinger.core.pipeline import Core
from wharfinger.host.processes import kill_orphans
from wharfinger.policies.registry import make_policy
from wharfinger.store.sqlite import SqliteStore

KILLS = int(os.environ.get("WHARFINGER_KILLS", "25"))
AT_ONCE = 2
LIMIT = 2
INVALID = 2
"""Exit status of a command that was called wrongly."""

PROGRAM = r"""
name=$1 folder=$2 does=$3 awaited=$4
exec 9>>"$folder/$name.lock"
flock -n 9 || echo "$name" >> "$folder/DOUBLE"
for each in $awaited; do
    [ -e "$folder/$each" ] || echo "$name before $each" >> "$folder/EARLY"
done
echo "$WHARFINGER_KEY $(date +%s.%N)" >> "$folder/$name.starts"
starts=$(wc -l < "$folder/$name.starts")
case $does in
member)
    exec 8>>"$folder/$5.one"
    flock -n 8 || { exec 8>>"$folder/$5.two"; flock -n 8 || echo "$name" >> "$folder/FULL"; }
    sleep 0.7 8>&- 9>&- ;;
fails) sleep 0.1 9>&-; exit 3 ;;
recovers) sleep 0.2 9>&-; [ "$starts" -gt 2 ] || exit 4 ;;
hangs) sleep 1000 9>&- ;;
waits) sleep 1 9>&- ;;
short) : ;;
esac
touch "$folder/$name.completed"
"""
"""Descriptor 9 is the lock of its name, 8 a place in its array; children must not hold them."""

SERVICE = r"""
import http.server, os, random, sys, threading, time

name, folder, port = sys.argv[1:]
with open(f"{folder}/{name}.starts", "a") as starts:
    print(os.environ["WHARFINGER_KEY"], time.time(), file=starts)
time.sleep(0.5)

class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if os.path.exists(f"{folder}/{name}.mute"):
            time.sleep(60)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", int(port)), Answers)
open(f"{folder}/{name}.listens", "w").close()
threading.Timer(random.uniform(3, 12), os._exit, [7]).start()
server.serve_forever()
"""
"""Ready after half a second; crashes after a while; does not answer while there is a file."""


@dataclass
class Book:
    """What users were told.

    Attributes:
        acknowledged: How many submissions of each name were answered.
        asked: How many were sent.
        stopped: When the stop of each was answered, in seconds since the epoch.
        unsure: Those that a user stopped, restarted, suspended or deleted, answered or not.
        deleted: Those of which a deletion was answered.
    """

    acknowledged: Counter[str] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)
    stopped: dict[str, float] = field(default_factory=dict)
    unsure: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    cordoned: bool = False


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[LiveManager]:
    cpus = os.cpu_count() or 1
    servers = "a=0" if cpus == 1 else "a=0,b=1"
    manager = LiveManager(tmp_path / "state", "--servers", servers, "--policy", "least-loaded")
    try:
        yield manager
    finally:
        manager.kill()
        runs = manager.runs()
        kill_processes_with(str(tmp_path))
        for path in runs:
            kill_orphans(path)


class Users:
    """They submit, again, and stop, restart, suspend, resume, delete, cordon and drain."""

    def __init__(
        self, manager: LiveManager, folder: Path, chance: random.Random, port: int
    ) -> None:
        self.manager = manager
        self.folder = folder
        self.chance = chance
        self.book = Book()
        self.port = port
        self.made = 0
        self.manifests: dict[str, dict[str, Any]] = {}
        self.calls: list[tuple[subprocess.Popen[str], str, list[str], int]] = []

    def program(self, name: str, does: str, awaited: str = "", **spec: Any) -> dict[str, Any]:
        """A manifest of ``PROGRAM``."""
        run = spec.pop("run", {})
        words = ("sh", "-c", PROGRAM, "program", name, str(self.folder), does, awaited)
        made = manifest(name, *words, **spec)
        made["spec"]["run"].update(run)
        made["spec"].setdefault("resources", {"cpu": "50m", "memory": "64Mi"})
        made["spec"]["resources"] = {"cpu": "50m", "memory": "64Mi"}
        made["spec"]["profile"] = {"mode": "none"}
        self.manifests[name] = made
        return made

    def begin(self) -> None:
        """What is there from the first moment on: a service, a schedule, who waits for both."""
        command = ["python3", "-c", SERVICE, "service", str(self.folder), str(self.port)]
        service = manifest(
            "service", *command, type="latency-critical", target={"throughput": "1/s"}
        )
        service["spec"]["profile"] = {"mode": "none"}
        service["spec"]["run"].update(
            ready={"port": self.port, "every": "200ms"},
            alive={
                "http": f"http://127.0.0.1:{self.port}/",
                "every": "500ms",
                "timeout": "500ms",
                "failures": 2,
            },
            restart={"policy": "always", "limit": 1000, "backoff": "100ms"},
        )
        self.manifests["service"] = service
        client = self.program("client", "short", "service.listens", after={"ready": ["service"]})
        clock = self.program(
            "clock", "short", schedule={"cron": "* * * * *", "missed": "run"}, priority=5
        )
        never = self.program(
            "clock-skip", "short", schedule={"cron": "* * * * *", "missed": "skip"}
        )
        self.manager.start()
        manifests = [service, client, clock, never]
        self.manager.submit(*manifests)
        names = [found["metadata"]["name"] for found in manifests]
        self.book.asked.update(names)
        self.book.acknowledged.update(names)

    def act(self) -> None:
        """Something that users would do now."""
        if len(self.manager.runs()) < 150 and self.chance.random() < 0.6:
            self.submit(self._group())
        for _ in range(self.chance.randint(1, 3)):
            self._ask()
        if self.chance.random() < 0.2:
            again = self.chance.sample(sorted(self.book.acknowledged), 1)
            again = [n for n in again if n not in self.book.stopped and n in self.manifests]
            once = self.chance.random() < 0.5
            self.submit([self.manifests[name] for name in again], once=once)
        mute = self.folder / "service.mute"
        if self.chance.random() < 0.15:
            mute.touch()
        elif mute.exists():
            mute.unlink()

    def submit(self, manifests: list[dict[str, Any]], *, once: bool = False) -> None:
        """All in one file."""
        if not manifests:
            return
        names = [found["metadata"]["name"] for found in manifests]
        self.book.asked.update(names)
        words = ["submit", *(["--once"] if once else []), "-f", "-"]
        call = self.manager.popen(*words, text=as_file(*manifests))
        self.calls.append((call, "submit", names, 0))

    def hang_up(self, seconds: float = 0.0) -> None:
        """Note which answers have come; those that did not come for three managers are given up."""
        waiting = []
        for call, what, names, managers in self.calls:
            try:
                _, errors = call.communicate(timeout=max(seconds, 0.05))
            except subprocess.TimeoutExpired:
                if managers < 3 and not seconds:
                    waiting.append((call, what, names, managers + 1))
                    continue
                call.kill()
                _, errors = call.communicate()
            assert call.returncode != INVALID, errors
            if call.returncode == 0:
                self._note(what, names)
        self.calls = waiting

    def _note(self, what: str, names: list[str]) -> None:
        if what == "submit":
            self.book.acknowledged.update(names)
        elif what == "stop":
            self.book.stopped.update(dict.fromkeys(names, time.time()))
        elif what == "delete":
            self.book.deleted.update(names)

    def _group(self) -> list[dict[str, Any]]:
        """Some that fail, some that are limited, an array, and those that wait for all that."""
        self.made += 1
        n = self.made
        restart = {"policy": "on-failure", "limit": LIMIT, "backoff": "100ms"}
        members = self.program(f"array{n}", "member", array=f"0-5%{AT_ONCE}")
        # The shell's own name is the member's.
        members["spec"]["run"]["command"] = [
            "sh",
            "-c",
            f'set -- "array{n}-$WHARFINGER_ARRAY_INDEX" {self.folder} member "" array{n}\n'
            + PROGRAM,
        ]
        awaited = " ".join(f"array{n}-{index}.completed" for index in range(6))
        return [
            self.program(f"fails{n}", "fails", run={"restart": restart}),
            self.program(f"recovers{n}", "recovers", run={"restart": restart}),
            self.program(f"hangs{n}", "hangs", run={"timeLimit": "5s"}),
            self.program(f"waits{n}", "waits", run={"restartable": True}),
            members,
            self.program(f"after-array{n}", "short", awaited, after={"completed": [f"array{n}"]}),
            self.program(
                f"after-failed{n}", "short", f"fails{n}.starts", after={"ended": [f"fails{n}"]}
            ),
            self.program(
                f"last{n}",
                "short",
                f"recovers{n}.completed",
                after={"completed": [f"recovers{n}"]},
            ),
        ]

    def _ask(self) -> None:
        """About one of those whose ends nothing else is said of."""
        known = [n for n in self.book.acknowledged if n.startswith(("waits", "recovers", "hangs"))]
        if known:
            name = self.chance.choice(known)
            verb = self.chance.choice(["stop", "restart", "suspend", "resume", "resume", "delete"])
            if name not in self.book.stopped and name not in self.book.deleted:
                self.book.unsure.add(name)
                self.calls.append((self.manager.popen(verb, name), verb, [name], 0))
        if "b" in self.manager.options[1] and self.chance.random() < 0.3:
            verb = self.chance.choice(["cordon", "drain", "uncordon", "uncordon"])
            self.calls.append((self.manager.popen(verb, "b"), verb, [], 0))


def _kill_the_meter(manager: LiveManager) -> None:
    """A process of the manager's own, which it starts again."""
    assert manager.process is not None
    words = ["pgrep", "-P", str(manager.process.pid), "-f", "wharfinger.monitor.meter"]
    found = subprocess.run(words, check=False, capture_output=True, text=True).stdout.split()
    for pid in found:
        with suppress(ProcessLookupError):  # It has ended since.
            os.kill(int(pid), signal.SIGKILL)


@pytest.mark.long
def test_kills_double_and_forget_no_run(manager: LiveManager, tmp_path: Path, port: int) -> None:
    seed = int(os.environ.get("WHARFINGER_KILL_SEED", "20"))
    chance = random.Random(seed)
    folder = tmp_path / "notes"
    folder.mkdir()
    users = Users(manager, folder, chance, port)
    users.begin()
    for _ in range(KILLS):
        if manager.process is None:
            manager.start(wait=chance.random() < 0.8)
        users.act()
        time.sleep(chance.uniform(0.0, 3.0))
        if chance.random() < 0.2:
            _kill_the_meter(manager)
        manager.kill()
        users.hang_up()
    manager.start()
    users.hang_up(60)
    (folder / "service.mute").unlink(missing_ok=True)
    if "b" in manager.options[1]:
        manager.run("uncordon", "b")
    goes_on = ("service", "clock", "clock-skip")
    suspended = [n for n, w in manager.workloads().items() if w["paused"] and _lives(w)]
    for name in suspended:
        manager.run("resume", name)
    found = manager.wait_for(
        lambda all_: all(w["phase"] in ENDED for n, w in all_.items() if n not in goes_on), 600
    )
    told = f"seed {seed}"
    _nothing_doubled(folder, told)
    _all_acknowledged_have_effect(found, users.book, folder, told)
    manager.run("wait", "service", "--for", "ready", "--timeout", "60s")
    _one_end_for_all(manager, folder)
    counts = Counter(w["phase"] for w in found.values())
    starts = sum(len(path.read_text().splitlines()) for path in folder.glob("*.starts"))
    print(f"\n{KILLS} kills, {told}: {len(found)} workloads, {starts} starts, {dict(counts)}")


def _lives(workload: dict[str, Any]) -> bool:
    return workload["phase"] not in ENDED


def _starts(folder: Path, name: str) -> list[tuple[str, float]]:
    """Keys and times of a program's starts, as it wrote them down."""
    path = folder / f"{name}.starts"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(key, float(at)) for key, at in (line.split() for line in lines)]


def _nothing_doubled(folder: Path, told: str) -> None:
    """Nothing twice at the same time, no key twice, no array above its limit, nothing early."""
    for mark in ("DOUBLE", "FULL", "EARLY"):
        path = folder / mark
        assert not path.exists(), f"{mark}, {told}: {path.read_text()}"
    for path in folder.glob("*.starts"):
        keys = [key for key, _ in _starts(folder, path.stem)]
        assert len(keys) == len(set(keys)), (
            f"{path.stem} was started twice by a key, {told}: {keys}"
        )


def _all_acknowledged_have_effect(
    found: dict[str, dict[str, Any]], book: Book, folder: Path, told: str
) -> None:
    arrays = {workload["name"].partition("-")[0] for workload in found.values()}
    lost = {n for n in book.acknowledged if n not in found and n not in arrays}
    assert lost <= book.unsure, f"forgotten, {told}: {sorted(lost - book.unsure)}"
    for name, at in book.stopped.items():
        late = [start for start in _starts(folder, name) if start[1] > at]
        assert not late or book.asked[name] > 1, f"{name} started after its stop at {at}: {late}"
    for name in book.deleted:
        assert name not in found or book.asked[name] > 1, name
    for name, workload in found.items():
        about = f"{name}, {told}: {workload}"
        stated = name.partition("-")[0] if name.startswith("array") else name
        if name in book.unsure:
            continue  # A restart of one that has ended is a new run, too.
        if stated in book.asked:
            assert workload["run"] <= book.asked[stated] or name.startswith("clock"), about
        runs = max(workload["run"], 1)
        starts = len(_starts(folder, name))
        if name.startswith("fails"):
            assert workload["phase"] == "failed", about
            assert starts == runs * (LIMIT + 1), about
            assert workload["restarts"] == LIMIT, about
        elif name.startswith("hangs"):
            assert workload["phase"] == "failed", about
            assert "time limit" in workload["message"], about
            assert starts == runs, about
        elif name.startswith("recovers"):
            assert workload["phase"] == "completed", about
            assert workload["restarts"] == (LIMIT if runs == 1 else 0), about
        elif name.startswith(("array", "after-", "client")):
            assert workload["phase"] == "completed", about
            assert starts == runs, about


def _one_end_for_all(manager: LiveManager, folder: Path) -> None:
    """One request ends all; then no process, no control group, and no run unknown is left."""
    known = {path.name for path in manager.runs()}
    assert manager.process is not None
    manager.run("delete", "--all", "--phase", "ended")
    manager.run("down", "--all")
    assert manager.process.wait(120) == 0
    assert manager.process.stdout is not None
    manager.process.stdout.close()
    manager.process = None
    expect_no_processes_with(str(folder))
    left = [name for _, names, _ in os.walk("/sys/fs/cgroup") for name in names if name in known]
    assert left == []
    with SqliteStore.open(manager.state) as store:
        events = [decode_event(entry.kind, entry.payload) for entry in store.read()]
    due = [(event.name, event.due_at) for event in events if isinstance(event, ev.RunScheduled)]
    assert len(due) == len(set(due)), f"a time came twice: {due}"
    times = sum(name == "clock" for name, _ in due)
    # The last of them waits for its time, or was stopped as it came.
    assert times - 1 <= len(_starts(folder, "clock")) <= times
    started = Counter(event.key for event in events if isinstance(event, ev.WorkloadStarted))
    assert max(started.values()) == 1
    manager.start()
    manager.workloads()
    assert manager.stop() == 0
    replay = Core(make_policy("least-loaded"))
    with SqliteStore.open(manager.state) as store:
        for entry in store.read():
            replay.apply(entry.time, decode_event(entry.kind, entry.payload))
    records = replay.state.workloads.values()
    known = {key for record in records for key in (record.key, record.previous_key)}
    assert {path.name for path in manager.runs()} <= known
