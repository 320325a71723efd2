"""What a ramp has found, as an entry of a workload's row.

Who calls: profilers, of real machines and of simulated ones.
"""

import math

from wharfinger.ibench.ramp import Tolerance
from wharfinger.model.profile import Entry


def tolerated(found: Tolerance) -> Entry:
    """A ramp's result: uncertain by the step that it lies in, and by the noise at its ends."""
    if found.censored:
        return Entry(found.low, 0.0, censored=True)
    points = {point.intensity: point for point in found.curve}
    high, low = points.get(found.high), points.get(found.low)
    drop = (low.relative_performance if low else 1.0) - (high.relative_performance if high else 1.0)
    noise = math.hypot(*(point.standard_error for point in (high, low) if point))
    step = found.high - found.low
    points_of_noise = min(step / 2, noise * step / drop) if drop > 0 else step / 2
    return Entry(found.score, math.hypot(step / math.sqrt(12), points_of_noise))
