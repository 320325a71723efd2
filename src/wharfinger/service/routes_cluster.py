"""Routes that show the cluster and the manager itself: servers, queues, events, status."""

import os
from typing import Annotated

from fastapi import APIRouter, Query, Response

from wharfinger import __version__
from wharfinger.errors import InvalidInput, NotFound, Unavailable
from wharfinger.runtime.runtime import Runtime
from wharfinger.service import history, models, records
from wharfinger.service.dependencies import TheCore, TheDriver, TheManager, may_fail

router = APIRouter()

MAX_SEQUENCE = 2**63 - 1
MAX_EVENTS = 10_000
MAX_WAIT_SECONDS = 30.0


@router.get("/v1/servers", tags=["cluster"], responses=may_fail())
async def list_servers(core: TheCore) -> list[models.ServerModel]:
    """All servers, in the order in which they joined."""
    return records.servers(core)


@router.get("/v1/servers/{name}", tags=["cluster"], responses=may_fail(404))
async def get_server(name: str, driver: TheDriver, core: TheCore) -> models.ServerDetail:
    """One server and its residents."""
    server = records.server_detail(core, name, driver.runtime.now())
    if server is None:
        raise NotFound(f"no server {name!r}")
    return server


@router.get("/v1/platforms", tags=["cluster"], responses=may_fail())
async def list_platforms(core: TheCore) -> list[models.PlatformModel]:
    """The kinds of servers that there are."""
    return records.platforms(core)


@router.get("/v1/queues", tags=["cluster"], responses=may_fail())
async def list_queues(driver: TheDriver, core: TheCore) -> list[models.QueueModel]:
    """The queues of waiting workloads, in the order in which they are served."""
    return records.queues(core, driver.runtime.now())


@router.get("/v1/events", tags=["cluster"], responses=may_fail(400))
async def list_events(
    driver: TheDriver,
    core: TheCore,
    after: Annotated[
        int | None,
        Query(ge=0, le=MAX_SEQUENCE, description="Only later ones; without it the newest."),
    ] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_EVENTS, description="The most to show.")] = 1000,
    wait_seconds: Annotated[
        float,
        Query(ge=0, le=MAX_WAIT_SECONDS, description="With `after`: wait so long for a first one."),
    ] = 0.0,
    kind: Annotated[list[str], Query(description="Without `after`: only of these kinds.")] = [],  # noqa: B006 - FastAPI copies it
    without: Annotated[list[str], Query(description="Without `after`: not of these kinds.")] = [],  # noqa: B006 - the same
) -> list[models.EventModel]:
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


@router.get("/v1/status", tags=["manager"], responses=may_fail())
async def get_status(driver: TheDriver, core: TheCore, manager: TheManager) -> models.StatusModel:
    """The manager: what it is, since when, and how it fares."""
    runtime, state = driver.runtime, core.state
    return models.StatusModel(
        name="wharfinger",
        version=__version__,
        pid=os.getpid(),
        state_directory=str(manager.state_directory),
        engine=state.engine,
        policy=state.policy,
        admission=state.admission,
        mode=core.mode.value,
        since=records.timestamp(manager.started_at),
        uptime_seconds=round(max(0.0, runtime.now() - manager.started_at), 3),
        synced=state.synced,
        phases=records.phases(state.workloads.values()),
        servers=len(state.servers),
        last_sequence=runtime.store.last_sequence,
        first_sequence=runtime.store.first_sequence,
        free_disk_bytes=runtime.store.room_bytes(),
        accepting=_has_room(runtime),
        strays=list(state.strays),
        damage=_damage(runtime),
    )


def _damage(runtime: Runtime) -> models.DamageModel | None:
    damage = runtime.store.damage
    if damage is None:
        return None
    return models.DamageModel(message=str(damage), last_whole_sequence=damage.last_whole_sequence)


def _has_room(runtime: Runtime) -> bool:
    try:
        runtime.store.check_room()
    except Unavailable:
        return False
    return True


@router.get("/healthz", tags=["manager"], response_class=Response)
async def get_health() -> Response:
    """Whether the manager answers."""
    return Response("ok\n", media_type="text/plain")


@router.get("/metrics", tags=["manager"], response_class=Response)
async def get_metrics(driver: TheDriver, core: TheCore, manager: TheManager) -> Response:
    """Metrics in Prometheus' text format."""
    # Here and not above: a manager that is not scraped starts without it.
    from wharfinger.service import metrics  # noqa: PLC0415

    store = driver.runtime.store
    collector = metrics.ManagerCollector(
        core,
        last_sequence=store.last_sequence,
        room_bytes=store.room_bytes(),
        start_time=manager.started_at,
        now=driver.runtime.now(),
    )
    return Response(metrics.render(collector), headers={"content-type": metrics.CONTENT_TYPE})
