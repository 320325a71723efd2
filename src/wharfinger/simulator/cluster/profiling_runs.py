"""Profiling in the simulated cluster: copies take servers and time, beside whoever is there.

A plan is a sequence of phases: the copy at each allocation on the plan's own server, then its runs
on several servers and other platforms, then for each known program that program alone and beside
the copy. Each phase gives the mean over its time, with a measurement's error. Last comes each
source of interference, raised look by look as the profiler's ramp says (``injection``). A copy
presses on its neighbours as the workload itself would; it has no effect otherwise.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.ibench.ramp import RampPlan, Sample
from wharfinger.ibench.scores import tolerated
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Entry, Measurements, ProfilingPlan, SettingEntry
from wharfinger.model.workload import ProfileMode
from wharfinger.simulator.cluster.injection import (
    NO_SIGNAL,
    PROBE_INTENSITY,
    PROBES,
    RAMP_ALLOCATIONS,
    SAMPLES,
    Probes,
    Ramp,
)
from wharfinger.simulator.cluster.monitor import CPU
from wharfinger.simulator.cluster.profiling_tasks import Copy, Phase, SourceRun, Task
from wharfinger.simulator.cluster.runs import Account, Part, Run, State, service_values
from wharfinger.simulator.cluster.servers import Machine
from wharfinger.simulator.scenario.jobs import Job, Load
from wharfinger.simulator.truth.ground_truth import Resident

if TYPE_CHECKING:
    from wharfinger.simulator.cluster.cluster import SimulatedCluster

LEAST_ERROR = 1e-4
"""Of an entry, relative: nothing is measured exactly."""


class Copies:
    """Runs profiling plans.

    Args:
        cluster: Where.
    """

    def __init__(self, cluster: "SimulatedCluster") -> None:
        self._cluster = cluster
        self._tasks: dict[str, Task] = {}
        self._answers: dict[str, ev.Report] = {}
        self._probes = Probes(cluster.truth)

    # --- what is asked --------------------------------------------------------------------------

    def profile(self, action: act.ProfileWorkload) -> None:
        """Run a plan; asked for again it is answered as before."""
        key, workload, plan = action.key, action.workload, action.plan
        if key in self._tasks:
            return
        if key in self._answers:
            self._cluster.tell(self._answers[key])
            return
        job = self._cluster.job_of(workload)
        if job is None:
            self._answer(key, ev.ProfilingFailed(key, "no such program"))
        elif workload.best_effort or workload.profile.mode is not ProfileMode.COPY:
            self._answer(key, ev.ProfilingFailed(key, "it is not to be copied"))
        else:
            phases = _phases(plan)
            task = self._tasks[key] = Task(action, job, phases, phases[0], self._cluster.now)
            ramp = RampPlan(tolerance=plan.tolerance)
            task.ramps = [Ramp(source, ramp) for source in plan.sources]
            self._cluster.ledger.present += 1
            begins_at = self._cluster.now + self._cluster.costs.start_seconds
            task.handle = self._cluster.loop.schedule(begins_at, self._begin, task)

    def stop(self, key: str) -> bool:
        """End the plan of a key; whether there is, or was, one."""
        if key in self._tasks:
            self.fail(key, "stopped")
        return key in self._answers

    def clear(self) -> None:
        """Nobody waits for answers any more: all copies are gone, and so is what was answered."""
        for task in list(self._tasks.values()):
            self._drop(task)
        self._answers.clear()

    def server_left(self, machine: Machine, reason: str) -> None:
        """The plans that have, had or would have a run there have failed."""
        for task in list(self._tasks.values()):
            if any(p.server == machine.server.name for p in task.action.plan.placements):
                self.fail(task.key, reason)

    def forget(self, key: str) -> None:
        """Nobody asks for its answer again."""
        self._answers.pop(key, None)

    def fail(self, key: str, reason: str) -> None:
        """A plan gives nothing."""
        key = key.split("/", maxsplit=1)[0]
        task = self._tasks.get(key)
        if task is not None:
            self._drop(task)
            self._answer(key, ev.ProfilingFailed(key, reason))

    # --- phases ---------------------------------------------------------------------------------

    def _begin(self, task: Task) -> None:
        plan = task.action.plan
        gone = [p.server for p in plan.placements if p.server not in self._cluster.machines]
        if gone:
            self.fail(task.key, f"no server {gone[0]!r} here")
            return
        self._silence(task)
        self._next(task)

    def _next(self, task: Task) -> None:
        """The next phase, or the answer."""
        if task.key not in self._tasks:
            return
        if not task.phases:
            wanted = self._next_injection(task)
            if wanted is None:
                self._finish(task)
                return
            task.phases.append(wanted)
        task.phase = phase = task.phases.pop(0)
        if not self._may_run(task, phase):
            self._next(task)
            return
        for job, places, name in self._wanted(task, phase):
            self._run(task, job, places, name)
            if task.key not in self._tasks:
                return  # it did not fit in memory
        if phase.source is not None and phase.intensity > 0 and not self._inject(task, phase):
            self._stop_all(task)
            self._next(task)
            return
        seconds = self._phase_seconds(task)
        at = self._cluster.now + seconds
        task.handle = self._cluster.loop.schedule(at, self._end_phase, task)

    def _wanted(self, task: Task, phase: Phase) -> list[tuple[Job, tuple[Placement, ...], str]]:
        """What runs in a phase: the copy, a known program, or both."""
        plan = task.action.plan
        found: list[tuple[Job, tuple[Placement, ...], str]] = []
        if phase.cpu_millicpus:
            at = phase.further
            servers = (plan.server,) if at is None else plan.further[at].servers
            held = Allocation(phase.cpu_millicpus, plan.memory_bytes)
            found.append((task.job, tuple(Placement(s, held) for s in servers), "copy"))
        if phase.beside:
            cpu = plan.cpu_millicpus[0]
            held = Allocation(cpu, plan.memory_bytes)
            known = _reference(task.job, phase.beside, cpu)
            found.append((known, (Placement(plan.server, held),), phase.beside))
        return found

    def _may_run(self, task: Task, phase: Phase) -> bool:
        """Whether memory is enough for the copy and a known program; if not, that is an answer."""
        if not phase.beside:
            return True
        machine = self._cluster.machines[task.action.plan.server]
        here = [part.resident for part in machine.parts if part.resident is not None]
        cpu = task.action.plan.cpu_millicpus[0]
        names = [phase.beside] if not phase.cpu_millicpus else [task.job.application, phase.beside]
        own = [
            Part(Copy("", _reference(task.job, name, cpu), self._account(task), ()), machine, _NONE)
            for name in names
        ]
        for part in own:
            part.run.parts = [part]
            part.look(self._cluster.truth)
        residents = [*here, *(part.resident for part in own if part.resident is not None)]
        if self._cluster.truth.fits(machine.platform, residents):
            return True
        if phase.cpu_millicpus and phase.beside in task.alone:
            error = max(self._cluster.meters.noise, LEAST_ERROR)
            task.beside[phase.beside] = task.upon[phase.beside] = Entry(0.0, error)
        else:
            task.silent[f"beside/{phase.beside}"] = "it does not fit beside those who are there"
        return False

    def _phase_seconds(self, task: Task) -> float:
        plan, told = task.action.plan, self._cluster.costs.phase_seconds
        parts = len(_phases(plan)) + RAMP_ALLOCATIONS * task.injected
        part = plan.seconds / parts if told is None else told
        return part if task.phase.source is None else part * RAMP_ALLOCATIONS / SAMPLES

    def _end_phase(self, task: Task) -> None:
        task.handle = 0
        for run in task.runs:
            run.settle(self._cluster.now)
        self._note(task)
        if self._goes_on(task):
            at = self._cluster.now + self._phase_seconds(task)
            task.handle = self._cluster.loop.schedule(at, self._end_phase, task)
            return
        self._stop_all(task)
        self._next(task)

    def _stop_all(self, task: Task) -> None:
        for run in task.runs:
            self._end(run)
        task.runs = []

    # --- sources of interference ------------------------------------------------------------------

    def _next_injection(self, task: Task) -> Phase | None:
        """The next sample of the source whose turn it is; ``None`` = all are done."""
        cpu = task.action.plan.cpu_millicpus[0]
        while task.ramps:
            ramp = task.ramps[0]
            intensity = ramp.next_intensity()
            if intensity is not None:
                return Phase(cpu, source=ramp.resource, intensity=intensity)
            assert ramp.found is not None
            task.tolerated[ramp.resource] = tolerated(ramp.found)
            task.ramps.pop(0)
        return None

    def _goes_on(self, task: Task) -> bool:
        """Whether the next sample is of the same intensity: then nothing is stopped."""
        phase = task.phase
        if phase.source is None or task.phases:
            return False
        wanted = self._next_injection(task)
        if wanted == phase:
            return True
        if wanted is not None:
            task.phases.append(wanted)
        return False

    def _inject(self, task: Task, phase: Phase) -> bool:
        """Run the source beside the copy; whether it can be."""
        assert phase.source is not None
        part = task.runs[0].parts[0]
        machine, beside = part.machine, part.resident
        assert beside is not None
        truth = self._cluster.truth
        source = truth.source(machine.platform, phase.source, phase.intensity, beside)
        free = machine.cpu_millicpus - machine.allocated_millicpus
        if source is None or (free <= 0 and not source.core_of):
            self._give_up(task, phase.source, NO_SIGNAL if source is None else "no CPU is free")
            return False
        cpu = source.cpu_millicpus if source.core_of else min(source.cpu_millicpus, free)
        cap = source.load_per_second
        job = replace(
            task.job,
            application=source.application,
            load=None if cap is None else Load((0.0,), (cap,)),
            memory_bytes=source.memory_bytes,
            cpu_millicpus=max(1, round(cpu)),
            phases=(),
        )
        # It holds nothing: who is given CPU later takes it from the source.
        held = Placement(task.action.plan.server, Allocation(0, 0, best_effort=True))
        run = SourceRun(
            f"{task.key}/{phase.source}",
            job,
            Account(job, self._cluster.now, 1.0),
            (held,),
            source.core_of,
        )
        run.state, run.since = State.RUNNING, self._cluster.now
        run.load_per_second = cap or 0.0
        task.runs.append(run)
        self._cluster.settle_in(run, (held,))
        return True

    def _silence(self, task: Task) -> None:
        """Sources without a signal take no time."""
        plan = task.action.plan
        platform = self._cluster.machines[plan.server].platform
        copy = Resident(task.job.application, float(plan.cpu_millicpus[0]), 1)
        for source in plan.sources:
            if self._cluster.truth.source(platform, source, PROBE_INTENSITY, copy) is None:
                self._give_up(task, source, NO_SIGNAL)
        task.injected = len(task.ramps)

    def _give_up(self, task: Task, source: SharedResource, why: str) -> None:
        task.ramps = [ramp for ramp in task.ramps if ramp.resource is not source]
        task.silent[f"tolerated/{source.value}"] = task.silent[f"caused/{source.value}"] = why

    def _note_sample(self, task: Task) -> None:
        """Of the copy beside a source, or of the probe that the source is."""
        phase, ramp, meters = task.phase, task.ramps[0], self._cluster.meters
        source = ramp.resource
        number = len(ramp.probed) + len(ramp.samples)
        seen = [
            meters.error(run.rate, task.job.name, source.value, number, place)
            for place, run in enumerate(task.runs)
        ]
        if not ramp.is_probing:
            ramp.samples.append(Sample(phase.intensity, seen[0]))
            return
        probe, copy = task.runs[1].parts[0], task.runs[0].parts[0]
        assert probe.resident is not None
        assert copy.resident is not None
        platform = probe.machine.platform
        alone = self._probes.alone(platform, replace(probe.resident, core_of=""))
        ramp.probed.append(seen[1] / alone if alone > 0 else 1.0)
        if len(ramp.probed) == PROBES:
            task.caused[source] = self._probes.caused(
                platform, source, copy.resident, ramp.probed, meters.noise
            )

    # --- what was found -------------------------------------------------------------------------

    def _note(self, task: Task) -> None:
        """What this phase has shown."""
        phase = task.phase
        if phase.source is not None:
            self._note_sample(task)
            return
        task.count += len(task.runs)
        rates = [_mean_rate(run) for run in task.runs]
        if phase.further is not None:
            self._note_further(task, phase.further, rates[0])
        elif not phase.beside:
            for quantity, value in _performance(task.runs[0]).items():
                entry = self._entry(task, value, str(quantity), phase.cpu_millicpus)
                task.performance.setdefault(quantity, {})[phase.cpu_millicpus] = entry
        elif not phase.cpu_millicpus:
            task.alone[phase.beside] = rates[0]
        else:
            own, its = rates
            first = task.performance.get(_work_quantity(task.job), {})
            alone = first.get(task.action.plan.cpu_millicpus[0])
            if alone is not None and alone.value > 0 and phase.beside in task.alone:
                task.beside[phase.beside] = self._entry(
                    task, own / alone.value, "beside", phase.beside
                )
                before = task.alone[phase.beside]
                if before > 0:
                    task.upon[phase.beside] = self._entry(task, its / before, "upon", phase.beside)

    def _note_further(self, task: Task, at: int, rate: float) -> None:
        if rate > 0:
            setting = task.action.plan.further[at].setting
            entry = self._entry(task, rate, "further", at)
            found = task.further.setdefault(_work_quantity(task.job), [])
            found.append(SettingEntry(setting, entry))

    def _entry(self, task: Task, value: float, *what: str | int) -> Entry:
        meters = self._cluster.meters
        seen = meters.error(value, task.job.name, *what) if value else 0.0
        return Entry(seen, max(meters.noise, LEAST_ERROR))

    def _finish(self, task: Task) -> None:
        plan, key = task.action.plan, task.key
        machine = self._cluster.machines[plan.server]
        if not any(entry.value > 0 for row in task.performance.values() for entry in row.values()):
            self.fail(key, "the copy did nothing")
            return
        found = Measurements(
            performance=task.performance,
            tolerated=task.tolerated,
            caused=task.caused,
            total=None if task.job.is_service else task.job.work,
            silent=task.silent,
            runs=task.count,
            seconds=self._cluster.now - task.began,
            platform=machine.platform,
            further={quantity: tuple(rows) for quantity, rows in task.further.items()},
            beside=task.beside,
            upon=task.upon,
        )
        self._drop(task)
        self._answer(key, ev.ProfilingFinished(key, found))

    # --- pieces ---------------------------------------------------------------------------------

    def _account(self, task: Task) -> Account:
        return Account(task.job, self._cluster.now, 1.0)

    def _run(self, task: Task, job: Job, places: tuple[Placement, ...], name: str) -> None:
        account = Account(job, self._cluster.now, 1.0)
        queue = self._cluster.truth.queue(job.application)
        run = Copy(f"{task.key}/{name}", job, account, places, queue)
        run.state, run.since = State.RUNNING, self._cluster.now
        if job.load is not None:
            asked = self._cluster.accounts.get(job.name)
            passed = self._cluster.now - (asked.submitted_at if asked else self._cluster.now)
            run.load_per_second = job.load.at(passed)
        task.runs.append(run)
        self._cluster.settle_in(run, places)

    def _end(self, run: Copy) -> None:
        run.state = State.ENDED
        self._cluster.leave(run)

    def _drop(self, task: Task) -> None:
        del self._tasks[task.key]
        self._cluster.ledger.present -= 1
        if task.handle:
            self._cluster.loop.cancel(task.handle)
        for run in task.runs:
            self._end(run)
        task.runs = []

    def _answer(self, key: str, answer: ev.Report) -> None:
        self._answers[key] = answer
        self._cluster.tell(answer)


_NONE = Allocation(0, 0)


def _phases(plan: ProfilingPlan) -> list[Phase]:
    """In the order in which they run; interference last, at the first allocation."""
    phases = [Phase(cpu) for cpu in plan.cpu_millicpus]
    for at, further in enumerate(plan.further):
        phases.append(Phase(further.setting.configuration.cpu_millicpus, further=at))
    for name in plan.beside:
        phases += [Phase(0, name), Phase(plan.cpu_millicpus[0], name)]
    return phases


def _reference(job: Job, application: str, cpu_millicpus: int) -> Job:
    """A known program that is run beside a copy of a job."""
    return replace(
        job, application=application, load=None, memory_bytes=1, cpu_millicpus=cpu_millicpus
    )


def _mean_rate(run: Run) -> float:
    if run.job.load is not None:
        return run.rate
    seconds = run.account.running_seconds
    return run.account.done / seconds if seconds > 0 else 0.0


def _work_quantity(job: Job) -> Quantity:
    return Quantity.THROUGHPUT if job.is_service else Quantity.RATE


def _performance(run: Run) -> dict[Quantity, float]:
    """Of a copy alone at one allocation; of a service, what it could answer."""
    if run.job.load is None:
        return {Quantity.RATE: _mean_rate(run)}
    used = sum(part.used_millicpus for part in run.parts) / 1000
    latency = service_values(run)[Quantity.LATENCY]
    return {Quantity.THROUGHPUT: run.rate, Quantity.LATENCY: latency, CPU: used}
