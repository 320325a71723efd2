"""One plan from its first run to its last, step by step.

Source: Quasar 3.2-3.4: one joint plan of few runs gives each classification its entries: the
workload alone at each allocation and elsewhere, beside known programs, and beside each source of
interference at the first allocation. A program that tells nothing but its own end is timed run by
run: runs per second, or work per second where it told of work done.
"""

from collections.abc import Callable, Generator, Sequence
from math import inf
from statistics import fmean
from typing import Any, Protocol, TypeVar

from wharfinger.errors import InvalidInput
from wharfinger.ibench.ramp import RampPlan, RampSample, TakeSample, next_step
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Entry, ProfilingPlan
from wharfinger.profiling.observations import Observations
from wharfinger.profiling.procedure import (
    PROBE_INTENSITY,
    Procedure,
    cut_short,
    looks_for,
    ramp_plan,
)
from wharfinger.profiling.scores import PERFORMANCES, relative, tolerated_of_few
from wharfinger.profiling.steps import (
    DoesNotFit,
    Inject,
    Interruption,
    NeighborFell,
    ProgramEnded,
    ReadFor,
    RunAt,
    RunFailed,
    SourceSilent,
    StartsUsedUp,
    Stretch,
    Withdraw,
)

Step = RunAt | Inject | Withdraw | ReadFor
_Result = TypeVar("_Result")
Steps = Generator[Step, Any, _Result]

NO_READING = "it tells too seldom how it performs, or ends too late, for the time that there is"


class ProfilingPort(Protocol):
    """What carries out all steps but readings; each may raise an :class:`Interruption`."""

    def run(self, step: RunAt) -> bool:
        """Whether the allocation was changed while the program ran."""

    def inject(self, step: Inject) -> float:
        """Seconds that one reading takes at least."""

    def withdraw(self, step: Withdraw) -> Entry | str | None:
        """Caused interference, or why that is unknown; ``None`` = not seen at the source."""

    def now(self) -> float:
        """Seconds, on the port's clock."""

    def why_silent(self) -> str:
        """Why the performance can't be read."""


