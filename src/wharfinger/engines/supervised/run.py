"""One start: its state, what has been told of it, and what becomes of it.

The run directory is the truth; a ``LocalRun`` is what one engine remembers of it. The engine makes
one per key and passes actions on; the watcher calls back when the supervisor has news.
"""

import logging
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from wharfinger.core import events as ev
from wharfinger.engines.base import LogChunk, Usage
from wharfinger.engines.supervised.machine import groups_of, pace_of
from wharfinger.engines.supervised.records import (
    EndRecord,
    StartRecord,
    not_alive_grace_seconds,
    note_not_alive,
    remove_run,
    save_end,
)
from wharfinger.engines.supervised.watcher import Watcher
from wharfinger.errors import EngineFault, NotFound, OutOfSpace
from wharfinger.host import reports
from wharfinger.host.cgroups import Group, GroupUsage, Limits, ResizeRefused
from wharfinger.host.cgroups.limits import UNIFIED
from wharfinger.host.processes import (
    ProcessIdentity,
    has_ended,
    identity_of,
    kill_orphans,
    measure_tree,
    open_pidfd,
    send_signal,
)
from wharfinger.host.reports import End, last_line
from wharfinger.host.run_control import renew_suspended
from wharfinger.host.run_dir import (
    Claim,
    RunRecord,
    output_offset_at,
    output_times,
    read_output,
    read_run,
)
from wharfinger.host.supervisor import (
    Supervisor,
    SupervisorStatus,
    cancel,
    request_pace,
    request_resume,
    request_stop,
    request_suspend,
)
from wharfinger.model.performance import Quantity, Reading
from wharfinger.model.workload import Workload
from wharfinger.monitor.spec import WatchSpec

T = TypeVar("T")

log = logging.getLogger(__name__)

_DYING_SECONDS = 0.5
"""What a supervisor takes to end that was killed; one that waits for a disk takes longer."""

_CPU_FILES = (("cpu.stat", UNIFIED), ("cpuacct.usage", "cpuacct"))

_GONE = RunRecord(Claim.UNREADABLE, None, None, None)
"""The record of a run directory that is not there any more."""


