"""The local engine: this machine as a cluster, its workloads under supervisors and cgroups.

``machine`` launches starts, ``run`` follows each from launch to end. The state directory has one
directory per key, which outlives every manager: an engine opened on it takes over what is there.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.engines.base import LogChunk, LogSource, Usage
from wharfinger.engines.local.checking import why_not
from wharfinger.engines.local.profiling.client import ProfilingClient
from wharfinger.engines.supervised import records
from wharfinger.engines.supervised.leases import SuspensionLeases
from wharfinger.engines.supervised.loads import Loads
from wharfinger.engines.supervised.machine import (
    Launcher,
    groups_of,
    identity_of_directory,
    limits,
    raise_open_files,
)
from wharfinger.engines.supervised.measuring import WorkloadMonitor
from wharfinger.engines.supervised.records import StartRecord
from wharfinger.engines.supervised.run import LocalRun
from wharfinger.engines.supervised.watcher import Watcher
from wharfinger.errors import EngineFault, InvalidInput, NotFound, OutOfSpace, Unavailable
from wharfinger.host import reports
from wharfinger.host.cgroups import ResizeRefused, discover
from wharfinger.host.cgroups.limits import Means
from wharfinger.host.descriptors import Alarm
from wharfinger.host.execution import CommandExecution, execute
from wharfinger.host.keys import check_key
from wharfinger.host.presence import OtherManager, Presence
from wharfinger.host.processes import bind_tree
from wharfinger.host.reports import End
from wharfinger.host.run_dir import Claim, read_run
from wharfinger.host.sandbox import SandboxKind, describe_support
from wharfinger.host.topology import LocalServer, discover_servers, format_cpus
from wharfinger.model.interference import SharedResource
from wharfinger.model.platform import Condition, ConditionKind
from wharfinger.model.quota import QUOTA_PERIOD_SECONDS, SHORT_PERIOD_SECONDS
from wharfinger.model.view import Capabilities
from wharfinger.model.workload import Workload, WorkloadType
from wharfinger.monitor.client import HASTENED_SECONDS, REPORT_SECONDS
from wharfinger.profiling.injectable import injectable

log = logging.getLogger(__name__)

LOG_CAP_BYTES = 8 << 20
"""Of each workload's output, what is kept."""
LOOK_FOR_MANAGERS_SECONDS = 30.0
"""Between two looks for other managers of this machine."""


