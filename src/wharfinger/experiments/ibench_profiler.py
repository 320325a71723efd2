"""Whether the profiler's intervals hold what is true: it measures programs of the ground truth.

The same rounds, ramps, curves and calibrations as of ``wharfinger profile``, over a simulated
program: readings have noise, and the machine drifts. Tolerated and caused interference are then
read off the ground truth's own curves.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import exp
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from wharfinger.experiments import physics_plots
from wharfinger.experiments.ground_truth import (
    GroundTruthStudy,
    Picture,
    StudyFindings,
    at,
    draw_programs,
    pooled,
)
from wharfinger.experiments.plots import shares
from wharfinger.ibench.sources import SOURCES
from wharfinger.model.arrays import Array
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Entry
from wharfinger.profiling.crossing import CurveScore
from wharfinger.profiling.curves import Verdict
from wharfinger.profiling.probing import ProbeCalibration, ProbeReading
from wharfinger.profiling.procedure import PROBE_INTENSITY
from wharfinger.profiling.rounds import (
    CALIBRATION_SECONDS,
    InterferenceProfile,
    Profiler,
    SeenStretch,
    Way,
)
from wharfinger.profiling.steps import Inject, ReadFor, RunAt, SourceSilent, Stretch, Withdraw
from wharfinger.simulator.kernel.streams import Streams
from wharfinger.simulator.truth.ground_truth import TrueResident
from wharfinger.simulator.truth.physics.clusters import HARDWARE
from wharfinger.simulator.truth.physics.pools import Pool
from wharfinger.simulator.truth.physics.regimes import Regime
from wharfinger.simulator.truth.physics.truth import Physics

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLATFORM = "j"
NOISE, DRIFT, DRIFT_SECONDS = 0.03, 0.01, 20.0
"""Of one reading, and of the machine: standard deviations, and how long a drift lasts."""
READING_SECONDS = 0.2
SECONDS = 240.0
TOLERANCE = 0.05
CONFIDENCE = 0.9
PROGRAMS = MappingProxyType({Pool.SINGLE_THREADED: 8, Pool.MULTITHREADED: 6, Pool.IO_BOUND: 6})
DRAWS = 2
"""Profiles of each program, with noise of their own."""
MAX_CPUS = 4.0
RESOLVED = 1.0
"""Points: who causes less causes nothing that a profile could tell."""
_FINE = tuple(float(x) for x in range(101))


def look(regime: Regime, seed: int, programs: Mapping[Pool, int] = PROGRAMS) -> StudyFindings:
    """All profiles of one population, of so many programs of each pool."""
    drawn = [
        each
        for pool, most in programs.items()
        for each in draw_programs([pool], regime, seed, most)
    ]
    truth = Physics([HARDWARE[PLATFORM]], drawn, regime.constants)
    tally = Tally()
    for program in drawn:
        resident = at(program, min(MAX_CPUS, float(program.threads)))
        world = ProfiledWorld(truth, resident)
        for draw in range(DRAWS):
            random = Streams(seed).of(f"profiler/{program.name}/{draw}")
            session = SimulatedSession(world, random)
            profiler = Profiler(
                session, SOURCES, tolerance=TOLERANCE, seconds=SECONDS, cpus=int(MAX_CPUS),
                tell=lambda _: None,
            )  # fmt: skip
            tally.add(world, profiler.profile())
    return StudyFindings(dict(tally.numbers()), {"told-and-true": tally.panels()})


class ProfiledWorld:
    """A program on its server, and a probe there: rates beside each source, and what is true."""

    def __init__(self, truth: Physics, program: TrueResident, platform: str = PLATFORM) -> None:
        self._truth, self._program, self._platform = truth, program, platform
        self._alone = self.performance([])
        self._seen: dict[tuple[SharedResource, float], tuple[float, float]] = {}
        self._second: dict[tuple[SharedResource, float], float] = {}

    def performance(self, beside: Sequence[TrueResident]) -> float:
        """The program's, more is better."""
        return self._truth.rates(self._platform, [self._program, *beside])[0]

    def beside(self, resource: SharedResource | None, intensity: float) -> tuple[float, float]:
        """The program's rate beside a source over its own, and the source's over its own.

        Raises ``SourceSilent``.
        """
        if resource is None or intensity == 0:
            return 1.0, 1.0
        key = resource, intensity
        if key not in self._seen:
            source = self._source(resource, intensity, self._program)
            probe = self._truth.rates(self._platform, [self._program, source])[1]
            rate = self.performance([source])
            alone = self._truth.alone(self._platform, _plain(source))
            self._seen[key] = rate / self._alone, probe / alone if alone > 0 else 1.0
        return self._seen[key]

    def second(self, resource: SharedResource, intensity: float) -> float:
        """A probe's rate beside a second source, over its own. Raises ``SourceSilent``."""
        key = resource, intensity
        if key not in self._second:
            probe = _plain(self._source(resource, PROBE_INTENSITY, self._program))
            alone, rate = self._truth.alone(self._platform, probe), 0.0
            if intensity > 0:
                source = self._source(resource, intensity, probe)
                rate = self._truth.rates(self._platform, [probe, source])[0]
            self._second[key] = rate / alone if alone > 0 and intensity > 0 else 1.0
        return self._second[key]

    def tolerated(self, resource: SharedResource) -> float:
        """The intensity at which the tolerance is lost; 100 = never."""
        return _reaches(lambda x: self.beside(resource, x)[0], 1 - TOLERANCE)

    def caused(self, resource: SharedResource) -> float:
        """The least intensity of a second source that slows the probe as much."""
        ratio = self.beside(resource, PROBE_INTENSITY)[1]
        return _reaches(lambda x: self.second(resource, x), ratio)

    def _source(
        self, resource: SharedResource, intensity: float, beside: TrueResident
    ) -> TrueResident:
        source = self._truth.source(self._platform, resource, intensity, beside)
        if source is None:
            raise SourceSilent("nothing injects it in this ground truth")
        return source


