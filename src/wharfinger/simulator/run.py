"""One simulated run: the live core, the simulated engine, the loop's clock, and no store.

It does what ``Runtime`` does in a live manager; the core knows no difference.
"""

import gc
import resource
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from math import inf
from pathlib import Path
from typing import Any, cast

from wharfinger import __version__
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.core.loop import Loop, Perform
from wharfinger.core.pipeline import Core
from wharfinger.core.ports import OF_AN_ENGINE, Port, unanswerable
from wharfinger.core.seams.placement import PlacementPolicy, ServerIndex
from wharfinger.core.seams.verdicts import PlacementVerdict
from wharfinger.core.settings import CoreSettings
from wharfinger.core.state import ManagerState
from wharfinger.errors import InvalidInput
from wharfinger.model.allocation import Placement
from wharfinger.model.decisions import Place, Refuse
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Estimate
from wharfinger.model.view import Capabilities, Request, View
from wharfinger.runtime.replay import Replay, replay
from wharfinger.simulator.cluster.cluster import SimulatedCluster
from wharfinger.simulator.cluster.others import ForeignJobs
from wharfinger.simulator.cluster.provisioner import SimulatedProvisioner
from wharfinger.simulator.cluster.runs import State
from wharfinger.simulator.engine import SimulatedEngine
from wharfinger.simulator.kernel.loop import EventLoop
from wharfinger.simulator.kernel.streams import Streams
from wharfinger.simulator.pieces import engine_under, words_of
from wharfinger.simulator.policies import Estimates, estimates_for
from wharfinger.simulator.results.outcome import JobOutcome, Outcome
from wharfinger.simulator.results.recording import Recording, read_recording
from wharfinger.simulator.results.report import (
    UNFINISHED,
    Effort,
    ideal_seconds,
    outcome_of_job,
    summarise,
)
from wharfinger.simulator.results.series import Recorder
from wharfinger.simulator.results.staying import of_those_that_stay
from wharfinger.simulator.results.steady import steady_window
from wharfinger.simulator.scenario.build import build
from wharfinger.simulator.scenario.jobs import Job
from wharfinger.simulator.scenario.scenario_files import in_regime, load_scenario
from wharfinger.simulator.scenario.setup import EngineAbility, Outage, Setup

OUTAGES, ARRIVALS, LEAVES, LOOKS, WAKES = 6, 10, 12, 20, 30
"""Priorities at one moment; lower goes first."""
LOOK_SECONDS = 5.0
"""From a neighbor's coming or going until its effect is measured for what is learnt."""
LEAST_WAIT_SECONDS = 1e-3
IDLE_WAKES = 3  # times that time may pass with nothing running, arriving or happening
KEEP_ENDED = 1_000
LOOK_EVERY = 2_000  # events between two looks at how far the run is
MOST = 0.95  # of the workloads: until so many have ended, the cluster is as its users know it
STALLED_SECONDS = 86_400.0  # without a decision or progress, after which a run is over

Progress = Callable[[float], None]
UNDER = " + "
"""Between a policy and an admission that is not its own, in the names of runs."""
EXCHANGED = ("admission", "adaptation", "contention", "provisioning")  # parts of a policy
NOT_RECORDED = ("record", "series", "explain")
Decider = Callable[[act.DecidePlacement, Callable[[ev.Report], None]], None]
"""Answers a question, at once or later, by ``PlacementProposed``."""
_AboutAKey = ev.WorkloadFinished | ev.WorkloadVanished | ev.WorkloadEvicted | ev.StartFailed
_NEW_NEIGHBORS = ev.WorkloadStarted | ev.WorkloadFinished | ev.WorkloadVanished | ev.WorkloadEvicted
_MAY_END = (
    ev.WorkloadRejected,
    ev.WorkloadRevoked,
    ev.WorkloadFinished,
    ev.WorkloadVanished,
    ev.WorkloadEvicted,
    ev.StartFailed,
)


@dataclass(frozen=True, slots=True)
class RunSpec:
    """One run, in words that can be handed to another process.

    Attributes:
        scenario: A file, or a name; see docs/scenarios.md.
        policy: Name in ``wharfinger.simulator.policies``, perhaps with settings in brackets.
        admission: Another one than the policy's own; empty = its own. So are ``adaptation``,
            ``contention`` and ``provisioning``.
        regime: Calibration of the physics; ``None`` = as the scenario says.
        servers: How many; ``None`` = as the scenario says. So are ``workloads``.
        scale: Factor of servers, workloads and the rate of arrivals together.
        explain: A workload that will be asked for; empty = none.
        keep_ended: Records of ended workloads that the core keeps: their fates are in accounts.
    """

    scenario: str
    policy: str = "quasar"
    admission: str = ""
    adaptation: str = ""
    contention: str = ""
    provisioning: str = ""
    seed: int = 0
    regime: str | None = None
    servers: int | None = None
    workloads: int | None = None
    scale: float = 1.0
    confidence: float = 0.8
    series: bool = False
    record: Path | None = None
    explain: str = ""
    keep_ended: int = KEEP_ENDED

    @property
    def label(self) -> str:
        """The policy's name, and that of an admission that is not its own: ``paragon + arq``."""
        return f"{self.policy}{UNDER}{self.admission}" if self.admission else self.policy


