"""Routes that show the cluster, close servers to new work, and tell what happened."""

import time
from typing import Annotated, TypeAlias

from fastapi import APIRouter, Depends, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from wharfinger.errors import NotFound
from wharfinger.service import cluster, history, queues, runs
from wharfinger.service.routing import OneOf, TheCore, TheDriver, WaitSeconds, header, may_fail

router = APIRouter(tags=["cluster"])

MAX_SEQUENCE = 2**63 - 1
MAX_EVENTS = 10_000
MAX_RUNS = 10_000

Kinds: TypeAlias = list[Annotated[str, OneOf(history.KINDS)]]


@router.get("/v1/servers", responses=may_fail())
async def list_servers(core: TheCore) -> list[cluster.ServerModel]:
    """All servers, in the order in which they joined."""
    return cluster.servers(core)


async def _find(name: str, core: TheCore) -> str:
    if name not in core.state.servers:
        raise NotFound(f"no server {name!r}")
    return name


_Server = Annotated[str, Depends(_find)]


@router.get("/v1/servers/{name}", responses=may_fail(404))
async def get_server(server: _Server, driver: TheDriver, core: TheCore) -> cluster.ServerDetail:
    """One server and its residents."""
    return cluster.server_detail(core, server, driver.runtime.now())


class CordonRequest(BaseModel):
    """How a server is closed to new work."""

    model_config = ConfigDict(extra="forbid", strict=True)

    drain: bool = Field(default=False, description="Migrate restartable residents away, too.")
    reason: str = Field(default="", max_length=1000, description="For people.")


@router.post("/v1/servers/{name}/cordon", responses=may_fail(400, 404, 503, 507))
async def cordon_server(
    server: _Server, driver: TheDriver, wanted: CordonRequest | None = None
) -> cluster.ServerDetail:
    """Place no new work on a server, until it is uncordoned; again, with what is given last."""
    how = wanted or CordonRequest()
    driver.request(lambda: driver.runtime.cordon(server, drain=how.drain, reason=how.reason))
    return cluster.server_detail(driver.runtime.manager, server, driver.runtime.now())


@router.post("/v1/servers/{name}/uncordon", responses=may_fail(404, 503, 507))
async def uncordon_server(server: _Server, driver: TheDriver) -> cluster.ServerDetail:
    """Place new work on a server again."""
    driver.request(lambda: driver.runtime.uncordon(server))
    return cluster.server_detail(driver.runtime.manager, server, driver.runtime.now())


@router.get("/v1/platforms", responses=may_fail())
async def list_platforms(core: TheCore) -> list[cluster.PlatformModel]:
    """The platforms that the servers are of."""
    return cluster.platforms(core)


@router.get("/v1/queues", responses=may_fail())
async def list_queues(driver: TheDriver, core: TheCore) -> list[queues.QueueModel]:
    """The queues of waiting workloads, in the order in which they are served."""
    return queues.queues(core, driver.runtime.now())


@router.get(
    "/v1/events",
    responses={
        200: {
            "headers": {
                "Wharfinger-Next-After": header(
                    "integer", "To page on: the sequence up to which events were looked at."
                )
            }
        },
        **may_fail(400),
    },
)
async def list_events(
    driver: TheDriver,
    core: TheCore,
    response: Response,
    after: Annotated[
        int | None,
        Query(ge=0, le=MAX_SEQUENCE, description="Only later ones; without it the newest."),
    ] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_EVENTS, description="The most to show.")] = 1000,
    wait_seconds: WaitSeconds = 0.0,
    kind: Annotated[Kinds, Query(description="Only of these kinds; repeatable.")] = [],  # noqa: B006 - FastAPI copies it
    without: Annotated[Kinds, Query(description="Not of these kinds; repeatable.")] = [],  # noqa: B006 - the same
) -> list[history.EventModel]:
    """The history, oldest first.

    Page on with `after` = the header `Wharfinger-Next-After`. One request looks at 20,000 events
    at most: where kinds are chosen, an answer may be empty although there are later ones.
    """
    store, wanted = driver.runtime.store, history.EventFilter(kind, without)
    if after is None:
        reached = store.last_sequence
        entries = wanted.newest(store, limit)
    else:
        deadline = time.monotonic() + wait_seconds
        await driver.changed(after, wait_seconds)
        entries, reached = wanted.following(store, after, limit)
        while not entries and not driver.stopping and (left := deadline - time.monotonic()) > 0:
            await driver.changed(reached, left)
            entries, reached = wanted.following(store, reached, limit)
    response.headers["wharfinger-next-after"] = str(reached)
    names = history.names_by_uid(core.state)
    return [history.event(entry, names) for entry in entries]


@router.get("/v1/history", responses=may_fail(400))
async def list_runs(
    core: TheCore,
    name: Annotated[list[str], Query(description="Of these workloads or arrays; repeatable.")] = [],  # noqa: B006 - FastAPI copies it
    limit: Annotated[int, Query(ge=1, le=MAX_RUNS, description="The most to show.")] = 1000,
) -> list[runs.RunModel]:
    """The newest runs that have ended, oldest first, also of workloads that were deleted."""
    return runs.ended_runs(core, names=name or None, limit=limit)