class LocalEngine:
    """This machine as a cluster.

    Args:
        directory: Where the runs are kept; made when it is not there.
        servers: How the machine is divided, as ``wharfinger up --servers`` takes it.
        identity: Names this manager's cgroups, uniquely on this machine and the same after a
            restart; ``None`` = made from the directory's path.
        log_cap_bytes: Of each workload's output, what is kept.
        report_seconds: Between two performance reports.
        hastened_seconds: Between two readings of what runs, while sources of interference rise.
        labels: Of servers: (server, label, value) each; without a name of all of them.
    """

    name = "local"

    def __init__(
        self,
        directory: Path,
        *,
        servers: str | None = None,
        identity: str | None = None,
        log_cap_bytes: int = LOG_CAP_BYTES,
        report_seconds: float = REPORT_SECONDS,
        hastened_seconds: float = HASTENED_SECONDS,
        labels: Sequence[tuple[str, str, str]] = (),
    ) -> None:
        self._directory = directory.absolute()
        self._spec = servers
        self._labels = labels
        self._identity = identity or identity_of_directory(self._directory)
        self._log_cap_bytes = log_cap_bytes
        self._open_machine: Launcher | None = None
        self._watcher = Watcher()
        self._reports: list[ev.Report] = []
        self._starts = _Starts(self._directory, self._machine, self._watcher, self._tell)
        runs = self._runs = self._starts.runs
        self._measuring = WorkloadMonitor(
            runs,
            Loads(self._directory, self._machine, self._watcher),
            self._watcher,
            self._tell,
            report_seconds=report_seconds,
            hastened_seconds=hastened_seconds,
        )
        self._profiling = ProfilingClient(
            self._directory, runs, self._machine, self._watcher, self._measuring, self._tell
        )
        self._leases = SuspensionLeases(runs, self._watcher)
        self._can_copy = False
        self._sources: tuple[SharedResource, ...] = ()
        self._executions: dict[str, list[CommandExecution]] = {}
        self._presence = Presence(self._identity)
        self._managers_alarm: Alarm | None = None
        self._others: tuple[OtherManager, ...] = ()

    @property
    def capabilities(self) -> Capabilities:
        """As this machine's controls allow; known once it is open."""
        # Without a quota the supervisors pace.
        has_quota = Means.QUOTA in self._machine().control.means
        return Capabilities(
            fractional_cpu=True,
            memory_limit=self._machine().control.has_memory,
            measures=True,
            profiles=self._can_copy,
            probes=True,
            probes_running=True,
            copies_running=self._can_copy,
            shares_cores=True,
            quota_period_seconds=SHORT_PERIOD_SECONDS if has_quota else QUOTA_PERIOD_SECONDS,
            sources=self._sources,
        )

    def open(self) -> None:
        """See ``Engine.open``; raises ``InvalidInput`` if it can't be divided as asked."""
        servers = self._discover(self._spec)
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            keys = records.list_keys(self._directory)
        except OSError as error:
            raise EngineFault(f"{self._directory}: {error.strerror}") from error
        control = discover(self._identity, cpu_count=sum(len(s.cpus) for s in servers))
        self._open_machine = Launcher({}, control, raise_open_files(), self._log_cap_bytes)
        self._watcher.open()
        self._take_servers(servers)
        self._managers_alarm = Alarm()
        self._watcher.add(self._managers_alarm.fileno(), self._look_for_managers)
        self._managers_alarm.set(LOOK_FOR_MANAGERS_SECONDS)
        self._leases.open()
        for key in keys:
            self._starts.adopt(key)
        self._can_copy = describe_support(self._directory).kind is not SandboxKind.UNAVAILABLE
        self._sources, left_out = injectable((each.cpus for each in servers), self._directory)
        for source, why in left_out.items():
            log.info("%s is not injected: %s", source, why)
        self._profiling.open()
        runs = self._runs
        going = {key: run.settled is None for key, run in runs.items()}
        self._measuring.adopt(going, [run.run_dir for run in runs.values()])
        self._tell(ev.EngineSynced(tuple(self._runs), tuple(self._machine().servers)))

    def close(self) -> None:
        """Release everything; what runs goes on."""
        for execution in chain.from_iterable(self._executions.values()):
            execution.close()
        self._executions.clear()
        self._profiling.close()
        self._measuring.close()
        self._leases.close()
        self._starts.close()
        self._reports.clear()
        self._watcher.close()
        self._presence.close()
        if self._managers_alarm is not None:
            self._managers_alarm.close()
            self._managers_alarm = None
        if self._open_machine is not None:
            try:
                self._open_machine.control.close()
            except EngineFault as error:
                log.warning("cgroups are left behind: %s", error)
        self._open_machine = None

    def refresh(self, servers: str | None) -> None:
        """Divide the machine again (see the constructor), e.g. after its CPUs have changed.

        What runs on a server that is gone goes on to its end. Raises ``InvalidInput`` if it can't
        be divided so; everything stays as it was.
        """
        divided = self._discover(servers)
        self._spec = servers
        self._take_servers(divided)

    def _discover(self, servers: str | None) -> list[LocalServer]:
        """The machine divided so, with the servers' labels.

        Raises:
            InvalidInput: It can't be, or a label is of a server that there is not.
        """
        divided = discover_servers(servers)
        names = [local.server.name for local in divided]
        for of, label, value in self._labels:
            if of and of not in names:
                mend = f"the servers are {', '.join(names)}"
                raise InvalidInput(f"--label {of}:{label}={value}: no server {of!r}; {mend}")
        return [
            replace(
                local,
                server=replace(
                    local.server,
                    labels={
                        label: value
                        for of, label, value in self._labels
                        if of in ("", local.server.name)
                    },
                ),
            )
            for local in divided
        ]

    def _take_servers(self, servers: Sequence[LocalServer]) -> None:
        machine = self._machine()
        former, conditions = machine.servers, machine.control.conditions()
        self._presence.announce([cpu for local in servers for cpu in local.cpus])
        self._others = self._presence.others()
        told = {}
        for local in servers:
            shared = tuple(_shared(local, other) for other in self._others)
            here = (*conditions, *filter(None, shared))
            told[local.server.name] = replace(local, server=replace(local.server, conditions=here))
        machine.servers = told
        for name in former.keys() - machine.servers.keys():
            self._tell(ev.ServerLeft(name, "the machine was divided again"))
        for name, local in machine.servers.items():
            if former.get(name) != local:
                self._tell(ev.ServerReported(local.server))
                for condition in local.server.conditions:
                    if condition.kind is ConditionKind.SHARED_CPUS:
                        log.warning("server %s: %s", name, condition.message)

    def _look_for_managers(self) -> None:
        if self._managers_alarm is None:
            return
        self._managers_alarm.drain()
        self._managers_alarm.set(LOOK_FOR_MANAGERS_SECONDS)
        if self._presence.others() != self._others:
            self._take_servers(tuple(self._machine().servers.values()))

    def _machine(self) -> Launcher:
        if self._open_machine is None:
            raise EngineFault("the local engine is not open")
        return self._open_machine

    def poll(self, timeout_seconds: float = 0.0) -> Sequence[ev.Report]:
        """Reports since the last call, oldest first."""
        deadline = time.monotonic() + timeout_seconds
        self._watcher.wait(0.0 if self._reports else timeout_seconds)
        # Not all that wakes us is worth a report.
        while not self._reports and (left := deadline - time.monotonic()) > 0:
            self._watcher.wait(left)
        told, self._reports = self._reports, []
        self._watcher.set_news(present=False)
        return told

    def fileno(self) -> int:
        """Readable when ``poll`` has something to do."""
        return self._watcher.fileno()

    def _tell(self, report: ev.Report) -> None:
        if isinstance(report, End):
            self._measuring.ended(report.key)
            self._profiling.end_probe(report.key)
            for execution in self._executions.pop(report.key, ()):
                execution.kill()
        self._reports.append(report)
        self._watcher.set_news(present=True)

    def usage(self) -> Mapping[str, Usage]:
        """What each running workload has used, by key."""
        with self._watcher.spare_descriptors():
            return {key: run.usage() for key, run in self._runs.items() if run.running}

    def read_log(
        self, key: str, offset: int = 0, limit_bytes: int = 65536, source: LogSource = "output"
    ) -> LogChunk:
        """Output of a start, as far as rotation keeps it; see ``Engine.read_log``."""
        run = self._run_of(key)
        with self._watcher.spare_descriptors():
            if source == "load":
                return self._measuring.read_load(key, offset, limit_bytes)
            return run.read_log(offset, limit_bytes)

    def log_offset_at(self, key: str, seconds: float) -> int | None:
        """Where output begins that is so new; see ``Engine.log_offset_at``."""
        run = self._run_of(key)
        with self._watcher.spare_descriptors():
            return run.log_offset_at(seconds)

    def log_times(
        self, key: str, offset: int = 0, length_bytes: int = 65536
    ) -> Sequence[tuple[int, float]]:
        """When a piece of the output was written; see ``Engine.log_times``."""
        run = self._run_of(key)
        with self._watcher.spare_descriptors():
            return run.log_times(offset, length_bytes)

    def execute(self, key: str, command: Sequence[str], *, stdin: bool = False) -> CommandExecution:
        """Begin a command beside a running program; see ``Engine.execute``."""
        run, machine = self._run_of(key), self._machine()
        placement = run.start.placement
        if not run.running or placement is None:
            raise NotFound(f"{key!r} does not run; a command runs beside a running program")
        if run.workload is None:
            raise EngineFault(
                f"{key}: just taken over, its environment is not known yet", retryable=True
            )
        spec = machine.spec_of(run.run_dir, run.workload, run.start, placement, run.group)
        with self._watcher.spare_descriptors():
            execution = execute(replace(spec, command=tuple(command)), stdin=stdin)
        # Without a cgroup nothing else would end it with its workload.
        beside = [other for other in self._executions.get(key, ()) if not other.closed]
        self._executions[key] = [*beside, execution]
        return execution

    def _run_of(self, key: str) -> LocalRun:
        run = self._runs.get(key)
        if run is None:
            raise NotFound(f"no start has the key {key!r}")
        return run

    def check(self, workload: Workload) -> str:
        """Why this machine can't run it, for certain; see ``Engine.check``."""
        return why_not(workload)

    def perform(self, action: act.EngineAction) -> None:
        """Begin to carry out an action; ``poll`` reports the outcome."""
        self._machine()
        has_room = self._watcher.has_room() if isinstance(action, act.StartWorkload) else True
        with self._watcher.spare_descriptors():
            match action:
                case act.StartWorkload():
                    self._starts.start(action, has_room=has_room)
                case act.StopWorkload(key=key, grace_seconds=grace_seconds):
                    self._profiling.end_probe(key)
                    if not self._profiling.stop(key):
                        # What answers no more is ending, and neither unready nor dead.
                        self._measuring.pause(key, paused=True)
                        self._starts.stop(key, grace_seconds)
                case act.ResizeAllocation(key=key):
                    self._profiling.end_probe(key)
                    self._resize(action)
                case act.SuspendWorkload(key=key):
                    self._profiling.end_probe(key)
                    self._measuring.pause(key, paused=True)
                    self._starts.with_run(key, LocalRun.suspend)
                case act.ResumeWorkload(key=key):
                    self._starts.with_run(key, LocalRun.resume)
                    self._measuring.pause(key, paused=False)
                case act.MeasureWorkload():
                    self._measuring.measure(action)
                case act.ForgetWorkload(key=key):
                    self._profiling.forget(key)
                    self._starts.forget(key)
                    self._measuring.forget(key)
                case act.ProfileWorkload():
                    self._profiling.profile(action)
                case act.ProbeWorkload():
                    self._profiling.probe(action)

    def _resize(self, action: act.ResizeAllocation) -> None:
        try:
            refused = self._try_to_resize(action)
        except (InvalidInput, EngineFault, OutOfSpace, NotFound) as error:
            refused = ResizeRefused(str(error))
        if refused is None:
            self._tell(ev.AllocationResized(action.key, action.placements))
        else:
            self._tell(ev.ResizeFailed(action.key, refused.reason, action.placements))

    def _try_to_resize(self, action: act.ResizeAllocation) -> ResizeRefused | None:
        run = self._runs.get(action.key)
        if run is None or not run.running or run.start.placement is None:
            return ResizeRefused("it does not run")
        held = run.start.placement
        if [placement.server for placement in action.placements] != [held.server]:
            return ResizeRefused(f"it runs on {held.server} and can't move while it runs")
        server = self._machine().servers.get(held.server)
        if server is None:
            return ResizeRefused(f"its server {held.server!r} is no more")
        wanted = action.placements[0]
        start = replace(run.start, placement=wanted, cpus=server.cpus)
        critical = start.latency_critical
        refused = run.resize(
            start, limits(wanted.allocation, server, start.cpus, latency_critical=critical)
        )
        if refused is not None:
            return refused
        if start.cpus != run.start.cpus and run.supervisor_pid is not None:
            bind_tree(run.supervisor_pid, start.cpus)
        run.start = start
        try:
            records.save_start(run.run_dir, start)
        except (OSError, NotFound) as error:
            log.warning("%s: its new allocation is not on disk: %s", run.key, error)
        return None


