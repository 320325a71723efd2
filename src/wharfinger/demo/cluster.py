"""This machine as the demo's cluster: a manager of its own, started, asked and ended.

The manager is the real one, ``wharfinger up`` in a process of its own; nothing here looks into
it. Whoever calls gives the client (``cli/client.py``), which lies in a layer above.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from wharfinger.errors import Unavailable, WharfingerError
from wharfinger.host.cgroups import find_hierarchies, own_limits
from wharfinger.host.topology import read_machine

READY_SECONDS = 30.0
END_SECONDS = 20.0
POLL_SECONDS = 0.05
MOST_CPUS = 2
ENDED = frozenset({"completed", "failed", "vanished", "revoked", "rejected"})

ERRORS_SHOWN = 3


class Client(Protocol):
    """What the demo needs of the command line's client."""

    def get(self, *path: str, query: Mapping[str, Any] | None = None) -> Any:
        """The value at a path."""

    def call(
        self,
        method: str,
        *path: str,
        query: Mapping[str, Any] | None = None,
        body: bytes | None = None,
        content_type: str = "application/yaml",
    ) -> Any:
        """One request; its answer."""


Connect = Callable[[Path], Client]
"""A client of the manager on a state directory."""


def choose_cpus(most: int = MOST_CPUS) -> list[int]:
    """CPUs for the servers, one each: of different cores, as far as there are."""
    limits = own_limits(find_hierarchies())
    machine = read_machine(Path("/sys"), Path("/proc"), os.sched_getaffinity(0), limits)
    first: dict[int, int] = {}
    for cpu in machine.cpus:
        first.setdefault(cpu.core, cpu.number)
    chosen = list(first.values())
    chosen += [cpu.number for cpu in machine.cpus if cpu.number not in chosen]
    return sorted(chosen[:most])


class Cluster:
    """One manager on a state directory, with servers of one CPU each.

    Args:
        state: Its state directory; made when it starts.
        policy: By which it places.
        connect: Makes clients.
        known: Directory of the programs that it classifies by; ``None`` = as any manager.
    """

    def __init__(
        self, state: Path, policy: str, connect: Connect, known: Path | None = None
    ) -> None:
        self.state = state
        self.policy = policy
        self.cpu_numbers = choose_cpus()
        self._known = known
        self._connect = connect
        self._process: subprocess.Popen[bytes] | None = None
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        """Speaks to the manager, which must have been started."""
        assert self._client is not None
        return self._client

    def start(self) -> None:
        """Start the manager and wait until it is ready.

        Raises:
            Unavailable: It does not come up.
        """
        self.state.mkdir(parents=True, exist_ok=True, mode=0o700)
        servers = ",".join(f"server{i}={cpu}" for i, cpu in enumerate(self.cpu_numbers))
        options = ["--servers", servers, "--policy", self.policy, "--state", str(self.state)]
        if self._known is not None:
            options += ["--known", str(self._known)]
        said = self.state.parent / f"{self.state.name}.out"
        with said.open("wb") as output, self._complaints.open("ab") as complaints:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "wharfinger", "up", *options],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=complaints,
                start_new_session=True,  # Ctrl-C is for the demo, which ends the manager in order.
            )
        deadline = time.monotonic() + READY_SECONDS
        while b"ready\n" not in said.read_bytes():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise Unavailable(f"the manager did not come up: {self.complaints()}")
            time.sleep(POLL_SECONDS)
        self._client = self._connect(self.state)
        self._wait_for_servers()

    def _wait_for_servers(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while not self.client.get("status")["synced"]:
            if time.monotonic() > deadline:
                raise Unavailable("the manager does not find its servers")
            time.sleep(POLL_SECONDS)

    @property
    def _complaints(self) -> Path:
        return self.state.parent / f"{self.state.name}.err"

    def complaints(self) -> str:
        """The last lines of the manager's standard error."""
        with contextlib.suppress(OSError):
            lines = self._complaints.read_text(errors="replace").strip().splitlines()
            if lines:
                return "; ".join(lines[-ERRORS_SHOWN:])
        return "it says nothing"

    @property
    def alive(self) -> bool:
        """Whether the manager's process is there."""
        return self._process is not None and self._process.poll() is None

    def check(self) -> None:
        """Raise where the manager has gone.

        Raises:
            Unavailable: It has.
        """
        if not self.alive:
            raise Unavailable(f"the manager has ended: {self.complaints()}")

    # --- its users -----------------------------------------------------------------------------

    def servers(self) -> list[dict[str, Any]]:
        """All servers, as ``get servers`` gives them."""
        found: list[dict[str, Any]] = self.client.get("servers")
        return found

    def submit(self, manifests: Sequence[Mapping[str, Any]], directory: Path) -> None:
        """Hand in workloads, all in one file.

        Raises:
            WharfingerError: They were refused.
        """
        text = "\n---\n".join(map(json.dumps, manifests))
        self.client.call(
            "POST",
            "workloads",
            query={"working_directory": str(directory), "source": "demo.yaml"},
            body=text.encode(),
        )

    def workloads(self) -> list[dict[str, Any]]:
        """All workloads, as ``get workloads`` gives them."""
        self.check()
        found: list[dict[str, Any]] = self.client.get("workloads")
        return found

    def usage(self) -> dict[str, dict[str, Any]]:
        """What runs uses, by name."""
        return {used["name"]: used for used in self.client.get("usage")}

    def events(self, after: int) -> list[dict[str, Any]]:
        """The history after an event."""
        found: list[dict[str, Any]] = self.client.get(
            "events", query={"after": after, "limit": 1000}
        )
        return found

    def output(self, name: str) -> str:
        """The end of a workload's output."""
        query = {"offset": -4096, "limit_bytes": 4096}
        body: bytes = self.client.call("GET", "workloads", name, "log", query=query).body
        return body.decode(errors="replace")

    def clear(self) -> None:
        """Stop every workload and wait until all have ended, then drop their records.

        Raises:
            Unavailable: One does not end.
        """
        deadline = time.monotonic() + END_SECONDS
        while live := [w for w in self.workloads() if w["phase"] not in ENDED]:
            # The last come first: who waits in line must not be placed when one before it goes.
            for workload in reversed(live):
                if not workload["stopping"]:
                    self.client.call("DELETE", "workloads", workload["name"])
            if time.monotonic() > deadline:
                raise Unavailable(f"{live[0]['name']} does not end")
            time.sleep(2 * POLL_SECONDS)

    def drop_records(self) -> None:
        """Forget what has ended, so that its name can be used again."""
        for workload in self.workloads():
            self.client.call("DELETE", "workloads", workload["name"])

    # --- its end -------------------------------------------------------------------------------

    def end(self) -> None:
        """Stop the workloads and the manager, whatever state it is in."""
        with contextlib.suppress(WharfingerError, OSError):
            if self._process is not None and not self.alive:
                self.start()  # What a dead manager left running, the next one finds and ends.
            if self._client is not None:
                # A new one: we may have been interrupted in the middle of a request.
                self._client = self._connect(self.state)
                self.clear()
        self.stop_manager()

    def stop_manager(self) -> None:
        """End the manager in peace, and by force when it takes too long."""
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def leave(self) -> None:
        """Let the manager go on without us."""
        self._process = None
