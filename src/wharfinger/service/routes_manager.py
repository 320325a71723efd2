"""Routes that show the manager itself and its metrics, describe its API, and stop it."""

import os

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from wharfinger import __version__
from wharfinger.errors import Unavailable
from wharfinger.service import cluster, reference
from wharfinger.service.models import ApiModel, Timestamp, span_seconds
from wharfinger.service.routing import TheCore, TheDriver, TheProcess, may_fail

router = APIRouter(tags=["manager"])


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


@router.get("/v1/status", responses=may_fail())
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


@router.get("/healthz", response_class=Response)
async def get_health() -> Response:
    """Whether the manager answers."""
    return Response("ok\n", media_type="text/plain")


@router.get("/metrics", response_class=Response)
async def get_metrics(driver: TheDriver, core: TheCore, process: TheProcess) -> Response:
    """Metrics in Prometheus' text format."""
    # Here and not above: a manager that is not scraped starts without it.
    from wharfinger.service import metrics  # noqa: PLC0415

    store = driver.runtime.store
    collector = metrics.ManagerCollector(
        core,
        usage=driver.runtime.engine.usage(),
        last_sequence=store.last_sequence,
        room_bytes=store.room_bytes(),
        start_time=process.started_at,
        now=driver.runtime.now(),
    )
    return Response(metrics.render(collector), headers={"content-type": metrics.CONTENT_TYPE})


class StopRequest(BaseModel):
    """What else to stop."""

    model_config = ConfigDict(extra="forbid", strict=True)

    workloads: bool = Field(default=False, description="All live workloads, and wait for them.")


class Stopping(ApiModel):
    """A manager that is about to end."""

    name: str
    pid: int = Field(description="Its process, which ends after this answer.")
    workloads: list[str] = Field(description="These are stopped; it ends when they have ended.")


@router.post("/v1/stop", status_code=202, responses=may_fail(400, 503, 507))
async def stop_manager(driver: TheDriver, wanted: StopRequest | None = None) -> Stopping:
    """Stop the manager, after this answer. What runs goes on, or is stopped before if asked."""
    names = []
    if wanted is not None and wanted.workloads:
        names = driver.stop_all()
    else:
        driver.stop()
    return Stopping(name="wharfinger", pid=os.getpid(), workloads=names)


@router.get("/openapi.json", include_in_schema=False)
async def get_openapi(request: Request) -> Response:
    """The API's description."""
    return Response(reference.document_of(request.app), media_type="application/json")


@router.get("/docs", include_in_schema=False)
async def get_reference(request: Request) -> Response:
    """The same for people."""
    return Response(reference.page_of(request.app), media_type="text/html")
