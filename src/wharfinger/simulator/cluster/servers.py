"""The servers of a simulated cluster and how fast their residents run.

Speeds change only when a workload comes, goes, is resized, suspended or asked more; nothing polls.
``cluster`` adds an engine's actions to it, ``profiling_runs`` the runs of profiling plans.
"""

from collections.abc import Callable, Iterable, Sequence
from math import inf

from wharfinger.core import events as ev
from wharfinger.model.allocation import Placement
from wharfinger.model.ends import OUT_OF_MEMORY
from wharfinger.model.platform import Server
from wharfinger.model.view import Capabilities
from wharfinger.model.workload import Workload
from wharfinger.simulator.cluster.accounting import Ledger
from wharfinger.simulator.cluster.monitor import Meters
from wharfinger.simulator.cluster.runs import (
    Account,
    PhaseChange,
    RunPart,
    SimulatedRun,
    SimulatedServer,
    State,
    share_out,
)
from wharfinger.simulator.kernel.loop import EventLoop
from wharfinger.simulator.kernel.streams import Streams
from wharfinger.simulator.scenario.jobs import Job
from wharfinger.simulator.scenario.others import Evictions
from wharfinger.simulator.scenario.setup import Costs, Faults, Measuring
from wharfinger.simulator.truth.ground_truth import GroundTruth

ENDS, TELLS = 0, 5  # priorities of events of one moment: first what ends, then what is told of it

Listener = Callable[[ev.Report], None]


