"""A profile: rounds of profiling plans, until each source's answer is sure or time is over.

Each round is one plan for the interpreter of ``wharfinger.profiling``, over the same session: the
program alone, then each source that is not sure yet, in alternating order.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, stdev
from typing import Protocol

from wharfinger.errors import InvalidInput, Unavailable
from wharfinger.ibench.driver import measure_maximum
from wharfinger.ibench.ramp import CurvePoint, Tolerance
from wharfinger.ibench.sources import Source, SourceSetting, signal_here
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.model.profile import Entry, ProfilingPlan
from wharfinger.profiler.curves import Found, Sensitivity, sensitivity
from wharfinger.profiler.session import SeenStretch, Way
from wharfinger.profiling.interpreter import Interpreter, ProfilingPort
from wharfinger.profiling.observations import Observations
from wharfinger.profiling.procedure import Procedure
from wharfinger.profiling.scores import PERFORMANCES
from wharfinger.profiling.steps import ReadFor, RunFailed, Stretch

ALONE_READINGS, SOURCE_READINGS = 10, 75
"""Of a round: alone, and at most beside each source."""
WARM_UP_SECONDS = 1.0
TRIAL_SHARE = 0.25
"""Of the time: for a program to tell its first numbers, or to end."""
MAX_ROUNDS = 12
PLACE = "here"

Settings = dict[SharedResource, SourceSetting]


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


@dataclass(slots=True)
class InterferenceProfile:
    """What was measured; ``silent`` says why a source could not be used, or a cause is unknown."""

    tolerance: float
    sources: tuple[Source, ...]
    baseline: AlonePerformance
    way: Way
    found: dict[SharedResource, Sensitivity] = field(default_factory=dict)
    caused: dict[SharedResource, Entry] = field(default_factory=dict)
    silent: dict[str, str] = field(default_factory=dict)
    rounds: int = 0
    runs: int = 0
    seconds: float = 0.0


class RoundObservations(Observations):
    """With the ramps themselves, which have curves, and why what is missing is so."""

    def __init__(self, plan: ProfilingPlan, wanted: Sequence[Quantity], cpus: int) -> None:
        super().__init__(plan, wanted=wanted, cpus=cpus, total=1.0)
        self.ramps: dict[SharedResource, Tolerance] = {}
        self.reasons: dict[str, str] = {}

    def add_ramp(
        self, resource: SharedResource, ramped: Tolerance, over_at: float | None = None
    ) -> None:
        """Keep it, if it was more than its beginning."""
        if ramped.curve:
            self.ramps[resource] = ramped
        super().add_ramp(resource, ramped, over_at)

    def silence(self, what: str, reason: str) -> None:
        """Keep the reason."""
        self.reasons[what] = reason
        super().silence(what, reason)


def settings_here(
    sources: Sequence[Source], base: SourceSetting, tell: Callable[[str], None]
) -> tuple[Settings, dict[str, str]]:
    """The settings of the sources that have a signal, and why the others have none."""
    settings, silent = Settings(), dict[str, str]()
    for source in sources:
        setting = replace(base, source=source)
        signal = signal_here(setting)
        if not signal.there:
            silent[f"tolerated/{source.name}"] = signal.reason
            continue
        if source.measures_maximum:
            tell(f"{source.name}: measuring the maximum")
        try:
            settings[source.resource] = measure_maximum(setting)
        except Unavailable as error:
            silent[f"tolerated/{source.name}"] = str(error)
    return settings, silent


class ProfiledSession(ProfilingPort, Protocol):
    """What a profile is measured through; the attributes are ``CommandSession``'s."""

    way: Way
    reading_seconds: float
    looks: list[SeenStretch]
    runs: int

    @property
    def wanted(self) -> tuple[Quantity, ...]:
        """The quantities that count."""

    def begin(self, patience_seconds: float) -> None:
        """Find out how it can be measured; raises ``RunFailed``."""

    def read(self, wanted: ReadFor) -> Stretch | None:
        """Performance over the next stretch; ``None`` = time is over."""


