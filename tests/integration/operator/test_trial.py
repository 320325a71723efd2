"""The operator's trial: programs of Debian's packages under a manager, by the command line only.

Each test runs under a manager of root, with cgroups where the machine has them, and under one of
an ordinary user, without. How fast things go is told and not judged: the machine may be busy.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.integration.operator import programs
from tests.support import wait_until
from tests.support.live import (
    ENDED,
    LiveManager,
    expect_no_processes_with,
    ordinary_user,
    processes_with,
)
from tests.support.sandboxes import NOBODY

pytestmark = pytest.mark.long

TOKEN = "0123456789abcdef"
READY_SECONDS = 240.0
MET_SECONDS = 45


@dataclass
class Trial:
    """A manager with two servers and TCP, and the folders of what it runs.

    Attributes:
        folder: Its own; ``owner`` can write there.
        url: Where it listens on TCP.
    """

    manager: LiveManager
    folder: Path
    owner: int
    url: str = ""
    made: list[Path] = field(default_factory=list)

    @property
    def is_root(self) -> bool:
        return self.owner == 0

    def start(self) -> None:
        self.manager.start()
        (line,) = (line for line in self.manager.announced if line.startswith("listening on"))
        self.url = line.split()[-1]

    def place(self, *, owner: int | None = None) -> Path:
        """A new folder for a program."""
        made = Path(tempfile.mkdtemp(dir=self.folder))
        os.chown(made, owner or self.owner, owner or self.owner)
        made.chmod(0o755)
        return made

    def run(self, *arguments: str, status: int = 0, text: str | None = None) -> str:
        return self.manager.run(*arguments, status=status, text=text)

    def submit(self, *manifests: dict[str, Any]) -> str:
        return self.manager.submit(*manifests)

    def find(self, name: str) -> dict[str, Any]:
        return self.manager.workloads()[name]

    def wait(self, name: str, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The workload, once it is as wanted."""
        deadline = time.monotonic() + READY_SECONDS
        while not condition(found := self.find(name)):
            if time.monotonic() > deadline:
                pytest.fail(f"{found}\n{self.run('explain', name)}\n{self.manager.errors()}")
            time.sleep(0.2)
        return found

    def is_ready(self, name: str, *, starts: int = 1) -> dict[str, Any]:
        return self.wait(
            name,
            lambda w: w["phase"] == "running" and bool(w["ready"]) and w["starts"] >= starts,
        )

    def tell_met(self, name: str) -> None:
        """Wait for its target; where it is missed, why."""
        call = self.manager.popen("wait", name, "--for", "met", "--timeout", f"{MET_SECONDS}s")
        out, errors = call.communicate(timeout=MET_SECONDS + 60)
        print(f"{name}: {(out + errors).strip()}")
        if call.returncode:
            assert call.returncode == 3, errors
            print(self.run("explain", name))

    def killed(self, name: str) -> int:
        """End its program from outside; the process that it was."""
        pid = pid_of(self.find(name))
        os.kill(pid, signal.SIGKILL)
        return pid


def pid_of(workload: dict[str, Any]) -> int:
    return int(workload["handle"].removeprefix("pid "))


@pytest.fixture(scope="module", params=["root", "user"])
def trial(request: pytest.FixtureRequest) -> Iterator[Trial]:
    """What all tests of a kind share; afterwards nothing of it is left."""
    options = ("--servers", "one=0,two=0", "--listen", "127.0.0.1:0")
    if len(os.sched_getaffinity(0)) > 1:
        options = ("--servers", "one=0,two=1", "--listen", "127.0.0.1:0")
    with contextlib.ExitStack() as stack:
        if request.param == "root":
            if os.geteuid() != 0:
                pytest.skip("needs root")
            folder = Path(tempfile.mkdtemp(prefix="wharfinger-operator-", dir="/var/tmp"))
            stack.callback(shutil.rmtree, folder)
            folder.chmod(0o755)
            manager = LiveManager(folder / "state", *options)
        elif os.geteuid() == 0:
            user = stack.enter_context(ordinary_user())
            folder, manager = user.folder, user.manager(*options)
        else:
            folder = Path(tempfile.mkdtemp(prefix="wharfinger-operator-", dir="/var/tmp"))
            stack.callback(shutil.rmtree, folder)
            manager = LiveManager(folder / "state", *options)
        manager.env |= {"WHARFINGER_TOKEN": TOKEN, "WHARFINGER_DEBUG": "1"}
        trial = Trial(manager, folder, folder.stat().st_uid)
        try:
            trial.start()
            yield trial
            if manager.process is not None:
                manager.stop()
            expect_no_processes_with(str(folder))
        finally:
            print(manager.errors())
            manager.kill()
            while left := processes_with(str(folder)):
                for pid in left:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                time.sleep(0.1)


@pytest.fixture(autouse=True)
def leaves_no_processes(trial: Trial) -> Iterator[None]:
    """A test may start another manager, which stays, but no workload; also after a failure."""
    yield
    if trial.manager.process is not None and trial.manager.process.poll() is None:
        trial.run("delete", "--all", "--wait")