def run(spec: RunSpec, progress: Progress | None = None) -> Outcome:
    """Run a scenario; ``progress`` is told the share that is done, now and then.

    Raises:
        InvalidInput: A file, a name or a number of the scenario is wrong.
    """
    return prepare(spec).run(progress)


def run_in_turn(spec: RunSpec) -> Outcome:
    """As ``run``, as one of several in this process: see ``prepare_in_turn``."""
    return prepare_in_turn(spec).run()


def prepare_in_turn(spec: RunSpec) -> "Simulation":
    """As ``prepare``, for one of several runs in this process: see ``draw_in_turn``."""
    return _prepared(draw_in_turn(spec), spec)


def prepare(spec: RunSpec) -> "Simulation":
    """The run, ready to begin; ``InvalidInput`` as from ``run``."""
    return _prepared(draw(spec), spec)


def draw(spec: RunSpec) -> Setup:
    """What the run is made of, for its seed; ``InvalidInput`` as from ``run``."""
    scenario = in_regime(load_scenario(spec.scenario), spec.regime)
    return build(scenario, spec.seed, spec.servers, spec.workloads, spec.scale)


def draw_in_turn(spec: RunSpec) -> Setup:
    """As ``draw``, kept for the next run that differs in nothing but its policy.

    It is the same, and so is what policies learn of it. Files that the scenario names must not
    change meanwhile.
    """
    of_any = RunSpec(
        spec.scenario,
        seed=spec.seed,
        regime=spec.regime,
        servers=spec.servers,
        workloads=spec.workloads,
        scale=spec.scale,
    )
    return _drawn_before(of_any)


_drawn_before = lru_cache(maxsize=1)(draw)


def _prepared(setup: Setup, spec: RunSpec) -> "Simulation":
    if spec.explain and not any(job.name == spec.explain for job in setup.jobs):
        first = f"; its first is {setup.jobs[0].name}" if setup.jobs else ""
        raise InvalidInput(
            f"--explain: {spec.explain!r} is no workload of {setup.name} with this seed{first}"
        )
    if spec.explain:
        spec = replace(spec, keep_ended=max(spec.keep_ended, len(setup.jobs)))
    return Simulation(_on_engine(setup, engine_under(words_of(spec.policy)[0], setup.engine)), spec)


@lru_cache(maxsize=1)
def _on_engine(setup: Setup, engine: EngineAbility) -> Setup:
    """The same on such an engine; what policies learn of it is kept by the setup."""
    return setup if engine == setup.engine else replace(setup, engine=engine)


def replay_recording(path: Path) -> Replay:
    """Decide a recorded run again.

    Raises:
        InvalidInput: The file is none, or its scenario can't be built again.
    """
    told, log = read_recording(path)
    try:
        spec = RunSpec(**told)
    except TypeError as error:
        raise InvalidInput(f"{path}: its first line does not say what was run: {error}") from error
    setup = prepare(spec).setup
    estimates = _estimates(spec, setup)

    def make_manager(_started: ev.ManagerStarted, state: ManagerState | None) -> Core:
        settings = CoreSettings(keep_ended=spec.keep_ended)
        manager = Core(estimates.policy, settings=settings, state=state)
        estimates.decide_for(manager)
        return manager

    return replay(log, make_manager)


def _estimates(spec: RunSpec, setup: Setup) -> Estimates:
    parts = {part: getattr(spec, part) for part in EXCHANGED}
    return estimates_for(spec.policy, setup, spec.seed, spec.confidence, **parts)


