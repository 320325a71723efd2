"""A profile: rounds of profiling plans, until each source's answer is sure or time is over.

Each round is one plan for the interpreter of ``wharfinger.profiling``, over the same session: the
program alone, then each source that is not sure yet, in alternating order. A source is a probe
first (``probing``), which was calibrated while the program did not run.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import fmean, stdev
from typing import Protocol

from wharfinger.errors import InvalidInput, Unavailable
from wharfinger.ibench.sources import Source
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.model.profile import Entry, ProfilingPlan
from wharfinger.profiling.crossing import CurveScore
from wharfinger.profiling.curves import Reading, Sensitivity, next_levels, sensitivity
from wharfinger.profiling.interpreter import Interpreter, ProfilingPort
from wharfinger.profiling.observations import Observations
from wharfinger.profiling.probing import (
    CALIBRATED,
    MAX_VISITS,
    MIN_VISITS,
    ProbeCalibration,
    ProbeReading,
    caused_by,
    drift_of,
    order_of,
)
from wharfinger.profiling.procedure import PROBE_INTENSITY, PROBES, Procedure
from wharfinger.profiling.scores import PERFORMANCES, relative
from wharfinger.profiling.steps import ReadFor, RunFailed, SourceSilent, Stretch

ALONE_READINGS, SOURCE_READINGS = 10, 75
"""Of a round: alone, and at most beside each source."""
WARM_UP_SECONDS = 1.0
TRIAL_SHARE = 0.25
"""Of the time: for a program to tell its first numbers, or to end."""
CALIBRATION_SHARE = 0.3
"""Of the time, at most."""
CALIBRATION_SECONDS = 0.25
"""Of one reading of a probe: two of its reports."""
MAX_ROUNDS = 12
PLACE = "here"

Calibrations = dict[SharedResource, ProbeCalibration]
"""Of a machine and its CPUs; may serve further profiles there."""


class Way(StrEnum):
    """How the performance is read."""

    NUMBERS = "the numbers that it tells while it runs"
    RUNS = "whole runs: runs per second, or what each tells at its end"
    CPU = "its CPU time, a proxy: give --measure for its performance"


class CausedBy(StrEnum):
    """How caused interference is measured."""

    PROBE = "probe"
    CPU_SHARE = "cpu-share"
    IO_SHARE = "io-share"
    PUBLISHED = "published"


@dataclass(frozen=True, slots=True)
class SeenStretch:
    """One reading beside a source, or alone (``None``); ``probe`` is the source's own rate."""

    resource: SharedResource | None
    intensity: float
    stretch: Stretch
    probe: ProbeReading | None = None


class MeasuredSession(ProfilingPort, Protocol):
    """What a profile is measured over: a program that can be run beside sources.

    ``looks`` are all readings, in their order; ``reading_seconds`` of one, usually; ``runs`` how
    often the program was started.
    """

    way: Way
    looks: list[SeenStretch]
    reading_seconds: float
    runs: int

    @property
    def wanted(self) -> tuple[Quantity, ...]:
        """The quantities that count."""

    def begin(self, patience_seconds: float) -> None:
        """Start the program, and find out how it can be measured; raises ``RunFailed``."""

    def read(self, wanted: ReadFor) -> Stretch | None:
        """Performance over the next stretch; ``None`` = time is over. Raises ``RunFailed``."""

    def calibrate(self, resource: SharedResource, order: Sequence[float]) -> ProbeCalibration:
        """A probe beside a second source at these intensities, one after the other.

        Only while the program is set aside. Raises ``SourceSilent``.
        """

    def set_aside(self) -> None:
        """End the program, until ``run`` starts it again."""


@dataclass(frozen=True, slots=True)
class AlonePerformance:
    """Performance alone: its mean with its standard error, and the noise of one reading.

    ``noise`` and ``drift`` (between rounds) are shares of the value.
    """

    quantity: Quantity
    value: float
    error: float
    noise: float
    drift: float
    readings: int


@dataclass(frozen=True, slots=True)
class BeyondCpu:
    """What a source does beyond taking CPU time: by performance per second of CPU time.

    Attributes:
        tolerated: As usual, of that performance; ``None`` = it can't be told.
        caused: As usual, by the probe's rate per second of its CPU time; or why not.
    """

    tolerated: Sensitivity | None
    caused: CurveScore | str