def test_a_service_through_its_whole_life(trial: Trial):
    manifest = programs.redis(trial.place())
    assert "created" in trial.submit(manifest)
    first = trial.is_ready("redis")
    assert first["predicted"] is not None, trial.run("explain", "redis")
    print(trial.run("get", "workloads", "-o", "wide"))
    trial.tell_met("redis")
    assert "rps=" in trial.run("logs", "redis", "--load")

    # Crashed: restarted by itself, and seen.
    pid = trial.killed("redis")
    second = trial.wait("redis", lambda w: w["restarts"] == 1 and bool(w["ready"]))
    assert (second["run"], second["starts"]) == (1, 2)
    assert pid_of(second) != pid
    assert "Restarts:     1x" in trial.run("describe", "redis")
    assert "Ready to accept connections" in trial.run("logs", "redis", "--previous")

    # Restarted by hand.
    trial.run("restart", "redis")
    third = trial.is_ready("redis", starts=3)
    assert third["run"] == 1

    # The manager crashes, and the next finds the same program.
    trial.manager.kill()
    trial.start()
    assert pid_of(trial.is_ready("redis")) == pid_of(third)
    port = manifest["spec"]["run"]["ready"]["port"]
    assert trial.run("exec", "redis", "--", "redis-cli", "-p", str(port), "ping") == "PONG\n"
    trial.run("exec", "redis", "--", "sh", "-c", "exit 9", status=9)

    # Other wishes, in place.
    told = trial.run("update", "redis", "--throughput", "100/s", "--memory", "192Mi", "--dry-run")
    assert "100/s" in told
    assert trial.find("redis")["target"]["throughput_per_second"] == 150
    trial.run("update", "redis", "--throughput", "100/s", "--memory", "192Mi")
    updated = trial.wait("redis", lambda w: w["memory_bytes"] == 192 << 20)
    assert updated["target"]["throughput_per_second"] == 100
    assert pid_of(updated) == pid_of(third)

    trial.run("suspend", "redis")
    trial.wait("redis", lambda w: w["paused"] and w["phase"] == "suspended")
    trial.run("resume", "redis")
    trial.is_ready("redis")

    # Stopped, and submitted again: another run of the same workload.
    trial.run("stop", "redis", "--wait")
    assert "Ready to accept connections" in trial.run("logs", "redis")
    assert "run 2 begins" in trial.submit(manifest)
    assert trial.is_ready("redis")["run"] == 2
    runs = json.loads(trial.run("history", "redis", "-o", "json"))
    assert [run["run"] for run in runs] == [1]
    assert runs[0]["restarts"] == third["restarts"]
    trial.run("delete", "redis", "--wait")
    assert "redis" not in trial.manager.workloads()


@pytest.mark.parametrize("name", ["nginx", "memcached", "postgresql"])
def test_a_service_is_predicted_met_and_restarted(trial: Trial, name: str):
    made = {"nginx": programs.nginx, "memcached": programs.memcached}
    trial.submit(made[name](trial.place()) if name in made else database(trial))
    first = trial.is_ready(name)
    assert first["predicted"] is not None, trial.run("explain", name)
    trial.tell_met(name)
    pid = trial.killed(name)
    again = trial.wait(name, lambda w: w["restarts"] >= 1 and bool(w["ready"]))
    assert pid_of(again) != pid
    trial.run("stop", name, "--wait")
    assert trial.find(name)["phase"] == "revoked"


def database(trial: Trial) -> dict[str, Any]:
    """PostgreSQL refuses to run as root: there it runs as another user."""
    owner = NOBODY if trial.is_root else trial.owner
    folder = trial.place(owner=owner)
    manifest = programs.postgresql(folder, user="nobody" if trial.is_root else None)
    initdb = [programs.find("initdb") or "", "-D", "data", "-U", "trial", "--no-sync"]
    more = {} if owner == os.geteuid() else {"user": owner, "group": owner, "extra_groups": ()}
    subprocess.run(
        [*initdb, "-A", "trust"], cwd=folder, check=True, stdout=subprocess.DEVNULL, **more
    )
    return manifest


@pytest.mark.parametrize("name", ["xz", "ffmpeg"])
def test_a_batch_job_is_done_in_time_and_runs_again(trial: Trial, name: str):
    manifest = getattr(programs, name)(trial.place())
    trial.submit(manifest)
    done = trial.wait(name, lambda w: w["phase"] in ENDED)
    assert done["phase"] == "completed", trial.run("explain", name)
    assert done["predicted"] is not None
    print(trial.run("get", "workloads", "-o", "wide"))
    assert "run 2 begins" in trial.submit(manifest)
    trial.wait(name, lambda w: w["run"] == 2 and w["phase"] == "running")
    assert "completed" in trial.run("history", name)