def _plain(source: TrueResident) -> TrueResident:
    return TrueResident(
        source.application, source.cpu_millicpus, source.memory_bytes, source.load_per_second
    )


def _reaches(curve: Callable[[float], float], level: float) -> float:
    """The least intensity, linear between whole ones."""
    lowest = 1.0
    for before, now in pairwise(_FINE):
        high, lowest = lowest, min(lowest, curve(now))
        if level >= high:
            return before
        if lowest <= level:
            return before + (high - level) / (high - lowest) * (now - before)
    return 100.0


class SimulatedSession:
    """``MeasuredSession`` over a ``ProfiledWorld``: time passes in readings."""

    def __init__(self, world: ProfiledWorld, random: np.random.Generator) -> None:
        self.way = Way.NUMBERS
        self.looks: list[SeenStretch] = []
        self.reading_seconds = READING_SECONDS
        self.runs = 1
        self._world, self._random = world, random
        self._now = 0.0
        self._drift = 0.0
        self._beside: tuple[SharedResource | None, float] = (None, 0.0)

    @property
    def wanted(self) -> tuple[Quantity, ...]:
        """See ``MeasuredSession``."""
        return (Quantity.RATE,)

    def begin(self, patience_seconds: float) -> None:
        """It tells its first numbers."""
        self._pass(min(1.0, patience_seconds))

    def run(self, step: RunAt) -> bool:
        """It runs already."""
        self._beside = (None, 0.0)
        self._pass(step.warm_up_seconds)
        return False

    def inject(self, step: Inject) -> float:
        """From now on."""
        self._world.beside(step.resource, step.intensity or PROBE_INTENSITY)
        self._beside = (step.resource, step.intensity)
        return 0.0

    def withdraw(self, step: Withdraw) -> Entry | None:
        """Shares are unknown here."""
        del step
        self._beside = (None, 0.0)
        return None

    def now(self) -> float:
        """Seconds."""
        return self._now

    def why_silent(self) -> str:
        """Nothing ever is."""
        return "it does nothing"

    def read(self, wanted: ReadFor) -> Stretch | None:
        """One reading."""
        if self._now >= wanted.until:
            return None
        self._pass(READING_SECONDS)
        resource, intensity = self._beside
        rate, probe = self._world.beside(resource, intensity)
        stretch = Stretch(READING_SECONDS, {Quantity.RATE: 100 * self._noisy(rate)})
        told = ProbeReading(self._noisy(probe)) if intensity > 0 else None
        self.looks.append(SeenStretch(resource, intensity, stretch, told))
        return stretch

    def set_aside(self) -> None:
        """It takes no time to start it again."""

    def calibrate(self, resource: SharedResource, order: Sequence[float]) -> ProbeCalibration:
        """See ``MeasuredSession``."""
        told = []
        for intensity in order:
            self._pass(CALIBRATION_SECONDS)
            rate = self._noisy(self._world.second(resource, intensity))
            told.append((intensity, ProbeReading(rate)))
        return ProbeCalibration(tuple(told))

    def _pass(self, seconds: float) -> None:
        self._now += seconds
        kept = exp(-seconds / DRIFT_SECONDS)
        fresh = DRIFT * (1 - kept**2) ** 0.5
        self._drift = kept * self._drift + fresh * float(self._random.standard_normal())

    def _noisy(self, rate: float) -> float:
        return max(0.0, rate * (1 + self._drift + NOISE * float(self._random.standard_normal())))