class Interpreter:
    """Carries a plan out by a procedure, over a port; ``observations`` collects the results."""

    def __init__(
        self,
        plan: ProfilingPlan,
        procedure: Procedure,
        observations: Observations,
        port: ProfilingPort,
    ) -> None:
        self._plan = plan
        self._procedure = procedure
        self._observations = observations
        self._port = port
        self._carry_out: dict[type[Step], Callable[[Any], Any]] = {
            RunAt: port.run,
            Inject: port.inject,
            Withdraw: port.withdraw,
        }
        self._alone: list[Stretch] = []
        self._end = inf
        self._reserved_starts = 0
        self._steps = self._measure()

    def advance(self, outcome: Stretch | Interruption | None = None) -> ReadFor | None:
        """What to read next, after all steps until then; ``None`` = the plan is done.

        ``outcome`` is of the reading before; ``None`` = nothing within its time, or the beginning.
        """
        answer: Any = outcome
        while True:
            try:
                resume = self._steps.throw if isinstance(answer, Interruption) else self._steps.send
                step = resume(answer)
            except StopIteration:
                return None
            if isinstance(step, ReadFor):
                return step
            try:
                answer = self._carry_out[type(step)](step)
            except Interruption as interruption:
                answer = interruption

    def complete(self, read: Callable[[ReadFor], Stretch | None]) -> None:
        """Carry out the whole plan; ``read`` waits for each reading, or raises ``Interruption``."""
        outcome: Stretch | Interruption | None = None
        while (wanted := self.advance(outcome)) is not None:
            try:
                outcome = read(wanted)
            except Interruption as interruption:
                outcome = interruption

    # --- the whole plan ---------------------------------------------------------------------------

    def _measure(self) -> Steps[None]:
        try:
            yield from self._go_through()
        except RunFailed as failed:
            self._observations.stopped = str(failed)
            self._observations.out_of_memory_bytes = failed.out_of_memory_bytes
        except StartsUsedUp as over:
            self._observations.stopped = str(over)

    def _go_through(self) -> Steps[None]:
        first, *others = self._plan.cpu_millicpus
        yield from self._run_first(first)
        if not any(stretch.values for stretch in self._alone):
            if not self._procedure.by_rate:
                self._observations.stopped = (
                    f"it did not end within {self._plan.limit_seconds:g} s, and its manifest does "
                    "not say how to measure it: write spec.measure"
                )
                return
            reason = f"too few numbers in time: {self._port.why_silent()}"
            self._observations.silence(f"performance/{first}", reason)
        elif not self._procedure.by_rate:
            self._observations.total = self._observations.total or 1.0
        self._reserved_starts = len(others)  # Each may need one if the program ends.
        if not self._procedure.sources_last and self._alone:
            yield from self._beside_sources()
            self._observations.add_performance(first, self._alone)
        for cpu_millicpus in others:
            self._reserved_starts -= 1
            yield from self._run_at(cpu_millicpus)
        for place, further in enumerate(self._plan.further):
            yield RunAt(further.setting.configuration.cpu_millicpus, further=place)
            stretch = yield ReadFor(self._procedure.stretch_seconds)
            self._observations.add_further(place, further.setting, [stretch])
        for program in self._plan.beside:
            yield from self._run_beside(program)
        if self._procedure.sources_last:
            yield from self._beside_sources()
        if not self._procedure.by_rate:  # Further whole runs in the time left: the noise shows.
            yield RunAt(first)
            while again := (yield ReadFor(inf, self._end)):
                self._alone.append(again)
                self._observations.add_performance(first, self._alone)

    # --- the workload alone -----------------------------------------------------------------------

    def _run_first(self, first: int) -> Steps[None]:
        """At the first allocation; from a program that ends too soon on, whole runs are timed."""
        try:
            yield RunAt(first, warm_up_seconds=self._procedure.warm_up_seconds)
            self._end = self._port.now() + self._procedure.seconds
            yield from self._run_alone(first)
        except ProgramEnded as ended:
            if len(self._alone) >= self._procedure.min_stretches:
                return
            self._procedure = Procedure.whole(self._plan.limit_seconds)
            self._end = self._port.now() + self._plan.limit_seconds - ended.stretch.seconds
            self._alone = [ended.stretch]
            self._observations.total = self._observations.total or ended.work
            self._note_alone(first)

    def _run_alone(self, first: int) -> Steps[None]:
        soon = self._port.now() + self._procedure.share_seconds
        until = self._until(first) + self._plan.limit_seconds - self._plan.seconds
        try:
            yield from self._read_stretches(self._alone, until, soon, None)
        finally:
            self._note_alone(first)

    def _note_alone(self, first: int) -> None:
        self._note(first, self._alone)
        self._observations.add_cpu_use(_used_cpus(self._alone))

    def _note(self, cpu_millicpus: int, stretches: Sequence[Stretch]) -> None:
        used = _used_cpus(stretches) if self._procedure.by_rate else []
        self._observations.add_performance(cpu_millicpus, stretches, fmean(used) if used else None)

    def _run_at(self, cpu_millicpus: int) -> Steps[None]:
        what = f"performance/{cpu_millicpus}"
        stretches: list[Stretch] = []
        try:
            changed = yield RunAt(cpu_millicpus)
        except RunFailed as refused:
            self._observations.silence(what, str(refused))
            return
        until = self._until(cpu_millicpus)
        by_the_clock = self._procedure.by_rate and until < inf
        soon = until if by_the_clock else self._port.now() + self._procedure.share_seconds
        try:
            if changed and self._procedure.by_rate:  # The stretch of the change itself.
                yield ReadFor(self._procedure.stretch_seconds, until, self._reserved_starts)
            yield from self._read_stretches(stretches, until, soon, self._reserved_starts)
        except StartsUsedUp as used_up:
            self._observations.silence(what, str(used_up))
        finally:
            self._note(cpu_millicpus, stretches)

    def _read_stretches(
        self, stretches: list[Stretch], until: float, soon: float, reserved_starts: int | None
    ) -> Steps[None]:
        procedure = self._procedure
        while stretch := (yield ReadFor(procedure.stretch_seconds, until, reserved_starts)):
            stretches.append(stretch)
            if len(stretches) >= procedure.min_stretches and self._port.now() >= soon:
                return

    def _until(self, cpu_millicpus: int) -> float:
        left = len(self._plan.cpu_millicpus) - 1 - self._plan.cpu_millicpus.index(cpu_millicpus)
        return self._end - left * self._procedure.share_seconds

    def _run_beside(self, program: str) -> Steps[None]:
        alone: Stretch | None = None
        try:
            yield RunAt(0, program)
            alone = yield ReadFor(self._procedure.stretch_seconds)
            yield RunAt(self._plan.cpu_millicpus[0], program)
            both = yield ReadFor(self._procedure.stretch_seconds)
        except DoesNotFit as no_room:
            if alone is None:
                self._observations.silence(f"beside/{program}", str(no_room))
            else:
                self._observations.add_no_room_beside(program)
        else:
            self._observations.add_beside(program, alone.neighbor or 0.0, both)

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
        began, probed = self._port.now(), list[float]()
        gap_seconds = yield Inject(resource, 0.0)
        until = self._source_until(resource, began)
        interruption: Interruption | None = None
        try:
            yield from self._probe(resource, probed, until)
            room = (until - self._port.now()) / max(self._procedure.sample_seconds, gap_seconds)
            levels = self._procedure.levels.get(resource)
            ramp = ramp_plan(room, self._plan.tolerance, levels)
            if ramp is None:
                yield from self._look(resource, looks_for(room - 1), until)
            else:
                yield from self._ramp(resource, ramp, until)
        except Interruption as cause:
            interruption = cause
        slowed = self._observations.is_slowed(resource)
        caused = yield Withdraw(resource, probed, slowed)
        self._observations.add_caused(resource, caused)
        if interruption is not None:
            raise interruption

    def _source_until(self, resource: SharedResource, began: float) -> float:
        if not self._procedure.by_rate:
            self._end += self._port.now() - began  # Its set-up is no time of measuring.
            return self._end
        until = self._port.now() + self._procedure.source_seconds
        sources_after = len(self._plan.sources) - 1 - self._plan.sources.index(resource)
        others = len(self._plan.cpu_millicpus) - 1
        rest = sources_after * self._procedure.source_seconds
        self._end = max(self._end, until + rest + others * self._procedure.share_seconds)
        return until

    def _probe(self, resource: SharedResource, probed: list[float], until: float) -> Steps[None]:
        """Read the source's own rate: the workload slows it by its pressure."""
        if self._procedure.probes:
            yield Inject(resource, PROBE_INTENSITY)
        for _ in range(self._procedure.probes):
            stretch = yield from self._sample(until)
            if stretch is None:
                return
            if stretch.neighbor is not None:
                probed.append(stretch.neighbor)

    def _ramp(self, resource: SharedResource, ramp: RampPlan, until: float) -> Steps[None]:
        """Performance alone is measured again only where the sources come last."""
        again = self._procedure.sources_last
        reference = dict.fromkeys(PERFORMANCES, 1.0) if again else self._reference()
        recent = [] if again else [relative(stretch.values, reference) for stretch in self._alone]
        told = [value for value in recent if value is not None]
        samples = [RampSample(0.0, value) for value in told[-ramp.max_samples_per_visit :]]
        intensity = PROBE_INTENSITY if self._procedure.probes else 0.0
        try:
            while isinstance(step := next_step(ramp, samples), TakeSample):
                if step.intensity != intensity:
                    intensity = step.intensity
                    yield Inject(resource, intensity)
                stretch = yield from self._sample(until)
                if stretch is not None and intensity == 0 and not again:
                    self._alone.append(stretch)
                ratio = None if stretch is None else relative(stretch.values, reference)
                if ratio is None:
                    self._observations.add_ramp(resource, cut_short(ramp, samples), intensity)
                    return
                samples.append(RampSample(intensity, ratio))
        except InvalidInput as error:
            self._observations.silence(f"tolerated/{resource.value}", str(error))
        except (NeighborFell, RunFailed, StartsUsedUp):
            self._observations.add_ramp(resource, cut_short(ramp, samples))
            raise
        else:
            self._observations.add_ramp(resource, step)

    def _look(
        self, resource: SharedResource, intensities: Sequence[float], until: float
    ) -> Steps[None]:
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
                self._observations.silence(f"tolerated/{resource.value}", NO_READING)

    def _sample(self, until: float) -> Steps[Stretch | None]:
        seconds = self._procedure.sample_seconds
        stretch: Stretch | None = yield ReadFor(seconds, until, self._reserved_starts)
        return stretch

    def _reference(self) -> dict[Quantity, float]:
        """Performance alone, by the target's quantities; else by those that are told."""
        first = self._plan.cpu_millicpus[0]
        entries = self._observations.entries(self._alone, first).items()
        alone = {quantity: entry.value for quantity, entry in entries}
        wanted = {q: value for q, value in alone.items() if q in self._observations.wanted}
        return wanted or alone


def _used_cpus(stretches: Sequence[Stretch]) -> list[float]:
    return [s.used_cpus for s in stretches if s.used_cpus is not None]
