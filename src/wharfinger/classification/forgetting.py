"""How an entry is corrected by a newer measurement, and forgets the older one (Quasar 3.2).

Measurements of one number are weighed by their precision; that of an old one halves with each
half-life.
"""

from dataclasses import replace
from math import sqrt

from wharfinger.estimators.matrix import Transform
from wharfinger.model.profile import Entry, Origin

RUNNING_HALF_LIFE_SECONDS = 60.0
"""Of a running workload's own measurements: its load changes within minutes."""
MATRIX_HALF_LIFE_SECONDS = 30 * 86400.0
"""Of what is kept in a matrix from run to run: programs change by their versions."""
MIN_ENTRY_ERROR = {Transform.LOG: 0.01, Transform.IDENTITY: 1.0}
"""No number is surer than this, however often it was measured: a share, and points."""
MEASURED = frozenset({Origin.OFFLINE, Origin.PROFILED, Origin.OBSERVED})


def corrected(
    old: Entry | None, new: Entry, transform: Transform, half_life_seconds: float
) -> Entry:
    """What is known once a new measurement has come.

    Args:
        old: ``None`` = nothing; a prediction counts as nothing.
        new: A measurement; or a prediction, which never takes a measurement's place.
        transform: ``LOG`` = values above zero with relative errors; else points.
        half_life_seconds: After so long a measurement counts half.

    >>> steady = Entry(10.0, 0.02, measured_at=0.0)
    >>> now = Entry(12.0, 0.02, origin=Origin.OBSERVED, measured_at=60.0)
    >>> for half_life_seconds in (1e9, 60.0, 1.0):
    ...     found = corrected(steady, now, Transform.LOG, half_life_seconds)
    ...     print(round(found.value, 2), round(found.error, 3), found.origin)
    10.95 0.014 observed
    11.29 0.016 observed
    12.0 0.02 observed
    """
    if old is None or old.origin not in MEASURED:
        return new
    if new.origin not in MEASURED:
        return old
    if new.censored or old.censored:
        # A lower bound says nothing of one that is already known to lie above it.
        return old if new.censored and new.value <= old.value else new
    least, remaining = MIN_ENTRY_ERROR[transform], 1.0
    if old.measured_at is not None and new.measured_at is not None:
        half_lives = max(0.0, new.measured_at - old.measured_at) / half_life_seconds
        remaining = 2.0 ** -min(half_lives, 1000.0)
    old_weight = remaining / max(old.error, least) ** 2
    new_weight = 1 / max(new.error, least) ** 2
    share = new_weight / (old_weight + new_weight)
    if transform is Transform.IDENTITY:
        value = (1 - share) * old.value + share * new.value
    else:
        value = old.value * (new.value / old.value) ** share
    return replace(new, value=float(value), error=max(least, 1 / sqrt(old_weight + new_weight)))
