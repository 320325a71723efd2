"""Phase-in and phase-out: how much CPU time best-effort work gets beside a target (Pythia 3.5).

Where a neighbor violates its target, best-effort work is phased out: it gets a ceiling of a small
share of the server at once. While no neighbor violates one it is phased in: the ceiling is doubled
each time that an effect could be seen, up to a share of what was too much. From there on it is
raised in small steps, each after twice as long as before the last time that it was too much, so
that how often that happens is bounded.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from wharfinger.core.lifecycle import Phase
from wharfinger.core.state import WorkloadRecord, is_violated
from wharfinger.model.allocation import ceiling_of
from wharfinger.policies.adaptation.slack import TargetSettings, is_recent

LEAST = 0.05
"""Share of a server's CPU that is left to best-effort work before it is suspended."""
LEAST_MILLICPUS = 50
SAFE = 0.7
"""Share of what was too much, up to which the ceiling is doubled."""
STEP = 0.1
"""Share of a server's CPU by which it is raised from there on."""


@dataclass(frozen=True, slots=True)
class Ceilings:
    """When ceilings are changed, and to what, under these settings."""

    settings: TargetSettings

    def lowered(self, record: WorkloadRecord, cpu_millicpus: int) -> int | None:
        """For a neighbor's sake, on a server of so much CPU; ``None`` = it has the least."""
        least = max(LEAST_MILLICPUS, round(LEAST * cpu_millicpus))
        ceiling = ceiling_of(record.placements)
        return least if ceiling is None or ceiling > least else None

    def raised(self, record: WorkloadRecord, cpu_millicpus: int) -> int | None:
        """The next one; ``None`` = none is needed any more."""
        if record.ineffective_at is not None:
            return None
        ceiling = ceiling_of(record.placements) or 0
        safe = self._safe(record)
        higher = ceiling + max(LEAST_MILLICPUS, round(STEP * cpu_millicpus))
        if ceiling < safe:
            higher = min(2 * ceiling, max(safe, ceiling + 1))
        return higher if higher < cpu_millicpus else None

    def raised_at(
        self, record: WorkloadRecord, residents: Iterable[WorkloadRecord], now: float
    ) -> float:
        """When it is raised if nothing changes; ``now`` or less = it may be.

        One after the other, and not while a neighbor violates its target, up to the longest
        suspension.
        """
        was_ineffective = record.ineffective_at is not None
        if was_ineffective or now < record.phase_since:  # The clock was set back.
            return now
        settings = self.settings
        latest = record.phase_since + settings.max_suspension_seconds
        at = record.phase_since + settings.settling_seconds
        if (ceiling_of(record.placements) or 0) >= self._safe(record):
            doublings = min(record.throttles - 1, 10)
            at = record.phase_since + settings.suspension_seconds * 2.0 ** max(0, doublings)
        for resident in residents:
            if is_violated(resident):
                return latest
            if resident.phase is Phase.ADJUSTING:
                return inf  # It is looked at again when that has ended.
            was_raised = resident.workload.best_effort and resident.throttles > 0
            if was_raised and is_recent(resident.phase_since, now, settings.settling_seconds):
                at = max(at, resident.phase_since + settings.settling_seconds)
        return min(at, latest)

    def _safe(self, record: WorkloadRecord) -> int:
        return round(SAFE * record.throttled_from_millicpus)
