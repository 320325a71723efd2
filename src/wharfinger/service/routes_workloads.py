"""Routes that submit, show, change and stop workloads."""

import asyncio
import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, TypeAlias

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import Field

from wharfinger.core.lifecycle import ENDED, Phase
from wharfinger.core.state import WorkloadRecord
from wharfinger.engines.base import LogChunk, Usage
from wharfinger.errors import InvalidInput, InvalidManifest, NotFound
from wharfinger.manifest import load_manifests, workload_to_manifest
from wharfinger.model.workload import Workload
from wharfinger.service import workloads as shown
from wharfinger.service.driver import Driver
from wharfinger.service.explanations import DecisionModel, Explanation, decision, explanation
from wharfinger.service.models import ApiModel
from wharfinger.service.routing import TheCore, TheDriver, WaitSeconds, may_fail, read_body

router = APIRouter(tags=["workloads"])

MAX_LOG_BYTES = 1024**2
MAX_PATCH_DEPTH = 32
LOG_POLL_SECONDS = 0.1

_GROUPS = {"ended": ENDED, "live": frozenset(Phase) - ENDED}
"""Words for several phases at once."""
_RUN = frozenset({Phase.RUNNING, Phase.ADJUSTING, Phase.SUSPENDED, Phase.MIGRATING})
"""Phases in which there is a program that may be measured."""


# --- what the routes are given ------------------------------------------------------------------


def _takes(description: str, **types: str) -> dict[str, Any]:
    """For the OpenAPI document: the body that a route reads itself, by kind."""
    content = {f"application/{kind}": {"schema": {"type": name}} for kind, name in types.items()}
    return {"requestBody": {"required": True, "description": description, "content": content}}


_TAKES_MANIFESTS = _takes(
    "Manifests, at most 4 MiB; see `wharfinger schema`.", yaml="string", json="object"
)
_TAKES_PATCH = _takes(
    "JSON merge patch (RFC 7396) of the manifest.", **{"merge-patch+json": "object"}
)


@dataclass(frozen=True, slots=True)
class _ManifestBody:
    """Manifests in a request's body, and how to read them."""

    request: Request
    working_directory: Annotated[
        str, Query(max_length=4096, description="Absolute; what `workingDir` is relative to.")
    ] = "/"
    source: Annotated[
        str, Query(max_length=4096, description="What messages call the manifest.")
    ] = "<request>"

    async def workloads(self) -> tuple[Workload, ...]:
        directory = self.working_directory
        if not directory.startswith("/") or "\0" in directory:
            raise InvalidInput(f"working_directory: {directory!r}: write an absolute path")
        body = await read_body(self.request)
        # In a thread: a large manifest must not keep the manager from what is due.
        read = partial(load_manifests, source=self.source, working_directory=directory)
        return await asyncio.to_thread(read, body)


async def _find(name: str, core: TheCore) -> WorkloadRecord:
    return core.find(name)


_Words: TypeAlias = list[str] | None
_Body = Annotated[_ManifestBody, Depends()]
_Record = Annotated[WorkloadRecord, Depends(_find)]


# --- submitting and changing ------------------------------------------------------------------


class Submission(ApiModel):
    """What became of one submitted workload."""

    name: str
    created: bool = Field(description="`false` = the same was submitted before.")
    decisions: list[DecisionModel] | None = Field(
        default=None, description="For a dry run: what would be decided, as if it came alone."
    )


class Deletion(ApiModel):
    """What a deletion did."""

    name: str
    outcome: str = Field(description="`stopping`, its record stays; or `deleted`, with its record.")


@router.post(
    "/v1/workloads",
    status_code=201,
    openapi_extra=_TAKES_MANIFESTS,
    responses={
        200: {"model": list[Submission], "description": "Nothing was new."},
        **may_fail(400, 409, 413, 503, 507),
    },
)
async def submit_workloads(
    body: _Body,
    response: Response,
    driver: TheDriver,
    dry_run: Annotated[bool, Query(description="Decide, and take nothing in.")] = False,
) -> list[Submission]:
    """Submit workloads, all or none. Acknowledged means on disk; the same again is no error."""
    workloads = await body.workloads()
    if dry_run:
        submissions = [_preview(driver, workload) for workload in workloads]
    else:
        taken = driver.request(lambda: driver.runtime.submit(workloads))
        submissions = [Submission(name=one.name, created=one.created) for one in taken]
    if dry_run or not any(one.created for one in submissions):
        response.status_code = 200
    return submissions


