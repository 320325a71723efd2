"""Load generators of services: each runs on this host, beside its service or for one elsewhere.

``measuring`` says which service has one, when it may begin, and when the service has ended.
"""

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from wharfinger.core import events as ev
from wharfinger.engines.base import LogChunk
from wharfinger.engines.supervised import records
from wharfinger.engines.supervised.machine import Launcher
from wharfinger.engines.supervised.records import StartRecord
from wharfinger.engines.supervised.run import LocalRun
from wharfinger.engines.supervised.watcher import Watcher
from wharfinger.errors import NotFound, OutOfSpace, WharfingerError
from wharfinger.host.reports import End, last_line
from wharfinger.host.run_dir import read_output, read_run
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.workload import Workload

log = logging.getLogger(__name__)

LOAD_ALLOCATION = Allocation(1000, 512 << 20)
"""One CPU and 512 MiB: what drives a load must not be what limits it."""
BRIEF_SECONDS = 2.0
"""A generator that ends sooner is started again only with the next samples, not at once."""

MAX_WORDS = 120
"""Characters of a generator's last line that are shown."""


@dataclass(slots=True)
class _Load:
    """One service's generator; ``workload`` is ``None`` until the core has named it.

    The ``former`` run is kept until the next one ends: most print their numbers last, which the
    meter still has to read. ``trouble`` says how the last one failed. It is ``released`` while its
    service is ready. ``silence`` says why the present run is stopped; ``offset`` is that of its
    first byte in the output of all runs, which begins with the first of this manager's time.
    """

    workload: Workload | None
    server: str
    number: int
    run: LocalRun | None = None
    former: LocalRun | None = None
    began: float = 0.0
    trouble: str = ""
    released: bool = False
    silence: str = ""
    offset: int = 0
    former_offset: int = 0

    def kept(self) -> list[tuple[int, LocalRun]]:
        """Its runs that are kept, oldest first, with the offsets of their first bytes."""
        runs = ((self.former_offset, self.former), (self.offset, self.run))
        return [(begin, run) for begin, run in runs if run is not None]


def prefix_of(runs: Path, key: str) -> Path:
    """Beginning of the names of a service's generator's run directories."""
    return runs / ".loads" / f"{key}."


