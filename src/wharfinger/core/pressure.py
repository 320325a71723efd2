"""What the residents of one server tolerate and cause together (Paragon 2.4 and 3.1).

What a server tolerates is the least that any resident does; what it causes is the sum over
them (docs/papers.md). Predictions count from the moment of placement: load that is placed and
not measured yet is there already.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from wharfinger.core.lifecycle import Phase
from wharfinger.core.state import WorkloadRecord
from wharfinger.core.tables import UNPRESSED
from wharfinger.model.interference import YIELDED
from wharfinger.model.view import SOURCES


def pressure_of(residents: Iterable[WorkloadRecord]) -> NDArray[np.float64]:
    """(4, R): tolerated and its variance, caused and its variance, of one server.

    Args:
        residents: Who is there; those who are not classified say nothing.
    """
    pressure = np.repeat(np.array(UNPRESSED)[:, None], len(SOURCES), axis=1)
    # In one order, whatever has happened before: sums of floats hang on it.
    for record in sorted(residents, key=lambda record: record.uid):
        known = record.classification
        if known is None or record.phase is Phase.SUSPENDED:
            continue
        best_effort = record.workload.best_effort
        for at, source in enumerate(SOURCES):
            tolerated = None if best_effort else known.tolerated.get(source)
            if tolerated is not None and tolerated.mean < pressure[0, at]:
                pressure[:2, at] = tolerated.mean, tolerated.std**2
            caused = known.caused.get(source)
            if caused is not None and not (best_effort and source in YIELDED):
                pressure[2:, at] += caused.mean, caused.std**2
    return pressure