@dataclass(slots=True)
class InterferenceProfile:
    """What was measured; ``silent`` says why a source could not be used, or a cause is unknown.

    ``shares`` are the program's own of CPU time and I/O, a cross-check of what is caused;
    ``used_cpus`` are CPU seconds per second alone.
    """

    tolerance: float
    sources: tuple[Source, ...]
    baseline: AlonePerformance
    way: Way
    found: dict[SharedResource, Sensitivity] = field(default_factory=dict)
    caused: dict[SharedResource, CurveScore] = field(default_factory=dict)
    shares: dict[SharedResource, Entry] = field(default_factory=dict)
    beyond_cpu: dict[SharedResource, BeyondCpu] = field(default_factory=dict)
    silent: dict[str, str] = field(default_factory=dict)
    calibrations: Calibrations = field(default_factory=Calibrations)
    caused_as_published: bool = False
    used_cpus: float | None = None
    rounds: int = 0
    runs: int = 0
    seconds: float = 0.0


class RoundObservations(Observations):
    """With the reasons for what is missing."""

    def __init__(self, plan: ProfilingPlan, wanted: Sequence[Quantity], cpus: int) -> None:
        super().__init__(plan, wanted=wanted, cpus=cpus, total=1.0)
        self.reasons: dict[str, str] = {}

    def silence(self, what: str, reason: str) -> None:
        """Keep the reason."""
        self.reasons[what] = reason
        super().silence(what, reason)


