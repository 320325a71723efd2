"""One plan from its first run to its last, step by step.

Source: Quasar 3.2-3.4: one joint plan of few runs gives each classification its entries. The
workload alone at each allocation and elsewhere, beside known programs, and beside each source of
interference at the first allocation. A program whose own end is all that it tells is timed as a
whole instead, run by run: runs per second, or work per second where it told of work done.
"""

from collections.abc import Generator, Sequence
from math import inf
from statistics import fmean
from typing import Any, TypeVar

from wharfinger.errors import InvalidInput
from wharfinger.ibench.ramp import Measure, RampPlan, Sample, Tolerance, next_step
from wharfinger.ibench.scores import tolerated
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import ProfilingPlan
from wharfinger.profiling.observations import Observations
from wharfinger.profiling.procedure import (
    MAX_INTENSITY,
    PROBE_INTENSITY,
    Procedure,
    cut_short,
    looks_for,
    ramp_plan,
)
from wharfinger.profiling.scores import relative, tolerated_of_few
from wharfinger.profiling.steps import (
    PERFORMANCES,
    DoesNotFit,
    Inject,
    Interruption,
    NeighborFell,
    Port,
    ProgramEnded,
    ReadFor,
    RunAt,
    RunFailed,
    SourceSilent,
    StartsUsedUp,
    Step,
    Stretch,
    Withdraw,
)

_Result = TypeVar("_Result")
Steps = Generator[Step, Any, _Result]

TIME_OVER = "the plan's time was over before a whole run was"
TOO_SELDOM = "it says too seldom how it performs for the time that there is"