class SimulatedServers:
    """Servers, their residents, and the engines that are told what happens.

    Attributes:
        room_freed: Called when one has ended, before the engine is told.
    """

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
        evictions: Evictions | None = None,
    ) -> None:
        self.loop = loop
        self.truth = truth
        self.costs = costs or Costs()
        self.faults = faults or Faults()
        self.evictions = evictions
        self.streams = streams or Streams(0)
        able = Capabilities(measures=True, profiles=True, probes=True, probes_running=True)
        self.capabilities = capabilities or able
        self.jobs = {job.name: job for job in jobs}
        self.accounts: dict[str, Account] = {}
        self.ledger = Ledger()
        self.machines: dict[str, SimulatedServer] = {}
        self.meters = Meters(loop, self.streams, self.tell, measuring or Measuring())
        self._runs: dict[str, SimulatedRun] = {}
        self._listener: Listener | None = None
        self.offers: dict[str, ev.WorkloadOffered] = {}
        self.released: set[str] = set()
        self.annotations: dict[str, str] = {}
        self.room_freed: Callable[[], None] | None = None
        self.phase_changes: list[PhaseChange] = []
        self._best: dict[str, float] = {}
        self._platforms: dict[str, None] = {}
        for server in servers:
            self._add(server)

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

    def job_of(self, workload: Workload) -> Job | None:
        """What a workload really is; ``None`` = there is no such program."""
        return self.jobs.get(workload.name)

    def submitted(self, job: Job) -> Account:
        """A job is submitted: from now on it is waited for."""
        self.jobs[job.name] = job
        best = tuple(self.best(phase.application) for phase in job.all_phases)
        recorder = self.ledger.recorder
        account = self.accounts[job.name] = Account(job, self.now, best, recorder=recorder)
        return account

    def best(self, application: str) -> float:
        """Its rate alone on the best platform that there is, or was."""
        if application not in self._best:
            rates = [self.truth.most(platform, application) for platform in self._platforms]
            self._best[application] = max(rates, default=0.0)
        return self._best[application]

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

    def _say(self, report: ev.Report) -> None:
        if self._listener is not None:
            self._listener(report)

    def _add(self, server: Server) -> None:
        if server.name in self.machines:
            self.machines[server.name].server = server
            return
        self._platforms[server.platform.name] = None
        machine = self.machines[server.name] = SimulatedServer(server)
        self.ledger.move(self.now, machine, 1)

    def settle_in(self, run: SimulatedRun, placements: Sequence[Placement]) -> None:
        """It holds these from now on; residents are slowed by it."""
        run.placements = tuple(placements)
        run.parts = [RunPart(run, self.machines[p.server], p.allocation) for p in placements]
        run.balance(self.truth)
        for part in run.parts:
            self.ledger.hold(self.now, part, 1)
            part.machine.hold(part)
        if run.measured:
            self.meters.watch(run)
        if self._kill_at_limit(run):
            return
        for part in list(run.parts):
            if run.state is State.RUNNING:
                self._kill_what_does_not_fit(part.machine)
                self.refresh(part.machine)

    def leave(self, run: SimulatedRun) -> None:
        """It holds nothing any more."""
        parts, run.parts = run.parts, []
        for part in parts:
            self.ledger.hold(self.now, part, -1)
            part.machine.release(part)
        for part in parts:
            if part.machine.up:
                self.refresh(part.machine)

    def _kill_what_does_not_fit(self, machine: SimulatedServer) -> None:
        """Memory is exhausted: the kernel kills the newest resident."""
        while machine.parts:
            for part in machine.parts:
                if part.resident is None:
                    part.look(self.truth)
            residents = [part.resident for part in machine.parts]
            if self.truth.fits(machine.platform, residents):  # type: ignore[arg-type]
                return
            run = machine.parts[-1].run
            self._kill(run, 0, "the copy did not fit in memory")

    def _kill_at_limit(self, run: SimulatedRun) -> bool:
        """Whether it was killed, since it may not take the memory that it needs."""
        if run.state is not State.RUNNING:
            return False
        short = [part for part in run.parts if part.is_short_of_memory(self.truth)]
        if short:
            limit_bytes = short[0].allocation.memory_bytes
            self._kill(run, limit_bytes, f"the copy needs more memory than {limit_bytes} bytes")
        return bool(short)

    def _kill(self, run: SimulatedRun, limit_bytes: int, why: str) -> None:
        if run.killed is not None:
            run.killed(why, limit_bytes)
            return
        peak_bytes = run.memory_bytes
        killed = ev.WorkloadFinished(run.key, None, 9, OUT_OF_MEMORY, memory_peak_bytes=peak_bytes)
        self._end(run, killed)

    def _end(self, run: SimulatedRun, report: ev.Report) -> None:
        if run.end is not None:
            return
        run.settle(self.now)
        self._cancel_end(run)
        if run.eviction:
            self.loop.cancel(run.eviction)
        self.ledger.present -= 1
        run.state = State.ENDED
        self.leave(run)
        if self.room_freed is not None:
            self.room_freed()
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

    def refresh(self, machine: SimulatedServer) -> None:
        """The residents have changed: ask the ground truth, and move the ends."""
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
                part.run.sum_rates()
                self._move_end(part.run)
        self.ledger.use(self.now, machine, sum(used))

    def refresh_all(self, run: SimulatedRun, *, changed: bool = False) -> None:
        """The servers of a run; ``changed`` = it is asked, or does, something else now."""
        if changed:
            for part in run.parts:
                part.look(self.truth)
        for part in run.parts:
            self.refresh(part.machine)

    def _share_out(self, machine: SimulatedServer, active: Sequence[RunPart]) -> None:
        left, sharing = machine.cpu_millicpus, []
        for part in active:
            if part.run.core_of:
                # On the other threads of allocated cores: it takes no CPU of its own.
                part.give(float(part.run.job.cpu_millicpus), self.truth)
            elif part.allocation.best_effort:
                sharing.append(part)
            else:
                given = part.usable_millicpus
                left -= given
                part.give(given, self.truth)
        if sharing:
            wanted = [part.wanted_millicpus for part in sharing]
            for part, given in zip(sharing, share_out(left, wanted), strict=True):
                part.give(given, self.truth)

    def _move_end(self, run: SimulatedRun) -> None:
        if run.job.load is not None or run.killed is not None:
            return
        self._cancel_end(run)
        left = run.phase_seconds()
        if left < inf:
            run.handle = self.loop.schedule(self.now + left, self._reach, run, ENDS)

    def _cancel_end(self, run: SimulatedRun) -> None:
        if run.handle:
            self.loop.cancel(run.handle)
            run.handle = 0

    def _reach(self, run: SimulatedRun) -> None:
        if run.phase == len(run.job.phases):
            self._complete(run)
            return
        run.handle = 0
        run.settle(self.now)
        run.account.done = run.job.phases[run.phase].from_work
        run.phase += 1
        before = run.rate
        if self._kill_at_limit(run):
            return
        self.refresh_all(run, changed=True)
        change = PhaseChange(self.now, run.job.name, run.key, run.phase, before, run.rate)
        self.phase_changes.append(change)

    def _complete(self, run: SimulatedRun) -> None:
        run.handle = 0
        run.settle(self.now)
        if run.job.load is None:
            run.account.done = run.job.work
        last_output, peak_bytes = run.job.last_output, run.memory_bytes
        finished = ev.WorkloadFinished(
            run.key,
            run.job.exit_code,
            None,
            "exited",
            last_output=last_output,
            memory_peak_bytes=peak_bytes,
        )
        self._end(run, finished)
