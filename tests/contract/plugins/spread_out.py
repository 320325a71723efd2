"""An adaptation that migrates: what shares a server moves to one that is empty."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from wharfinger.core import events as ev
from wharfinger.core.lifecycle import Phase
from wharfinger.core.seams.adaptation import Migrate, Remedy, Residents
from wharfinger.core.state import WorkloadRecord
from wharfinger.core.tracking import Tracked
from wharfinger.model.allocation import Placement
from wharfinger.model.decisions import Decision, ReasonCode, Stage
from wharfinger.model.profile import Estimate, Measurements


@dataclass(frozen=True, slots=True)
class SpreadOutSettings:
    """``max_migrations``: each workload is moved so often and no more."""

    max_migrations: int = 1


class SpreadOut:
    """Asks nothing of targets, and so tracks none."""

    name = "spread-out"

    def __init__(self, settings: SpreadOutSettings | None = None) -> None:
        self.settings = settings or SpreadOutSettings()

    def track(self, record: WorkloadRecord, now: float, slowdown: Estimate | None) -> Tracked:
        return Tracked(record.name, None)

    def measured(self, record: WorkloadRecord, platform: str = "") -> Measurements | None:
        return record.measurements

    def wake_at(self, now: float, cluster: Residents) -> float | None:
        return None

    def remedies(self, now: float, event: ev.Event, cluster: Residents) -> Iterator[Remedy]:
        samples = event.samples if isinstance(event, ev.ServerMeasured) else ()
        for sample in samples:
            record = cluster.running(sample.key)
            if record is not None and self._may_move(record) and cluster.neighbors(record):
                yield from self._to_empty(record, cluster)

    def _may_move(self, record: WorkloadRecord) -> bool:
        return (
            record.phase is Phase.RUNNING
            and not record.revoking
            and record.workload.run.restartable
            and len(record.placements) == 1
            and record.migrations < self.settings.max_migrations
        )

    def _to_empty(self, record: WorkloadRecord, cluster: Residents) -> Iterator[Remedy]:
        view, need = cluster.view(), record.placements[0].allocation
        fits = (
            view.accepting.astype(np.bool_)
            & (view.residents == 0)
            & (view.cpu_capacity >= need.cpu_millicpus)
            & (view.memory_capacity >= need.memory_bytes)
        )
        rows = np.flatnonzero(fits)
        if rows.size:
            server = view.names[rows[0]]
            reason, message = ReasonCode.PLACED_FOR_TARGET, f"{server} is empty"
            decision = Decision(Stage.ADAPTATION, self.name, True, reason, message)
            yield Migrate(record.name, (Placement(server, need),), decision)