@dataclass(slots=True)
class Tally:
    """By kind and source, what was told and what is true."""

    inside: dict[tuple[str, str], list[bool]] = field(default_factory=dict)
    bounds: dict[tuple[str, str], list[bool]] = field(default_factory=dict)
    told: dict[tuple[str, str], list[bool]] = field(default_factory=dict)
    halves: dict[str, list[float]] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    drawn: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def add(self, world: ProfiledWorld, profile: InterferenceProfile) -> None:
        """One profile."""
        self.seconds.append(profile.seconds)
        for resource, found in profile.found.items():
            true = world.tolerated(resource)
            known = found.verdict is not Verdict.NO_SIGNAL
            self.told.setdefault(("tolerated", resource.value), []).append(known)
            self._score("tolerated", resource.value, found.tolerated, true, bound=true >= 100)
            caused, really = profile.caused.get(resource), world.caused(resource)
            self.told.setdefault(("caused", resource.value), []).append(caused is not None)
            self._score("caused", resource.value, caused, really, bound=not RESOLVED < really < 100)

    def _score(
        self, kind: str, name: str, score: CurveScore | None, true: float, *, bound: bool
    ) -> None:
        if score is None:
            return
        low, high = score.interval(CONFIDENCE)
        holds = low - 1e-6 <= true <= high + 1e-6
        holds |= bound and low <= RESOLVED and true <= RESOLVED
        self.drawn.setdefault(kind, []).append((true, score.value))
        if bound or score.at_least:
            self.bounds.setdefault((kind, name), []).append(holds)
            return
        self.inside.setdefault((kind, name), []).append(holds)
        self.halves.setdefault(kind, []).append((high - low) / 2)

    def numbers(self) -> Iterator[tuple[str, float]]:
        """Shares; of all sources, then by source."""
        for kind in ("tolerated", "caused"):
            yield f"{kind}/held", _share(self.inside, kind)
            yield f"{kind}/bounds-held", _share(self.bounds, kind)
            yield f"{kind}/told", _share(self.told, kind)
            yield f"{kind}/half-width", float(np.median(self.halves.get(kind, [0.0])))
        for (kind, name), held in sorted(self.inside.items()):
            yield f"{kind}/{name}/held", float(np.mean(held))
            yield f"{kind}/{name}/scores", float(len(held))
        yield "seconds", float(np.mean(self.seconds))

    def panels(self) -> Mapping[str, Mapping[str, Array]]:
        """By kind, how far each score is from the true one."""
        return {
            kind: {"|told - true|": np.abs([told - true for true, told in pairs])}
            for kind, pairs in self.drawn.items()
        }


def _share(tallied: Mapping[tuple[str, str], Sequence[bool]], kind: str) -> float:
    every = [value for (of, _), values in tallied.items() if of == kind for value in values]
    return float(np.mean(every)) if every else float("nan")


def errors(panels: Mapping[str, Mapping[str, Array]], title: str) -> "Figure":
    """Cumulative distributions."""
    lines = {
        panel: {name: (np.sort(values), shares(values)) for name, values in groups.items()}
        for panel, groups in panels.items()
    }
    labels = ("points from the true intensity", "scores (%)")
    return physics_plots.curves(lines, title, labels, limits=(0.0, 100.0))


IBENCH_PROFILER = GroundTruthStudy(
    name="ibench-profiler",
    about="whether the profiler's intervals hold what is true",
    source="dissertation 5.3 and 5.5 (it tells no errors: nothing was published)",
    measure=look,
    units={"*/half-width": "points", "*/scores": "scores", "seconds": "s"},
    notes=(
        (
            f"Intervals are of {CONFIDENCE:.0%}; one reading varies by {NOISE:.0%}, the machine by "
            f"{DRIFT:.0%}. Each profile has {SECONDS:g} s at most, a reading {READING_SECONDS:g}."
        ),
        (
            "`held` counts scores with two ends. Bounds (a program that never loses the tolerance, "
            "or causes nothing, or as much as a source at 100) have one, and hold 95% by it."
        ),
    ),
    pictures=(
        Picture(
            "told-and-true",
            errors,
            "How far profiles are from the ground truth",
            over=pooled,
        ),
    ),
)
