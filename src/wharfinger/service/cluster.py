"""Servers and platforms as the API shows them.

Called by ``routes_cluster`` and ``metrics``; reads the manager's state only.
"""

from collections import Counter
from collections.abc import Iterable
from typing import TypeVar

from pydantic import Field

from wharfinger.core.lifecycle import Phase
from wharfinger.core.pipeline import Core
from wharfinger.core.state import WorkloadRecord
from wharfinger.service.models import ApiModel, Cpus
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
    cordoned: bool = Field(description="An operator wants no new work there.")
    draining: bool = Field(description="Restartable residents are migrated away, too.")
    cordon_reason: str = Field(description="The operator's words; may be empty.")
    cpus: Cpus = Field(validation_alias="cpu_millicpus", description="CPUs that may be allocated.")
    cpus_allocated: Cpus = Field(description="Held by this manager's workloads.")
    cpus_others: Cpus = Field(description="Held by work that is not this manager's.")
    memory_bytes: int = Field(description="Memory that may be allocated.")
    memory_allocated_bytes: int = Field(description="Held by this manager's workloads.")
    memory_others_bytes: int = Field(description="Held by work that is not this manager's.")
    workloads: int = Field(description="How many hold resources here.")
    copies: int = Field(description="How many profiling copies run here.")
    unsettled: bool = Field(
        description="A resident runs off its prediction: no new work until it does not, or for a "
        "minute."
    )
    pressure: list[PressureModel] = Field(description="Of its residents together, where known.")
    zone: str
    labels: dict[str, str] = Field(description="By which `spec.requires` chooses servers.")
    conditions: list[ConditionModel]


class StayingModel(ApiModel):
    """Why a resident is still on a drained server."""

    name: str
    message: str = Field(description="What it waits for, for people.")
    leaves: bool = Field(description="`false` = it stays until its user acts.")


class ServerDetail(ServerModel):
    """A server and its residents."""

    residents: list[WorkloadModel]
    staying: list[StayingModel] = Field(
        description="Of a drained server: why each resident is still there."
    )


class PlatformModel(ApiModel):
    """A server configuration."""

    name: str
    architecture: str
    cpu_model: str
    cpus: Cpus = Field(validation_alias="cpu_millicpus", description="Of one whole server.")
    memory_bytes: int = Field(description="Of one whole server.")
    servers: int = Field(description="How many servers are of it.")


def servers(manager: Core) -> list[ServerModel]:
    """Every server, in the order in which they joined."""
    rows = {name: row for row, name in enumerate(manager.view.names)}
    return [_server(ServerModel, manager, rows[name], name) for name in manager.state.servers]


def server_detail(manager: Core, name: str, now: float) -> ServerDetail:
    """One server, which there is, and its residents."""
    row = list(manager.view.names).index(name)
    there = residents(manager, name)
    cordon = manager.state.cordoned.get(name)
    is_drained = cordon is not None and cordon.drain
    return _server(
        ServerDetail,
        manager,
        row,
        name,
        residents=[workload(record, now) for record in there],
        staying=[_staying(record) for record in there] if is_drained else [],
    )


def _staying(record: WorkloadRecord) -> StayingModel:
    """Why it is still on a drained server."""
    message, leaves = "it is not restartable, so it stays until it ends or is stopped", True
    if record.revoking or record.stop_reason or record.phase is Phase.MIGRATING:
        message = "it is being stopped"
    elif record.workload.run.restartable:
        moves = record.phase in (Phase.RUNNING, Phase.SUSPENDED)
        message = "no other server has room for it" if moves else f"it is {record.phase}"
    elif record.paused:
        message = "suspended by its user and not restartable: resume or stop it"
        leaves = False
    return StayingModel(name=record.name, message=message, leaves=leaves)


def _server(model: type[_S], manager: Core, row: int, name: str, **others: object) -> _S:
    view, server = manager.view, manager.state.servers[name]
    cordon = manager.state.cordoned.get(name)
    return model.of(
        server,
        cordoned=cordon is not None,
        draining=cordon is not None and cordon.drain,
        cordon_reason="" if cordon is None else cordon.reason,
        platform=server.platform.name,
        cpus_allocated=int(view.cpu_allocated[row]) - server.others_cpu_millicpus,
        cpus_others=server.others_cpu_millicpus,
        memory_allocated_bytes=int(view.memory_allocated[row]) - server.others_memory_bytes,
        memory_others_bytes=server.others_memory_bytes,
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


def phases(records: Iterable[WorkloadRecord]) -> dict[str, int]:
    """Workloads by phase; every phase is named, so that a graph has no holes."""
    counts = Counter(record.phase for record in records)
    return {phase.value: counts[phase] for phase in Phase}