class SupervisedTree:
    """A run's processes, controlled and measured through its cgroups and its supervisor.

    ``settled`` is its end; ``None`` while it is not over. ``group`` may be without paths.
    ``suspended``: this engine has suspended it, and is to renew that.
    """

    def __init__(self, run_dir: Path, start: StartRecord) -> None:
        self.key = run_dir.name
        self.run_dir = run_dir
        self.start = start
        self.group = groups_of(start.groups, self.key)
        self.settled: EndRecord | None = None
        self._pid: int | None = None
        self._pidfd = -1
        self._peak_seen_bytes = 0
        self.suspended = False

    @property
    def supervisor_pid(self) -> int | None:
        """Root of its tree of processes; ``None`` where nothing runs."""
        return self._pid if self.settled is None else None

    def suspend(self) -> None:
        """Stop giving it CPU time: by a freezer that its supervisor can thaw, else by that.

        It lasts for a lease, see :meth:`renew_suspension`.
        Raises ``NotFound`` without its run directory, ``OutOfSpace`` without room to tell.
        """
        if self.settled is not None or self._pidfd < 0:
            return
        self.suspended = True
        if self.group.freezer is not None or self.group.kill_file is not None:
            request_suspend(self.run_dir, self._pidfd, frozen=True)
            with suppress(EngineFault):
                self.group.freeze(timeout_seconds=0.0)
                return
        request_suspend(self.run_dir, self._pidfd)

    def renew_suspension(self) -> None:
        """Let it stay suspended for another lease; raises as :meth:`suspend`."""
        # Where nobody came for too long its supervisor has let it go on.
        if not renew_suspended(self.run_dir):
            self.suspend()

    def resume(self) -> None:
        """Give it CPU time again; raises ``NotFound`` if its run directory is gone."""
        self.suspended = False
        if self.settled is not None:
            return
        with suppress(EngineFault):
            self.group.thaw()
        # An engine that had no freezer may have suspended it.
        if self._pidfd >= 0:
            request_resume(self.run_dir, self._pidfd)

    def resize(self, start: StartRecord, wanted: Limits) -> ResizeRefused | None:
        """Hold it to other limits, all or none; the caller keeps ``start``, its record then.

        Raises ``EngineFault``, ``InvalidInput``, ``NotFound`` or ``OutOfSpace``.
        """
        self._set_pace(start)
        try:
            refused = self.group.resize(wanted)
        except EngineFault:
            self._set_pace(self.start)
            raise
        if refused is not None:
            self._set_pace(self.start)
        return refused

    def _cancelled(self) -> bool:
        try:
            return cancel(self.run_dir)
        except (OutOfSpace, NotFound):
            return False  # Its supervisor needs the same room; if it finds it, it is stopped then.

    def _request_stop(self, grace_seconds: float) -> None:
        if self._pidfd < 0:
            return
        try:
            request_stop(self.run_dir, self._pidfd, grace_seconds)
        except NotFound:
            # Its workload moved the directory away; the supervisor stops it with its own grace.
            send_signal(self._pidfd, signal.SIGTERM)
        # Suspended, it could not obey. What its supervisor has stopped, it continues by itself.
        with suppress(NotFound):
            self.resume()

    def _set_pace(self, start: StartRecord) -> None:
        if not self.group.has_quota and self._pidfd >= 0:
            request_pace(self.run_dir, self._pidfd, pace_of(start, self.group))

    def usage(self) -> Usage:
        """What it uses, from its cgroups, else from its tree of processes."""
        cpu_seconds, memory_bytes, processes, peak_bytes = self._grouped_usage()
        if self._pid is None or None not in (cpu_seconds, memory_bytes, processes):
            return Usage(cpu_seconds, memory_bytes, processes, peak_bytes)
        tree = measure_tree(self._pid)
        self._peak_seen_bytes = max(self._peak_seen_bytes, tree.memory_bytes)
        return Usage(
            tree.cpu_seconds if cpu_seconds is None else cpu_seconds,
            tree.memory_bytes if memory_bytes is None else memory_bytes,
            tree.processes if processes is None else processes,
            peak_bytes or self._peak_seen_bytes or None,
        )

    def read_log(self, offset: int, limit_bytes: int) -> LogChunk:
        """A piece of its output; see ``Engine.read_log``."""
        # Asked before the reading: what is written in between is read by the next call.
        ended = self.settled is not None
        try:
            data, next_offset = read_output(self.run_dir, offset, limit_bytes)
        except NotFound:
            # The start is known, its workload has moved the output away.
            data, next_offset = b"", max(0, offset)
        return LogChunk(data, next_offset, ended)

    def log_offset_at(self, seconds: float) -> int | None:
        """See ``Engine.log_offset_at``."""
        with suppress(NotFound):
            return output_offset_at(self.run_dir, seconds)
        return 0

    def log_times(self, offset: int, length_bytes: int) -> list[tuple[int, float]]:
        """See ``Engine.log_times``."""
        with suppress(NotFound):
            return output_times(self.run_dir, offset, length_bytes)
        return []

    def remove_groups(self) -> bool:
        """Remove its cgroups; whether they are gone."""
        removed = self._grouped(lambda: not self.group.paths or self.group.remove(0.5))
        return removed is True

    def _kill_what_is_left(self, record: RunRecord) -> str:
        """Why it vanished; first make sure that nothing of it runs, also after a restart."""
        if not self._grouped(self.group.kill_all):
            kill_orphans(self.run_dir)
        if record.supervisor is None:
            return reports.CLAIM_DAMAGED
        here = identity_of(os.getpid())
        restarted = here is not None and here.boot_id != record.supervisor.boot_id
        return reports.MACHINE_RESTARTED if restarted else reports.SUPERVISOR_KILLED

    def _grouped_usage(self) -> GroupUsage:
        return self._grouped(self.group.usage) or GroupUsage(None, None, None, None)

    def _grouped(self, do: Callable[[], T]) -> T | None:
        """What its groups say; a workload that meddles with its own must not harm others."""
        try:
            return do()
        except EngineFault as error:
            log.warning("%s: %s", self.key, error)
            return None


