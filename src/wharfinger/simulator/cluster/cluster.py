"""The simulated cluster: servers, what runs on them, and how fast.

The effects of an engine's actions, as events in the loop. Speeds change only when a workload
comes, goes, is resized, suspended or asked more; then the ground truth is asked
for the rates of that server, and ends are put where they belong. Nothing polls.

``engines.simulated`` is the engine on it; profiling is in ``profiling_runs``, what is measured in
``monitor``. Every report goes to one listener; without one, what is known is told to the next.
"""

from collections.abc import Callable, Iterable, Sequence
from math import inf

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.model.allocation import Placement
from wharfinger.model.platform import Server
from wharfinger.model.view import Capabilities
from wharfinger.model.workload import Run as Command
from wharfinger.model.workload import Workload, WorkloadType
from wharfinger.simulator.cluster.accounting import Ledger
from wharfinger.simulator.cluster.monitor import Meters
from wharfinger.simulator.cluster.profiling_runs import ProfilingRuns
from wharfinger.simulator.cluster.runs import Account, RunPart, SimulatedRun, State
from wharfinger.simulator.cluster.servers import SimulatedServer, share_out
from wharfinger.simulator.kernel.loop import EventLoop
from wharfinger.simulator.kernel.streams import Streams
from wharfinger.simulator.scenario.jobs import Job
from wharfinger.simulator.scenario.setup import Costs, Faults, Measuring
from wharfinger.simulator.truth.ground_truth import GroundTruth

ENDS, TELLS = 0, 5
"""Priorities of events of one moment: first what ends, then what is told of it."""

Listener = Callable[[ev.Report], None]
_ENDS = (ev.WorkloadFinished, ev.WorkloadVanished, ev.StartFailed)


