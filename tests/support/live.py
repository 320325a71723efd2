"""A real manager process on a state directory of its own, driven as a user drives it."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support import hurried, wait_until
from tests.support.sandboxes import AS_NOBODY, NOBODY
from wharfinger.host.run_dir import RunRecord, read_run

ENDED = {"completed", "failed", "vanished", "revoked", "rejected"}


class LiveManager:
    """Starts, kills and asks ``wharfinger up``.

    Args:
        state: Its directory.
        options: Of ``up``.
        hurry: What is changed in its process (``tests.support.hurried``); ``None`` = nothing.
        prefix: Before its command, to run it as somebody else.
        python: That runs it.
        env: Added to its environment.
    """

    def __init__(
        self,
        state: Path,
        *options: str,
        hurry: dict[str, Any] | None = None,
        prefix: Sequence[str] = (),
        python: str = sys.executable,
        env: dict[str, str] | None = None,
    ) -> None:
        self.state = state
        self.options = options
        self.hurry = hurry
        self.prefix = prefix
        self.python = python
        self.env = env or {}
        self.process: subprocess.Popen[str] | None = None
        self.announced: list[str] = []

    # --- its process ---

    def start(self, *, wait: bool = True) -> None:
        """Start it; by default wait until it says that it is ready."""
        ours = ["-m", "wharfinger"]
        if self.hurry is not None:
            ours = ["-c", Path(hurried.__file__).read_text(), json.dumps(self.hurry)]
        up = ["up", "--state", str(self.state), *self.options]
        self.process = subprocess.Popen(
            [*self.prefix, self.python, *ours, *up],
            env={**os.environ, **self.env},
            stdout=subprocess.PIPE,
            stderr=(self.state.parent / "manager.err").open("a"),
            text=True,
            start_new_session=True,
        )
        if wait:
            self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """After a start without waiting: until it says so."""
        assert self.process is not None
        assert self.process.stdout is not None
        self.announced = []
        for line in self.process.stdout:
            self.announced.append(line)
            if line.strip() == "ready":
                return
        raise AssertionError(f"no manager: {self.announced} {self.errors()}")

    def kill(self) -> None:
        """End it as a crash would."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            assert self.process.stdout is not None
            self.process.stdout.close()
            self.process = None

    def stop(self) -> int:
        """End it in peace; its exit status."""
        assert self.process is not None
        self.process.terminate()
        status = self.process.wait(timeout=60)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process = None
        return status

    def clear(self) -> None:
        """End all that it runs, and it, if it does."""
        if self.process is not None:
            self.run("delete", "--all")
            self.wait_for_all()
            self.stop()

    def errors(self) -> str:
        """All that it wrote to standard error."""
        path = self.state.parent / "manager.err"
        return path.read_text() if path.exists() else ""

    # --- its users ---

    def popen(self, *arguments: str, text: str | None = None) -> subprocess.Popen[str]:
        """A command of ours, not waited for."""
        process = subprocess.Popen(
            [sys.executable, "-m", "wharfinger", "--state", str(self.state), *arguments],
            stdin=subprocess.PIPE if text is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Whoever runs the tests in the background hands down an ignored interrupt.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509 - no threads here
        )
        if text is not None:
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(text)
                process.stdin.close()
            process.stdin = None
        return process

    def run(self, *arguments: str, text: str | None = None, status: int = 0) -> str:
        """A command of ours; its output."""
        process = self.popen(*arguments, text=text)
        output, errors = process.communicate(timeout=120)
        assert process.returncode == status, (arguments, process.returncode, output, errors)
        return output if status == 0 else errors

    def submit(self, *manifests: dict[str, Any]) -> str:
        """Submit workloads, all in one file."""
        return self.run("submit", "-f", "-", text=as_file(*manifests))

    def workloads(self) -> dict[str, dict[str, Any]]:
        """All workloads by name."""
        found = json.loads(self.run("get", "workloads", "-o", "json"))
        return {workload["name"]: workload for workload in found}

    def wait_for(
        self, condition: Callable[[dict[str, dict[str, Any]]], bool], timeout_seconds: float = 120
    ) -> dict[str, dict[str, Any]]:
        """Ask until the workloads are as wanted."""
        deadline = time.monotonic() + timeout_seconds
        while True:
            found = self.workloads()
            if condition(found):
                return found
            if time.monotonic() >= deadline:
                explained = [self.run("explain", name, "-o", "wide") for name in found]
                raise AssertionError("\n".join([str(found), *explained]))
            time.sleep(0.1)

    def wait_for_all(self, timeout_seconds: float = 120) -> dict[str, dict[str, Any]]:
        """Wait until everything has ended."""
        return self.wait_for(
            lambda found: all(w["phase"] in ENDED for w in found.values()), timeout_seconds
        )

    # --- what it leaves on disk ---

    def runs(self) -> dict[Path, RunRecord]:
        """Every run directory and what its records say."""
        folder = self.state / "runs"
        found = {}
        for path in sorted(folder.iterdir()) if folder.is_dir() else []:
            with contextlib.suppress(Exception):
                found[path] = read_run(path)
        return found


