"""Routes that show workloads, and stop, suspend and start them again."""

import time
from collections.abc import Iterable, Sequence
from typing import Annotated, TypeAlias

from fastapi import APIRouter, Query
from pydantic import Field

from wharfinger.core.lifecycle import ENDED, Phase
from wharfinger.core.state import WorkloadRecord
from wharfinger.engines.base import Usage
from wharfinger.errors import NotFound
from wharfinger.service import workloads as shown
from wharfinger.service.driver import Driver
from wharfinger.service.explanations import Explanation, explanation
from wharfinger.service.models import ApiModel
from wharfinger.service.routing import OneOf, TheCore, TheDriver, TheRecord, may_fail

router = APIRouter(tags=["workloads"])

_GROUPS = {"ended": ENDED, "live": frozenset(Phase) - ENDED}
"""Words for several phases at once."""
_Phases: TypeAlias = list[Annotated[str, OneOf((*Phase, *_GROUPS))]]


# --- looking ------------------------------------------------------------------------------------


@router.get("/v1/workloads", responses=may_fail(400))
async def list_workloads(
    driver: TheDriver,
    core: TheCore,
    name: Annotated[
        list[str], Query(description="Only these, or members of these arrays; repeatable.")
    ] = [],  # noqa: B006 - FastAPI copies it
    phase: Annotated[_Phases, Query(description="Only in one of these; repeatable.")] = [],  # noqa: B006 - FastAPI copies it
    label: Annotated[
        list[Annotated[str, Field(pattern="^[^=]+=")]],
        Query(description="Only with this label, `key=value`; repeatable."),
    ] = [],  # noqa: B006 - FastAPI copies it
) -> list[shown.WorkloadModel]:
    """Workloads, in the order of submission."""
    labels = [tuple(given.split("=", 1)) for given in label]
    phases = _phases(phase)
    members = [one for each in name for one in core.members(each)] if name else None
    names = None if members is None else {record.name for record in members}
    now = driver.runtime.now()
    return [
        shown.workload(record, now)
        for record in core.state.workloads.values()
        if (names is None or record.name in names)
        and record.phase in phases
        and record.workload.labels.items() >= set(labels)
    ]


def _phases(words: Sequence[str]) -> frozenset[Phase]:
    groups = {**_GROUPS, **{phase.value: frozenset({phase}) for phase in Phase}}
    return frozenset().union(*(groups[word] for word in words)) if words else frozenset(Phase)


@router.get("/v1/usage", responses=may_fail())
async def list_usage(driver: TheDriver, core: TheCore) -> list[shown.UsageModel]:
    """What every running workload uses."""
    return _usage(driver, core.state.workloads.values())


@router.get("/v1/workloads/{name}", responses=may_fail(404))
async def get_workload(record: TheRecord, driver: TheDriver) -> shown.WorkloadDetail:
    """One workload with all that is known of it."""
    return shown.workload_detail(record, driver.runtime.now(), _used(driver, record))


@router.get("/v1/workloads/{name}/usage", responses=may_fail(404))
async def get_usage(record: TheRecord, driver: TheDriver) -> shown.UsageModel:
    """What one running workload uses."""
    for used in _usage(driver, [record]):
        return used
    raise NotFound(f"workload {record.name!r} does not run ({record.phase})")


@router.get("/v1/workloads/{name}/explain", responses=may_fail(404))
async def explain_workload(record: TheRecord, driver: TheDriver, core: TheCore) -> Explanation:
    """Why it is where it is, why not elsewhere, or why it waits."""
    return explanation(core, record, driver.runtime.now(), _used(driver, record))


def _used(driver: Driver, record: WorkloadRecord) -> shown.UsageModel | None:
    return next(iter(_usage(driver, [record])), None) if record.on_server else None


def _usage(driver: Driver, records: Iterable[WorkloadRecord]) -> list[shown.UsageModel]:
    runtime, nothing = driver.runtime, Usage(None, None)
    used, measured_at = runtime.engine.usage(), time.monotonic()
    return [
        shown.usage(
            runtime.manager, record, used.get(record.key, nothing), measured_at, runtime.now()
        )
        for record in records
        if record.key in used or record.phase in shown.HAS_PROGRAM
    ]


# --- stopping and going on ----------------------------------------------------------------------


class StateChange(ApiModel):
    """What was asked of a workload, or of all members of an array."""

    name: str
    outcome: str = Field(description="Stable word, e.g. `stopping`.")


@router.delete("/v1/workloads/{name}", responses=may_fail(404, 503, 507))
async def delete_workload(name: str, driver: TheDriver) -> StateChange:
    """Stop what lives (`stopping`), and drop its record and output then; or now (`deleted`)."""
    outcome = driver.request(lambda: driver.runtime.delete(name))
    return StateChange(name=name, outcome=outcome)


@router.post("/v1/workloads/{name}/stop", responses=may_fail(404, 503, 507))
async def stop_workload(name: str, driver: TheDriver) -> StateChange:
    """Stop what lives (`stopping`), and keep its record and output; or nothing (`ended`)."""
    outcome = driver.request(lambda: driver.runtime.stop(name))
    return StateChange(name=name, outcome=outcome)


@router.post("/v1/workloads/{name}/restart", responses=may_fail(404, 409, 503, 507))
async def restart_workload(name: str, driver: TheDriver) -> StateChange:
    """Stop its program and start it again (`restarting`); what has ended `runs-again`."""
    outcome = driver.request(lambda: driver.runtime.restart(name))
    return StateChange(name=name, outcome=outcome)


@router.post("/v1/workloads/{name}/suspend", responses=may_fail(404, 409, 503, 507))
async def suspend_workload(name: str, driver: TheDriver) -> StateChange:
    """Give it no CPU time, or, while it waits, no place, until it is resumed."""
    driver.request(lambda: driver.runtime.suspend(name))
    return StateChange(name=name, outcome="suspended")


@router.post("/v1/workloads/{name}/resume", responses=may_fail(404, 409, 503, 507))
async def resume_workload(name: str, driver: TheDriver) -> StateChange:
    """End its suspension."""
    driver.request(lambda: driver.runtime.resume(name))
    return StateChange(name=name, outcome="resumed")
