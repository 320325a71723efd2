"""The core's own settings. The log holds them: the fold reads those, never this program's."""

from dataclasses import dataclass
from functools import lru_cache

from wharfinger.core.state import ManagerState

CORE = "core"
MOST_DOUBLED = 30
"""How often a backoff is doubled at most: it is above every limit then."""
"""Their key among the settings that a log holds."""


@dataclass(frozen=True, slots=True)
class CoreSettings:
    """What a core does whatever its policy.

    Attributes:
        max_start_failures: After so many failed starts in a row a workload has failed.
        max_backoff_seconds: Longest wait before a failed start is tried again; it doubles.
        keep_ended: How many ended workloads keep their record and output.
        reorder_seconds: After a failed order, no server of its platform is ordered for so long.
        missed_seconds: A scheduled run that could not begin for so long was missed.
        stable_seconds: A service that ran for so long begins to count its restarts again.
        memory_margin: Times the measured peak of memory that a start gets, where nobody stated it.
        min_memory_margin_bytes: The least that is added to the peak.
    """

    max_start_failures: int = 5
    max_backoff_seconds: float = 60.0
    keep_ended: int = 10_000
    reorder_seconds: float = 60.0
    missed_seconds: float = 60.0
    stable_seconds: float = 600.0
    memory_margin: float = 1.25
    min_memory_margin_bytes: int = 64 * 2**20


DEFAULTS = CoreSettings()


def settings_in(state: ManagerState) -> CoreSettings:
    """Those in the log, which has none if version 0.1 wrote it."""
    logged = state.settings.get(CORE)
    return DEFAULTS if logged is None else _made(tuple(logged.items()))


@lru_cache(maxsize=8)
def _made(values: tuple[tuple[str, float], ...]) -> CoreSettings:
    names = CoreSettings.__dataclass_fields__
    return CoreSettings(**{name: value for name, value in values if name in names})  # type: ignore[arg-type]
