"""Where best-effort work is expected to do best of what others leave; ``quasar`` ranks by it."""

import numpy as np

from wharfinger.classification.prediction import slower
from wharfinger.core.seams.contention import Array, Assessment
from wharfinger.model.view import Request, View

CROWDED = 2.0
"""What contention costs in all over what is predicted for best-effort work that comes: neighbors
lose as much by it (decision 0118)."""
UNMEASURED = 2.0
"""So many times more where it was not measured: scores of a cold start tell half (0085)."""
NEAR_GUARANTEED = 0.3
"""Of the logarithm of best-effort work's performance: what it forgoes to keep off a server where
CPU is allocated. What it takes there off a service is predicted too low (decision 0085)."""


def left_over(request: Request, view: View, contention: Assessment) -> Array:
    """(S,) expected logarithm of best-effort work's performance, over alone on its best platform.

    By platform as far as that is classified, by what residents take off it, and by the CPU that
    others leave. What best-effort residents lose is counted in: as much by contention as it does,
    and in proportion to their CPU where all of them want more than is left.
    """
    known = request.classification
    times = CROWDED if known is not None and known.measured else CROWDED * UNMEASURED
    mean = -times * contention.suffered.mean
    if known is not None and known.platforms:
        drop = slower(known, view.platforms)[0]
        mean = mean - (drop - drop.min())[view.platform]
    wants = max(request.workload.reservation.cpu_millicpus, 1)
    there = np.zeros(len(mean)) if view.cpu_wanted is None else view.cpu_wanted
    left = np.maximum(view.cpu_capacity - view.cpu_allocated, 1)
    before, after = (np.log(np.maximum(each / left, 1.0)) for each in (there, there + wants))
    mean = mean - ((there + wants) * after - there * before) / wants
    return np.asarray(mean - NEAR_GUARANTEED * (view.cpu_allocated > 0))


def taken(view: View) -> Array:
    """(S,) share of each server's CPU that is allocated, or wanted by best-effort work."""
    wanted = 0 if view.cpu_wanted is None else view.cpu_wanted
    return np.asarray((view.cpu_allocated + wanted) / np.maximum(view.cpu_capacity, 1))
