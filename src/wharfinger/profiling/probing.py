"""What a program causes: by a probe, a source of the same kind at half of its intensity. Pure.

Source: dissertation 5.3 (interference that is caused is on the scale of sources); decision 0102. A
source at ``PROBE_INTENSITY`` keeps a part of its own rate beside the program. The calibration is
the same probe beside a second source of its kind, at several intensities: that at which it keeps
just as much is what the program causes. A probe that its own kind does not slow can't tell.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev, variance

from wharfinger.profiling.crossing import CrossedLevel, CurveScore
from wharfinger.profiling.curves import CONFIDENCE_Z, curve_of

CALIBRATED = (0.0, 25.0, 50.0, 75.0, 100.0)
"""Intensities of the second source."""
MIN_VISITS, MAX_VISITS = 2, 4
"""Of each; with fewer there is no telling what the machine itself does."""
SURE_Z = 2.33
"""Standard errors, 99 %: among many sources one seems to slow its own kind by chance."""
LEAST_DROP = 0.03
"""Of a probe beside its own kind at most: with less, what slows it is the machine's turns."""


@dataclass(frozen=True, slots=True)
class ProbeReading:
    """A source's own rate over some time, and that per second of CPU time which it got."""

    per_second: float
    per_cpu_second: float | None = None


@dataclass(frozen=True, slots=True)
class ProbeCalibration:
    """Readings of a probe by the intensity of a second source beside it; 0 = it is alone."""

    readings: tuple[tuple[float, ProbeReading], ...]

    def of_rate(self) -> Sequence[tuple[float, float]]:
        """In work per second."""
        return [(intensity, reading.per_second) for intensity, reading in self.readings]

    def of_cpu_time(self) -> Sequence[tuple[float, float]]:
        """In work per second of CPU time."""
        told = [(at, reading.per_cpu_second) for at, reading in self.readings]
        return [(at, value) for at, value in told if value is not None]


def order_of(visits: int) -> tuple[float, ...]:
    """The intensities of a calibration: up and down again, so that a drift is none of them.

    >>> order_of(2)
    (0.0, 25.0, 50.0, 75.0, 100.0, 100.0, 75.0, 50.0, 25.0, 0.0)
    """
    there, back = CALIBRATED, CALIBRATED[::-1]
    return tuple(at for visit in range(visits) for at in (back if visit % 2 else there))


def drift_of(probes: Sequence[Sequence[Sequence[float]]]) -> float:
    """What a probe's rate varies by from round to round beyond its readings' noise, as a share.

    ``probes`` are of all sources: each alone has too few rounds to tell.

    >>> round(drift_of([[[98.0, 98.0], [102.0, 102.0]]]), 3)
    0.028
    """
    excess, freedom = 0.0, 0
    for rounds in probes:
        told = [readings for readings in rounds if len(readings) > 1]
        center = fmean(map(fmean, told)) if told else 0.0
        if len(told) < 2 or center <= 0:
            continue
        within = fmean(variance(readings) / len(readings) for readings in told)
        excess += (len(told) - 1) * (variance(map(fmean, told)) - within) / center**2
        freedom += len(told) - 1
    return math.sqrt(max(0.0, excess / freedom)) if freedom else 0.0


def caused_by(
    calibration: Sequence[tuple[float, float]],
    rounds: Sequence[Sequence[float]],
    drift: float = 0.0,
) -> CurveScore | str:
    """The source intensity that slows the probe as much as the program does; or why not.

    ``rounds`` are the probe's rates beside the program; ``drift`` is what the machine changes by
    from one to the next, and since the calibration.

    >>> curve = [(x, 100 - 0.4 * x + noise) for x in CALIBRATED for noise in (0.0, 0.2)]
    >>> score = caused_by(curve, [[80.0, 80.2], [80.1, 80.0]])
    >>> round(score.value)
    50
    """
    alone = [value for intensity, value in calibration if intensity == 0]
    told = [readings for readings in rounds if readings]
    if len(alone) < MIN_VISITS:
        return "no time for its calibration; try a longer --time-limit, or --calibration"
    if not told:
        return "time was over before the probe was read"
    reference = fmean(alone)
    if reference <= 0:
        return "the probe did nothing alone"
    curve = curve_of([calibration])
    highest = curve.points[-1]
    error = curve.total_error(highest)
    drop = 1 - highest.relative_performance
    if drop < max(LEAST_DROP, SURE_Z * error):
        kept = f"{highest.relative_performance:.1%} ± {CONFIDENCE_Z * error:.1%}"
        return f"a probe keeps {kept} of its rate beside another source of its kind: it can't tell"
    values = [value / reference for readings in told for value in readings]
    noise = max(curve.noise, stdev(values)) if len(values) > 1 else curve.noise
    error = math.sqrt(noise**2 / len(values) + drift**2 * (1 + 1 / len(told)))
    return curve.comes_down_to(CrossedLevel(fmean(values), error))