class LocalRun(SupervisedTree):
    """One start, from its launch or adoption to its settled end.

    ``workload`` is ``None`` when an earlier engine started it. ``begun_here``: this engine made
    the run directory, so no other engine's supervisor can come.
    """

    def __init__(
        self, run_dir: Path, start: StartRecord, watcher: Watcher, tell: Callable[[ev.Report], None]
    ) -> None:
        super().__init__(run_dir, start)
        self.workload: Workload | None = None
        self.begun_here = False
        self._watcher = watcher
        self._tell = tell
        self._supervisor: Supervisor | None = None
        self._claimed = False
        self._forgotten = False
        self._refusal: ev.StartFailed | None = None
        self._started: ev.WorkloadStarted | None = None
        self._stop_grace_seconds: float | None = None

    @property
    def running(self) -> bool:
        """Whether its program has begun and has not ended, as far as is known."""
        return self._started is not None and self.settled is None

    @property
    def started_at_seconds(self) -> float:
        """When its program began, in seconds since the epoch; 0 = it has not."""
        return (self._started and self._started.started_at) or 0.0

    @property
    def server(self) -> str:
        """Where it was started; empty = its key was only forbidden."""
        return self.start.placement.server if self.start.placement is not None else ""

    @property
    def load_server(self) -> str:
        """Its load generator runs beside it."""
        return self.server

    def where(self) -> WatchSpec:
        """Where it is read: its run directory, its processes and its cgroups."""
        paths = self.group.paths
        return WatchSpec(
            self.key,
            str(self.run_dir),
            supervisor_pid=self.supervisor_pid or 0,
            cpu_file=cpu_file(self.group),
            throttle_file=str(paths["cpu"] / "cpu.stat") if self.group.has_quota else "",
            perf_group=str(paths.get("perf_event", paths.get(UNIFIED, ""))),
        )

    def readings(self) -> dict[Quantity, Reading]:
        """The memory of its cgroup, where it has one."""
        memory_bytes = self.group.memory_in_use()
        if memory_bytes is None:
            return {}
        reading = Reading(float(memory_bytes), "memory of its control group", trusted=False)
        return {Quantity.MEMORY: reading}

    def watch_own(self, supervisor: Supervisor) -> None:
        """Watch a supervisor that this engine has launched."""
        self._supervisor, self._pid = supervisor, supervisor.pid
        self._pidfd = supervisor.pidfd
        self._watcher.add(supervisor.pidfd, self._supervisor_ended)
        self._watcher.add(supervisor.notice_fd, self._noticed)

    def adopt(self, record: RunRecord) -> None:
        """Take over what another engine launched; it has been claimed, or is over."""
        self._take_in(record)
        pidfd = open_pidfd(record.supervisor) if record.supervisor else None
        if pidfd is None:
            if record.supervisor is not None:
                _reap(record.supervisor)
                record = self._read()  # It may have ended between the two looks.
                self._take_in(record)
            self._settle(record)
            return
        # While it lives nothing is over, whatever a workload has written into the directory.
        self._pid = record.supervisor.pid if record.supervisor else None
        self._pidfd = pidfd
        self._watcher.add(pidfd, self._supervisor_ended)
        if self._stop_grace_seconds is not None:
            self._request_stop(self._stop_grace_seconds)  # What was asked of ours was its.
        elif (grace_seconds := not_alive_grace_seconds(self.run_dir)) is not None:
            self._request_stop(grace_seconds)  # The engine that wrote it may not have come to it.
        if self._started is None:
            # Its notice goes to an engine that is gone, so the record itself is awaited.
            try:
                self._watcher.await_entry(self.run_dir, self.look)
            except OSError as error:
                log.warning("%s: its start shows when it ends: %s", self.key, error.strerror)
            self.look()

    def let_go(self) -> None:
        """Watch it no more; it goes on."""
        self._watcher.await_no_more(self.run_dir)
        if self._pidfd >= 0:
            self._watcher.remove(self._pidfd)
        if self._supervisor is not None:
            self._watcher.remove(self._supervisor.notice_fd)
            self._supervisor.close()
        elif self._pidfd >= 0:
            os.close(self._pidfd)
        self._supervisor, self._pidfd = None, -1

    def look(self) -> None:
        """Report what is new in the run directory."""
        if self.settled is None:
            self._take_in(self._read())

    def tell_again(self) -> None:
        """Report its state once more."""
        if self.settled is not None:
            if self.settled.started is not None:
                self._tell(self.settled.started)
            self._tell(self.settled.end)
        elif self._started is not None:
            self._tell(self._started)
        elif self._claimed:
            self._tell(ev.StartAccepted(self.key))
        else:
            self._settle_refusal()

    def _read(self) -> RunRecord:
        try:
            return read_run(self.run_dir)
        except NotFound:
            return _GONE

    def _take_in(self, record: RunRecord) -> None:
        if not self._claimed and record.claim in {Claim.TAKEN, Claim.UNREADABLE}:
            self._claimed = True
            self._tell(ev.StartAccepted(self.key))
            if self._stop_grace_seconds is not None:
                self.stop(self._stop_grace_seconds)
        if self._started is None and record.started is not None:
            started = record.started
            self._begin(f"pid {started.process.pid}", started.started_at_seconds)

    def _begin(self, handle: str, started_at: float) -> None:
        self._started = ev.WorkloadStarted(self.key, handle, started_at)
        self._watcher.await_no_more(self.run_dir)
        self._tell(self._started)

    def _noticed(self) -> None:
        supervisor = self._supervisor
        if supervisor is None:
            return
        with suppress(BlockingIOError):
            if not os.read(supervisor.notice_fd, 16):
                self._watcher.remove(supervisor.notice_fd)
        self.look()

    def _supervisor_ended(self) -> None:
        status = SupervisorStatus.LOST
        fault = ""
        if self._supervisor is not None:
            status = self._supervisor.poll() or SupervisorStatus.LOST
            fault = self._supervisor.fault()
        else:
            with suppress(ChildProcessError):
                os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED | os.WNOHANG)
        self.let_go()
        if self.settled is not None:
            if self._forgotten:
                remove_run(self.run_dir)
            return
        record = self._read()
        if status is SupervisorStatus.CLAIMED and record.claim is Claim.TAKEN:
            # One that an earlier engine launched on this directory came first.
            self.adopt(record)
        elif record.claim is Claim.NONE:
            self._refused_to_start(status, fault)
        else:
            self._take_in(record)
            self._settle(record)

    def _refused_to_start(self, status: SupervisorStatus, fault: str) -> None:
        if self._stop_grace_seconds is not None:
            self.fail_to_start(reports.STOPPED_BEFORE_START, retryable=False)
        else:
            retryable = status is not SupervisorStatus.BAD_CALL
            self.fail_to_start(fault or "its supervisor was killed", retryable=retryable)

    def fail_to_start(self, reason: str, *, retryable: bool) -> None:
        """Report that it never starts under this key, unless it turns out that it has."""
        self._refusal = ev.StartFailed(self.key, reason, retryable)
        self._settle_refusal()

    def _settle_refusal(self) -> None:
        if self._refusal is None or self.settled is not None:
            return
        try:
            cancelled = cancel(self.run_dir)
        except OutOfSpace:
            if not self.begun_here or self._supervisor is not None:
                # A supervisor may still find the room for its claim that we did not find.
                self._watcher.try_later(self._settle_refusal)
                return
            cancelled = True
        except NotFound:
            cancelled = True
        refusal, self._refusal = self._refusal, None
        if not cancelled:
            self.adopt(self._read())
            return
        if self._supervisor is not None:
            # Without a claim it has started nothing and may not any more.
            send_signal(self._pidfd, signal.SIGKILL)
        self._end(refusal)

    def _settle(self, record: RunRecord) -> None:
        if record.exit is not None:
            used = self._grouped_usage()
            end = reports.end_of(
                self.key,
                record.exit,
                self.workload.run if self.workload else None,
                out_of_memory_kills=self._grouped(self.group.out_of_memory_kills),
                cpu_seconds=used.cpu_seconds,
                memory_peak_bytes=used.memory_peak_bytes or self._peak_seen_bytes or None,
                not_alive=not_alive_grace_seconds(self.run_dir) is not None,
                last_output=last_line(self.run_dir),
            )
            if self._started is None and isinstance(end, ev.WorkloadFinished):
                # There was no room for the record of its start.
                self._begin("pid unknown", record.exit.started_at_seconds)
            self._end(end)
        elif record.claim is Claim.CANCELLED:
            self._end(ev.StartFailed(self.key, reports.STOPPED_BEFORE_START, retryable=False))
        else:
            self._end(ev.WorkloadVanished(self.key, self._kill_what_is_left(record)))

    def _end(self, end: End) -> None:
        """Settle it on disk, then remove its groups, which are needed until then, then report."""
        self._watcher.await_no_more(self.run_dir)
        self.settled = EndRecord(self._started, end)
        try:
            save_end(self.run_dir, self.settled)
        except (OSError, NotFound) as error:
            # The supervisor's record and the groups stay: from them the same end is read again.
            log.warning("%s: its end is not settled on disk: %s", self.key, error)
        else:
            self.remove_groups()
        self._tell(end)

    def forget(self) -> None:
        """Remove its directory, but not under a supervisor: it could claim what comes after."""
        self._forgotten = True
        if self._pidfd < 0:
            remove_run(self.run_dir)
        elif has_ended(self._pidfd, _DYING_SECONDS):
            self._supervisor_ended()

    def await_end(self) -> None:
        """Settle it if it ends within half a second, as one does that was killed."""
        if self._pidfd >= 0 and has_ended(self._pidfd, _DYING_SECONDS):
            self._supervisor_ended()

    def stop(self, grace_seconds: float) -> None:
        """Ask its supervisor to end it, or make sure that it never starts."""
        self._stop_grace_seconds = grace_seconds
        if self.settled is not None:
            self._tell(self.settled.end)
        elif self._claimed or not self._cancelled():
            self._request_stop(grace_seconds)
        else:
            self.fail_to_start(reports.STOPPED_BEFORE_START, retryable=False)

    def stop_as_not_alive(self, grace_seconds: float) -> None:
        """Ask its supervisor to end it, unless that was asked for; its end is told as such.

        Raises ``OutOfSpace`` or ``OSError`` without room for that; then it goes on.
        """
        if self.running and self._stop_grace_seconds is None:
            note_not_alive(self.run_dir, grace_seconds)
            self._request_stop(grace_seconds)


def cpu_file(group: Group) -> str:
    """The file in which a group's CPU time is counted; empty where it has none."""
    files = (group.paths[name] / file for file, name in _CPU_FILES if name in group.paths)
    return next((str(path) for path in files if path.exists()), "")


def _reap(supervisor: ProcessIdentity) -> None:
    """Reap it if it is a dead child of this process, left by an engine that was closed here."""
    if identity_of(supervisor.pid) == supervisor:
        with suppress(ChildProcessError):
            os.waitid(os.P_PID, supervisor.pid, os.WEXITED | os.WNOHANG)