class Profiler:
    """Carries the rounds out; ``tell`` gets what is done now."""

    def __init__(
        self,
        session: ProfiledSession,
        sources: Sequence[Source],
        *,
        tolerance: float,
        seconds: float,
        cpus: int,
        tell: Callable[[str], None],
    ) -> None:
        self._session = session
        self._sources = tuple(sources)
        self._tolerance = tolerance
        self._seconds = seconds
        self._cpus = cpus
        self._tell = tell
        self._found: dict[SharedResource, list[Found]] = {}
        self._caused: dict[SharedResource, list[Entry]] = {}
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

    def _is_done(self, resource: SharedResource) -> bool:
        found = self._found.get(resource)
        if not found:
            return True  # It could not be injected.
        return sensitivity(found, self._tolerance).is_sure

    def _round(self, order: Sequence[SharedResource], deadline: float, *, first: bool) -> None:
        reading, count = self._session.reading_seconds, len(order)
        left = max(0.0, deadline - self._session.now())
        alone = max(3 * reading, min(ALONE_READINGS * reading, left / 10))
        share = (left - alone) / max(1, count) / (2 if first else 1)
        source_seconds = max(reading, min(SOURCE_READINGS * reading, share))
        seconds = alone + count * source_seconds
        procedure = Procedure(
            seconds, alone, reading, reading, source_seconds,
            warm_up_seconds=min(WARM_UP_SECONDS, left / 10), min_stretches=3, sources_last=False,
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
            self._note_source(resource, looks, observations)
        self._silent |= observations.reasons

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

    def _note_source(
        self,
        resource: SharedResource,
        looks: Sequence[SeenStretch],
        observations: RoundObservations,
    ) -> None:
        entry = observations.tolerated.get(resource)
        if resource in observations.ramps:
            found = Found.of_ramp(observations.ramps[resource])
            self._found.setdefault(resource, []).append(found)
        elif entry is not None:
            points = self._points([look for look in looks if look.resource is resource])
            self._found.setdefault(resource, []).append(Found.of_looks(entry, points))
        if resource in observations.caused:
            self._caused.setdefault(resource, []).append(observations.caused[resource])

    def _points(self, looks: Sequence[SeenStretch]) -> list[CurvePoint]:
        """Of single looks; each is as noisy as one alone."""
        alone = self._alone[-1]
        reference, noise = fmean(alone), _relative_spread(alone)
        values: dict[float, list[float]] = {}
        for look in looks:
            if look.intensity > 0 and self._quantity in look.stretch.values:
                values.setdefault(look.intensity, []).append(look.stretch.values[self._quantity])
        points = []
        for intensity, told in sorted(values.items()):
            ratio = fmean(told) / reference
            if self._quantity is Quantity.LATENCY:
                ratio = 1 / ratio if ratio > 0 else 0.0
            error = noise * (1 / len(told) + ratio**2 / len(alone)) ** 0.5
            points.append(CurvePoint(intensity, ratio, error, len(told)))
        return points

    def _result(self) -> InterferenceProfile:
        every = [value for values in self._alone for value in values]
        means = [fmean(values) for values in self._alone]
        mean = fmean(every)
        noise = fmean(_relative_spread(values) for values in self._alone)
        drift = _relative_spread(means)
        error = mean * max(noise / len(every) ** 0.5, drift / len(means) ** 0.5)
        baseline = AlonePerformance(self._quantity, mean, error, noise, drift, len(every))
        profile = InterferenceProfile(self._tolerance, self._sources, baseline, self._session.way)
        for resource, found in self._found.items():
            profile.found[resource] = sensitivity(found, self._tolerance)
        for resource, entries in self._caused.items():
            profile.caused[resource] = _mean_entry(entries)
        profile.silent = {
            what: reason for what, reason in self._silent.items() if not _is_known(what, profile)
        }
        return profile


def _is_known(what: str, profile: InterferenceProfile) -> bool:
    kind, _, name = what.partition("/")
    if name not in set(SharedResource):
        return True
    resource = SharedResource(name)
    return resource in (profile.found if kind == "tolerated" else profile.caused)


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