@router.put(
    "/v1/workloads/{name}",
    openapi_extra=_TAKES_MANIFESTS,
    responses=may_fail(400, 404, 409, 413, 507),
)
async def replace_workload(name: str, body: _Body, driver: TheDriver) -> shown.WorkloadModel:
    """Change what a live workload must reach or may use, by its whole manifest."""
    return _update(driver, name, await body.workloads())


@router.patch(
    "/v1/workloads/{name}", openapi_extra=_TAKES_PATCH, responses=may_fail(400, 404, 409, 413, 507)
)
async def patch_workload(name: str, request: Request, driver: TheDriver) -> shown.WorkloadModel:
    """Change what a live workload must reach or may use, by what is to be different."""
    patch = _parse_patch(await read_body(request))
    workload = driver.runtime.manager.find(name).workload
    manifest = json.dumps(_merged(workload_to_manifest(workload, redact=False), patch))
    try:
        workloads = load_manifests(manifest, source="update", working_directory="/")
    except InvalidManifest as error:
        # The line is one of a document that the user never saw.
        problems = [problem.replace("update:1: ", "") for problem in error.problems]
        raise InvalidManifest(problems) from None
    return _update(driver, name, workloads)


@router.delete("/v1/workloads/{name}", responses=may_fail(404, 507))
async def delete_workload(name: str, driver: TheDriver) -> Deletion:
    """Stop a live workload; drop an ended one's record and output."""
    outcome = driver.request(lambda: driver.runtime.delete(name))
    return Deletion(name=name, outcome=outcome)


def _merged(document: Any, patch: Any, depth: int = 0) -> Any:
    """A document with a JSON merge patch (RFC 7396) applied; ``None`` removes a field.

    >>> _merged({"a": 1, "b": {"c": 2}}, {"b": {"c": None, "d": 3}})
    {'a': 1, 'b': {'d': 3}}
    """
    if depth > MAX_PATCH_DEPTH:
        raise InvalidInput(f"the patch has more than {MAX_PATCH_DEPTH} levels; no manifest does")
    if not isinstance(patch, dict):
        return patch
    result = dict(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), value, depth + 1)
    return result


def _preview(driver: Driver, workload: Workload) -> Submission:
    manager = driver.runtime.manager
    created = manager.check_submission(workload)
    decisions = [decision(made) for made in manager.preview(workload, driver.runtime.now())]
    return Submission(name=workload.name, created=created, decisions=decisions)


def _parse_patch(body: bytes) -> dict[str, Any]:
    try:
        patch = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"the patch is not JSON: {error}") from None
    if not isinstance(patch, dict):
        mend = 'write what is to change, e.g. {"spec": {"priority": 5}}'
        raise InvalidInput(f"the patch is not a JSON object; {mend}")
    return patch


def _update(driver: Driver, name: str, workloads: Sequence[Workload]) -> shown.WorkloadModel:
    if len(workloads) != 1 or workloads[0].name != name:
        names = ", ".join(repr(workload.name) for workload in workloads[:3])
        raise InvalidInput(f"the manifest is of {names}; an update takes one, of {name!r}")
    runtime = driver.runtime
    driver.request(lambda: runtime.update(workloads[0]))
    return shown.workload(runtime.manager.find(name), runtime.now())


# --- looking ------------------------------------------------------------------------------------


@router.get("/v1/workloads", responses=may_fail(400))
async def list_workloads(
    driver: TheDriver,
    core: TheCore,
    name: Annotated[_Words, Query(description="Only these; repeatable.")] = None,
    phase: Annotated[_Words, Query(description="A phase, `ended` or `live`; repeatable.")] = None,
    label: Annotated[_Words, Query(description="A label, `key=value`; repeatable.")] = None,
) -> list[shown.WorkloadModel]:
    """Workloads, in the order of submission."""
    phases, labels = _phases(phase or []), dict(map(_label, label or []))
    names = None if name is None else dict.fromkeys(name)
    for wanted in names or ():
        core.find(wanted)
    now = driver.runtime.now()
    return [
        shown.workload(record, now)
        for record in core.state.workloads.values()
        if (names is None or record.name in names)
        and record.phase in phases
        and labels.items() <= record.workload.labels.items()
    ]


