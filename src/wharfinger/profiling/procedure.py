"""How a plan is carried out: how long what takes, in which order, at which intensities."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf

from wharfinger.ibench.ramp import LEVELS, RampPlan, RampSample, Tolerance, conclude
from wharfinger.model.interference import SharedResource

COARSE = (25.0, 50.0, 75.0, 100.0)
_SAMPLES_FOR_FINE, _SAMPLES_FOR_COARSE = 45, 12
"""With fewer, a step can't be judged by its noise: each intensity gets one look."""
MAX_INTENSITY = 100.0
PROBE_INTENSITY = 50.0
PROBES = 6
"""Looks at the probe; one alone is as noisy as what it should show."""

_SOURCE_SHARES = 3.0
"""Of the time, for each source, where an allocation has one."""
_WARM_UP_SHARE, _MIN_WARM_UP_SECONDS, _MAX_WARM_UP_SECONDS = 0.1, 0.2, 3.0
_STRETCHES = 10
"""Of the time that an allocation has; not shorter than two of the kernel's quota periods."""
_MIN_STRETCH_SECONDS, _MAX_STRETCH_SECONDS = 0.2, 1.0


@dataclass(frozen=True, slots=True)
class Procedure:
    """How a plan's seconds are divided.

    Attributes:
        seconds: Of measuring, after the warm-up.
        share_seconds: Of each allocation.
        stretch_seconds: Of one reading; infinite = a whole run.
        sample_seconds: Of one reading beside a source.
        source_seconds: Of each source at most.
        min_stretches: Readings that a performance alone needs.
        by_rate: The program reports its performance while it runs; else whole runs are timed.
        sources_last: After all allocations, not directly after the first one.
        probes: Readings of each source as a probe, before it is raised.
        levels: By source, the intensities of its ramp where they are known beforehand.

    >>> procedure = Procedure.timed(8.0, allocations=2, sources=2)
    >>> round(procedure.share_seconds, 3), round(procedure.stretch_seconds, 3)
    (0.9, 0.2)
    """

    seconds: float
    share_seconds: float
    stretch_seconds: float
    sample_seconds: float
    source_seconds: float
    warm_up_seconds: float = 0.0
    min_stretches: int = 1
    by_rate: bool = True
    sources_last: bool = True
    probes: int = 0
    levels: Mapping[SharedResource, tuple[float, ...]] = field(default_factory=dict)

    @classmethod
    def timed(cls, seconds: float, *, allocations: int, sources: int) -> "Procedure":
        """By the clock: a share for each allocation, three for each source, and the warm-up."""
        warm_up = max(_MIN_WARM_UP_SECONDS, _WARM_UP_SHARE * seconds)
        warm_up = min(warm_up, _MAX_WARM_UP_SECONDS, seconds / 2)
        share = (seconds - warm_up) / (allocations + _SOURCE_SHARES * sources)
        stretch = min(_MAX_STRETCH_SECONDS, max(_MIN_STRETCH_SECONDS, share / _STRETCHES))
        return cls(
            seconds - warm_up, share, stretch, stretch, _SOURCE_SHARES * share, warm_up,
            min_stretches=3, sources_last=False,
        )  # fmt: skip

    @classmethod
    def whole(cls, seconds: float) -> "Procedure":
        """One whole run for each thing to learn."""
        return cls(seconds, 0.0, inf, inf, inf, by_rate=False)

    @classmethod
    def probing(cls, share_seconds: float, sample_seconds: float) -> "Procedure":
        """One reading at each allocation, however long all takes; each source is a probe first."""
        return cls(inf, share_seconds, share_seconds, sample_seconds, inf, probes=PROBES)


def ramp_plan(
    samples: float, tolerance: float, levels: tuple[float, ...] | None = None
) -> RampPlan | None:
    """How to ramp when there is time for so many samples; ``None`` = too few to judge by."""
    if samples < _SAMPLES_FOR_COARSE:
        return None
    if levels:
        return RampPlan(tolerance=tolerance, levels=levels)
    return RampPlan(tolerance=tolerance, levels=LEVELS if samples >= _SAMPLES_FOR_FINE else COARSE)


def looks_for(samples: float) -> tuple[float, ...]:
    """The intensities to look at once each when there is time for only so many samples."""
    if samples >= len(COARSE):
        return COARSE
    return (50.0, MAX_INTENSITY) if samples >= 2 else (MAX_INTENSITY,)


def cut_short(plan: RampPlan, samples: list[RampSample]) -> Tolerance:
    """What is known of a ramp that had to stop: a break that could not be confirmed is one."""
    return conclude(replace(plan, confirmations=0), samples)
