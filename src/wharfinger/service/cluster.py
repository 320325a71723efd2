"""Servers, platforms and queues as the API shows them.

Called by ``routes_cluster`` and ``metrics``; reads the manager's state only.
"""

from collections import Counter
from collections.abc import Iterable
from typing import TypeVar

from pydantic import Field

from wharfinger.core.lifecycle import Phase
from wharfinger.core.pipeline import Core
from wharfinger.core.state import WorkloadRecord
from wharfinger.service.models import ApiModel, Cpus, span_seconds
from wharfinger.service.workloads import WorkloadModel, residents, workload

_S = TypeVar("_S", bound="ServerModel")


class ConditionModel(ApiModel):
    """One thing an operator should know of a server."""

    name: str = Field(validation_alias="kind")
    message: str


class PressureModel(ApiModel):
    """Tolerated and caused interference of a server's residents, by shared resource, 0-100."""

    name: str = Field(description="The shared resource.")
    tolerated: float = Field(description="The least that any resident does; 100 = all of it.")
    tolerated_std: float
    caused: float = Field(description="The sum over the residents.")
    caused_std: float


class ServerModel(ApiModel):
    """A server, and how much of it is allocated."""

    name: str
    platform: str
    accepting: bool = Field(description="Whether new work may be placed.")
    cpus: Cpus = Field(validation_alias="cpu_millicpus", description="CPUs that may be allocated.")
    cpus_allocated: Cpus
    memory_bytes: int = Field(description="Memory that may be allocated.")
    memory_allocated_bytes: int
    workloads: int = Field(description="How many hold resources here.")
    copies: int = Field(description="How many profiling copies run here.")
    unsettled: bool = Field(
        description="A resident violates its target: no new work until it is kept, or for a minute."
    )
    pressure: list[PressureModel] = Field(description="Of its residents together, where known.")
    zone: str
    conditions: list[ConditionModel]


class ServerDetail(ServerModel):
    """A server and its residents."""

    residents: list[WorkloadModel]


class PlatformModel(ApiModel):
    """A server configuration."""

    name: str
    architecture: str
    cpu_model: str
    cpus: Cpus = Field(validation_alias="cpu_millicpus", description="Of one whole server.")
    memory_bytes: int = Field(description="Of one whole server.")
    servers: int = Field(description="How many servers are of it.")


class QueueModel(ApiModel):
    """A queue of waiting workloads."""

    name: str
    length: int
    first: str | None = Field(description="The next to be served; `null` = none waits.")
    oldest_wait_seconds: float | None = Field(description="The longest wait; `null` = none waits.")


def servers(manager: Core) -> list[ServerModel]:
    """Every server, in the order in which they joined."""
    rows = {name: row for row, name in enumerate(manager.view.names)}
    return [_server(ServerModel, manager, rows[name], name) for name in manager.state.servers]


def server_detail(manager: Core, name: str, now: float) -> ServerDetail | None:
    """One server and its residents; ``None`` where there is none of that name."""
    if name not in manager.state.servers:
        return None
    row = list(manager.view.names).index(name)
    told = [workload(record, now) for record in residents(manager, name)]
    return _server(ServerDetail, manager, row, name, residents=told)


def _server(model: type[_S], manager: Core, row: int, name: str, **others: object) -> _S:
    view, server = manager.view, manager.state.servers[name]
    return model.of(
        server,
        platform=server.platform.name,
        cpus_allocated=int(view.cpu_allocated[row]),
        memory_allocated_bytes=int(view.memory_allocated[row]),
        workloads=int(view.residents[row]),
        copies=int(view.copies[row]),
        unsettled=bool(view.unsettled[row]),
        pressure=[
            PressureModel(
                name=score.source.value,
                tolerated=score.tolerated.mean,
                tolerated_std=score.tolerated.std,
                caused=score.caused.mean,
                caused_std=score.caused.std,
            )
            for score in (view.contention.scores(row) if view.contention else ())
        ],
        **others,
    )


def platforms(manager: Core) -> list[PlatformModel]:
    """Every platform and how many servers are of it."""
    all_servers = manager.state.servers.values()
    counts = Counter(server.platform.name for server in all_servers)
    distinct = {server.platform.name: server.platform for server in all_servers}
    return [PlatformModel.of(platform, servers=counts[name]) for name, platform in distinct.items()]


def waiting_by_queue(manager: Core) -> dict[str, list[WorkloadRecord]]:
    """The workloads of each queue, in the order in which they are served."""
    waiting: dict[str, list[WorkloadRecord]] = {name: [] for name in manager.queue_lengths()}
    for record in manager.state.workloads.values():
        if record.phase is Phase.QUEUED:
            waiting.setdefault(record.queue, []).append(record)
    for queue in waiting.values():
        queue.sort(key=lambda record: (-record.workload.priority, record.uid))
    return waiting


def queues(manager: Core, now: float) -> list[QueueModel]:
    """Every queue, in the order in which they are served."""
    return [
        QueueModel(
            name=name,
            length=len(queue),
            first=queue[0].name if queue else None,
            oldest_wait_seconds=max(
                (span_seconds(record.submitted_at, now) for record in queue), default=None
            ),
        )
        for name, queue in waiting_by_queue(manager).items()
    ]


def phases(records: Iterable[WorkloadRecord]) -> dict[str, int]:
    """Workloads by phase; every phase is named, so that a graph has no holes."""
    counts = Counter(record.phase for record in records)
    return {phase.value: counts[phase] for phase in Phase}
