"""What a source of interference that is a probe shows: what a workload causes.

The workload's effect on the source at half of its intensity is read off the effects of a second
source of the same kind, so that caused and tolerated interference are both intensities.
"""

import math
from collections.abc import Sequence
from statistics import fmean

from wharfinger.ibench.ramp import LEVELS
from wharfinger.model.interference import SharedResource
from wharfinger.model.profile import Entry
from wharfinger.profiling.procedure import PROBE_INTENSITY
from wharfinger.simulator.truth.ground_truth import GroundTruth, TrueResident

DOUBT = 2.0  # standard errors below which a slowed probe is noise
_STEP_ERROR = 10.0 / math.sqrt(12)  # a score lies somewhere between two levels


class Probes:
    """What a probe shows of each source, by platform; made once by running sources together."""

    def __init__(self, truth: GroundTruth) -> None:
        self._truth = truth
        self._curves: dict[tuple[str, SharedResource, float, float], tuple[float, ...]] = {}

    def alone(self, platform: str, probe: TrueResident) -> float:
        """The probe's own rate."""
        return self._truth.rates(platform, [probe])[0]

    def caused(
        self,
        platform: str,
        resource: SharedResource,
        beside: TrueResident,
        ratios: Sequence[float],
        noise: float,
        intensity: float = PROBE_INTENSITY,
    ) -> Entry:
        """The least intensity at which a source slows the probe as much, 0 to 100.

        ``ratios`` are the probe's rate beside the workload over that alone, one of each look at its
        ``intensity``, and
        ``noise`` is the standard deviation of the logarithm of one look.
        """
        curve = self._curve(platform, resource, beside, intensity)
        ratio, error = fmean(ratios), noise / math.sqrt(len(ratios))
        if ratio >= 1 - DOUBT * error:
            return Entry(0.0, _STEP_ERROR)
        low, high = _read_off(curve, ratio + error), _read_off(curve, ratio - error)
        return Entry(_read_off(curve, ratio), math.hypot(_STEP_ERROR, (high - low) / 2))

    def unseen(
        self,
        platform: str,
        resource: SharedResource,
        beside: TrueResident,
        looks: int,
        noise: float,
        intensity: float,
    ) -> float:
        """Up to which intensity a source beside the probe would not show, 0 to 100."""
        curve = self._curve(platform, resource, beside, intensity)
        return _read_off(curve, 1 - DOUBT * noise / math.sqrt(looks))

    def _curve(
        self, platform: str, resource: SharedResource, beside: TrueResident, intensity: float
    ) -> tuple[float, ...]:
        key = platform, resource, beside.cpu_millicpus, intensity
        if key not in self._curves:
            self._curves[key] = tuple(self._ratios(platform, resource, beside, intensity))
        return self._curves[key]

    def _ratios(
        self, platform: str, resource: SharedResource, beside: TrueResident, intensity: float
    ) -> Sequence[float]:
        probe = self._truth.source(platform, resource, intensity, beside)
        assert probe is not None
        plain = TrueResident(probe.application, probe.cpu_millicpus, probe.memory_bytes,
                         probe.load_per_second)  # fmt: skip
        alone = self.alone(platform, plain)
        ratios = [1.0]
        for level in LEVELS:
            second = self._truth.source(platform, resource, level, plain)
            assert second is not None
            rate = self._truth.rates(platform, [plain, second])[0]
            ratios.append(min(ratios[-1], rate / alone if alone > 0 else 1.0))
        return ratios


def _read_off(curve: Sequence[float], ratio: float) -> float:
    """The least intensity at which the curve is so low, linear between levels.

    >>> _read_off((1.0, 1.0, 0.8, *[0.5] * 8), 0.9), _read_off((1.0, *[0.9] * 10), 0.3)
    (15.0, 100.0)
    """
    levels = (0.0, *LEVELS)
    for at in range(1, len(levels)):
        high, low = curve[at - 1], curve[at]
        if ratio >= high:
            return levels[at - 1]
        if ratio > low:
            return levels[at - 1] + (high - ratio) / (high - low) * (levels[at] - levels[at - 1])
    return levels[-1]
