"""A process that starts a cluster's daemons and outlives whoever asked for them, to end them.

``python -m wharfinger.demo.slurm.keeper DIRECTORY`` reads requests from its standard input, one
JSON object a line, and answers each by one. When the input ends, also because whoever wrote it was
killed, it kills everything that it or what it started has started, removes the cgroups and the
directory, and ends. As a subreaper it is the parent of every orphan among them, so that nothing
can escape by forking. ``Keeper`` is the other end.
"""

import contextlib
import json
import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wharfinger.errors import EngineFault, Unavailable
from wharfinger.host.cgroups import CgroupControl, Group, Limits, discover
from wharfinger.host.cgroups.limits import Means, file_of, weight_of
from wharfinger.host.descriptors import call_libc
from wharfinger.host.processes import children_of, descendants

_PR_SET_CHILD_SUBREAPER = 36
_GROUP_KEY = "node"
NODE_VARIABLE = "WHARFINGER_NODE"
"""In a node daemon's environment, and so in that of the processes that start its jobs."""
_ANSWER_SECONDS = 180.0
_END_SECONDS = 30.0
_FAULTS = (EngineFault, OSError, KeyError, ValueError, subprocess.SubprocessError)


class Keeper:
    """The starter of one cluster's daemons; everything ends with ``close``, or with us.

    Raises ``Unavailable`` where the process that keeps them is gone, ``EngineFault`` where it
    can't do what it was asked.
    """

    def __init__(self, directory: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-Im", "wharfinger.demo.slurm.keeper", str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for us: we end it in order.
            text=True,
        )

    @property
    def pid(self) -> int:
        """Of the process: every process of the cluster descends from it."""
        return self._process.pid

    def make_group(
        self, name: str, cpu_millicpus: int, cpus: Sequence[int], memory_bytes: int
    ) -> list[str]:
        """Make the cgroup of a node; returns what of it this machine can't do, a line each."""
        missing: list[str] = self._ask(
            do="group", name=name, millicpus=cpu_millicpus, cpus=list(cpus), memory=memory_bytes
        )
        return missing

    def start(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        environment: Mapping[str, str],
        group: str = "",
        cpus: Sequence[int] = (),
    ) -> int:
        """Start a daemon, in a node's group and on its CPUs if told; returns its pid."""
        pid: int = self._ask(
            do="start",
            name=name,
            command=list(command),
            log=str(log),
            environment=dict(environment),
            group=group,
            cpus=list(cpus),
        )
        return pid

    def alive(self, name: str) -> bool:
        """Whether a daemon that was started runs."""
        return bool(self._ask(do="alive", name=name))

    def signal(self, name: str, number: int) -> None:
        """Signal a daemon; after SIGKILL and SIGTERM waits until it is gone."""
        self._ask(do="signal", name=name, number=int(number))

    def kill_group(self, name: str) -> None:
        """Kill all that runs on a node."""
        self._ask(do="kill-group", name=name)

    def close(self) -> None:
        """End everything; afterwards nothing of it is left."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        try:
            self._process.wait(_END_SECONDS + _ANSWER_SECONDS)
        except subprocess.TimeoutExpired:
            raise Unavailable(f"the cluster's keeper, process {self.pid}, does not end") from None
        finally:
            if self._process.stdout is not None:
                self._process.stdout.close()

    def _ask(self, **request: Any) -> Any:
        pipe_in, pipe_out = self._process.stdin, self._process.stdout
        assert pipe_in is not None  # both are pipes
        assert pipe_out is not None
        try:
            pipe_in.write(json.dumps(request) + "\n")
            pipe_in.flush()
            line = pipe_out.readline()
        except (OSError, ValueError) as error:
            raise Unavailable(f"the cluster's keeper is gone: {error}") from error
        if not line:
            raise Unavailable("the cluster's keeper is gone")
        answer = json.loads(line)
        if "error" in answer:
            raise EngineFault(f"{request['do']} {request['name']}: {answer['error']}")
        return answer["value"]


class _Keeping:
    """The state of the process: the daemons and the groups that it made."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._control: CgroupControl | None = None
        self._groups: dict[str, Group] = {}
        self._limits: dict[str, Limits] = {}
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    def answer(self, request: Mapping[str, Any]) -> Any:
        match request["do"]:
            case "group":
                return self._make_group(request)
            case "start":
                return self._start(request)
            case "alive":
                daemon = self._daemons.get(request["name"])
                return daemon is not None and daemon.poll() is None
            case "signal":
                return self._signal(request["name"], request["number"])
            case "kill-group":
                return self._kill_node(request["name"])
        raise ValueError(f"unknown request {request['do']!r}")

    def _make_group(self, request: Mapping[str, Any]) -> list[str]:
        if self._control is None:
            self._control = discover("slurm-" + secrets.token_hex(6))
        name = request["name"]
        self._limits[name] = Limits(
            cpu_millicpus=request["millicpus"],
            best_effort=False,
            memory_bytes=request["memory"],
            cpus=tuple(request["cpus"]),
        )
        self._groups[name] = self._control.create(name, _GROUP_KEY, self._limits[name])
        self._weigh()
        return [condition.message for condition in self._control.conditions()]

    def _weigh(self) -> None:
        """Each node beside the others."""
        for name, group in self._groups.items():
            file = file_of(group.paths, Means.WEIGHT)
            if file is not None and file.exists():
                version, node = 2 if file.name == "cpu.weight" else 1, file.parents[1]
                weight = weight_of(self._limits[name].cpu_millicpus, version)
                (node / file.name).write_text(str(weight))

    def _start(self, request: Mapping[str, Any]) -> int:
        group = self._groups.get(request["group"])
        procs = [os.fspath(file) for file in group.procs_files] if group else []
        cpus = request["cpus"]

        def enter() -> None:
            for file in procs:
                with open(file, "w") as procs_file:  # noqa: PTH123 - after a fork, as little as possible
                    procs_file.write("0")
            if cpus:
                os.sched_setaffinity(0, cpus)

        with Path(request["log"]).open("ab") as log:
            daemon = subprocess.Popen(
                request["command"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=request["environment"],
                cwd=self._directory,
                start_new_session=True,
                preexec_fn=enter,  # noqa: PLW1509 - this process has one thread
            )
        self._daemons[request["name"]] = daemon
        return daemon.pid

    def _signal(self, name: str, number: int) -> None:
        daemon = self._daemons[name]
        daemon.send_signal(number)
        if number in {signal.SIGKILL, signal.SIGTERM}:
            daemon.wait(_ANSWER_SECONDS / 2)

    def _kill_node(self, name: str) -> None:
        group = self._groups.get(name)
        if group is not None and group.directories and self._control is not None:
            group.kill_all()
            # A group that was killed may not fork before its limits are set again.
            self._control.create(name, _GROUP_KEY, self._limits[name])
            self._weigh()
        else:
            for pid in self._tree_of(name):
                _kill(pid)
        daemon = self._daemons.get(name)
        if daemon is not None:
            daemon.wait(_ANSWER_SECONDS / 2)

    def _tree_of(self, name: str) -> set[int]:
        """What a node's daemon started: its job managers, by their environment, and all below."""
        mark = f"{NODE_VARIABLE}={name}".encode()
        roots = set()
        for pid in descendants(os.getpid()):
            with contextlib.suppress(OSError):
                if mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    roots.add(pid)
        return roots | {below for root in roots for below in descendants(root)}

    def reap(self) -> None:
        """Collect what ended of the orphans; of daemons, Popen collects them itself."""
        for daemon in self._daemons.values():
            daemon.poll()
        ours = {daemon.pid for daemon in self._daemons.values()}
        for pid in children_of(os.getpid()):
            if pid not in ours:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)

    def end(self) -> None:
        deadline = time.monotonic() + _END_SECONDS
        while (pids := descendants(os.getpid())) and time.monotonic() < deadline:
            for pid in pids:
                _kill(pid)
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            time.sleep(0.01)
        for group in self._groups.values():
            with contextlib.suppress(*_FAULTS):  # What one leaves behind must not keep the others.
                group.kill_all()
                group.remove()
        if self._control is not None:
            with contextlib.suppress(*_FAULTS):
                self._control.close()
        shutil.rmtree(self._directory, ignore_errors=True)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _serve(keeping: _Keeping) -> None:
    """Answer until the input ends; in between, collect orphans that have ended."""
    buffer = b""
    while True:
        readable, _, _ = select.select([0], [], [], 0.5)
        keeping.reap()
        if not readable:
            continue
        chunk = os.read(0, 65536)
        if not chunk:
            return
        buffer += chunk
        while b"\n" in buffer:
            line, _, buffer = buffer.partition(b"\n")
            try:
                answer = {"value": keeping.answer(json.loads(line))}
            except _FAULTS as error:
                answer = {"error": str(error) or type(error).__name__}
            try:
                os.write(1, json.dumps(answer).encode() + b"\n")
            except BrokenPipeError:
                return


def main() -> None:
    """Keep daemons until the standard input ends."""
    call_libc("prctl", _PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    keeping = _Keeping(Path(sys.argv[1]))
    try:
        _serve(keeping)
    finally:
        keeping.end()


if __name__ == "__main__":
    main()
