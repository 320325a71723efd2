"""The interference profile of a program of the ground truth, by the profiler's own code.

A port as ``profiler.session`` is one, whose clock is virtual and whose readings are the truth with
a measurement's noise. Called by experiments.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp

import numpy as np

from wharfinger.ibench.sources import Source
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Entry
from wharfinger.profiler.report import Document, document_of
from wharfinger.profiler.rounds import Profiler
from wharfinger.profiler.session import SeenStretch, Way
from wharfinger.profiling.procedure import PROBE_INTENSITY, PROBES
from wharfinger.profiling.steps import Inject, ReadFor, RunAt, SourceSilent, Stretch, Withdraw
from wharfinger.simulator.cluster.injection import Probes
from wharfinger.simulator.truth.ground_truth import GroundTruth, TrueResident

READING_SECONDS = 0.2
"""As often as a program that tells its performance often is read."""
NO_SOURCE = "the ground truth has no law for it, or no thread beside the program's"

Performance = Callable[[Sequence[TrueResident]], float]
"""Of the program beside these, more or less as its quantity has it."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What is profiled: a resident of a platform, and its true performance beside others."""

    truth: GroundTruth
    platform: str
    resident: TrueResident
    quantity: Quantity
    performance: Performance


@dataclass(slots=True)
class TruthSession:
    """The port; ``noise`` is the standard deviation of the logarithm of one reading."""

    subject: Subject
    noise: float
    random: np.random.Generator
    probes: Probes
    way: Way = Way.NUMBERS
    reading_seconds: float = READING_SECONDS
    looks: list[SeenStretch] = field(default_factory=list)
    runs: int = 1
    _clock: float = 0.0
    _beside: tuple[SharedResource, float] | None = None
    _known: dict[tuple[SharedResource, float] | None, float] = field(default_factory=dict)

    @property
    def wanted(self) -> tuple[Quantity, ...]:
        """The subject's."""
        return (self.subject.quantity,)

    def begin(self, patience_seconds: float) -> None:
        """It runs already."""

    def run(self, _step: RunAt) -> bool:
        """It goes on, alone."""
        self._beside = None
        return False

    def inject(self, step: Inject) -> float:
        """Beside it is what was asked for; raises ``SourceSilent`` where that is nothing."""
        if self._source(step.resource, step.intensity) is None:
            raise SourceSilent(NO_SOURCE)
        self._beside = (step.resource, step.intensity) if step.intensity > 0 else None
        return 0.0

    def withdraw(self, step: Withdraw) -> Entry:
        """What a probe at half intensity shows of the program."""
        self._beside = None
        subject = self.subject
        probe = self._source(step.resource, PROBE_INTENSITY)
        assert probe is not None
        alone = TrueResident(
            probe.application, probe.cpu_millicpus, probe.memory_bytes, probe.load_per_second
        )
        rate = subject.truth.rates(subject.platform, [subject.resident, probe])[1]
        ratio = rate / self.probes.alone(subject.platform, alone)
        self._clock += PROBES * self.reading_seconds
        ratios = [self._noisy(ratio) for _ in range(PROBES)]
        return self.probes.caused(
            subject.platform, step.resource, subject.resident, ratios, self.noise
        )

    def now(self) -> float:
        """Virtual seconds."""
        return self._clock

    def why_silent(self) -> str:
        """Nothing ever is."""
        return "it does nothing"

    def read(self, wanted: ReadFor) -> Stretch | None:
        """The truth with noise; ``None`` = time is over."""
        if self._clock >= wanted.until:
            return None
        seconds = max(wanted.seconds, self.reading_seconds)
        self._clock += seconds
        resource, intensity = self._beside or (None, 0.0)
        stretch = Stretch(seconds, {self.subject.quantity: self._noisy(self._performance())})
        self.looks.append(SeenStretch(resource, intensity, stretch))
        return stretch

    def _performance(self) -> float:
        if self._beside not in self._known:
            source = self._source(*self._beside) if self._beside else None
            self._known[self._beside] = self.subject.performance([source] if source else [])
        return self._known[self._beside]

    def _source(self, resource: SharedResource, intensity: float) -> TrueResident | None:
        subject = self.subject
        return subject.truth.source(subject.platform, resource, intensity, subject.resident)

    def _noisy(self, value: float) -> float:
        return value * exp(self.noise * float(self.random.standard_normal()))


def profile_of(
    subject: Subject,
    sources: Sequence[Source],
    about: Mapping[str, object],
    random: np.random.Generator,
    *,
    noise: float,
    tolerance: float = 0.05,
    seconds: float = 120.0,
) -> Document:
    """The profile as ``wharfinger profile -o json`` writes one."""
    session = TruthSession(subject, noise, random, Probes(subject.truth))
    profiler = Profiler(
        session, sources, tolerance=tolerance, seconds=seconds, cpus=1, tell=lambda _words: None
    )
    # Sources of the ground truth run on other cores and threads.
    return document_of(profiler.profile(), about, shares_cpu=False)