class Loads:
    """Load generators: each runs under a supervisor and in its own cgroups.

    It begins once its service is ready, is started again whenever it ends or is silent, and is
    killed when the service ends. It outlives a manager as workloads do; the next one finds its run
    directory, ``.loads/KEY.N``, which no key of the core can be. What it said is kept until its
    service is forgotten.
    """

    def __init__(self, directory: Path, machine: Callable[[], Launcher], watcher: Watcher) -> None:
        self._directory = directory / ".loads"
        self._machine = machine
        self._watcher = watcher
        self._loads: dict[str, _Load] = {}
        self._ended_loads: dict[str, _Load] = {}
        self._ending: dict[str, LocalRun] = {}

    def prefix(self, key: str) -> Path:
        """Beginning of the names of a service's generator's run directories."""
        return prefix_of(self._directory.parent, key)

    def adopt(self, runs: Mapping[str, bool]) -> None:
        """Take over what an earlier engine left; what serves no running key is ended.

        ``runs`` says of each known key whether it runs.
        """
        for name in records.list_keys(self._directory) if self._directory.is_dir() else ():
            key, _, number = name.rpartition(".")
            start = records.read_start(self._directory / name)
            if start is None or start.placement is None or not number.isdecimal():
                continue
            run = self._make_run(name, start)
            run.adopt(read_run(run.run_dir))
            # The core's MeasureWorkload tells which program it is.
            load = _Load(None, start.placement.server, int(number), run, began=time.monotonic())
            if key not in runs or (runs[key] and run.settled is not None):
                self._drop(run)
            elif runs[key]:
                self._loads[key] = load
            else:
                self._keep_ended(key, load)

    def keep(self, key: str, server: str, workload: Workload, *, at_once: bool) -> None:
        """Let a service have the generator that its manifest names, or none.

        Args:
            key: The service's.
            server: Of this host, where the generator is to run.
            workload: The service.
            at_once: Nothing says when the service is ready.
        """
        if workload.measure.load_command is None or not server:
            self.end(key)
            self.forget(key)
            return
        load = self._loads.setdefault(key, _Load(workload, server, 0))
        former = load.workload or workload
        if former.measure.load_command != workload.measure.load_command:
            if load.run is not None:
                self._drop(load.run)
            load.run, load.trouble = None, ""
        load.workload = workload
        if at_once:
            self.release(key, ready=True)

    def release(self, key: str, *, ready: bool) -> None:
        """A service is ready: its generator may begin. Or it is so no more: no other run begins."""
        load = self._loads.get(key)
        if load is None:
            return
        load.released = ready
        if ready and load.run is None:
            self._start(key, load)

    def restart(self, key: str, reason: str) -> None:
        """End a generator's present run, which says nothing; another begins."""
        load = self._loads.get(key)
        if load is None or load.run is None:
            return
        load.silence = f"the load generator was started again: {reason}"
        try:
            load.run.stop(0.0)
        except OutOfSpace as error:
            log.warning("%s: its load generator can't be stopped: %s", key, error)

    def heard(self, key: str) -> None:
        """A generator has said a number."""
        if key in self._loads:
            self._loads[key].trouble = ""

    def read_log(self, key: str, offset: int, limit_bytes: int) -> LogChunk:
        """A piece of what a service's generator has said; see ``Engine.read_log``."""
        load = self._loads.get(key) or self._ended_loads.get(key)
        kept = [] if load is None else load.kept()
        if not kept:
            raise NotFound(
                f"no load generator of {key!r} has run; a service names one in measure.load"
            )
        end = kept[-1][0] + _length(kept[-1][1])
        wanted = max(0, end + offset) if offset < 0 else min(offset, end)
        # Asked before the reading: what is written in between is read by the next call.
        ended = key not in self._loads and kept[-1][1].settled is not None
        for begin, run in kept:
            chunk = run.read_log(max(0, wanted - begin), limit_bytes)
            if chunk.data:
                return LogChunk(chunk.data, begin + chunk.next_offset, ended)
        return LogChunk(b"", wanted, ended)

    def end(self, key: str) -> None:
        """Its service has ended, and so does it."""
        load = self._loads.pop(key, None)
        if load is not None:
            self._keep_ended(key, load)

    def _keep_ended(self, key: str, load: _Load) -> None:
        """End its present run; what it said stays."""
        former = self._ended_loads.get(key)
        if former is not None:  # Found as two by an engine that takes over.
            first, load = sorted((former, load), key=lambda one: one.number)
            load.former, load.offset = first.run, _length(first.run) if first.run else 0
        self._ended_loads[key] = load
        if load.run is not None and load.run.settled is None:
            self._ending[load.run.key] = load.run
            load.run.stop(0.0)

    def forget(self, key: str) -> None:
        """Drop what the generator of a service that has ended has said."""
        load = self._ended_loads.pop(key, None)
        for _, run in load.kept() if load is not None else ():
            self._drop(run)

    def trouble(self, key: str) -> str:
        """How a service's generator failed; empty where it did not."""
        load = self._loads.get(key)
        return load.trouble if load is not None else ""

    def revive(self) -> None:
        """Start those again that have ended; called with each lot of samples."""
        for key, load in self._loads.items():
            if load.run is None and load.released:
                self._start(key, load)

    def close(self) -> None:
        """Watch them no more; they go on, except those that are ending."""
        for run in list(self._ending.values()):
            run.await_end()
        loads = (*self._loads.values(), *self._ended_loads.values())
        # One that never began is settled before its supervisor has ended.
        for run in (*(run for load in loads for _, run in load.kept()), *self._ending.values()):
            run.let_go()
        self._loads.clear()
        self._ended_loads.clear()
        self._ending.clear()

    def _start(self, key: str, load: _Load) -> None:
        if load.workload is None:
            return
        load.number += 1
        load.began = time.monotonic()
        name = f"{key}.{load.number}"
        placement = Placement(load.server, LOAD_ALLOCATION)
        command = load.workload.measure.load_command or ()
        workload = replace(load.workload, run=replace(load.workload.run, command=command))
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            machine = self._machine()
            start = machine.plan(name, placement)
            run_dir = records.create_run(self._directory, name, start)
            load.run = run = self._make_run(name, start)
            run.workload = workload
            # Not paced: what drives a load is not to be what stops and goes.
            run.watch_own(machine.launch(run_dir, workload, start, placement, paced=False))
        except (WharfingerError, OSError, KeyError) as error:
            log.warning("%s: its load generator can't be started: %s", key, error)
            load.trouble = f"the load generator can't be started: {error}"
            if load.run is not None:
                load.run.fail_to_start(str(error), retryable=True)
            load.run = None

    def _make_run(self, name: str, start: StartRecord) -> LocalRun:
        def tell(report: ev.Report) -> None:
            if isinstance(report, End):
                self._ended(name, report)

        return LocalRun(self._directory / name, start, self._watcher, tell)

    def _ended(self, name: str, end: End) -> None:
        key = name.rpartition(".")[0]
        dropped = self._ending.pop(name, None)
        if dropped is not None:
            self._remove_groups(dropped)
            kept = self._ended_loads.get(key)
            if kept is None or kept.run is not dropped:
                self._clear(dropped)
            return
        load = self._loads.get(key)
        if load is None or load.run is None or load.run.key != name:
            return
        if load.former is not None:
            self._clear(load.former)
        load.former, load.run = load.run, None
        load.former_offset = load.offset
        load.offset += _length(load.former)
        load.trouble, load.silence = load.silence or _failure(end, load.former), ""
        if load.released and time.monotonic() - load.began >= BRIEF_SECONDS:
            self._start(key, load)

    def _drop(self, run: LocalRun) -> None:
        if run.settled is not None:
            self._clear(run)
            return
        self._ending[run.key] = run
        run.stop(0.0)

    def _clear(self, run: LocalRun) -> None:
        self._remove_groups(run)
        run.let_go()
        records.remove_run(run.run_dir)
        with suppress(OSError):  # Others may still be there.
            self._directory.rmdir()

    def _remove_groups(self, run: LocalRun) -> None:
        """Also those around them that an earlier manager made; ours go when we close."""
        run.remove_groups()
        with suppress(WharfingerError):
            self._machine().remove_former_bases(run.group)


def _length(run: LocalRun) -> int:
    """Bytes that it has printed."""
    try:
        return read_output(run.run_dir, -1, 1)[1]
    except NotFound:
        return 0


def _failure(end: End, run: LocalRun) -> str:
    if not isinstance(end, ev.WorkloadFinished):
        return f"the load generator: {end.reason}"
    if end.exit_code == 0:
        return ""
    how = f"ended with exit status {end.exit_code}"
    if end.signal is not None:
        how = f"was ended by signal {end.signal}"
    words = last_line(run.run_dir, MAX_WORDS)
    return f"the load generator {how}" + (f": {words}" if words else " and printed nothing")