class TimedPlacement:
    """A placement that notes the ``seconds`` of each decision on a place, and whom it was for."""

    def __init__(self, placement: PlacementPolicy) -> None:
        self._placement = placement
        self.name = placement.name
        self.settings: Any = placement.settings
        self.keeps_scale = getattr(placement, "keeps_scale", False)
        self.follows_targets = getattr(placement, "follows_targets", False)
        self.seconds: list[float] = []
        self.asked_for: list[str] = []

    def place(self, request: Request, view: View) -> PlacementVerdict:
        """As the placement does."""
        began = time.perf_counter()
        verdict = self._placement.place(request, view)
        self.seconds.append(time.perf_counter() - began)
        self.asked_for.append(request.workload.name)
        return verdict

    def resize(
        self, request: Request, placements: tuple[Placement, ...], view: View
    ) -> Place | Refuse | None:
        """As the placement does."""
        return self._placement.resize(request, placements, view)

    def index(self) -> ServerIndex | None:
        """The placement's."""
        return self._placement.index()


class Simulation:
    """One run of a setup.

    Attributes:
        driver: Its core, log and ports; another core may take its place.
        deciders: Answer questions in place of the policy, by name.
        others: Jobs of others on the same servers.
    """

    def __init__(self, setup: Setup, spec: RunSpec) -> None:
        self.setup, self._spec = setup, spec
        streams = Streams(spec.seed)
        self._estimates = estimates = _estimates(spec, setup)
        self.placement = TimedPlacement(estimates.policy.placement)
        policy = replace(estimates.policy, placement=self.placement)
        manager = Core(policy, settings=CoreSettings(keep_ended=spec.keep_ended))
        estimates.decide_for(manager)
        self.cluster = SimulatedCluster(
            EventLoop(),
            setup.truth,
            setup.servers,
            streams=streams,
            costs=setup.costs,
            faults=setup.faults,
            measuring=setup.measuring,
            evictions=setup.evictions,
            capabilities=Capabilities(
                max_servers_per_workload=setup.max_servers,
                fractional_cpu=setup.engine.fractional_cpu,
                resize=setup.engine.resize,
                suspend=setup.engine.suspend,
                measures=policy.needs_measurements,
                profiles=policy.estimation is not None,
                probes_running=policy.estimation is not None,
                clones=setup.costs.keeps_work,
                profiles_apart=policy.estimation is not None,
                keeps_work=setup.costs.keeps_work,
                sources=estimates.sources,
            ),
        )
        self.cluster.ledger.steady = steady_window(setup.jobs)
        if spec.series:
            self.cluster.ledger.recorder = Recorder()
            for machine in self.cluster.machines.values():
                self.cluster.ledger.recorder.capacity(machine.server.name, machine.cpu_millicpus)
        self.loop = self.cluster.loop
        self.engine = SimulatedEngine(self.cluster)
        self._requests: deque[ev.Report | ev.ClientRequest] = deque()
        self.others = ForeignJobs(self.cluster, setup.others)
        self.provisioner = SimulatedProvisioner(self.cluster, setup, self._requests.append)
        self.deciders: dict[str, Decider] = {}
        ports: dict[Port, Perform] = {
            **dict.fromkeys(OF_AN_ENGINE, self._ask_engine),
            Port.CLASSIFIER: self._classify,
            Port.PROVISIONER: self.provisioner.perform,
            Port.DECIDER: self._ask_decider,
        }
        self.driver = Loop(manager, self._log, ports, self._requests.extend)
        self._recording: Recording | None = None
        self._next_job = 0
        self._outages_left = len(setup.faults.outages)
        self._wake_handle, self._wake_due = 0, inf
        self._idle_wakes = 0
        self._decided_at = 0.0
        self._ends: dict[str, str] = {}
        self._looks: set[str] = set()

    @property
    def manager(self) -> Core:
        """The core."""
        return self.driver.core

    # --- the run -----------------------------------------------------------------------------

    def run(self, progress: Progress | None = None) -> Outcome:
        """All of it."""
        began, file = time.perf_counter(), self._spec.record
        head = {k: v for k, v in asdict(self._spec).items() if k not in NOT_RECORDED}
        recorded = Recording.open(file, head) if file else nullcontext()
        with recorded as self._recording, _seldom_collected():
            self.start()
            until = self.setup.until_seconds
            self._go_on(inf if until is None else until, progress)
        return self._outcome(time.perf_counter() - began)

    def start(self) -> None:
        """The manager takes the empty cluster over; arrivals and outages are to come."""
        self.engine.open()
        self._requests.append(
            self.manager.started(
                f"s{self._spec.seed}", __version__, self.engine.name, self.engine.capabilities
            )
        )
        self.pump()
        self._expect_arrival()
        self.others.begin()
        for outage in self.setup.faults.outages:
            self.loop.schedule(outage.at_seconds, self._fail, outage, OUTAGES)

    def step(self) -> bool:
        """One event, and what the core makes of it; whether there was any."""
        if not self.loop.step():
            return False
        self.pump()
        return True

    def _go_on(self, until: float, progress: Progress | None) -> None:
        loop, count = self.loop, 0
        while not self.is_over():
            due = loop.peek()
            if due is None or due > until:
                break
            self.step()
            count += 1
            if count % LOOK_EVERY == 0:
                if self._is_stalled():
                    break
                if progress is not None:
                    progress(self._done_share())
        if until < inf and not self.is_over():
            loop.run(until)
        self.cluster.ledger.advance(self.loop.now)

    def pump(self) -> None:
        """What was reported or asked goes through the core, and what it wants is done."""
        requests, engine, driver = self._requests, self.engine, self.driver
        busy = False
        while True:
            requests.extend(engine.take())
            if not requests:
                break
            busy = True
            driver.turn(self.loop.now, (requests.popleft(),))
        if busy:
            self._set_wake()

    def _log(self, now: float, events: Sequence[ev.Event]) -> None:
        if len(events) > 1:
            self._decided_at = now
        for event in events:
            if isinstance(event, _NEW_NEIGHBORS) and self._estimates.look is not None:
                self._expect_look(event.key)
            if isinstance(event, _MAY_END):
                self._note_end(event)
        if self._recording is not None:
            self._recording.write(now, events)

    def _expect_look(self, key: str) -> None:
        """At the residents of its servers, once what has changed can be measured."""
        record = self.manager.record_of(key)
        for placement in record.placements if record is not None else ():
            if placement.server not in self._looks:
                self._looks.add(placement.server)
                self.loop.schedule(
                    self.loop.now + LOOK_SECONDS, self._look, placement.server, LOOKS
                )

    def _look(self, name: str) -> None:
        self._looks.remove(name)
        server, look = self.manager.state.servers.get(name), self._estimates.look
        if server is None or look is None:
            return
        residents, rates = self.manager.residents_of(name), {}
        for record in residents if len(residents) > 1 else ():
            run = self.cluster.run_of(record.key)
            if run is not None and run.state is State.RUNNING:
                reading = self.cluster.meters.sample(run).readings.get(Quantity.RATE)
                if reading is not None:
                    rates[record.key] = Estimate(reading.value, self.cluster.meters.noise)
        look(server, residents, rates)

    def _note_end(self, event: ev.WorkloadRejected | ev.WorkloadRevoked | _AboutAKey) -> None:
        """How a workload has ended, in the core's words: it may forget its record."""
        if isinstance(event, ev.WorkloadRejected | ev.WorkloadRevoked):
            record = self.manager.state.workloads.get(event.name)
        else:
            record = self.manager.record_of(event.key)
        if record is None or not record.ended or record.name in self._ends:
            return
        now = self.loop.now
        if isinstance(event, ev.WorkloadFinished):
            measured = self.manager.measured(record)
            if measured is not None:
                self._estimates.learn(now, record.workload, measured)
        self._ends[record.name] = str(record.phase)
        account = self.cluster.accounts[record.name]
        if account.ended_at is None:
            account.ended_at = now
        self.cluster.ledger.mark(now, most=len(self._ends) <= MOST * len(self.setup.jobs))

    def _ask_engine(self, action: act.Action) -> None:
        self.engine.perform(cast("act.EngineAction", action))

    def _classify(self, action: act.Action) -> None:
        self._requests.append(self._estimates.classify(cast("act.ClassifyWorkload", action)))

    def _ask_decider(self, action: act.Action) -> None:
        question = cast("act.DecidePlacement", action)
        if question.decider in self.deciders:
            self.deciders[question.decider](question, self._requests.append)
        else:
            self._requests.extend(unanswerable(question))

    # --- what happens of itself ------------------------------------------------------------------

    def _expect_arrival(self) -> None:
        if self._next_job < len(self.setup.jobs):
            job = self.setup.jobs[self._next_job]
            self.loop.schedule(max(self.loop.now, job.arrives_at), self._arrive, job, ARRIVALS)

    def _arrive(self, job: Job) -> None:
        if self._next_job == 0:
            self.cluster.ledger.begin(self.loop.now)
        self._next_job += 1
        self.cluster.submitted(job)
        workload = job.workload
        if job.stated is not None and self._estimates.takes_stated:
            # Users who reserve do not know what they need (Quasar, figure 1d).
            workload = replace(workload, reservation=job.stated)
        self._requests.append(ev.WorkloadSubmitted(workload))
        if job.lifetime_seconds < inf:
            leaves_at = self.loop.now + job.lifetime_seconds
            self.loop.schedule(leaves_at, self._leave, job, LEAVES)
        self._expect_arrival()

    def _leave(self, job: Job) -> None:
        if self.cluster.accounts[job.name].ended_at is not None:
            return
        record = self.manager.state.workloads.get(job.name)
        if record is not None and not record.ended and not record.revoking:
            self._requests.append(ev.WorkloadRevoked(job.name))

    def _fail(self, outage: Outage) -> None:
        self._outages_left -= 1
        machine = self.cluster.machines.get(outage.server)
        if machine is None:
            return
        back_at = self.loop.now + outage.for_seconds
        self.cluster.remove_server(outage.server)
        self._outages_left += 1
        self.loop.schedule(back_at, self._return, outage.server, OUTAGES)

    def _return(self, name: str) -> None:
        self._outages_left -= 1
        server = next(server for server in self.setup.servers if server.name == name)
        self.cluster.put_server(server)

    # --- the core's own time ---------------------------------------------------------------------

    def _set_wake(self) -> None:
        now = self.loop.now
        due = self.manager.wake_at(now)
        wanted = inf if due is None else max(due, now + LEAST_WAIT_SECONDS)
        if wanted == self._wake_due:
            return
        if self._wake_handle:
            self.loop.cancel(self._wake_handle)
            self._wake_handle = 0
        self._wake_due = wanted
        if wanted < inf:
            self._wake_handle = self.loop.schedule(wanted, self._wake, None, WAKES)

    def _wake(self, _nothing: None) -> None:
        self._wake_handle, self._wake_due = 0, inf
        self._idle_wakes = 0 if self.cluster.is_busy() else self._idle_wakes + 1
        self._requests.append(ev.TimePassed())

    def is_over(self) -> bool:
        """All have ended; or nothing runs, and no server returns: what waits will never start."""
        if self._next_job < len(self.setup.jobs) or self.cluster.is_busy():
            return False
        if len(self._ends) == len(self.setup.jobs):
            return True
        if self._outages_left:
            return False
        waiting = len(self.loop) - (1 if self._wake_handle else 0)
        return waiting == 0 and (not self._wake_handle or self._idle_wakes > IDLE_WAKES)

    def _is_stalled(self) -> bool:
        """The residents are measured without end, and none of them will ever end."""
        if self._next_job < len(self.setup.jobs) or self._outages_left:
            return False
        quiet = self.loop.now - self._decided_at > STALLED_SECONDS
        return quiet and not any(
            run.end is None and (run.rate > 0 or run.job.is_service) for run in self.cluster.runs
        )

    def _done_share(self) -> float:
        total = max(1, len(self.setup.jobs))
        ended = sum(a.ended_at is not None for a in self.cluster.accounts.values())
        return (self._next_job + ended) / (2 * total)

    # --- what came of it -------------------------------------------------------------------------

    def fates(self) -> tuple[JobOutcome, ...]:
        """Of all that were submitted, in order of arrival."""
        now = self.loop.now
        for run in self.cluster.runs:
            run.settle(now)
        accounts = self.cluster.accounts
        return tuple(
            outcome_of_job(accounts[job.name], self._ends.get(job.name, UNFINISHED), now)
            for job in self.setup.jobs
            if job.name in accounts
        )

    def _outcome(self, wall_seconds: float) -> Outcome:
        fates, spec, ledger = self.fates(), self._spec, self.cluster.ledger
        began = self.setup.jobs[0].arrives_at if self.setup.jobs else 0.0
        ends = [fate.ended_at for fate in fates]
        finished = all(end is not None for end in ends) and bool(ends)
        ended = max(end or 0.0 for end in ends) if finished else self.loop.now
        if not finished:
            ledger.mark(self.loop.now)
        jobs = [self.cluster.jobs[fate.name] for fate in fates]
        effort = Effort(
            self.placement.seconds,
            self.loop.executed,
            wall_seconds,
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        )
        summary = summarise(
            fates,
            ledger.marked,
            began=began,
            ended=ended,
            ideal_seconds=ideal_seconds(jobs, self.cluster.best, began, ended),
            effort=effort,
            searches=self.manager.state.searches,
        )
        series = None
        if ledger.recorder is not None:
            phases = [(each.name, each.time) for each in self.cluster.phase_changes]
            series = ledger.recorder.series(self.cluster.jobs, fates, ended, phases)
        return Outcome(
            self.setup.name,
            self.manager.policy.name,
            self.manager.policy.admission.name,
            spec.seed,
            summary | of_those_that_stay(self.cluster.machines.values(), self.setup.jobs),
            fates,
            series,
            self.setup.notes,
        )


@contextmanager
def _seldom_collected() -> Iterator[None]:
    """Most of what a run makes it keeps to its end: looking for cycles in it costs a third."""
    before: Sequence[int] = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
