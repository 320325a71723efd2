"""``wharfinger demo``: the whole loop on this machine, with real programs and a killed manager.

It uses nothing but the command line, as a user would, and says at each step what it does.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

READY_SECONDS = 20.0
END_SECONDS = 120.0

ENDED = {"completed", "failed", "vanished", "revoked", "rejected"}


@dataclass(frozen=True, slots=True)
class Job:
    """One workload of the demo, and how it has to end.

    Attributes:
        about: What it shows.
        phase: The phase in which it has to end.
        exit_code: Its exit code; ``None`` where there must be none.
    """

    name: str
    about: str
    command: tuple[str, ...]
    phase: str = "completed"
    exit_code: int | None = 0
    type: str = "batch"
    cpu: str = "400m"
    stop_grace: str = "10s"

    def manifest(self, directory: Path) -> dict[str, Any]:
        """As a user would write it."""
        return {
            "apiVersion": "wharfinger.dev/v1alpha1",
            "kind": "Workload",
            "metadata": {"name": self.name},
            "spec": {
                "type": self.type,
                "resources": {"cpu": self.cpu, "memory": "128Mi"},
                "run": {
                    "command": list(self.command),
                    "workingDir": str(directory),
                    "stopGrace": self.stop_grace,
                },
            },
        }


def _shell(script: str) -> tuple[str, ...]:
    """A shell command that first notes that it was started."""
    return ("sh", "-c", 'echo started >> "$WHARFINGER_WORKLOAD.starts"; ' + script)


def _jobs() -> list[Job]:
    primes = "print(sum(all(n % d for d in range(2, int(n ** .5) + 1)) for n in range(2, 120000)))"
    count = "for i in $(seq 1 14); do echo step $i; sleep 0.5; done"
    return [
        Job(
            "compress",
            "gzip on 24 MB",
            _shell("head -c 24000000 /dev/urandom | gzip -9 > out.gz && gzip -t out.gz"),
        ),
        Job(
            "hash",
            "sha256 of 300 MB",
            _shell("head -c 300000000 /dev/zero | sha256sum"),
        ),
        Job(
            "sort",
            "sorts a million numbers",
            _shell("seq 1000000 -1 1 | sort -n | tail -n 1"),
        ),
        Job("primes", "Python, counts primes", _shell(f'"{sys.executable}" -c "{primes}"')),
        Job("steps", "prints for 7 s, while the manager is dead too", _shell(count), cpu="100m"),
        Job("fails", "exits with 3", _shell("sleep 4; exit 3"), "failed", 3, cpu="100m"),
        Job(
            "stubborn",
            "ignores SIGTERM, is deleted, and has to go all the same",
            _shell("trap '' TERM; while :; do sleep 0.2; done"),
            "revoked",
            None,
            # It needs no place of its own, so it runs wherever the others leave none.
            type="best-effort",
            stop_grace="1s",
        ),
        Job(
            "daemon",
            "leaves a daemon behind, which must not survive it",
            _shell("setsid sh -c 'echo $$ > daemon.pid; exec sleep 1000' & sleep 2"),
            cpu="100m",
        ),
        Job(
            "filler",
            "best-effort: uses what the others leave",
            _shell('end=$(($(date +%s) + 6)); while [ "$(date +%s)" -lt $end ]; do :; done'),
            type="best-effort",
        ),
        Job("last", "finds no room at first, and waits", _shell("sleep 1"), cpu="900m"),
    ]


class Demo:
    """One run in a directory of its own."""

    def __init__(self, directory: Path, *, quiet: bool) -> None:
        self.directory = directory
        self.state = directory / "state"
        self.quiet = quiet
        self.manager: subprocess.Popen[str] | None = None

    def say(self, text: str = "") -> None:
        """Tell the user, unless only JSON is wanted."""
        if not self.quiet:
            print(text, flush=True)

    def run(self, *arguments: str, show: bool = True) -> str:
        """One command of ours, shown as the user would type it.

        Raises:
            RuntimeError: It failed.
        """
        if show:
            self.say(f"\n$ wharfinger {' '.join(arguments)}")
        done = subprocess.run(
            [sys.executable, "-m", "wharfinger", *arguments, "--state", str(self.state)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"wharfinger {arguments[0]}: {done.stderr.strip()}")
        if show:
            self.say(done.stdout.rstrip())
        return done.stdout

    def start_manager(self) -> None:
        """Start ``wharfinger up`` and wait until it is ready.

        Raises:
            RuntimeError: It did not come up.
        """
        servers = str(min(2, len(os.sched_getaffinity(0))))
        self.say(f"\n$ wharfinger up --servers {servers} &")
        command = ["up", "--servers", servers, "--state", str(self.state)]
        self.manager = subprocess.Popen(
            [sys.executable, "-m", "wharfinger", *command],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self.manager.stdout is not None
        for line in self.manager.stdout:
            self.say(line.rstrip())
            if line.strip() == "ready":
                return
        raise RuntimeError("the manager did not come up")

    def kill_manager(self) -> int:
        """End it as kill -9 does, as a crash would."""
        assert self.manager is not None
        self.manager.send_signal(signal.SIGKILL)
        self.manager.wait()
        return self.manager.pid

    def stop_manager(self) -> None:
        """Let it end in peace."""
        if self.manager is not None and self.manager.poll() is None:
            self.manager.terminate()
            self.manager.wait()

    def workloads(self) -> list[dict[str, Any]]:
        """All workloads, as ``get workloads`` gives them."""
        found: list[dict[str, Any]] = json.loads(
            self.run("get", "workloads", "-o", "json", show=False)
        )
        return found

    def wait_until_started(self, name: str) -> None:
        """Wait until a program has noted its start.

        Raises:
            RuntimeError: It takes too long.
        """
        deadline = time.monotonic() + READY_SECONDS
        while not (self.directory / f"{name}.starts").exists():
            if time.monotonic() > deadline:
                raise RuntimeError(f"{name} was not started within {READY_SECONDS:.0f} s")
            time.sleep(0.1)
        time.sleep(1)  # for something to look at: the others run

    def wait_for_end(self) -> list[dict[str, Any]]:
        """Wait until nothing runs or waits any more.

        Raises:
            RuntimeError: It takes too long.
        """
        deadline = time.monotonic() + END_SECONDS
        while time.monotonic() < deadline:
            workloads = self.workloads()
            live = [w["name"] for w in workloads if w["phase"] not in ENDED]
            if not live:
                return workloads
            time.sleep(0.3)
        raise RuntimeError(f"after {END_SECONDS:.0f} s there still are: {', '.join(live)}")


def check(job: Job, workload: dict[str, Any] | None, directory: Path) -> dict[str, Any]:
    """Whether one workload ended as it had to, started once, and left nothing behind."""
    started = directory / f"{job.name}.starts"
    starts = len(started.read_text().splitlines()) if started.exists() else 0
    found = workload or {"phase": "lost", "exit_code": None}
    problems = []
    if found["phase"] != job.phase:
        problems.append(f"ended as {found['phase']}, not {job.phase}")
    if job.exit_code is not None and found["exit_code"] != job.exit_code:
        problems.append(f"exit code {found['exit_code']}, not {job.exit_code}")
    if starts != 1:
        problems.append(f"was started {starts} times")
    left = directory / "daemon.pid"
    if job.name == "daemon" and left.exists() and Path("/proc", left.read_text().strip()).exists():
        problems.append("its daemon survived it")
    return {
        "name": job.name,
        "passed": not problems,
        "message": "; ".join(problems) or "as it had to",
    }


def play(demo: Demo, jobs: Sequence[Job]) -> dict[str, Any]:
    """The demo's story; returns what ``-o json`` prints."""
    demo.say("A manager starts. Its state is one directory; this machine is its cluster.")
    demo.start_manager()
    manifest = demo.directory / "workloads.yaml"
    manifest.write_text("\n---\n".join(json.dumps(j.manifest(demo.directory)) for j in jobs))
    demo.say("\nTen real programs come in, in one file:")
    for job in jobs:
        demo.say(f"  {job.name:10} {job.about}")
    demo.run("submit", "-f", str(manifest))
    demo.wait_until_started("stubborn")
    demo.run("get", "servers")
    demo.run("get", "workloads")
    demo.say("\nWhy does the last one wait?")
    demo.run("explain", "last")
    demo.run("delete", "stubborn")

    pid = demo.kill_manager()
    demo.say(f"\n$ kill -9 {pid}     # the manager; the programs go on without it")
    time.sleep(2)
    demo.say("\nAnother manager takes over. It reads its log and finds what runs, by identity.")
    demo.start_manager()
    demo.run("get", "workloads")
    workloads = demo.wait_for_end()
    demo.say("\nAll have ended:")
    demo.run("get", "workloads")
    demo.run("logs", "steps", "--tail", "3")

    found = {w["name"]: w for w in workloads}
    checks = [check(job, found.get(job.name), demo.directory) for job in jobs]
    demo.say("\nWas every exit status right, nothing lost, nothing started twice, nothing left?")
    for result in checks:
        mark = "yes" if result["passed"] else "NO "
        demo.say(f"  {mark}  {result['name']:10} {result['message']}")
    status = json.loads(demo.run("get", "status", "-o", "json", show=False))
    return {"policy": status["policy"], "workloads": workloads, "checks": checks}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("--keep", action="store_true", help="leave the manager and its files")
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")


def run(arguments: argparse.Namespace) -> int:
    """0 when everything ended as it had to, 3 when not, 1 when the demo itself failed."""
    directory = Path(tempfile.mkdtemp(prefix="wharfinger-demo-"))
    demo = Demo(directory, quiet=arguments.output == "json")
    try:
        result = play(demo, _jobs())
    except RuntimeError as error:
        print(f"wharfinger: demo: {error}", file=sys.stderr)
        return 1
    finally:
        _clean_up(demo, keep=arguments.keep)
    if arguments.output == "json":
        print(json.dumps(result, indent=2))
    passed = all(check["passed"] for check in result["checks"])
    demo.say("\nAll as it had to be." if passed else "\nSomething is not as it had to be.")
    if arguments.keep:
        demo.say(f"The manager runs on: wharfinger get workloads --state {demo.state}")
    return 0 if passed else 3


def _clean_up(demo: Demo, *, keep: bool) -> None:
    if keep:
        return
    with contextlib.suppress(RuntimeError, OSError):
        for workload in demo.workloads():
            demo.run("delete", workload["name"], show=False)
        demo.wait_for_end()
    demo.stop_manager()
    shutil.rmtree(demo.directory, ignore_errors=True)