def test_a_server_is_drained_and_taken_back(trial: Trial):
    def sleeper(name: str, *, restartable: bool) -> dict[str, Any]:
        run = {"command": ["sleep", "1000"], "workingDir": "/", "restartable": restartable}
        return programs.document(name, type="batch", run=run)

    trial.submit(sleeper("moves", restartable=True), sleeper("stays", restartable=False))
    (moves, stays) = (trial.is_ready(name) for name in ("moves", "stays"))
    for server in sorted({moves["servers"][0], stays["servers"][0]}):
        trial.run("drain", server)
        trial.wait(
            "moves", lambda w, left=server: w["phase"] == "running" and w["servers"] != [left]
        )
        assert trial.find("stays")["servers"] == stays["servers"]
        listed = {
            found["name"]: found for found in json.loads(trial.run("get", "srv", "-o", "json"))
        }
        assert listed[server]["draining"]
        trial.run("uncordon", server)
    trial.run("cordon", "one")
    trial.run("cordon", "two")
    trial.submit(sleeper("late", restartable=False))
    assert trial.find("late")["phase"] == "queued"
    assert "cordoned" in trial.run("explain", "late")
    trial.run("uncordon", "two")
    assert trial.is_ready("late")["servers"] == ["two"]
    trial.run("uncordon", "one")


def test_limits_arrays_and_what_waits_for_them(trial: Trial):
    here = {"workingDir": "/"}
    limited = {"command": ["sleep", "1000"], "timeLimit": "1s", "stopGrace": "1s", **here}
    member = {"command": ["sh", "-c", "echo $WHARFINGER_ARRAY_INDEX; sleep 2"], **here}
    trial.submit(
        programs.document("limited", type="batch", run=limited),
        programs.document("sweep", type="batch", array="1-4%2", run=member),
        programs.document(
            "last", type="batch", after={"completed": ["sweep"]}, run={"command": ["true"], **here}
        ),
    )
    assert trial.find("last")["phase"] not in {"running", *ENDED}
    trial.wait("sweep-1", lambda w: w["starts"] == 1)
    trial.manager.kill()
    trial.start()
    trial.wait("last", lambda w: w["phase"] in ENDED)
    trial.run("wait", "last", "--for", "completed", "--timeout", "100s")
    found = trial.manager.workloads()
    assert [found[f"sweep-{n}"]["starts"] for n in (1, 2, 3, 4)] == [1, 1, 1, 1]
    assert trial.run("logs", "sweep-3") == "3\n"
    ended = trial.wait("limited", lambda w: w["phase"] in ENDED)
    assert (ended["phase"], ended["reason"]) == ("failed", "time-limit")


def test_a_user_of_choice(trial: Trial):
    run = {"command": ["id", "-un"], "user": "nobody", "workingDir": "/"}
    text = json.dumps(programs.document("who", type="batch", run=run))
    if trial.is_root:
        trial.run("submit", "--wait", "-f", "-", text=text)
        assert trial.run("logs", "who") == "nobody\n"
        run["user"] = "no-such-user"
        text = json.dumps(programs.document("nobody-there", type="batch", run=run))
        assert "no-such-user" in trial.run("submit", "-f", "-", text=text, status=2)
    elif trial.owner != NOBODY:
        assert "user" in trial.run("submit", "-f", "-", text=text, status=2)


def test_over_tcp_with_a_token(trial: Trial, tmp_path: Path):
    token = tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)

    def call(
        *arguments: str, text: str = "", key: Path = token
    ) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "wharfinger", "--server", trial.url, "--token-file"]
        return subprocess.run(
            [*command, str(key), *arguments],
            input=text,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    script = "echo begins; sleep 1000"
    run = {"command": ["sh", "-c", script], "workingDir": "/", "stopGrace": "1s"}
    text = json.dumps(programs.document("far", type="batch", run=run))
    wrong = tmp_path / "wrong"
    wrong.write_text("0123456789abcdee")
    wrong.chmod(0o600)
    refused = call("submit", "-f", "-", text=text, key=wrong)
    assert (refused.returncode, "refuses the token" in refused.stderr) == (2, True), refused
    for arguments, told in (
        (("submit", "-f", "-"), "created"),
        (("wait", "far", "--for", "running", "--timeout", "90s"), "far"),
        (("get", "wl"), "running"),
        (("explain", "far"), "far runs on"),
        (("logs", "far"), "begins"),
        (("exec", "far", "--", "echo", "inside"), "inside"),
        (("restart", "far"), "restarting"),
        (("history",), ""),
        (("delete", "far", "--wait"), "far"),
    ):
        if arguments[0] == "logs":  # It runs before it has said anything.
            wait_until(lambda: "begins" in call("logs", "far").stdout, what="its output")
        done = call(*arguments, text=text if arguments[0] == "submit" else "")
        assert (done.returncode, told in done.stdout) == (0, True), (arguments, done)
    assert "far" not in trial.manager.workloads()


def test_zz_down_ends_everything(trial: Trial):
    run = {"command": ["sleep", "1000"], "workingDir": "/", "env": {"OF": str(trial.folder)}}
    trial.submit(programs.document("lasting", type="batch", run=run))
    pid = pid_of(trial.is_ready("lasting"))
    trial.run("down", "--all")
    process = trial.manager.process
    assert process is not None
    assert process.wait(timeout=60) == 0
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), what="it is gone")
    assert "Traceback" not in trial.manager.errors()
    trial.manager.kill()
    expect_no_processes_with(str(trial.folder))