class SimulatedCluster:
    """Servers and what runs on them; it outlives the engines that are opened on it.

    Args:
        loop: The clock.
        truth: How fast everything really is.
        servers: That are there from the beginning.
        jobs: By name: what a workload that is started really is.
        streams: For starts, noise and faults.
        costs: What takes time.
        faults: What goes wrong.
        measuring: How well performance is seen.

    Attributes:
        accounts: What became of each job that was handed in, by name.
        ledger: What the whole cluster gives and uses, over time.
        capabilities: What it can do.
    """

    name = "simulated"

    def __init__(
        self,
        loop: EventLoop,
        truth: GroundTruth,
        servers: Iterable[Server],
        jobs: Iterable[Job] = (),
        *,
        streams: Streams | None = None,
        costs: Costs | None = None,
        faults: Faults | None = None,
        measuring: Measuring | None = None,
        capabilities: Capabilities | None = None,
    ) -> None:
        self.loop = loop
        self.truth = truth
        self.costs = costs or Costs()
        self.faults = faults or Faults()
        self.streams = streams or Streams(0)
        self.capabilities = capabilities or Capabilities(measures=True, profiles=True)
        self.jobs = {job.name: job for job in jobs}
        self.accounts: dict[str, Account] = {}
        self.ledger = Ledger()
        self.machines: dict[str, SimulatedServer] = {}
        self._rows = 0
        self._runs: dict[str, SimulatedRun] = {}
        self._listener: Listener | None = None
        self._best: dict[str, float] = {}
        self._platforms: dict[str, None] = {}
        self.meters = Meters(loop, self.streams, self.tell, measuring or Measuring())
        self.profiling = ProfilingRuns(self)
        for server in servers:
            self._add(server)

    # --- what the world does --------------------------------------------------------------

    @property
    def now(self) -> float:
        """Seconds, by the loop."""
        return self.loop.now

    @property
    def runs(self) -> Iterable[SimulatedRun]:
        """All that are known, ended or not, in the order in which they were asked for."""
        return self._runs.values()

    def is_busy(self) -> bool:
        """Whether anything is starting, running or being profiled."""
        return self.ledger.present > 0

    def submitted(self, job: Job) -> Account:
        """A job is handed in: from now on it is waited for."""
        self.jobs[job.name] = job
        best = [self.best(phase.application) for phase in job.all_phases]
        account = self.accounts[job.name] = Account(job, self.now, *best)
        account.recorder = self.ledger.recorder
        return account

    def best(self, application: str) -> float:
        """Its rate alone on the best platform that there is, or was."""
        if application not in self._best:
            rates = [self.truth.most(platform, application) for platform in self._platforms]
            self._best[application] = max(rates, default=0.0)
        return self._best[application]

    def put_server(self, server: Server) -> None:
        """A server comes, or is back."""
        self._add(server)
        self.tell(ev.ServerReported(server))

    def remove_server(self, name: str, reason: str = "it failed") -> None:
        """A server is gone, with all that runs there."""
        machine = self.machines.pop(name, None)
        if machine is None:
            return
        self.ledger.move(self.now, machine, -1)
        machine.up = False
        self.profiling.server_left(machine, f"server {name} left")
        for run in dict.fromkeys(part.run for part in machine.parts if part.run.counts):
            self._end(run, ev.WorkloadVanished(run.key, f"server {name} left"))
        self.tell(ev.ServerLeft(name, reason))

    # --- what an engine calls -------------------------------------------------------------

    def attach(self, listener: Listener) -> None:
        """Tell it all that is known, and from now on what happens; it alone."""
        self._listener = listener
        for machine in self.machines.values():
            listener(ev.ServerReported(machine.server))
        for run in self._runs.values():
            self._tell_again(run)
        listener(ev.EngineSynced(tuple(self._runs), tuple(self.machines)))

    def detach(self, listener: Listener) -> None:
        """Tell it nothing more; what runs goes on, but for profiling."""
        if self._listener == listener:
            self._listener = None
            self.profiling.clear()

    def perform(self, action: act.EngineAction) -> None:
        """Begin to carry an action out."""
        match action:
            case act.StartWorkload():
                self._start(action)
            case act.StopWorkload(key=key):
                self._stop(key)
            case act.ResizeAllocation(key=key, placements=placements):
                self._resize(key, placements)
            case act.SuspendWorkload(key=key):
                self._suspend(key, State.RUNNING, State.SUSPENDED)
            case act.ResumeWorkload(key=key):
                self._suspend(key, State.SUSPENDED, State.RUNNING)
            case act.MeasureWorkload(key=key):
                self.meters.watch(self._runs.get(key))
            case act.ForgetWorkload(key=key):
                self._forget(key)
            case act.ProfileWorkload():
                self.profiling.profile(action)

    def run_of(self, key: str) -> SimulatedRun | None:
        """What is known of a key."""
        return self._runs.get(key)

    def tell(self, report: ev.Report, after_seconds: float = 0.0) -> None:
        """Say what happened, now or later; an answer may be lost, and is found again."""
        key = getattr(report, "key", None)
        if key is not None and self.faults.lost_answers:
            run = self._runs.get(key)
            what = (run.job.name, run.account.starts) if run else ("", key)
            draw = self.streams.uniform("lost", *what, type(report).__name__)
            if draw < self.faults.lost_answers:
                after_seconds += self.faults.found_seconds
        if after_seconds > 0:
            self.loop.schedule(self.now + after_seconds, self._say, report, TELLS)
        else:
            self._say(report)

    # --- starting and ending --------------------------------------------------------------

    def job_of(self, workload: Workload) -> Job | None:
        """What a workload really is; ``None`` = there is no such program."""
        return self.jobs.get(workload.name)

    def _start(self, action: act.StartWorkload) -> None:
        key = action.key
        known = self._runs.get(key)
        if known is not None:
            self._tell_again(known)
            return
        job = self.job_of(action.workload)
        if job is None:
            run = self._runs[key] = self._nothing(key, action.workload)
            self.tell(ev.StartAccepted(key))
            why = f"no such program: {action.workload.run.command[0]!r}"
            self._settle(run, ev.StartFailed(key, why, retryable=False))
            return
        account = self.accounts.get(job.name) or self.submitted(job)
        account.starts += 1
        account.ended_at, account.failed = None, False
        queue = self.truth.queue(job.application)
        run = self._runs[key] = SimulatedRun(key, job, account, action.placements, queue)
        self.tell(ev.StartAccepted(key))
        self.ledger.present += 1
        run.handle = self.loop.schedule(self.now + self._start_seconds(run), self._begin, run)

    def _start_seconds(self, run: SimulatedRun) -> float:
        costs = self.costs
        seconds = costs.start_seconds
        if seconds and costs.start_spread:
            name = run.job.name, run.account.starts
            seconds *= self.streams.lognormal("start", *name, sigma=costs.start_spread)
        return seconds + (costs.move_seconds if run.account.first_run_at is not None else 0.0)

    def _begin(self, run: SimulatedRun) -> None:
        """The program is there: it runs from now on."""
        run.handle = 0
        gone = [p.server for p in run.placements if p.server not in self.machines]
        if gone:
            self._end(run, ev.StartFailed(run.key, f"no server {gone[0]!r} here", retryable=True))
            return
        account = run.account
        if self.faults.start_failures:
            draw = self.streams.uniform("start-failure", run.job.name, account.starts)
            if draw < self.faults.start_failures:
                why = "it was killed before the program began"
                self._end(run, ev.StartFailed(run.key, why, retryable=True))
                return
        if account.first_run_at is None:
            account.first_run_at = self.now
        elif not self.costs.keeps_work:
            account.begin_anew()
        run.phase = sum(phase.from_work <= account.done for phase in run.job.phases)
        run.state, run.since = State.RUNNING, self.now
        self._set_load((run, self.now - account.submitted_at))
        run.started = ev.WorkloadStarted(run.key, f"{self.name} {run.key}")
        self.tell(run.started)
        if run.job.load is not None and run.job.lifetime_seconds < inf:
            ends_at = max(self.now, account.submitted_at + run.job.lifetime_seconds)
            run.handle = self.loop.schedule(ends_at, self._complete, run, ENDS)
        self.settle_in(run, run.placements)

    def settle_in(self, run: SimulatedRun, placements: Sequence[Placement]) -> None:
        """It holds these from now on; residents are slowed by it."""
        run.placements = tuple(placements)
        run.parts = [RunPart(run, self.machines[p.server], p.allocation) for p in placements]
        for part in run.parts:
            self.ledger.hold(self.now, part, 1)
            part.machine.hold(part)
        if run.measured:
            self.meters.watch(run)
        for part in list(run.parts):
            if run.state is State.RUNNING:
                self.refresh(part.machine, joined=True)

    def leave(self, run: SimulatedRun) -> None:
        """It holds nothing any more."""
        parts, run.parts = run.parts, []
        for part in parts:
            self.ledger.hold(self.now, part, -1)
            part.machine.release(part)
        for part in parts:
            if part.machine.up:
                self.refresh(part.machine)

    def _reach(self, run: SimulatedRun) -> None:
        """A phase of its work is done, or all of it."""
        if run.phase == len(run.job.phases):
            self._complete(run)
            return
        run.handle = 0
        run.settle(self.now)
        run.account.done = run.job.phases[run.phase].from_work
        run.phase += 1
        for part in run.parts:
            part.look(self.truth)
        for part in run.parts:
            self.refresh(part.machine)

    def _complete(self, run: SimulatedRun) -> None:
        run.handle = 0
        run.settle(self.now)
        if run.job.load is None:
            run.account.done = run.job.work
        self._end(run, ev.WorkloadFinished(run.key, run.job.exit_code, None, "exited"))

    def _end(self, run: SimulatedRun, report: ev.Report) -> None:
        """It is over, in this way."""
        if run.end is not None:
            return
        run.settle(self.now)
        if run.handle:
            self.loop.cancel(run.handle)
            run.handle = 0
        self.ledger.present -= 1
        run.state = State.ENDED
        self.leave(run)
        self._settle(run, report)

    def _settle(self, run: SimulatedRun, report: ev.Report) -> None:
        run.state, run.end = State.ENDED, report
        account = run.account
        finished = isinstance(report, ev.WorkloadFinished)
        stopped = finished and report.reason == "stopped"  # type: ignore[union-attr]
        if not stopped and not (isinstance(report, ev.StartFailed) and report.retryable):
            account.ended_at = self.now
            account.failed = not (finished and report.exit_code == 0)  # type: ignore[union-attr]
        self.tell(report)

    def _stop(self, key: str) -> None:
        if self.profiling.stop(key):
            return
        run = self._runs.get(key)
        why = "stopped before it started"
        if run is None:
            unknown = Workload(key, WorkloadType.SINGLE_NODE, Command(("unknown",)))
            run = self._runs[key] = self._nothing(key, unknown)
            self._settle(run, ev.StartFailed(key, why, retryable=False))
        elif run.end is not None:
            self.tell(run.end)
        elif run.state is State.STARTING:
            self._end(run, ev.StartFailed(key, why, retryable=False))
        else:
            self.loop.schedule(self.now + self.costs.stop_seconds, self._stopped, run, ENDS)

    def _stopped(self, run: SimulatedRun) -> None:
        self._end(run, ev.WorkloadFinished(run.key, None, 15, "stopped"))

    def _forget(self, key: str) -> None:
        self.profiling.forget(key)
        run = self._runs.get(key)
        if run is not None and run.end is not None:
            del self._runs[key]

    # --- while it runs --------------------------------------------------------------------

    def _resize(self, key: str, placements: tuple[Placement, ...]) -> None:
        run = self._runs.get(key)
        if run is None or run.state not in (State.RUNNING, State.SUSPENDED):
            self.tell(ev.ResizeFailed(key, "it does not run", placements))
            return
        run.resizes += 1
        what = (run, run.resizes, placements)
        self.loop.schedule(self.now + self.costs.resize_seconds, self._resized, what)

    def _resized(self, what: tuple[SimulatedRun, int, tuple[Placement, ...]]) -> None:
        run, number, placements = what
        if run.end is not None:
            return
        gone = [p.server for p in placements if p.server not in self.machines]
        if gone:
            self.tell(ev.ResizeFailed(run.key, f"no server {gone[0]!r} here", placements))
            return
        if number == run.resizes:
            run.settle(self.now)
            self.leave(run)
            self.settle_in(run, placements)
        if run.end is None:
            self.tell(ev.AllocationResized(run.key, placements))

    def _suspend(self, key: str, source: State, target: State) -> None:
        run = self._runs.get(key)
        if run is None or run.state is not source:
            return
        run.settle(self.now)
        run.state = target
        if run.handle and run.job.load is None:
            self.loop.cancel(run.handle)
            run.handle = 0
        for part in run.parts:
            part.rate = part.used_millicpus = 0.0
        for part in run.parts:
            self.refresh(part.machine)

    def _set_load(self, what: tuple[SimulatedRun, float]) -> None:
        """What a service is asked from so many seconds of its life on, until that changes."""
        run, passed = what
        load = run.job.load
        if load is None or run.end is not None:
            return
        run.settle(self.now)
        run.load_per_second = load.at(passed)
        change = load.next_change(passed)
        if change is not None:
            at = max(self.now, run.account.submitted_at + change)
            self.loop.schedule(at, self._set_load, (run, change))
        for part in run.parts:
            part.look(self.truth)
        for part in run.parts:
            self.refresh(part.machine)

    # --- how fast -------------------------------------------------------------------------

    def refresh(self, machine: SimulatedServer, *, joined: bool = False) -> None:
        """The residents have changed: ask the ground truth, and move the ends."""
        if joined:
            self._kill_what_does_not_fit(machine)
        active = [part for part in machine.parts if part.run.state is State.RUNNING]
        self._share_out(machine, active)
        residents = [part.resident for part in active]
        rates = self.truth.rates(machine.platform, residents) if active else []  # type: ignore[arg-type]
        used = self.truth.used_millicpus(machine.platform, residents, rates) if active else []  # type: ignore[arg-type]
        for part, rate, busy in zip(active, rates, used, strict=True):
            part.used_millicpus = busy
            if rate != part.rate or part.changed:
                part.run.settle(self.now)
                part.rate, part.changed = rate, False
                part.run.pace()
                self._move_end(part.run)
        self.ledger.use(self.now, machine, sum(used))

    def _share_out(self, machine: SimulatedServer, active: Sequence[RunPart]) -> None:
        """Allocated CPU is had; best-effort work shares what is left."""
        left, sharing = machine.cpu_millicpus, []
        for part in active:
            if part.run.core_of:
                # On the other threads of allocated cores: it takes no CPU of its own.
                part.give(float(part.run.job.cpu_millicpus), self.truth)
            elif part.allocation.best_effort:
                sharing.append(part)
            else:
                given = float(min(part.allocation.cpu_millicpus, part.run.job.cpu_millicpus))
                left -= given
                part.give(given, self.truth)
        if sharing:
            wanted = [float(part.run.job.cpu_millicpus) for part in sharing]
            for part, given in zip(sharing, share_out(left, wanted), strict=True):
                part.give(given, self.truth)

    def _move_end(self, run: SimulatedRun) -> None:
        if run.job.load is not None or not run.counts:
            return
        if run.handle:
            self.loop.cancel(run.handle)
            run.handle = 0
        left = run.phase_seconds()
        if left < inf:
            run.handle = self.loop.schedule(self.now + left, self._reach, run, ENDS)

    def _kill_what_does_not_fit(self, machine: SimulatedServer) -> None:
        """Memory is exhausted: the kernel kills the newest resident."""
        while machine.parts:
            for part in machine.parts:
                if part.resident is None:
                    part.look(self.truth)
            residents = [part.resident for part in machine.parts]
            if self.truth.fits(machine.platform, residents):  # type: ignore[arg-type]
                return
            self._kill(machine.parts[-1].run)

    def _kill(self, run: SimulatedRun) -> None:
        if run.counts:
            self._end(run, ev.WorkloadFinished(run.key, None, 9, "out-of-memory"))
        else:
            self.profiling.fail(run.key, "the copy did not fit in memory")

    # --- pieces ---------------------------------------------------------------------------

    def _nothing(self, key: str, workload: Workload) -> SimulatedRun:
        """What stands for a start that never was one."""
        job = Job(workload, "")
        return SimulatedRun(key, job, Account(job, self.now, 0.0), ())

    def _add(self, server: Server) -> None:
        if server.name in self.machines:
            self.machines[server.name].server = server
            return
        self._platforms[server.platform.name] = None
        machine = self.machines[server.name] = SimulatedServer(server, self._rows)
        self._rows += 1
        self.ledger.move(self.now, machine, 1)

    def _say(self, report: ev.Report) -> None:
        if self._listener is not None:
            self._listener(report)

    def _tell_again(self, run: SimulatedRun) -> None:
        if run.started is not None:
            self._say(run.started)
        if run.end is not None:
            self._say(run.end)
