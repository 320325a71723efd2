"""How sources of interference rise beside a workload that runs: what next, and what it told. Pure.

Source: Paragon (TOCS) 3.4: "the latter is immediately removed once the performance of the workload
starts to degrade (and before it violates its QoS)". Engines ask for ``wanted``, carry it out, and
``take`` what they then read. As in a ramp, the level at which it turned is tried once more after a
rest, so that a change of phase in between is not taken for interference.
"""

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from wharfinger.errors import InvalidInput
from wharfinger.ibench.ramp import RampPlan, RampSample, TakeSample, Tolerance, next_step
from wharfinger.model.interference import SharedResource
from wharfinger.model.profile import Entry, Measurements, Origin
from wharfinger.profiling.procedure import COARSE, PROBE_INTENSITY, cut_short
from wharfinger.profiling.scores import tolerated

SCORED_TOLERANCE = 0.05
"""Scores are intensities at which performance has dropped by so much."""
MIN_TOLERANCE, MAX_TOLERANCE = 0.01, 0.2
STEEP = 3.0
"""Tolerances, beyond the noise, by which one reading alone says that performance has turned."""
_LOOKS = 3
MAX_SAMPLES = 60
"""Of one source: then what is known by then has to do."""


class Rising:
    """The rise of several sources, one after the other.

    Attributes:
        wanted: The source and its intensity now, 0 = none; ``None`` = it is over.
        probed: By source, its own rates over that alone, at the highest intensity up to
            ``PROBE_INTENSITY`` that was read often enough; by that intensity.
    """

    def __init__(self, sources: Sequence[SharedResource], tolerance: float) -> None:
        self._left = list(dict.fromkeys(sources))
        self._tolerance = min(MAX_TOLERANCE, max(MIN_TOLERANCE, tolerance))
        self._plan = RampPlan(tolerance=self._tolerance, levels=COARSE)
        self._samples: list[RampSample] = []
        self._tolerated: dict[SharedResource, Entry] = {}
        self._silent: dict[str, str] = {}
        self._probed: dict[SharedResource, dict[float, list[float]]] = {}
        self.wanted = self._first()

    def take(self, performance: float, neighbor: float | None = None) -> None:
        """One more reading, as ``wanted``; more performance is better.

        ``neighbor`` is the source's own rate over that alone, where that is known.
        """
        assert self.wanted is not None, "it is over"
        source, intensity = self.wanted
        if neighbor is not None and 0 < intensity <= PROBE_INTENSITY:
            self._probed.setdefault(source, {}).setdefault(intensity, []).append(neighbor)
        try:
            self._samples.append(RampSample(intensity, performance))
            step = self._next()
        except InvalidInput as error:
            self.silence(str(error))
            return
        if isinstance(step, TakeSample):
            self.wanted = source, step.intensity
        else:
            self._tolerated[source] = self._scored(step)
            self._go_on()

    def silence(self, reason: str) -> None:
        """The present source can't be used, or tells nothing: on to the next."""
        assert self.wanted is not None, "it is over"
        self._silent[f"tolerated/{self.wanted[0].value}"] = reason
        self._go_on()

    @property
    def probed(self) -> dict[SharedResource, tuple[float, list[float]]]:
        """See the class."""
        told = {}
        for source, rates in self._probed.items():
            often = [(level, of) for level, of in rates.items() if len(of) >= _LOOKS]
            if often:
                told[source] = max(often)
        return told

    def measurements(self, caused: dict[SharedResource, Entry], platform: str) -> Measurements:
        """All scores; ``caused`` are the port's, since only it knows what its sources show."""
        seen = {
            source: Entry(e.value, e.error, e.censored, Origin.OBSERVED)
            for source, e in self._tolerated.items()
        }
        shown = {
            source: Entry(e.value, e.error, e.censored, Origin.OBSERVED)
            for source, e in caused.items()
        }
        return Measurements(tolerated=seen, caused=shown, silent=self._silent, platform=platform)

    def _first(self) -> tuple[SharedResource, float] | None:
        self._samples = []
        return (self._left[0], 0.0) if self._left else None

    def _go_on(self) -> None:
        self._left.pop(0)
        self.wanted = self._first()

    def _next(self) -> TakeSample | Tolerance:
        if len(self._samples) >= MAX_SAMPLES:
            return cut_short(self._plan, self._samples)
        if self._is_steep():
            # It has turned for certain: not a second reading at this intensity, nor another try.
            low = max((s.intensity for s in self._samples[:-1] if self._is_below(s)), default=0.0)
            high = self._samples[-1].intensity
            return Tolerance((low + high) / 2, low, high, False, 1.0, ())
        return next_step(self._plan, self._samples)

    def _is_below(self, sample: RampSample) -> bool:
        return sample.intensity < self._samples[-1].intensity

    def _is_steep(self) -> bool:
        newest, alone = self._samples[-1], [s.performance for s in self._samples if not s.intensity]
        if newest.intensity == 0 or len(alone) < 2 or (mean := fmean(alone)) <= 0:
            return False
        noise = stdev(alone) / mean
        return newest.performance < mean * (1 - STEEP * (self._tolerance + noise))

    def _scored(self, ramp: Tolerance) -> Entry:
        """By a smaller drop than scores are about: as far again as the drop is small."""
        entry = tolerated(ramp)
        factor = SCORED_TOLERANCE / self._tolerance
        if factor <= 1 or entry.value >= 100:
            return entry
        value = min(100.0, entry.value * factor)
        return Entry(value, math.hypot(entry.error, (value - entry.value) / 2), entry.censored)