def _shared(local: LocalServer, other: OtherManager) -> Condition | None:
    common = other.cpus.intersection(local.cpus)
    if not common:
        return None
    cpus = f"CPU {format_cpus(common)}" if len(common) == 1 else f"CPUs {format_cpus(common)}"
    return Condition(
        ConditionKind.SHARED_CPUS,
        f"another manager (process {other.pid}) gives out {cpus}, too: both place as if alone; "
        "divide the CPUs between them with --servers, or stop one",
    )


class _Starts:
    """The starts of one engine by key: each has one effect, however often it is asked for."""

    def __init__(
        self,
        directory: Path,
        machine: Callable[[], Launcher],
        watcher: Watcher,
        tell: Callable[[ev.Report], None],
    ) -> None:
        self.runs: dict[str, LocalRun] = {}
        self._directory = directory
        self._machine = machine
        self._watcher = watcher
        self._tell = tell
        # Refused before there was anything on disk: it must not start when asked for again.
        self._refused: dict[str, ev.StartFailed] = {}

    def close(self) -> None:
        for run in self.runs.values():
            run.let_go()
        self.runs.clear()
        self._refused.clear()

    def adopt(self, key: str) -> None:
        run_dir = self._directory / key
        start, end = records.read_start(run_dir), records.read_end(run_dir)
        try:
            record = read_run(run_dir)
        except NotFound:
            return
        # Without our record it is a stranger's, unless a supervisor of ours has signed for it.
        if start is None and record.claim is not Claim.TAKEN:
            return
        if end is not None and record.supervisor is not None and record.supervisor.is_alive():
            end = None  # We write it when the supervisor has ended: its workload has forged it.
        if end is None and record.claim is Claim.NONE:
            return  # Never begun: the core asks for it again, and finds its start record.
        run = self._make_run(key, start or StartRecord(None))
        if end is None:
            run.adopt(record)
        else:
            run.settled = end
            run.tell_again()

    def _make_run(self, key: str, start: StartRecord) -> LocalRun:
        run = LocalRun(self._directory / key, start, self._watcher, self._tell)
        self.runs[key] = run
        return run

    def with_run(self, key: str, do: Callable[[LocalRun], None]) -> None:
        run = self.runs.get(key)
        if run is None:
            return
        try:
            do(run)
        except (EngineFault, OutOfSpace, NotFound) as error:
            log.warning("%s: %s", key, error)

    def start(self, action: act.StartWorkload, *, has_room: bool) -> None:
        """Start it once; a known key is reported again. Every fault here is a failed start."""
        key = action.key
        if key in self.runs:
            self.runs[key].tell_again()
        elif key in self._refused:
            self._tell(self._refused[key])
        elif not has_room:
            message = "the manager has too many open files; raise its limit (ulimit -Hn)"
            self._refuse(key, message, retryable=True)
        else:
            try:
                check_key(key)
                self._launch(action)
            except (InvalidInput, EngineFault, Unavailable) as error:
                self._refuse(key, str(error), retryable=error.retryable)
            except OSError as error:
                self._refuse(key, f"cannot start it now: {error.strerror}", retryable=True)

    def _refuse(self, key: str, reason: str, *, retryable: bool) -> None:
        start = records.read_start(self._directory / key)
        if key not in self.runs and start is not None:
            # The supervisor of an engine that died over this start may still come.
            self._make_run(key, start)
        if key in self.runs:
            self.runs[key].fail_to_start(reason, retryable=retryable)
        else:
            self._refused[key] = ev.StartFailed(key, reason, retryable)
            self._tell(self._refused[key])

    def _launch(self, action: act.StartWorkload) -> None:
        machine = self._machine()
        if len(action.placements) != 1:
            raise InvalidInput(f"{len(action.placements)} servers; the local engine starts on one")
        placement = action.placements[0]
        if placement.server not in machine.servers:
            raise EngineFault(f"this machine has no server {placement.server!r}", retryable=True)
        start = self._planned_before(action.key)
        begun_here = start is None
        if start is None:
            critical = action.workload.type is WorkloadType.LATENCY_CRITICAL
            start = machine.plan(action.key, placement, latency_critical=critical)
            records.create_run(self._directory, action.key, start)
        run = self._make_run(action.key, start)
        run.begun_here = begun_here
        run.workload = action.workload
        run.watch_own(machine.launch(run.run_dir, run.workload, start, placement))

    def _planned_before(self, key: str) -> StartRecord | None:
        """The plan of an engine that died over this start, if its supervisor may still come."""
        start = records.read_start(self._directory / key)
        if start is None or start.placement is None or not start.groups:
            return start
        group = groups_of(start.groups, key)
        planned = self._machine().control.group(
            group.server, key, best_effort=start.placement.allocation.best_effort
        )
        if group.exists() or group == planned:
            return start
        # It died before it made the groups, so before it launched anything: plan again.
        records.remove_run(self._directory / key)
        return None

    def stop(self, key: str, grace_seconds: float) -> None:
        if key in self.runs:
            # A stop that could not be asked for is a fault: the runtime asks again.
            self.runs[key].stop(grace_seconds)
        elif key in self._refused:
            self._tell(self._refused[key])
        else:
            self._forbid(key, grace_seconds)

    def _forbid(self, key: str, grace_seconds: float) -> None:
        """A key that never started must not start any more, whenever it is asked for."""
        try:
            check_key(key)
            if records.read_start(self._directory / key) is None:
                records.create_run(self._directory, key, StartRecord(None))
        except (InvalidInput, OutOfSpace) as error:
            log.warning("%s: %s", key, error)
        self._refuse(key, reports.STOPPED_BEFORE_START, retryable=False)
        # A supervisor of an earlier engine may have claimed it since we were opened.
        if key in self.runs and self.runs[key].settled is None:
            self.with_run(key, lambda run: run.stop(grace_seconds))

    def forget(self, key: str) -> None:
        """Drop an ended start; one that runs stays, so that it can be stopped."""
        self._refused.pop(key, None)
        run = self.runs.get(key)
        if run is None or run.settled is None:
            return
        if not run.remove_groups():
            log.warning("%s: its cgroups are not empty, they stay", key)
        self._machine().remove_former_bases(run.group)
        run.forget()
        del self.runs[key]