def _phases(words: Sequence[str]) -> frozenset[Phase]:
    groups = {**_GROUPS, **{phase.value: frozenset({phase}) for phase in Phase}}
    for word in words:
        if word not in groups:
            raise InvalidInput(f"phase: {word[:80]!r} is unknown; there are {', '.join(groups)}")
    return frozenset().union(*(groups[word] for word in words)) if words else frozenset(Phase)


def _label(given: str) -> tuple[str, str]:
    key, equals, value = given.partition("=")
    if not equals or not key:
        raise InvalidInput(f"label: {given[:80]!r}: write key=value")
    return key, value


@router.get("/v1/usage", responses=may_fail())
async def list_usage(driver: TheDriver, core: TheCore) -> list[shown.UsageModel]:
    """What every running workload uses."""
    return _usage(driver, core.state.workloads.values())


@router.get("/v1/workloads/{name}", responses=may_fail(404))
async def get_workload(record: _Record, driver: TheDriver) -> shown.WorkloadDetail:
    """One workload with all that is known of it."""
    return shown.workload_detail(record, driver.runtime.now(), _used(driver, record))


@router.get("/v1/workloads/{name}/usage", responses=may_fail(404))
async def get_usage(record: _Record, driver: TheDriver) -> shown.UsageModel:
    """What one running workload uses."""
    for used in _usage(driver, [record]):
        return used
    raise NotFound(f"workload {record.name!r} does not run ({record.phase})")


@router.get("/v1/workloads/{name}/explain", responses=may_fail(404))
async def explain_workload(record: _Record, driver: TheDriver, core: TheCore) -> Explanation:
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
        if record.key in used or record.phase in _RUN
    ]


# --- output -------------------------------------------------------------------------------------


def _header(kind: str, description: str) -> dict[str, Any]:
    return {"description": description, "schema": {"type": kind}}


@router.get(
    "/v1/workloads/{name}/log",
    response_class=Response,
    responses={
        200: {
            "description": "The bytes as the program wrote them.",
            "content": {"application/octet-stream": {}},
            "headers": {
                "Wharfinger-Next-Offset": _header("integer", "Where to go on reading."),
                "Wharfinger-Ended": _header(
                    "boolean", "`true` = the program has ended; with no bytes, that was all."
                ),
            },
        },
        **may_fail(400, 404),
    },
)
async def read_log(
    name: str,
    request: Request,
    driver: TheDriver,
    offset: Annotated[
        int, Query(ge=-64 * MAX_LOG_BYTES, le=2**62, description="Negative = from the end.")
    ] = 0,
    limit_bytes: Annotated[int, Query(ge=1, le=MAX_LOG_BYTES)] = 65536,
    wait_seconds: WaitSeconds = 0.0,
) -> Response:
    """A piece of a workload's output."""
    deadline = time.monotonic() + wait_seconds
    chunk = _chunk(driver, name, offset, limit_bytes)
    while not (chunk.data or chunk.ended or driver.stopping) and time.monotonic() < deadline:
        if await request.is_disconnected():
            break
        await asyncio.sleep(LOG_POLL_SECONDS)
        chunk = _chunk(driver, name, chunk.next_offset, limit_bytes)
    headers = {
        "wharfinger-next-offset": str(chunk.next_offset),
        "wharfinger-ended": str(chunk.ended).lower(),
        "x-content-type-options": "nosniff",
    }
    return Response(chunk.data, media_type="application/octet-stream", headers=headers)


def _chunk(driver: Driver, name: str, offset: int, limit_bytes: int) -> LogChunk:
    """Nothing where the program was never started."""
    record = driver.runtime.manager.find(name)
    try:
        return driver.runtime.engine.read_log(record.key, offset, limit_bytes)
    except NotFound:
        return LogChunk(b"", max(0, offset), record.ended)