class Interpreter:
    """A plan that is carried out.

    Args:
        plan: What to measure.
        procedure: How.
        observations: Takes what was seen.
        port: Carries the steps out.
    """

    def __init__(
        self, plan: ProfilingPlan, procedure: Procedure, observations: Observations, port: Port
    ) -> None:
        self._plan = plan
        self._procedure = procedure
        self._observations = observations
        self._port = port
        self._alone: list[Stretch] = []
        self._end = inf
        self._reserved_starts = 0
        self._whole = not self._procedure.by_rate
        self._work = 1.0
        self._steps = self._measure()

    def advance(self, outcome: Stretch | Interruption | None = None) -> ReadFor | None:
        """Carry out all steps until the next reading.

        Args:
            outcome: Of the reading before; ``None`` = nothing within its time, or the beginning.

        Returns:
            What to read; ``None`` = the plan is done.
        """
        answer: Any = outcome
        while True:
            try:
                if isinstance(answer, Interruption):
                    step = self._steps.throw(answer)
                else:
                    step = self._steps.send(answer)
            except StopIteration:
                return None
            if isinstance(step, ReadFor):
                return step
            try:
                answer = self._perform(step)
            except Interruption as interruption:
                answer = interruption

    def _perform(self, step: RunAt | Inject | Withdraw) -> Any:
        if isinstance(step, RunAt):
            return self._port.run(step)
        if isinstance(step, Inject):
            return self._port.inject(step)
        return self._port.withdraw(step)

    def _measure(self) -> Steps[None]:
        try:
            if self._whole:
                yield from self._by_whole_runs()
                return
            try:
                yield from self._by_rate()
            except ProgramEnded as ended:
                yield from self._by_whole_runs(ended)
        except (RunFailed, StartsUsedUp) as over:
            self._observations.stopped = str(over)

    # --- a program that tells how it performs while it runs ---------------------------------------

    def _by_rate(self) -> Steps[None]:
        first, *others = self._plan.cpu_millicpus
        yield RunAt(first, warm_up_seconds=self._procedure.warm_up_seconds)
        self._end = self._port.now() + self._plan.seconds - self._procedure.warm_up_seconds
        yield from self._run_alone(first)
        sources_last = self._procedure.probes > 0
        self._reserved_starts = len(others)  # Each may need one, should the program end.
        if not sources_last and self._alone:
            yield from self._beside_sources()
            self._observations.add_performance(first, self._alone)
        for cpu_millicpus in others:
            self._reserved_starts -= 1
            yield from self._run_at(cpu_millicpus)
        for place, further in enumerate(self._plan.further):
            yield RunAt(further.setting.configuration.cpu_millicpus, further=place)
            stretch = yield ReadFor(self._procedure.stretch_seconds)
            self._observations.add_further(place, further.setting, [stretch])
        for known in self._plan.beside:
            yield from self._run_beside(known)
        if sources_last:
            yield from self._beside_sources()

    def _run_alone(self, first: int) -> Steps[None]:
        """At the first allocation; with what the program uses meanwhile."""
        soon = self._port.now() + self._procedure.share_seconds
        try:
            until = self._until(first)
            yield from self._read_stretches(self._alone, until, soon, None)
        except ProgramEnded:
            if len(self._alone) < self._procedure.min_stretches:
                raise
        finally:
            used = [s.used_cpus for s in self._alone if s.used_cpus is not None]
            self._observations.add_performance(first, self._alone, fmean(used) if used else None)
            self._observations.add_cpu_use(used)
        if not self._alone:
            reason = f"too few numbers in time: {self._port.why_silent()}"
            self._observations.silence(f"performance/{first}", reason)

    def _run_at(self, cpu_millicpus: int) -> Steps[None]:
        """At a further allocation, until its share of the time is over."""
        what = f"performance/{cpu_millicpus}"
        found: list[Stretch] = []
        try:
            changed = yield RunAt(cpu_millicpus)
        except RunFailed as refused:
            self._observations.silence(what, str(refused))
            return
        until = self._until(cpu_millicpus)
        soon = (
            min(until, self._port.now() + self._procedure.share_seconds) if until == inf else until
        )
        reserved = self._reserved_starts
        try:
            if changed:  # The stretch of the change itself.
                yield ReadFor(self._procedure.stretch_seconds, until, reserved)
            yield from self._read_stretches(found, until, soon, reserved)
        except StartsUsedUp as used_up:
            self._observations.silence(what, str(used_up))
        finally:
            used = [s.used_cpus for s in found if s.used_cpus is not None]
            self._observations.add_performance(cpu_millicpus, found, fmean(used) if used else None)

    def _read_stretches(
        self,
        found: list[Stretch],
        until: float,
        soon: float,
        reserved_starts: int | None,
    ) -> Steps[None]:
        while stretch := (yield ReadFor(self._procedure.stretch_seconds, until, reserved_starts)):
            found.append(stretch)
            if len(found) >= self._procedure.min_stretches and self._port.now() >= soon:
                return

    def _until(self, cpu_millicpus: int) -> float:
        """When the others after this allocation need the rest of the time."""
        if self._procedure.probes:
            return inf
        others_after = (
            len(self._plan.cpu_millicpus) - 1 - self._plan.cpu_millicpus.index(cpu_millicpus)
        )
        return self._end - others_after * self._procedure.share_seconds

    def _run_beside(self, known: str) -> Steps[None]:
        """A known program alone, and then the two."""
        alone: Stretch | None = None
        try:
            yield RunAt(0, known)
            alone = yield ReadFor(self._procedure.stretch_seconds)
            yield RunAt(self._plan.cpu_millicpus[0], known)
            both = yield ReadFor(self._procedure.stretch_seconds)
        except DoesNotFit as no_room:
            if alone is None:
                self._observations.silence(f"beside/{known}", str(no_room))
            else:
                self._observations.add_no_room_beside(known)
        else:
            self._observations.add_beside(known, alone.neighbor or 0.0, both)

    # --- a program of which only its end tells anything -------------------------------------------

    def _by_whole_runs(self, first_run: ProgramEnded | None = None) -> Steps[None]:
        """One run for each thing to learn, as far as time and starts go.

        Args:
            first_run: One that has already been, at the first allocation; ``None`` = none.
        """
        self._whole, self._reserved_starts, self._alone = True, 0, []
        self._end = self._port.now() + self._plan.seconds
        first, *others = self._plan.cpu_millicpus
        if first_run is not None:
            stretch = first_run.stretch
            self._work = first_run.work or 1.0
            self._end -= stretch.seconds
        else:
            yield RunAt(first)
            stretch = yield ReadFor(inf, self._end)
        if not self._take_first(first, stretch):
            return
        for cpu_millicpus in others:
            yield RunAt(cpu_millicpus)
            if run := (yield from self._whole_run()):
                self._observations.add_performance(cpu_millicpus, [run])
            else:
                self._observations.silence(f"performance/{cpu_millicpus}", TIME_OVER)
        yield from self._beside_sources()
        yield RunAt(first)  # What time and starts are left: its noise shows.
        while run := (yield from self._whole_run()):
            self._alone.append(run)
            self._observations.add_performance(first, self._alone)

    def _take_first(self, first: int, stretch: Stretch | None) -> bool:
        """Whether it was a whole run, to which others can be compared."""
        if stretch is None or stretch.seconds <= 0:
            raise RunFailed("it ended before its time could be taken")
        self._observations.add_cpu_use([] if stretch.used_cpus is None else [stretch.used_cpus])
        if Quantity.RATE not in stretch.values:
            self._observations.stopped = (
                f"it did not end within {self._plan.seconds:g} s, and its manifest does not say "
                "how to measure it: write spec.measure"
            )
            return False
        self._observations.total = self._observations.total or self._work
        self._alone.append(self._worked(stretch))
        self._observations.add_performance(first, self._alone)
        return True

    def _whole_run(self) -> Steps[Stretch | None]:
        """``None`` where there is no time or no start left for a whole one."""
        stretch: Stretch | None = yield ReadFor(inf, self._end)
        whole = stretch is not None and Quantity.RATE in stretch.values
        return self._worked(stretch) if stretch is not None and whole else None

    def _worked(self, run: Stretch) -> Stretch:
        return Stretch(run.seconds, {Quantity.RATE: self._work / run.seconds})

    # --- beside sources of interference -----------------------------------------------------------

    def _beside_sources(self) -> Steps[None]:
        for resource in self._plan.sources:
            try:
                yield from self._inject(resource)
            except SourceSilent as silent:
                self._observations.silence_source(resource, str(silent))
            except StartsUsedUp as used_up:
                self._observations.silence_sources(str(used_up))
                return
            except NeighborFell as fell:
                self._observations.neighbor_fell(resource, str(fell))
                return

    def _inject(self, resource: SharedResource) -> Steps[None]:
        began = self._port.now()
        gap_seconds = yield Inject(resource, 0.0)
        interruption: Interruption | None = None
        probed: list[float] = []
        try:
            if self._whole:
                self._end += self._port.now() - began  # Its set-up is no time of measuring.
                yield from self._look(resource, (MAX_INTENSITY,), self._end, TIME_OVER)
            else:
                until = self._source_until(resource)
                yield from self._probe(resource, probed)
                yield from self._ramp(resource, until, gap_seconds)
        except Interruption as cause:
            interruption = cause
        slowed = self._observations.is_slowed(resource)
        caused = yield Withdraw(resource, probed, slowed)
        self._observations.add_caused(resource, caused)
        if interruption is not None:
            raise interruption

    def _source_until(self, resource: SharedResource) -> float:
        until = self._port.now() + self._procedure.source_seconds
        sources_after = len(self._plan.sources) - 1 - self._plan.sources.index(resource)
        others = len(self._plan.cpu_millicpus) - 1
        rest = (
            others * self._procedure.share_seconds + sources_after * self._procedure.source_seconds
        )
        self._end = max(self._end, until + rest)
        return until

    def _probe(self, resource: SharedResource, probed: list[float]) -> Steps[None]:
        """Look at the source itself: the workload slows it as much as it presses on others."""
        if self._procedure.probes:
            yield Inject(resource, PROBE_INTENSITY)
        while len(probed) < self._procedure.probes:
            stretch = yield ReadFor(self._procedure.sample_seconds)
            probed.append(stretch.neighbor)

    def _ramp(self, resource: SharedResource, until: float, gap_seconds: float) -> Steps[None]:
        room = (until - self._port.now()) / max(self._procedure.sample_seconds, gap_seconds)
        plan = ramp_plan(room, self._plan.tolerance)
        if plan is None:
            yield from self._look(resource, looks_for(room - 1), until, TOO_SELDOM)
            return
        try:
            yield from self._ramp_by(plan, resource, until)
        except InvalidInput as error:
            self._observations.silence(f"tolerated/{resource.value}", str(error))

    def _ramp_by(self, plan: RampPlan, resource: SharedResource, until: float) -> Steps[None]:
        """Raise the source until performance has dropped by the tolerance."""
        reference, samples = dict.fromkeys(PERFORMANCES, 1.0), list[Sample]()
        if not self._procedure.probes:
            reference = self._reference()
            recent = [relative(stretch.values, reference) for stretch in self._alone]
            told = [value for value in recent if value is not None]
            samples += [Sample(0.0, value) for value in told[-plan.max_samples_per_visit :]]
        intensity = PROBE_INTENSITY if self._procedure.probes else 0.0
        try:
            while isinstance(step := next_step(plan, samples), Measure):
                if step.intensity != intensity:
                    intensity = step.intensity
                    yield Inject(resource, intensity)
                stretch = yield ReadFor(
                    self._procedure.sample_seconds, until, self._reserved_starts
                )
                if stretch is not None and intensity == 0 and not self._procedure.probes:
                    self._alone.append(stretch)
                ratio = None if stretch is None else relative(stretch.values, reference)
                if ratio is None:
                    self._keep_part(resource, cut_short(plan, samples), intensity)
                    return
                samples.append(Sample(intensity, ratio))
        except (NeighborFell, RunFailed, StartsUsedUp):
            self._keep(resource, cut_short(plan, samples))
            raise
        self._keep(resource, step)

    def _keep_part(self, resource: SharedResource, found: Tolerance, intensity: float) -> None:
        self._keep(resource, found)
        if found.censored:
            reason = f"time was over at intensity {intensity:g}"
            bound = ": a lower bound" if found.low > 0 else ""
            self._observations.silence(f"tolerated/{resource.value}", reason + bound)

    def _keep(self, resource: SharedResource, found: Tolerance) -> None:
        if found.low > 0 or not found.censored:
            self._observations.tolerated[resource] = tolerated(found)

    def _look(
        self, resource: SharedResource, intensities: Sequence[float], until: float, why_none: str
    ) -> Steps[None]:
        """With too few numbers to judge their noise: each intensity once."""
        reference, ratios = self._reference(), dict[float, float]()
        try:
            for intensity in intensities:
                yield Inject(resource, intensity)
                stretch = yield from self._sample(until)
                ratio = None if stretch is None else relative(stretch.values, reference)
                if ratio is None:
                    break
                ratios[intensity] = ratio
                if ratio < 1 - self._plan.tolerance:
                    break
        finally:
            if ratios:
                entry = tolerated_of_few(ratios, self._plan.tolerance)
                self._observations.tolerated[resource] = entry
            else:
                self._observations.silence(f"tolerated/{resource.value}", why_none)

    def _sample(self, until: float) -> Steps[Stretch | None]:
        if self._whole:
            return (yield from self._whole_run())
        stretch: Stretch | None = yield ReadFor(
            self._procedure.sample_seconds, until, self._reserved_starts
        )
        return stretch

    def _reference(self) -> dict[Quantity, float]:
        """Performance alone, of what its target is about; else of what is told."""
        first = self._plan.cpu_millicpus[0]
        entries = self._observations.entries(self._alone, first).items()
        alone = {quantity: entry.value for quantity, entry in entries}
        wanted = {q: value for q, value in alone.items() if q in self._observations.wanted}
        return wanted or alone
