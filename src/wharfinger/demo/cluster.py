"""This machine as the demo's cluster: a manager of its own, started, asked and ended.

The manager is ``wharfinger up`` in a process of its own. The client (``cli/client.py``) lies in a
layer above and is passed in.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from wharfinger.errors import Unavailable, WharfingerError
from wharfinger.host.cgroups import find_hierarchies, own_limits
from wharfinger.host.topology import read_machine

READY_SECONDS = 30.0
END_SECONDS = 20.0
POLL_SECONDS = 0.05
MAX_CPUS = 2
ENDED = frozenset({"completed", "failed", "vanished", "revoked", "rejected"})

Connect = Callable[[Path], Any]
"""Makes a client of the manager on a state directory."""


def choose_cpus() -> list[int]:
    """CPUs for the servers, one each: of different cores where possible."""
    limits = own_limits(find_hierarchies())
    machine = read_machine(Path("/sys"), Path("/proc"), os.sched_getaffinity(0), limits)
    first_of_core = {cpu.core: cpu.number for cpu in reversed(machine.cpus)}
    ordered = [*sorted(first_of_core.values()), *(cpu.number for cpu in machine.cpus)]
    return sorted(list(dict.fromkeys(ordered))[:MAX_CPUS])


class DemoCluster:
    """One manager on a state directory, with servers of one CPU each; ends as a context.

    Its methods raise ``Unavailable`` where the manager has ended or does not do what was asked.
    ``options`` are more of ``wharfinger up``, ``servers`` its ``--servers`` (empty = none, for an
    engine that has its own) and ``environment`` its environment (``None`` = this process's); the
    state directory is made when it starts.
    """

    def __init__(
        self,
        state: Path,
        policy: str,
        connect: Connect,
        *options: str,
        servers: str | None = None,
    ) -> None:
        self.policy = policy
        self.environment: Mapping[str, str] | None = None
        self.cpu_numbers = choose_cpus()
        self.client = connect(state)
        self.work = state.with_name(state.name + ".work")  # The programs' working directory.
        self._state = state
        self._log = state.with_name(state.name + ".log")
        self._connect = connect
        self._process: subprocess.Popen[bytes] | None = None
        if servers is None:
            servers = ",".join(f"server{i}={cpu}" for i, cpu in enumerate(self.cpu_numbers))
        named = ["--servers", servers] if servers else []
        settings = [*named, "--policy", policy, "--state", str(state)]
        self._options = [*settings, "--log", "none", *options]

    def start(self) -> None:
        """Start the manager and wait until it is ready."""
        for directory in (self._state, self.work):
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "wharfinger", "up", *self._options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment,
                start_new_session=True,  # Ctrl-C is for the demo, which ends the manager in order.
            )
        self._wait(lambda: b"ready" in self._log.read_bytes().splitlines(), "does not come up")
        self._wait(lambda: self.client.get("status")["synced"], "does not find its servers")

    def _wait(self, ready: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while not ready():
            self._check()
            if time.monotonic() > deadline:
                raise Unavailable(f"the manager {otherwise}: {self._complaints()}")
            time.sleep(POLL_SECONDS)

    def _check(self) -> None:
        if self._process is None or self._process.poll() is not None:
            raise Unavailable(f"the manager has ended: {self._complaints()}")

    def _complaints(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return "; ".join(lines[-3:]) or "it says nothing"

    def submit(self, text: str) -> None:
        """Submit manifests, as a file in the programs' working directory, where it stays."""
        file = self.work / "workloads.yaml"
        file.write_text(text)
        query = {"working_directory": str(self.work), "source": str(file)}
        self.client.call("POST", "workloads", query=query, body=text.encode())

    def workloads(self) -> list[dict[str, Any]]:
        """All workloads, as ``get workloads`` gives them."""
        self._check()
        rows: list[dict[str, Any]] = self.client.get("workloads")
        return rows

    def usage(self) -> Mapping[str, float | None]:
        """CPU seconds of what runs, by name; ``None`` = unknown."""
        return {used["name"]: used["cpu_seconds"] for used in self.client.get("usage")}

    def events_after(self, sequence: int) -> list[dict[str, Any]]:
        """Events after this one, as ``get events`` gives them."""
        query = {"after": sequence, "limit": 1000}
        events: list[dict[str, Any]] = self.client.get("events", query=query)
        return events

    def output(self, name: str) -> str:
        """The end of a workload's output."""
        query = {"offset": -4096, "limit_bytes": 4096}
        body: bytes = self.client.call("GET", "workloads", name, "log", query=query).body
        return body.decode(errors="replace")

    def clear(self, *, drop_records: bool = False) -> None:
        """Stop every workload and wait until all have ended; delete their records if asked."""
        deadline = time.monotonic() + END_SECONDS
        while live := [w for w in self.workloads() if w["phase"] not in ENDED]:
            # The last first: a queued workload must not be placed when one before it goes.
            for workload in reversed(live):
                if not workload["stopping"]:
                    self.client.call("DELETE", "workloads", workload["name"])
            if time.monotonic() > deadline:
                raise Unavailable(f"{live[0]['name']} does not end")
            time.sleep(2 * POLL_SECONDS)
        for workload in self.workloads() if drop_records else ():
            self.client.call("DELETE", "workloads", workload["name"])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.end()

    def end(self) -> None:
        """Stop the workloads and the manager, whatever state it is in; may be called twice."""
        if self._process is None:
            return
        try:
            with contextlib.suppress(WharfingerError, OSError):
                if self._process.poll() is not None:
                    self.start()  # What a dead manager left running, the next one finds and ends.
                # A new client: the demo may have been interrupted in the middle of a request.
                self.client = self._connect(self._state)
                self.clear()
        finally:
            _stop(self._process)
            self._process = None

    def leave(self) -> None:
        """Let the manager go on without the demo."""
        self._process = None


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
