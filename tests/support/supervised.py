"""What the supervisor's tests share: real runs, waited for and cleaned up."""

import os
import select
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path

from wharfinger.host.processes import KEY_VARIABLE, kill_orphans, marker_of, open_pidfd
from wharfinger.host.run_dir import ExitRecord, RunRecord, read_output, read_run
from wharfinger.host.supervisor import (
    LaunchSpec,
    Supervisor,
    SupervisorStatus,
    launch,
    request_stop,
)

DEADLINE_SECONDS = 60.0
_numbers = count()


def until(condition: Callable[[], object], what: str = "") -> None:
    """Wait for a state; the pause between looks is a wait on nothing, not on time."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"never came true: {what or condition}"
        select.select([], [], [], 0.005)


def marked_pids(key: str) -> list[int]:
    """Every living process that carries the key in its environment."""
    marker = f"{KEY_VARIABLE}={key}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if marker in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


class Run:
    """One run directory and the supervisors that were launched on it."""

    def __init__(self, run_dir: Path, key: str) -> None:
        self.run_dir = run_dir
        self.key = key
        self.supervisors: list[Supervisor] = []
        run_dir.mkdir(mode=0o700)

    def spec(self, *command: str, **fields: object) -> LaunchSpec:
        # Not the caller's PATH: a folder in it that we may not search turns ENOENT into EACCES.
        env = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            **marker_of(self.run_dir),
            "RUN": str(self.run_dir),
        }
        spec = LaunchSpec(command=command, env=env, working_directory=self.run_dir.parent)
        return replace(spec, **fields)  # type: ignore[arg-type]  # the tests' own field names

    def launch(self, *command: str, **fields: object) -> Supervisor:
        supervisor = launch(self.run_dir, self.spec(*command, **fields))
        self.supervisors.append(supervisor)
        return supervisor

    def sh(self, script: str, **fields: object) -> Supervisor:
        return self.launch("sh", "-c", script, **fields)

    def record(self) -> RunRecord:
        return read_run(self.run_dir)

    def started(self) -> RunRecord:
        until(lambda: self.record().started or self.record().exit, "started")
        return self.record()

    def status(self, supervisor: Supervisor | None = None) -> SupervisorStatus:
        """How a supervisor ended, after waiting for it."""
        supervisor = supervisor or self.supervisors[-1]
        ready, _, _ = select.select([supervisor], [], [], DEADLINE_SECONDS)
        assert ready, "the supervisor did not end"
        status = supervisor.poll()
        assert status is not None
        return status

    def end(self) -> ExitRecord:
        """The exit record, after waiting for it."""
        assert self.status() == SupervisorStatus.DONE, self.supervisors[-1].fault()
        record = self.record().exit
        assert record is not None
        return record

    def stop(self, grace_seconds: float) -> None:
        request_stop(self.run_dir, self.supervisors[-1].pidfd, grace_seconds)

    def output(self) -> bytes:
        return read_output(self.run_dir, 0, 1 << 30)[0]

    def clean_up(self) -> None:
        for supervisor in self.supervisors:
            if supervisor.poll() is None:
                request_stop(self.run_dir, supervisor.pidfd, 0)
                self.status(supervisor)
            supervisor.close()
        identity = self.record().supervisor if self.run_dir.is_dir() else None
        pidfd = open_pidfd(identity) if identity else None
        if pidfd is not None:
            request_stop(self.run_dir, pidfd, 0)
            select.select([pidfd], [], [], DEADLINE_SECONDS)
            os.close(pidfd)
        if identity and self.record().exit is None:
            kill_orphans(self.run_dir)
        shutil.rmtree(self.run_dir, ignore_errors=True)


class Runs:
    """Makes runs beneath one folder, and leaves nothing of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs: list[Run] = []

    def new(self, folder: Path | None = None) -> Run:
        name = f"run-{os.getpid()}-{next(_numbers)}"
        run = Run((folder or self.folder) / name, name)
        self.runs.append(run)
        return run

    def clean_up(self) -> None:
        for run in self.runs:
            run.clean_up()


def launcher_script(run: Run, command: list[str], before: str = "", after: str = "") -> list[str]:
    """Another Python process that launches on the run's directory."""
    script = (
        f"import os, resource, signal, sys\nfrom pathlib import Path\n"
        f"from wharfinger.host.supervisor import LaunchSpec, launch\n{before}\n"
        f"spec = LaunchSpec({tuple(command)!r}, {dict(run.spec('x').env)!r},"
        f" Path({str(run.run_dir.parent)!r}), log_cap_bytes=1 << 20)\n"
        f"supervisor = launch(Path({str(run.run_dir)!r}), spec)\n{after}\n"
    )
    return [sys.executable, "-c", script]
