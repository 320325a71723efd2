"""Routes that show the cluster and the manager itself: servers, queues, events, status."""

import os
from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import Field

from wharfinger import __version__
from wharfinger.errors import InvalidInput, NotFound, Unavailable
from wharfinger.service import cluster, history
from wharfinger.service.models import ApiModel, Timestamp, span_seconds
from wharfinger.service.routing import TheCore, TheDriver, TheProcess, WaitSeconds, may_fail

router = APIRouter()

MAX_SEQUENCE = 2**63 - 1
MAX_EVENTS = 10_000


@router.get("/v1/servers", tags=["cluster"], responses=may_fail())
async def list_servers(core: TheCore) -> list[cluster.ServerModel]:
    """All servers, in the order in which they joined."""
    return cluster.servers(core)


@router.get("/v1/servers/{name}", tags=["cluster"], responses=may_fail(404))
async def get_server(name: str, driver: TheDriver, core: TheCore) -> cluster.ServerDetail:
    """One server and its residents."""
    server = cluster.server_detail(core, name, driver.runtime.now())
    if server is None:
        raise NotFound(f"no server {name!r}")
    return server


@router.get("/v1/platforms", tags=["cluster"], responses=may_fail())
async def list_platforms(core: TheCore) -> list[cluster.PlatformModel]:
    """The platforms that the servers are of."""
    return cluster.platforms(core)


@router.get("/v1/queues", tags=["cluster"], responses=may_fail())
async def list_queues(driver: TheDriver, core: TheCore) -> list[cluster.QueueModel]:
    """The queues of waiting workloads, in the order in which they are served."""
    return cluster.queues(core, driver.runtime.now())


@router.get("/v1/events", tags=["cluster"], responses=may_fail(400))
async def list_events(
    driver: TheDriver,
    core: TheCore,
    after: Annotated[
        int | None,
        Query(ge=0, le=MAX_SEQUENCE, description="Only later ones; without it the newest."),
    ] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_EVENTS, description="The most to show.")] = 1000,
    wait_seconds: WaitSeconds = 0.0,
    kind: Annotated[list[str], Query(description="Without `after`: only of these kinds.")] = [],  # noqa: B006 - FastAPI copies it
    without: Annotated[list[str], Query(description="Without `after`: not of these kinds.")] = [],  # noqa: B006 - the same
) -> list[history.EventModel]:
    """The history, oldest first. Page on with `after` = the last one's sequence."""
    store = driver.runtime.store
    if after is None:
        entries = history.newest(store, limit, kind, without)
    elif kind or without:
        raise InvalidInput("after: all kinds are paged through; leave out kind and without")
    else:
        await driver.changed(after, wait_seconds)
        entries = list(store.read(after=after, limit=limit))
    names = {str(record.uid): name for name, record in core.state.workloads.items()}
    return [history.event(entry, names) for entry in entries]


class DamageModel(ApiModel):
    """What was found damaged when this manager opened its log."""

    message: str
    last_whole_sequence: int


class StatusModel(ApiModel):
    """The manager itself."""

    name: str
    version: str
    pid: int
    state_directory: str
    engine: str
    policy: str
    admission: str
    mode: str = Field(description="`act`, or `recommend`: it only says what it would do.")
    since: Timestamp
    uptime_seconds: float
    synced: bool = Field(description="Whether the engine has reported what it found.")
    phases: dict[str, int] = Field(description="Workloads by phase.")
    servers: int
    last_sequence: int = Field(description="The newest event's.")
    first_sequence: int = Field(description="The oldest event's that `events` can show.")
    free_disk_bytes: int = Field(description="How much the event log can still grow.")
    accepting: bool = Field(description="Whether there is room on disk for new work.")
    strays: list[str] = Field(description="Keys of starts that only the engine knows; left alone.")
    damage: DamageModel | None


@router.get("/v1/status", tags=["manager"], responses=may_fail())
async def get_status(driver: TheDriver, core: TheCore, process: TheProcess) -> StatusModel:
    """The manager: what it is, since when, and its condition."""
    runtime, store, damage = driver.runtime, driver.runtime.store, driver.runtime.store.damage
    try:
        store.check_room()
        accepting = True
    except Unavailable:
        accepting = False
    return StatusModel.of(
        core.state,
        store,
        name="wharfinger",
        version=__version__,
        pid=os.getpid(),
        state_directory=str(process.state_directory),
        mode=core.mode,
        since=process.started_at,
        uptime_seconds=span_seconds(process.started_at, runtime.now()),
        phases=cluster.phases(core.state.workloads.values()),
        servers=len(core.state.servers),
        free_disk_bytes=store.room_bytes(),
        accepting=accepting,
        damage=damage
        and DamageModel(message=str(damage), last_whole_sequence=damage.last_whole_sequence),
    )


@router.get("/healthz", tags=["manager"], response_class=Response)
async def get_health() -> Response:
    """Whether the manager answers."""
    return Response("ok\n", media_type="text/plain")


@router.get("/metrics", tags=["manager"], response_class=Response)
async def get_metrics(driver: TheDriver, core: TheCore, process: TheProcess) -> Response:
    """Metrics in Prometheus' text format."""
    # Here and not above: a manager that is not scraped starts without it.
    from wharfinger.service import metrics  # noqa: PLC0415

    store = driver.runtime.store
    collector = metrics.ManagerCollector(
        core,
        last_sequence=store.last_sequence,
        room_bytes=store.room_bytes(),
        start_time=process.started_at,
        now=driver.runtime.now(),
    )
    return Response(metrics.render(collector), headers={"content-type": metrics.CONTENT_TYPE})
