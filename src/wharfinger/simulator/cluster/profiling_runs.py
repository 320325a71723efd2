"""Profiling in the simulated cluster: a plan's steps become runs and events beside the residents.

Each reading is the mean over its time, with a measurement's error. A profiling run presses on its
neighbors as the workload itself would; it has no effect otherwise.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import RAMP_ALLOCATIONS, Entry, ProfilingPlan
from wharfinger.model.workload import ProfileMode
from wharfinger.profiling.interpreter import Interpreter
from wharfinger.profiling.observations import Observations
from wharfinger.profiling.procedure import PROBE_INTENSITY, PROBES, Procedure
from wharfinger.profiling.steps import (
    DoesNotFit,
    Inject,
    Interruption,
    ReadFor,
    RunAt,
    SourceSilent,
    Stretch,
    Withdraw,
)
from wharfinger.simulator.cluster.injection import Probes
from wharfinger.simulator.cluster.runs import (
    Account,
    SimulatedRun,
    SimulatedServer,
    State,
    service_values,
)
from wharfinger.simulator.cluster.servers import SimulatedServers
from wharfinger.simulator.scenario.jobs import Job, Load
from wharfinger.simulator.truth.ground_truth import TrueResident

MIN_ERROR = 1e-4  # of an entry, relative: nothing is measured exactly
SAMPLES = 45  # of a usual ramp, probing counted: each has that part of its time
NO_SIGNAL = "nothing injects it in this ground truth"


class Further:
    """Runs of a plan elsewhere, one after the other; goes on as an ``Interpreter`` does."""

    def __init__(self, strand: "Strand", places: Sequence[int], seconds: float) -> None:
        self._strand, self._seconds = strand, seconds
        self._left = list(places)
        self._running: int | None = None

    def advance(self, outcome: Stretch | Interruption | None = None) -> ReadFor | None:
        """What to read next; ``None`` = all have run. Nothing interrupts them."""
        further, strand = self._strand.plan.further, self._strand
        if self._running is not None and isinstance(outcome, Stretch):
            at = self._running
            strand.observations.add_further(at, further[at].setting, [outcome])
        if not self._left:
            return None
        at = self._running = self._left.pop(0)
        strand.run(RunAt(further[at].setting.configuration.cpu_millicpus, further=at))
        return ReadFor(self._seconds)


class Strand:
    """Runs of a plan that go one after the other: the port of its interpreter.

    Steps take effect when the next reading begins: what runs on unchanged is not stopped.

    Attributes:
        plan: Of this strand, on its server; ``further`` are those of the whole plan.
        stages: What is to be done, in order.
        runs_made: How many runs it has read.
    """

    def __init__(
        self,
        cluster: SimulatedServers,
        key: str,
        plan: ProfilingPlan,
        job: Job,
        probes: Probes,
        observations: Observations,
        killed: Callable[[str, int], None],
    ) -> None:
        self.key, self.plan, self.observations = key, plan, observations
        self.handle = self.runs_made = 0
        self.stages: list[Interpreter | Further] = []
        self._cluster, self._job, self._probes, self._killed = cluster, job, probes, killed
        self._runs: list[SimulatedRun] = []
        self._sample = 0
        self._wanted: RunAt | Inject | None = None
        self._current: RunAt | Inject | None = None
        self._probed: TrueResident | None = None

    def advance(self, outcome: Stretch | Interruption | None) -> ReadFor | None:
        """What to read next, after all steps until then; ``None`` = it is done."""
        while self.stages:
            wanted = self.stages[0].advance(outcome)
            if wanted is not None:
                return wanted
            outcome = None
            del self.stages[0]
        return None

    # --- what the interpreter asks for ----------------------------------------------------------

    def run(self, step: RunAt) -> bool:
        """Noted; what is changed counts from its beginning."""
        self._wanted = step
        return False

    def inject(self, step: Inject) -> float:
        """Noted; a reading takes as long as is asked."""
        if not isinstance(self._wanted, Inject) or self._wanted.resource is not step.resource:
            self._sample, self._probed = 0, None
        self._wanted = step
        return 0.0

    def withdraw(self, step: Withdraw) -> Entry | None:
        """What the probe has shown, where it was looked at often enough."""
        if len(step.probed) < PROBES or self._probed is None:
            return None
        platform = self._cluster.machines[self.plan.server].platform
        noise = self._cluster.meters.noise
        return self._probes.caused(platform, step.resource, self._probed, step.probed, noise)

    def now(self) -> float:
        """Of the simulation."""
        return self._cluster.now

    def why_silent(self) -> str:
        """Nothing ever is."""
        return "it does nothing"

    # --- readings -------------------------------------------------------------------------------

    def begin(self) -> None:
        """Let run what was asked for last, and nothing else.

        Raises:
            DoesNotFit: The known program has no room.
            SourceSilent: The source can't be used.
        """
        wanted = self._wanted
        if wanted == self._current:
            return
        self.stop()
        if isinstance(wanted, RunAt):
            if wanted.known:
                self._check_room(wanted)
            self._begin_run(wanted)
        elif wanted is not None:
            self._start(self._job, (self._placement(self.plan.cpu_millicpus[0]),), "copy")
            if wanted.intensity > 0 and self._runs:
                self._begin_source(wanted)
        self._current = wanted

    def stop(self) -> None:
        """Nothing runs."""
        runs, self._runs, self._current = self._runs, [], None
        for run in runs:
            run.state = State.ENDED
            self._cluster.leave(run)

    def read(self) -> Stretch:
        """How all performed since the reading began."""
        for run in self._runs:
            run.settle(self._cluster.now)
        if isinstance(self._current, Inject):
            return self._read_sample(self._current)
        assert self._current is not None
        self.runs_made += len(self._runs)
        step, rates = self._current, [_mean_rate(run) for run in self._runs]
        if not step.cpu_millicpus:
            return Stretch(1.0, neighbor=rates[0])
        if step.known or step.further is not None:
            own = {_work_quantity(self._job): rates[0]}
            return Stretch(1.0, own, neighbor=rates[1] if step.known else None)
        return Stretch(1.0, _performance(self._runs[0]))

    def _read_sample(self, step: Inject) -> Stretch:
        seen = [
            self._cluster.meters.error(
                run.rate, run.job.name, step.resource.value, self._sample, at
            )
            for at, run in enumerate(self._runs)
        ]
        neighbor = None
        if self._sample < PROBES:
            own, probe = self._runs[0].parts[0], self._runs[1].parts[0]
            assert probe.resident is not None
            self._probed = own.resident
            alone = self._probes.alone(probe.machine.platform, replace(probe.resident, core_of=""))
            neighbor = seen[1] / alone if alone > 0 else 1.0
        self._sample += 1
        return Stretch(1.0, {_work_quantity(self._job): seen[0]}, neighbor=neighbor)

    # --- what runs ------------------------------------------------------------------------------

    def _begin_run(self, step: RunAt) -> None:
        if step.cpu_millicpus:
            at = step.further
            servers = (self.plan.server,) if at is None else self.plan.further[at].servers
            own = tuple(self._placement(step.cpu_millicpus, server) for server in servers)
            self._start(self._job, own, "copy")
        if step.known:
            cpu = self.plan.cpu_millicpus[0]
            program = replace(
                self._job, application=step.known, load=None, memory_bytes=1, cpu_millicpus=cpu
            )
            self._start(program, (self._placement(cpu),), step.known)

    def _placement(self, cpu_millicpus: int, server: str = "") -> Placement:
        return Placement(
            server or self.plan.server, Allocation(cpu_millicpus, self.plan.memory_bytes)
        )

    def _start(self, job: Job, places: tuple[Placement, ...], name: str, core_of: str = "") -> None:
        cluster, load = self._cluster, 0.0
        now = cluster.now
        if job.load is not None:
            asked = cluster.accounts.get(job.name)
            load = job.load.at(now - asked.submitted_at if asked else 0.0)
        run = SimulatedRun(
            f"{self.key}/{name}",
            job,
            Account(job, now, (1.0,)),
            places,
            cluster.truth.queue(job.application),
            self._killed,
            core_of,
            state=State.RUNNING,
            since=now,
            load_per_second=load,
        )
        self._runs.append(run)
        cluster.settle_in(run, places)

    def _check_room(self, step: RunAt) -> None:
        machine = self._cluster.machines[self.plan.server]
        residents = [part.resident for part in machine.parts if part.resident is not None]
        names = [self._job.application, step.known] if step.cpu_millicpus else [step.known]
        residents += [TrueResident(name, 0.0, 1) for name in names]
        if not self._cluster.truth.fits(machine.platform, residents):
            raise DoesNotFit("it does not fit beside the residents")

    def _begin_source(self, step: Inject) -> None:
        part = self._runs[0].parts[0]
        machine, beside = part.machine, part.resident
        assert beside is not None
        source = self._cluster.truth.source(machine.platform, step.resource, step.intensity, beside)
        free = machine.cpu_millicpus - machine.allocated_millicpus
        if source is None or (free <= 0 and not source.core_of):
            self.stop()
            raise SourceSilent(NO_SIGNAL if source is None else "no CPU is free")
        cpu = source.cpu_millicpus if source.core_of else min(source.cpu_millicpus, free)
        cap = source.load_per_second
        job = replace(
            self._job,
            application=source.application,
            load=None if cap is None else Load((0.0,), (cap,)),
            memory_bytes=source.memory_bytes,
            cpu_millicpus=max(1, round(cpu)),
            phases=(),
        )
        # It holds nothing: CPU that is allocated later is taken from the source.
        held = Placement(self.plan.server, Allocation(0, 0, best_effort=True))
        self._start(job, (held,), step.resource, core_of=source.core_of)


class PlanUnderWay:
    """One plan: its strands go side by side (Quasar 3.4), each on servers of its own."""

    def __init__(
        self,
        cluster: SimulatedServers,
        action: act.ProfileWorkload,
        job: Job,
        probes: Probes,
        killed: Callable[[str, int], None],
    ) -> None:
        self.key, self.plan = action.key, action.plan
        self.handle = 0
        self.observations = Observations(
            action.plan, judge=self._judge, total=None if job.is_service else job.work
        )
        self.strands: list[Strand] = []
        self._cluster, self._job, self._probes, self._killed = cluster, job, probes, killed
        self._began = cluster.now
        self._share_seconds = 0.0

    def begin(self) -> None:
        """Divide it into strands; sources without a signal take no time."""
        plan, sources = self.plan, list[SharedResource]()
        platform = self._cluster.machines[plan.server].platform
        resident = TrueResident(self._job.application, float(plan.cpu_millicpus[0]), 1)
        for source in plan.sources:
            if self._cluster.truth.source(platform, source, PROBE_INTENSITY, resident) is None:
                self.observations.silence_source(source, NO_SIGNAL)
            else:
                sources.append(source)
        shares = len(plan.cpu_millicpus) + len(plan.further) + 2 * len(plan.beside)
        shares_seconds = plan.seconds / (shares + RAMP_ALLOCATIONS * len(sources))
        told = self._cluster.costs.phase_seconds
        self._share_seconds = shares_seconds if told is None else told
        self._divide(sources)

    def _divide(self, sources: list[SharedResource]) -> None:
        """The own server's runs, those apart, and those elsewhere that share no server."""
        plan, (first, *others) = self.plan, self.plan.cpu_millicpus
        apart = list(plan.apart)
        while apart and (len(sources) > 1 or others):
            server = apart.pop(0)
            if len(sources) > 1:
                self._add(replace(plan, server=server, beside=()), (first,), (sources.pop(),))
            else:
                self._add(replace(plan, server=server, beside=()), (others.pop(0),), ())
        own = self._add(plan, (first, *others), tuple(sources))
        elsewhere: list[tuple[set[str], list[int]]] = [({plan.server, *plan.apart}, [])]
        for place, run in enumerate(plan.further):
            on = set(run.servers)
            group = next((each for each in elsewhere if each[0] & on), None)
            if group is None:
                elsewhere.append((on, [place]))
            else:
                group[0].update(on)
                group[1].append(place)
        own.stages.append(Further(own, elsewhere[0][1], self._share_seconds))
        for _, places in elsewhere[1:]:
            strand = self._strand(plan)
            strand.stages.append(Further(strand, places, self._share_seconds))

    def _strand(self, plan: ProfilingPlan) -> Strand:
        strand = Strand(
            self._cluster,
            self.key,
            plan,
            self._job,
            self._probes,
            self.observations,
            self._killed,
        )
        self.strands.append(strand)
        return strand

    def _add(
        self, plan: ProfilingPlan, cpus: tuple[int, ...], sources: tuple[SharedResource, ...]
    ) -> Strand:
        """A strand with these runs on the plan's server."""
        share = self._share_seconds
        strand = self._strand(replace(plan, cpu_millicpus=cpus, sources=sources))
        procedure = Procedure.probing(share, share * RAMP_ALLOCATIONS / SAMPLES)
        here = replace(strand.plan, further=())
        strand.stages.append(Interpreter(here, procedure, self.observations, strand))
        return strand

    def stop(self) -> None:
        """Nothing runs, and nothing more is read."""
        for handle in (self.handle, *(strand.handle for strand in self.strands)):
            if handle:
                self._cluster.loop.cancel(handle)
        for strand in self.strands:
            strand.stop()

    def finished(self) -> ev.ProfilingFinished:
        """The answer to the plan."""
        measurements = self.observations.measurements(
            runs=sum(strand.runs_made for strand in self.strands),
            seconds=self._cluster.now - self._began,
            platform=self._cluster.machines[self.plan.server].platform,
        )
        peak_bytes = min(self._job.memory_bytes, self.plan.memory_bytes)
        return ev.ProfilingFinished(self.key, replace(measurements, memory_peak_bytes=peak_bytes))

    def _judge(
        self, told: Sequence[tuple[float, float]], what: tuple[str | int, ...]
    ) -> Entry | None:
        meters, (_, value) = self._cluster.meters, told[-1]
        seen = meters.error(value, self._job.name, *what) if value else 0.0
        return Entry(seen, max(meters.noise, MIN_ERROR))


