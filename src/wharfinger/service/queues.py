"""Queues as the API shows them; reads the manager's state only."""

from pydantic import Field

from wharfinger.core.lifecycle import Phase
from wharfinger.core.pipeline import Core
from wharfinger.core.queues import entry_of
from wharfinger.core.state import WorkloadRecord
from wharfinger.service.models import ApiModel
from wharfinger.service.workloads import wait_seconds


class QueueModel(ApiModel):
    """A queue of waiting workloads."""

    name: str
    length: int
    first: str | None = Field(description="The next to be served; `null` = none waits.")
    oldest_wait_seconds: float | None = Field(description="The longest wait; `null` = none waits.")
    servers: int | None = Field(
        description="Servers of its resource quality now; `null` = its admission keeps none apart."
    )
    free_servers: int | None = Field(
        description="Those of them with room for what a workload holds in the mean."
    )
    expected_wait_seconds: float | None = Field(
        description="Of the next that comes: the median; `null` = unknown, or very long."
    )
    expected_wait_low_seconds: float | None = Field(
        description="It waits longer with 90% probability."
    )
    expected_wait_high_seconds: float | None = Field(
        description="It waits longer with 10% probability."
    )
    over_slack_probability: float | None = Field(
        description="That the next that comes, with a tolerance of 5%, waits beyond its slack."
    )
    load_factor: float | None = Field(
        description="Work that comes over what its servers can do; from 1 on it grows without end."
    )
    load_parts: dict[str, float] = Field(
        description="Of the load factor, by the queue to which that work was submitted."
    )
    warning: str | None = Field(
        description="That the load factor is near 1 or over it, and which queue's work causes it."
    )
    quality_low: float | None = Field(description="The least resource quality of its servers.")
    quality_high: float | None = Field(description="The highest resource quality of its servers.")


def waiting_by_queue(manager: Core) -> dict[str, list[WorkloadRecord]]:
    """The workloads of each queue, in the order in which they are served."""
    waiting: dict[str, list[WorkloadRecord]] = {name: [] for name in manager.queue_lengths()}
    for record in manager.state.workloads.values():
        if record.phase is Phase.QUEUED:
            waiting.setdefault(record.queue, []).append(record)
    for queue in waiting.values():
        queue.sort(key=entry_of)
    return waiting


def queues(manager: Core, now: float) -> list[QueueModel]:
    """Every queue, in the order in which they are served."""
    return [_queue(manager, name, queue, now) for name, queue in waiting_by_queue(manager).items()]


def _queue(manager: Core, name: str, queue: list[WorkloadRecord], now: float) -> QueueModel:
    report = manager.policy.admission.report(name, manager.admission_view(now))
    low, high = report.quality or (None, None)
    return QueueModel(
        name=name,
        length=len(queue),
        first=queue[0].name if queue else None,
        oldest_wait_seconds=max((wait_seconds(record, now) for record in queue), default=None),
        servers=report.servers,
        free_servers=report.free,
        expected_wait_seconds=report.wait_seconds,
        expected_wait_low_seconds=report.wait_low,
        expected_wait_high_seconds=report.wait_high,
        over_slack_probability=report.over_slack,
        load_factor=report.load,
        load_parts=dict(report.load_parts),
        warning=report.warning or None,
        quality_low=low,
        quality_high=high,
    )
