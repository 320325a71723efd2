"""The Slurm engine: a cluster's nodes are the servers, its jobs the starts.

Slurm starts and isolates; each job ends in our supervisor, whose records lie on the cluster's
shared directory. Everything that takes long is done by ``jobs`` on a thread of its own; this class
takes in the outcomes and reports. While Slurm does not answer nothing is reported, nor guessed.
"""

import logging
import secrets
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.engines.base import Execution, LogChunk, LogSource, Usage
from wharfinger.engines.notes import Notes
from wharfinger.engines.slow import CallOutcome, SlowCalls
from wharfinger.engines.slurm.client.base import Node, SlurmClient
from wharfinger.engines.slurm.execution import execute_beside, step_options
from wharfinger.engines.slurm.jobs import (
    ControlOrder,
    Look,
    SlurmJobs,
    StopOrder,
)
from wharfinger.engines.slurm.looks import LookTiming
from wharfinger.engines.slurm.measuring import NodeMonitor
from wharfinger.engines.slurm.opening import patiently, read_cluster
from wharfinger.engines.slurm.profiling import NodeProfiler
from wharfinger.engines.slurm.progress import StartProgress
from wharfinger.engines.slurm.runs import StartOrder
from wharfinger.engines.slurm.script import cpus_for, why_not_run
from wharfinger.engines.slurm.servers import Held, servers_of
from wharfinger.engines.slurm.settings import SlurmSettings
from wharfinger.engines.slurm.start import SlurmStart
from wharfinger.engines.slurm.start_notes import StartNote, StartNotes, note_of
from wharfinger.engines.slurm.user_jobs import LetGoOrder
from wharfinger.engines.supervised.watcher import Watcher
from wharfinger.errors import EngineFault, InvalidInput, NotFound
from wharfinger.host.keys import check_key
from wharfinger.host.reports import STOPPED_BEFORE_START, End
from wharfinger.host.run_dir import output_offset_at, output_times, read_output
from wharfinger.model.platform import Server
from wharfinger.model.profile import Measurements
from wharfinger.model.view import Capabilities, Resize
from wharfinger.model.workload import Workload
from wharfinger.profiling.injectable import IN_PLANS

log = logging.getLogger(__name__)

MOST_SERVERS = 32
"""Of one workload: each costs a step of Slurm's whenever it is told something."""