class ProfilingRuns:
    """All plans of a cluster."""

    def __init__(self, cluster: SimulatedServers) -> None:
        self._cluster = cluster
        self._plans: dict[str, PlanUnderWay] = {}
        self._answers: dict[str, ev.Report] = {}
        self._probes = Probes(cluster.truth)

    def profile(self, action: act.ProfileWorkload) -> None:
        """Run a plan; asked for again it is answered as before."""
        key, workload = action.key, action.workload
        if key in self._plans:
            return
        if key in self._answers:
            self._cluster.tell(self._answers[key])
            return
        job = self._cluster.job_of(workload)
        if not self._cluster.capabilities.profiles:
            self._answer(ev.ProfilingFailed(key, "this engine does not profile"))
        elif job is None:
            self._answer(ev.ProfilingFailed(key, "no such program"))
        elif workload.profile.mode is not ProfileMode.COPY:
            self._answer(ev.ProfilingFailed(key, "it is not to be copied"))
        else:
            killed = partial(self.fail, key)
            plan = PlanUnderWay(self._cluster, action, job, self._probes, killed)
            self._plans[key] = plan
            self._cluster.ledger.present += 1
            begins_at = self._cluster.now + self._cluster.costs.start_seconds
            plan.handle = self._cluster.loop.schedule(begins_at, self._begin, plan)

    def stop(self, key: str) -> bool:
        """End the plan of a key; whether there is, or was, one."""
        if key in self._plans:
            self.fail(key, "stopped")
        return key in self._answers

    def clear(self) -> None:
        """Answers are not awaited any more: no plan runs, and what was answered is gone."""
        for plan in list(self._plans.values()):
            self._drop(plan)
        self._answers.clear()

    def server_left(self, machine: SimulatedServer, reason: str) -> None:
        """The plans that have, had or would have a run there have failed."""
        for plan in list(self._plans.values()):
            if any(p.server == machine.server.name for p in plan.plan.placements):
                self.fail(plan.key, reason)

    def forget(self, key: str) -> None:
        """Its answer is not asked for again; what is under way ends."""
        if key in self._plans:
            self._drop(self._plans[key])
        self._answers.pop(key, None)

    def fail(self, key: str, reason: str, out_of_memory_bytes: int = 0) -> None:
        """A plan gives nothing."""
        plan = self._plans.get(key)
        if plan is not None:
            self._drop(plan)
            failed = ev.ProfilingFailed(key, reason, out_of_memory_bytes=out_of_memory_bytes)
            self._answer(failed)

    def _begin(self, plan: PlanUnderWay) -> None:
        plan.handle = 0
        gone = [p.server for p in plan.plan.placements if p.server not in self._cluster.machines]
        if gone:
            self.fail(plan.key, f"no server {gone[0]!r} here")
            return
        plan.begin()
        for strand in list(plan.strands):
            if plan.key in self._plans:
                self._go_on(plan, strand, None)

    def _go_on(
        self, plan: PlanUnderWay, strand: Strand, outcome: Stretch | Interruption | None
    ) -> None:
        while (wanted := strand.advance(outcome)) is not None:
            try:
                strand.begin()
            except Interruption as interruption:
                outcome = interruption
                continue
            if plan.key in self._plans:  # Else it did not fit in memory.
                at = self._cluster.now + wanted.seconds
                strand.handle = self._cluster.loop.schedule(at, self._read, (plan, strand))
            return
        strand.stop()
        if any(other.stages for other in plan.strands):
            return
        if plan.observations.is_idle:
            self.fail(plan.key, "the copy did nothing")
            return
        answer = plan.finished()
        self._drop(plan)
        self._answer(answer)

    def _read(self, what: tuple[PlanUnderWay, Strand]) -> None:
        plan, strand = what
        strand.handle = 0
        self._go_on(plan, strand, strand.read())

    def _drop(self, plan: PlanUnderWay) -> None:
        del self._plans[plan.key]
        self._cluster.ledger.present -= 1
        plan.stop()

    def _answer(self, answer: ev.ProfilingFinished | ev.ProfilingFailed) -> None:
        self._answers[answer.key] = answer
        self._cluster.tell(answer)


def _mean_rate(run: SimulatedRun) -> float:
    if run.job.load is not None:
        return run.rate
    seconds = run.account.running_seconds
    return run.account.done / seconds if seconds > 0 else 0.0


def _work_quantity(job: Job) -> Quantity:
    return Quantity.THROUGHPUT if job.is_service else Quantity.RATE


def _performance(run: SimulatedRun) -> dict[Quantity, float]:
    if run.job.load is None:
        return {Quantity.RATE: _mean_rate(run), Quantity.CPU: run.used_cpus}
    latency = service_values(run)[Quantity.LATENCY]
    return {Quantity.THROUGHPUT: run.rate, Quantity.LATENCY: latency, Quantity.CPU: run.used_cpus}