class Profiler:
    """Carries the rounds out; ``tell`` gets what is done now.

    ``calibrations`` are those that are known, and get those that are made; ``calibrates`` = the
    program does not run yet, so that they can be.
    """

    def __init__(
        self,
        session: MeasuredSession,
        sources: Sequence[Source],
        *,
        tolerance: float,
        seconds: float,
        cpus: int,
        tell: Callable[[str], None],
        calibrations: Calibrations | None = None,
        calibrates: bool = True,
        caused_as_published: bool = False,
    ) -> None:
        self._session = session
        self._sources = tuple(sources)
        self._tolerance = tolerance
        self._seconds = seconds
        self._cpus = cpus
        self._tell = tell
        self._calibrations = Calibrations() if calibrations is None else calibrations
        self._calibrates = calibrates
        self._published = caused_as_published
        self._beside: dict[SharedResource, list[list[SeenStretch]]] = {}
        self._sensitivity: dict[SharedResource, Sensitivity] = {}
        self._shares: dict[SharedResource, list[Entry]] = {}
        self._silent: dict[str, str] = {}
        self._alone: list[list[float]] = []
        self._quantity = Quantity.RATE

    def profile(self) -> InterferenceProfile:
        """Everything; raises ``Unavailable`` where the program does not run or tells nothing."""
        began = self._session.now()
        deadline = began + self._seconds
        self._tell("finding out how it is measured")
        try:
            self._session.begin(max(2.0, TRIAL_SHARE * self._seconds))
        except RunFailed as failed:
            raise Unavailable(str(failed)) from None
        if not self._published:
            self._calibrate()
        rounds, left = 0, [source.resource for source in self._sources]
        while rounds < MAX_ROUNDS and (left or rounds == 0):
            took = self._session.now()
            order = left if rounds % 2 == 0 else left[::-1]
            self._round(order, deadline, first=rounds == 0)
            rounds += 1
            took = self._session.now() - took
            left = [resource for resource in left if not self._is_done(resource)]
            if self._session.now() + took / 3 > deadline:
                break
        profile = self._result()
        profile.rounds, profile.runs = rounds, self._session.runs
        profile.seconds = self._session.now() - began
        return profile

    def _calibrate(self) -> None:
        missing = [s.resource for s in self._sources if s.resource not in self._calibrations]
        if not missing:
            return
        if not self._calibrates:
            why = "its probe can't be calibrated while the program runs; give --calibration"
            self._silent |= {f"caused/{resource.value}": why for resource in missing}
            return
        reading = len(CALIBRATED) * CALIBRATION_SECONDS
        self._session.set_aside()
        visits = int(CALIBRATION_SHARE * self._seconds / len(missing) / reading)
        if visits < MIN_VISITS:
            return
        for resource in missing:
            self._tell(f"{resource.value}: calibrating the probe")
            try:
                order = order_of(min(MAX_VISITS, visits))
                self._calibrations[resource] = self._session.calibrate(resource, order)
            except SourceSilent as silent:
                self._silent[f"caused/{resource.value}"] = str(silent)

    def _is_done(self, resource: SharedResource) -> bool:
        found = self._sensitivity.get(resource)
        return found is None or found.is_sure  # None: it could not be injected.

    def _round(self, order: Sequence[SharedResource], deadline: float, *, first: bool) -> None:
        reading, count = self._session.reading_seconds, len(order)
        left = max(0.0, deadline - self._session.now())
        alone = max(3 * reading, min(ALONE_READINGS * reading, left / 10))
        share = (left - alone) / max(1, count) / (2 if first else 1)
        source_seconds = max(reading, min(SOURCE_READINGS * reading, share))
        seconds = alone + count * source_seconds
        probed = [resource for resource in order if resource in self._calibrations]
        room = int(source_seconds / reading / 3)
        levels = {resource: found for resource in order if (found := self._levels(resource))}
        procedure = Procedure(
            seconds, alone, reading, reading, source_seconds,
            warm_up_seconds=min(WARM_UP_SECONDS, left / 10), min_stretches=3, sources_last=False,
            probes=min(PROBES, room) if probed else 0, levels=levels,
        )  # fmt: skip
        millicpus = MILLICPUS_PER_CPU * self._cpus
        plan = ProfilingPlan(PLACE, (millicpus,), 0, tuple(order), seconds, self._tolerance)
        observations = RoundObservations(plan, self._session.wanted, self._cpus)
        begun = len(self._session.looks)
        Interpreter(plan, procedure, observations, self._session).complete(self._session.read)
        if observations.stopped:
            raise Unavailable(observations.stopped)
        looks = self._session.looks[begun:]
        self._note_alone(looks, observations)
        for resource in order:
            self._note_source(resource, looks)
        for resource, share_of in observations.caused.items():
            self._shares.setdefault(resource, []).append(share_of)
        self._silent |= observations.reasons

    def _levels(self, resource: SharedResource) -> tuple[float, ...]:
        found = self._sensitivity.get(resource)
        return next_levels(found) if found is not None else ()

    def _note_alone(self, looks: Sequence[SeenStretch], observations: RoundObservations) -> None:
        alone = [look.stretch.values for look in looks if look.intensity == 0]
        told = {q for values in alone for q in values}
        wanted = [q for q in (*self._session.wanted, *PERFORMANCES, Quantity.CPU) if q in told]
        if not wanted:
            reason = observations.reasons.get(f"performance/{MILLICPUS_PER_CPU * self._cpus}")
            raise Unavailable(reason or "it told nothing of its performance in time")
        self._quantity = wanted[0]
        values = [v[self._quantity] for v in alone if self._quantity in v]
        if not any(values):
            what = "it uses no CPU time" if self._quantity is Quantity.CPU else "it does nothing"
            raise Unavailable(f"{what} alone; give --measure for its performance")
        self._alone.append(values)

    def _note_source(self, resource: SharedResource, looks: Sequence[SeenStretch]) -> None:
        own = [look for look in looks if look.intensity == 0 or look.resource is resource]
        if not any(look.intensity > 0 for look in own):
            return
        rounds = self._beside.setdefault(resource, [])
        rounds.append(own)
        told = [self._readings(each) for each in rounds]
        self._sensitivity[resource] = sensitivity(told, self._tolerance)

    def _readings(self, looks: Sequence[SeenStretch]) -> list[Reading]:
        """By the quantities that count; of several the worst."""
        wanted = {*self._session.wanted, self._quantity}
        alone: dict[Quantity, list[float]] = {}
        for look in looks:
            for quantity, value in look.stretch.values.items():
                if look.intensity == 0 and quantity in wanted:
                    alone.setdefault(quantity, []).append(value)
        means = {quantity: fmean(values) for quantity, values in alone.items() if any(values)}
        told = ((look.intensity, relative(look.stretch.values, means)) for look in looks)
        return [(intensity, ratio) for intensity, ratio in told if ratio is not None]

    def _per_cpu_readings(self, looks: Sequence[SeenStretch]) -> list[Reading]:
        """Work over CPU time; of a latency there is none."""
        told = []
        for look in looks:
            work, used = look.stretch.values.get(self._quantity), look.stretch.used_cpus
            if work is not None and used:
                told.append((look.intensity, work / used))
        return told

    def _result(self) -> InterferenceProfile:
        every = [value for values in self._alone for value in values]
        means = [fmean(values) for values in self._alone]
        mean = fmean(every)
        noise = fmean(_relative_spread(values) for values in self._alone)
        drift = _relative_spread(means)
        error = mean * max(noise / len(every) ** 0.5, drift / len(means) ** 0.5)
        baseline = AlonePerformance(self._quantity, mean, error, noise, drift, len(every))
        profile = InterferenceProfile(self._tolerance, self._sources, baseline, self._session.way)
        profile.found = self._sensitivity
        profile.shares = {each: _mean_entry(told) for each, told in self._shares.items()}
        used = [
            look.stretch.used_cpus
            for look in self._session.looks
            if look.resource is None and look.stretch.used_cpus is not None
        ]
        profile.used_cpus = fmean(used) if used else None
        profile.silent, profile.calibrations = self._silent, self._calibrations
        profile.caused_as_published = self._published
        for resource, rounds in self._beside.items():
            self._judge_caused(profile, resource, rounds)
        return profile

    def _judge_caused(
        self,
        profile: InterferenceProfile,
        resource: SharedResource,
        rounds: Sequence[Sequence[SeenStretch]],
    ) -> None:
        what = f"caused/{resource.value}"
        if self._published:
            score = profile.found[resource].tolerated
            if score is None:
                profile.silent[what] = "what it tolerates is not known"
            else:
                profile.caused[resource] = score.turned()
            return
        per_cpu: Sensitivity | None = None
        if self._quantity in (Quantity.RATE, Quantity.THROUGHPUT):
            per_cpu = sensitivity(list(map(self._per_cpu_readings, rounds)), self._tolerance)
        of_cpu_time: CurveScore | str = "its probe is not calibrated"
        calibration = self._calibrations.get(resource)
        if calibration is not None:
            caused = caused_by(calibration.of_rate(), _rates(rounds), self._drift(_rates))
            if isinstance(caused, str):
                profile.silent[what] = caused
            else:
                profile.caused[resource] = caused
            told = _per_cpu_second(rounds), self._drift(_per_cpu_second)
            of_cpu_time = caused_by(calibration.of_cpu_time(), *told)
        elif what not in profile.silent:
            profile.silent[what] = "no time for its probe's calibration; try a longer --time-limit"
        profile.beyond_cpu[resource] = BeyondCpu(per_cpu, of_cpu_time)

    def _drift(self, rates: "Callable[[_Rounds], list[list[float]]]") -> float:
        return drift_of([rates(rounds) for rounds in self._beside.values()])