class SlurmEngine:
    """A Slurm cluster.

    Args:
        client: Asks Slurm.
        notes: What must be found again.
        settings: What the administrator stated.
        directory: On this host, for the records of load generators; ``None`` = on the shared one.
    """

    name = "slurm"

    def __init__(
        self,
        client: SlurmClient,
        notes: Notes,
        settings: SlurmSettings | None = None,
        directory: Path | None = None,
    ) -> None:
        self._client = client
        self._notes = StartNotes(notes)
        self._settings = settings or SlurmSettings()
        self._directory = directory
        self._calls = SlowCalls()
        self._watcher = Watcher()
        self._monitor: NodeMonitor | None = None
        self._profiler = NodeProfiler(self._settings, self._calls, self._tell)
        self._open_jobs: SlurmJobs | None = None
        self._open_progress: StartProgress | None = None
        self._partitions: tuple[str, ...] = ()
        self._nodes: Sequence[Node] = ()
        self._told_nodes: Sequence[Node] | None = None
        self._told_held: dict[str, Held] = {}
        self._servers: dict[str, Server] = {}
        self._starts: dict[str, SlurmStart] = {}
        # Refused before anything was noted: they must not start when asked for again.
        self._refused: dict[str, ev.StartFailed] = {}
        self._offers: dict[str, ev.WorkloadOffered] = {}
        self._reports: list[ev.Report] = []
        self._outcomes: deque[CallOutcome] = deque()
        self._looks = LookTiming(self._starts, self._calls, self._settings.poll_seconds)
        self._listed_at = 0.0

    @property
    def capabilities(self) -> Capabilities:
        """As Slurm has it: whole CPUs; with a shared directory it paces, suspends and measures."""
        shared = self._settings.shared_dir is not None
        return Capabilities(
            max_servers_per_workload=MOST_SERVERS if shared else 1,
            fractional_cpu=False,
            shares_cpus=False,
            resize=Resize.WITHIN_ALLOCATION if shared else Resize.NONE,
            suspend=shared,
            memory_limit=False,
            measures=shared,
            profiles=shared,
            probes=shared,
            evicts=True,
            offers=True,
            annotates=True,
            # Its nodes are not asked: each says of a plan what has no signal there.
            sources=IN_PLANS,
        )

    # --- opening ------------------------------------------------------------------------------

    def open(self) -> None:
        """See ``Engine.open``; raises ``InvalidInput`` for settings that do not fit the cluster."""
        cluster = read_cluster(self._client, self._settings)
        self._partitions = cluster.partitions
        self._starts.clear()
        self._starts.update(
            (key, self._recall(key, note)) for key, note in self._notes.items().items()
        )
        self._calls.open()
        self._watcher.open()
        self._watcher.add(self._calls.fileno(), lambda: None)  # ``poll`` takes the outcomes.
        try:
            self._open_jobs = SlurmJobs(
                self._client,
                self._notes,
                self._settings,
                self._notes.identity(secrets.token_hex(6)),
                cluster,
                lambda: self._looks.watched,
                self._calls,
            )
            self._open_progress = StartProgress(
                self._starts, self._jobs, self._calls, self._looks, self._settings, self._tell
            )
            self._jobs.runs.prepare()
            self._listed_at = time.monotonic()
            self._looks.watch()
            first = patiently(self._jobs.look)
            # From here on the thread of the calls alone asks Slurm.
            identity = self._notes.identity(secrets.token_hex(6))
            self._profiler.open(self._client, identity, secrets.token_hex(4), cluster.partition_of)
        except BaseException:
            self._watcher.close()
            self._calls.close()
            raise
        self._adopt(first)
        synced = ev.EngineSynced(tuple(self._starts), tuple(self._servers), tuple(self._offers))
        self._tell(synced)
        self._looks.ask(self._jobs.look_operation)

    def _recall(self, key: str, note: StartNote) -> SlurmStart:
        supervised = self._settings.shared_dir is not None and not note.of_user
        start = SlurmStart(key, note, supervised)
        start.accepted = note.job_id is not None
        start.released = True if start.accepted else None
        start.started, start.end = note.read_reports()
        return start

    def _adopt(self, look: Look) -> None:
        """Report what an earlier engine left, as it is now."""
        for key, start in list(self._starts.items()):
            if not start.accepted and start.end is None:
                # Nothing is known of its job: it is asked for again, and then looked for.
                del self._starts[key]
            elif look.jobs is not None and start.live:
                start.job = look.jobs.get(key)
        self._nodes = look.nodes or ()
        self._tell_of_servers()
        self._monitor = self._make_monitor()
        if self._monitor is not None:
            self._monitor.adopt()
        for key, start in self._starts.items():
            self._tell(*start.state())
            if start.live and start.job is not None and start.job.held:
                start.released = None
                self._calls.ask(self._jobs.release_operation, key, key, internal=True)
        self._take_look(look)
        self._looks.hurry()

    def _make_monitor(self) -> NodeMonitor | None:
        shared = self._settings.shared_dir
        if shared is None:
            return None
        identity = self._notes.identity(secrets.token_hex(6))
        return NodeMonitor(
            self._starts,
            self._directory or shared / f"loads-{identity}",
            identity,
            self._jobs.runs.run_dir,
            self._address_of,
            self._stop_as_not_alive,
            self._watcher,
            self._tell,
        )

    def _address_of(self, name: str) -> str:
        """Of a node; Slurm itself takes its name where no address is configured."""
        known = (node.address for node in self._nodes if node.name == name)
        return next(known, "") or name

    def close(self) -> None:
        """Release everything; what runs goes on."""
        if self._monitor is not None:
            self._monitor.close()
            self._monitor = None
        self._watcher.close()
        self._profiler.close()
        self._calls.close()
        self._open_jobs = None
        self._open_progress = None
        self._starts.clear()
        self._refused.clear()
        self._offers.clear()
        self._reports.clear()
        self._outcomes.clear()
        self._servers.clear()
        self._told_nodes = None

    @property
    def _jobs(self) -> SlurmJobs:
        if self._open_jobs is None:
            raise EngineFault("the Slurm engine is not open")
        return self._open_jobs

    @property
    def _progress(self) -> StartProgress:
        if self._open_progress is None:
            raise EngineFault("the Slurm engine is not open")
        return self._open_progress

    # --- reports --------------------------------------------------------------------------------

    def poll(self, timeout_seconds: float = 0.0) -> Sequence[ev.Report]:
        """Reports since the last call, oldest first."""
        deadline = time.monotonic() + timeout_seconds
        while True:
            left = deadline - time.monotonic()
            self._looks.look_ahead()
            self._watcher.wait(0.0 if self._reports or self._outcomes else left)
            self._outcomes.extend(self._calls.take())
            while self._outcomes:  # If one raises, the next call goes on with the others.
                self._take(self._outcomes.popleft())
            if self._monitor is not None:
                self._monitor.work()
            self._looks.look_ahead()
            if self._reports or left <= 0:
                break
        told, self._reports = self._reports, []
        return told

    def fileno(self) -> int:
        """Readable when ``poll`` has something to do."""
        return self._watcher.fileno()

    def _tell(self, *reports: ev.Report) -> None:
        if reports:
            self._reports.extend(reports)
            self._calls.wake()
        for report in reports:
            if isinstance(report, End) and self._monitor is not None:
                self._monitor.ended(report.key)

    # --- actions --------------------------------------------------------------------------------

    def check(self, workload: Workload) -> str:
        """Why it can't run, for certain; its files are the nodes', which only they see."""
        return why_not_run(workload, shared=self._settings.shared_dir is not None)

    def perform(self, action: act.EngineAction) -> None:
        """Begin to carry out an action; ``poll`` reports the outcome."""
        if self._monitor is not None and self._monitor.take(action):
            self._calls.wake()
        if self._profiler.take_action(action):
            return
        match action:
            case act.StartWorkload():
                self._start(action)
            case act.StopWorkload(key=key, grace_seconds=grace_seconds):
                self._stop(key, grace_seconds)
            case act.ResizeAllocation():
                self._resize(action)
            case act.SuspendWorkload(key=key):
                self._suspend(key, suspended=True)
            case act.ResumeWorkload(key=key):
                self._suspend(key, suspended=False)
            case act.ForgetWorkload(key=key):
                self._forget(key)
            case act.ProbeWorkload(key=key, number=number):
                why = "this engine raises no sources of interference"
                self._tell(ev.WorkloadProbed(key, number, Measurements(), why))
            case act.AnnotateWorkload(handle=handle):
                self._calls.ask(self._jobs.annotate_operation, f"{handle} comment", action)
            case act.MeasureWorkload(key=key, workload=workload):
                if key in self._starts:  # Its monitor has taken it.
                    self._starts[key].workload = workload

    def _start(self, action: act.StartWorkload) -> None:
        key = action.key
        if key in self._starts:
            self._tell(*self._starts[key].state())
            return
        if key in self._refused:
            self._tell(self._refused[key])
            return
        try:
            self._check_start(action)
        except (InvalidInput, EngineFault) as error:
            self._refused[key] = ev.StartFailed(key, str(error), error.retryable)
            self._tell(self._refused[key])
            return
        note = note_of(action.workload, action.placements)
        if action.handle:
            note = replace(note, of_user=True, several=False, handle=action.handle)
            let_go = LetGoOrder(key, action.handle, action.workload, action.placements)
            self._calls.ask(self._jobs.let_go_operation, key, let_go)
        else:
            order = StartOrder(key, action.workload, action.placements, action.at_most_seconds)
            self._calls.ask(self._jobs.begin_operation, key, order)
        supervised = self._settings.shared_dir is not None and not action.handle
        self._starts[key] = SlurmStart(key, note, supervised, action.workload)

    def _check_start(self, action: act.StartWorkload) -> None:
        check_key(action.key)
        if why := self.check(action.workload):
            raise InvalidInput(why)
        if action.handle and action.handle not in self._offers:
            raise InvalidInput(f"{action.handle} is not held any more: its user took it back")
        most = self.capabilities.max_servers_per_workload
        if action.handle:
            limits = self._offers[action.handle].limits
            most = (limits and limits.max_servers) or 1
        if len(action.placements) > most:
            raise InvalidInput(f"{len(action.placements)} servers; its job has {most} at most here")
        for placement in action.placements:
            if placement.server not in self._servers:
                raise EngineFault(f"Slurm has no node {placement.server!r}", retryable=True)

    def _stop(self, key: str, grace_seconds: float) -> None:
        start = self._starts.get(key)
        if start is None and key in self._refused:
            self._tell(self._refused[key])
        elif start is None:
            self._forbid(key)
        elif start.end is not None:
            self._tell(start.end)
        elif not start.settling:
            self._progress.stop(StopOrder(key, grace_seconds))
            start.stop_asked = True

    def _stop_as_not_alive(self, key: str, grace_seconds: float) -> None:
        self._progress.stop(StopOrder(key, grace_seconds, not_alive=True))

    def _forbid(self, key: str) -> None:
        """A key that never started must not start any more, whenever it is asked for."""
        start = SlurmStart(key, self._notes.get(key) or StartNote(), supervised=False)
        start.stop_asked = True
        refusal = ev.StartFailed(key, STOPPED_BEFORE_START, retryable=False)
        # An engine before us may have begun with it: its job is found, and withdrawn.
        self._calls.ask(self._jobs.withdraw_operation, key, key, internal=True)
        self._starts[key] = start
        self._progress.settle(start, refusal)

    def _resize(self, action: act.ResizeAllocation) -> None:
        start = self._starts.get(action.key)
        if refused := self._why_not_resized(start, action):
            self._tell(ev.ResizeFailed(action.key, refused, action.placements))
            return
        order = ControlOrder(action.key, placements=action.placements)
        self._calls.ask(self._jobs.control_operation, action.key, order)

    def _why_not_resized(self, start: SlurmStart | None, action: act.ResizeAllocation) -> str:
        if start is None or not start.running:
            return "it does not run"
        held = [placement.server for placement in start.note.placements]
        if sorted(placement.server for placement in action.placements) != sorted(held):
            return f"it runs on {', '.join(held)} and can't move while it runs"
        if cpus_for(action.placements) > start.note.cpus:
            return f"its job has {start.note.cpus} CPUs, and Slurm gives a running job no more"
        had = start.note.memory_bytes
        if any(placement.allocation.memory_bytes > had for placement in action.placements):
            return f"its job has {had} bytes of memory, and Slurm gives a running job no more"
        return "" if start.supervised else "without a shared directory nothing holds it to less"

    def _suspend(self, key: str, *, suspended: bool) -> None:
        start = self._starts.get(key)
        # One that has not begun finds the word in its run directory when it does.
        if start is not None and start.live and start.supervised:
            order = ControlOrder(key, suspended=suspended)
            self._calls.ask(self._jobs.control_operation, key, order)

    def _forget(self, key: str) -> None:
        self._refused.pop(key, None)
        start = self._starts.get(key)
        if start is not None and start.end is not None:
            self._calls.ask(self._jobs.forget_operation, key, key)
            del self._starts[key]

    # --- outcomes -------------------------------------------------------------------------------

    def _take(self, outcome: CallOutcome) -> None:
        jobs = self._jobs
        if outcome.operation is jobs.look_operation:
            try:
                if outcome.error is not None:
                    log.error("what Slurm says can't be used: %s", outcome.error)
                else:
                    self._take_look(outcome.result)
            finally:
                self._looks.ask(jobs.look_operation)
            return
        if not self._profiler.take(outcome):
            self._progress.take(outcome)

    # --- looks ----------------------------------------------------------------------------------

    def _take_look(self, look: Look) -> None:
        jobs = look.jobs
        self._looks.took_seconds = look.took_seconds
        for key, reading in look.readings.items():
            start = self._starts.get(key)
            if start is not None and start.live:
                self._progress.see(start, start.job if jobs is None else jobs.get(key), reading)
        if jobs is None:
            return
        self._profiler.see(look.profilers)
        now = time.monotonic()
        seconds, self._listed_at = now - self._listed_at, now
        for start in list(self._starts.values()):
            if start.accepted and start.live:
                self._progress.see(start, jobs.get(start.key), None)
                self._progress.follow(start, seconds)
        if self._monitor is not None and look.usage:
            self._monitor.observe_usage(look.usage)
        for key, figures in (look.usage or {}).items():
            if key in self._starts:
                self._starts[key].usage = figures
        if look.offers is not None:
            self._take_offers(look.offers)
        if look.nodes is not None:
            self._nodes = look.nodes
        self._tell_of_servers()

    def _take_offers(self, offers: Mapping[str, ev.WorkloadOffered]) -> None:
        for handle, offer in offers.items():
            if self._offers.get(handle) != offer:
                self._offers[handle] = offer
                self._tell(offer)
        let_go = {
            start.note.handle or f"job {start.note.job_id}"
            for start in self._starts.values()
            if start.note.of_user and (start.live or start.started is not None)
        }
        for handle in [handle for handle in self._offers if handle not in offers]:
            offer = self._offers.pop(handle)
            if handle not in let_go:
                why = f"{handle}: its user released or cancelled it, or changed its comment"
                self._tell(ev.OfferWithdrawn(offer.workload.name, why))

    def _tell_of_servers(self) -> None:
        held: dict[str, Held] = {}
        for start in self._starts.values():
            job = start.job
            if start.live and job is not None and job.nodes and job.state.upper() != "PENDING":
                for placement in start.note.placements:
                    before = held.get(placement.server, Held())
                    held[placement.server] = Held(
                        before.cpu_millicpus + placement.allocation.cpu_millicpus,
                        before.memory_bytes + placement.allocation.memory_bytes,
                    )
        self._profiler.add_held(held)
        if self._told_nodes is self._nodes and self._told_held == held:
            return
        self._told_nodes, self._told_held = self._nodes, held
        former = self._servers
        servers = servers_of(self._nodes, self._partitions, self._settings.platform_features, held)
        self._servers = servers
        changed = tuple(s for name, s in servers.items() if former.get(name) != s)
        if changed:
            self._tell(ev.ServersReported(changed))
        for name in former:
            if name not in servers:
                self._tell(ev.ServerLeft(name, "Slurm does not list it any more"))

    # --- what is asked of starts ----------------------------------------------------------------

    def usage(self) -> Mapping[str, Usage]:
        """What each running workload has used, as far as Slurm measures it."""
        found = {}
        for key, start in self._starts.items():
            if start.running:
                cpu_seconds, peak_bytes = start.usage or (None, None)
                found[key] = Usage(cpu_seconds, None, None, peak_bytes or None)
        return found

    def read_log(
        self, key: str, offset: int = 0, limit_bytes: int = 65536, source: LogSource = "output"
    ) -> LogChunk:
        """Output of a start, as far as rotation keeps it; see ``Engine.read_log``."""
        start = self._start_of(key)
        if source == "load":
            if self._monitor is None:
                raise NotFound(f"{key!r} has no load generator: there is no shared directory")
            return self._monitor.read_load(key, offset, limit_bytes)
        ended = start.end is not None
        run_dir = self._jobs.runs.run_dir(key)
        if run_dir is not None:
            with suppress(NotFound):
                return LogChunk(*read_output(run_dir, offset, limit_bytes), ended)
        # Its workload has moved it away, or it is on the node alone.
        return LogChunk(b"", max(0, offset), ended)

    def log_offset_at(self, key: str, seconds: float) -> int | None:
        """Where output begins that is so new; see ``Engine.log_offset_at``."""
        self._start_of(key)
        run_dir = self._jobs.runs.run_dir(key)
        if run_dir is not None:
            with suppress(NotFound):
                return output_offset_at(run_dir, seconds)
        return 0

    def log_times(
        self, key: str, offset: int = 0, length_bytes: int = 65536
    ) -> Sequence[tuple[int, float]]:
        """When a piece of the output was written; see ``Engine.log_times``."""
        self._start_of(key)
        run_dir = self._jobs.runs.run_dir(key)
        if run_dir is not None:
            with suppress(NotFound):
                return output_times(run_dir, offset, length_bytes)
        return []

    def execute(self, key: str, command: Sequence[str], *, stdin: bool = False) -> Execution:
        """Begin a command beside a running program, as a step of its job; see ``Engine.execute``.

        ``InvalidInput`` for a user's own job: its environment and its rights are its user's.
        """
        start = self._start_of(key)
        job_id = start.note.job_id
        if not start.running or job_id is None:
            raise NotFound(f"{key!r} does not run; a command runs beside a running program")
        if start.note.of_user:
            raise InvalidInput(
                f"{start.note.workload}: it is its user's own job; use Slurm's: "
                f"srun --jobid={job_id} --overlap COMMAND"
            )
        if start.workload is None:
            why = f"{key}: just taken over, its environment is not known yet"
            raise EngineFault(why, retryable=True)
        step = step_options(job_id, start.note.placements[0].server)
        return execute_beside(self._client.srun(), step, start.workload, command, stdin=stdin)

    def _start_of(self, key: str) -> SlurmStart:
        start = self._starts.get(key)
        if start is None:
            raise NotFound(f"no start has the key {key!r}")
        return start