@dataclass(frozen=True, slots=True)
class OrdinaryUser:
    """Somebody who is not root.

    Attributes:
        folder: Of their own.
        python: That they can run.
        env: With which it finds this package.
    """

    folder: Path
    python: str
    env: dict[str, str]

    def manager(self, *options: str, hurry: dict[str, Any] | None = None) -> LiveManager:
        """One of theirs, not started yet."""
        return LiveManager(
            self.folder / "state",
            *options,
            hurry=hurry,
            prefix=AS_NOBODY,
            python=self.python,
            env={**self.env, "HOME": str(self.folder)},
        )


@contextlib.contextmanager
def ordinary_user() -> Iterator[OrdinaryUser]:
    """Needs root, to become another; skips where others can't read this package.

    Afterwards no process with their folder in its environment may be left.
    """
    home = Path(tempfile.mkdtemp(prefix="wharfinger-user-", dir="/var/tmp"))
    try:
        home.chmod(0o755)
        folder = home / "theirs"
        folder.mkdir()
        os.chown(folder, NOBODY, NOBODY)
        packages = str(Path(sys.modules["wharfinger"].__path__[0]).parent)
        env = {"PYTHONPATH": packages, "PATH": "/usr/local/bin:/usr/bin:/bin"}
        user = OrdinaryUser(folder, "/usr/bin/python3", env)
        command = [*AS_NOBODY, user.python, "-c", "import fastapi, wharfinger.runtime.assembly"]
        tried = subprocess.run(
            command, env=env, cwd="/", check=False, capture_output=True, text=True
        )
        if tried.returncode:
            pytest.skip(f"no Python with our packages for others: {tried.stderr[-200:]}")
        yield user
        expect_no_processes_with(str(home))
    finally:
        shutil.rmtree(home)


def manifest(name: str, *command: str, **spec: Any) -> dict[str, Any]:
    """A small workload."""
    return {
        "apiVersion": "wharfinger.dev/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": name},
        "spec": {
            "type": "batch",
            "resources": {"cpu": "100m", "memory": "64Mi"},
            "run": {"command": list(command), "workingDir": "/", "stopGrace": "1s"},
            **spec,
        },
    }


def as_file(*manifests: dict[str, Any]) -> str:
    """Many documents in one file."""
    return "\n---\n".join(map(json.dumps, manifests))


def processes_with(text: str) -> list[int]:
    """Processes that have ``text`` in their environment or command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            both = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
            if text.encode() in both:
                found.append(int(entry.name))
    return found


def expect_no_processes_with(text: str) -> None:
    """Once those that are just ending have."""
    wait_until(lambda: not processes_with(text), what=f"no process has {text}")


def kill_processes_with(text: str) -> None:
    """Kill what a test may have left; some end by themselves between listing and killing."""
    for pid in processes_with(text):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