_Rounds = Sequence[Sequence[SeenStretch]]


def _probed(looks: Sequence[SeenStretch]) -> list[ProbeReading]:
    told = [look.probe for look in looks if look.intensity == PROBE_INTENSITY]
    return [probe for probe in told if probe is not None]


def _rates(rounds: _Rounds) -> list[list[float]]:
    return [[probe.per_second for probe in _probed(looks)] for looks in rounds]


def _per_cpu_second(rounds: _Rounds) -> list[list[float]]:
    return [[v for probe in _probed(looks) if (v := probe.per_cpu_second)] for looks in rounds]


def _relative_spread(values: Sequence[float]) -> float:
    mean = fmean(values)
    return stdev(values) / mean if len(values) > 1 and mean > 0 else 0.0


def _mean_entry(entries: Sequence[Entry]) -> Entry:
    count = len(entries)
    within = fmean(entry.error**2 for entry in entries) ** 0.5
    values = [entry.value for entry in entries]
    between = stdev(values) if count > 1 else 0.0
    return Entry(fmean(values), max(within, between) / count**0.5)


def least_seconds(sources: int) -> float:
    """Without which nothing can be measured beside so many sources."""
    return 2.0 + 2.0 * sources


def check_seconds(seconds: float, sources: int) -> None:
    """Raise ``InvalidInput`` where there is no time to measure anything."""
    least = least_seconds(sources)
    if seconds < least:
        raise InvalidInput(f"--time-limit: {seconds:g} s; {sources} sources need {least:g} s")
