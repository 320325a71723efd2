"""Routes that submit, apply and update workloads, and preview that."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import Field

from wharfinger.errors import InvalidInput, InvalidManifest
from wharfinger.manifest import (
    load_manifests,
    load_manifests_with_warnings,
    workload_to_manifest,
)
from wharfinger.model.decisions import ReasonCode, Stage
from wharfinger.model.workload import Workload
from wharfinger.runtime.requests import (
    Acknowledgement,
    RequestOutcome,
    check_update,
)
from wharfinger.service import workloads as shown
from wharfinger.service.changes import FieldChange, changes
from wharfinger.service.driver import Driver
from wharfinger.service.explanations import DecisionModel, decision
from wharfinger.service.models import ApiModel, former_key
from wharfinger.service.outlooks import OutlookModel, foreseen_miss, outlook_of
from wharfinger.service.reference import MANIFEST
from wharfinger.service.routing import TheDriver, may_fail, read_body

router = APIRouter(tags=["workloads"])

MAX_PATCH_DEPTH = 32


# --- what the routes are given ------------------------------------------------------------------


def _takes(description: str, schema: dict[str, Any], *kinds: str) -> dict[str, Any]:
    """For the OpenAPI document: the body that a route reads itself, by kind."""
    content = {f"application/{kind}": {"schema": schema} for kind in kinds}
    return {"requestBody": {"required": True, "description": description, "content": content}}


_TAKES_MANIFESTS = _takes(
    "Manifests, at most 4 MiB; YAML may hold several documents.", MANIFEST, "json", "yaml"
)
_TAKES_PATCH = _takes(
    "JSON merge patch (RFC 7396) of the manifest.", {"type": "object"}, "merge-patch+json"
)


@dataclass(frozen=True, slots=True)
class _ManifestBody:
    """Manifests in a request's body, and how to read them."""

    request: Request
    working_directory: Annotated[
        str,
        Query(
            max_length=4096,
            pattern=r"^/[^\x00]*$",
            description="Absolute; what `workingDir` is relative to.",
        ),
    ] = "/"
    source: Annotated[
        str, Query(max_length=4096, description="What messages call the manifest.")
    ] = "<request>"

    async def read(self) -> tuple[tuple[Workload, ...], Mapping[str, tuple[str, ...]]]:
        """The workloads, and warnings by name."""
        body, directory = await read_body(self.request), self.working_directory
        # In a thread: a large manifest must not keep the manager from what is due.
        load = partial(
            load_manifests_with_warnings, source=self.source, working_directory=directory
        )
        return await asyncio.to_thread(load, body)


_Body = Annotated[_ManifestBody, Depends()]
_DryRun = Annotated[bool, Query(description="Decide, and take nothing in.")]


# --- submitting and changing ------------------------------------------------------------------


class Submission(ApiModel):
    """What became of one submitted workload; for a dry run, what would."""

    name: str
    outcome: RequestOutcome
    run: int = Field(description="Which run of this name it is, from 1.")
    warnings: list[str] = Field(
        description="What of the manifest has no effect here or is expected to be missed, and why."
    )
    changes: list[FieldChange] | None = Field(
        default=None, description="For a dry run: what would differ from the workload that exists."
    )
    decisions: list[DecisionModel] | None = Field(
        default=None, description="For a dry run: what would be decided, as if it came alone."
    )
    outlook: OutlookModel | None = Field(
        default=None,
        description="For a dry run: what it would get now, how sure that is, and what else it "
        "could get; `null` = it has its place.",
    )
    created: bool = former_key("outcome", "created")


class UpdatePreview(ApiModel):
    """What an update would do."""

    name: str
    changes: list[FieldChange] = Field(description="Empty = it is so already.")
    decisions: list[DecisionModel] = Field(description="What would be decided on it.")
    outlook: OutlookModel | None = Field(
        description="What it would get if it were placed now; `null` = it has its place."
    )


_SUBMITTED: dict[int | str, dict[str, Any]] = {
    200: {"model": list[Submission], "description": "Nothing was new, or it was a dry run."},
    **may_fail(400, 409, 413, 503, 507),
}


@router.post("/v1/workloads", status_code=201, openapi_extra=_TAKES_MANIFESTS, responses=_SUBMITTED)
async def submit_workloads(
    body: _Body,
    response: Response,
    driver: TheDriver,
    dry_run: _DryRun = False,
    once: Annotated[
        bool, Query(description="Start no new run of one that has ended: so a client may repeat.")
    ] = False,
) -> list[Submission]:
    """Submit workloads, all or none. Acknowledged means on disk.

    One that has ended runs again; the same as one that has not ended is no error.
    """
    (workloads, warnings), runtime = await body.read(), driver.runtime
    ask = runtime.check if dry_run else runtime.submit
    taken = driver.request(lambda: ask(workloads, once=once))
    return await _submissions(driver, response, workloads, warnings, taken, dry_run=dry_run)


@router.put("/v1/workloads", status_code=201, openapi_extra=_TAKES_MANIFESTS, responses=_SUBMITTED)
async def apply_workloads(
    body: _Body, response: Response, driver: TheDriver, dry_run: _DryRun = False
) -> list[Submission]:
    """Create, update or replace workloads, all or none, so that they are as stated."""
    (workloads, warnings), runtime = await body.read(), driver.runtime
    taken = driver.request(lambda: runtime.apply(workloads, dry_run=dry_run))
    return await _submissions(driver, response, workloads, warnings, taken, dry_run=dry_run)


_NO_PREVIEW: Mapping[str, None] = {"changes": None, "decisions": None, "outlook": None}


async def _submissions(
    driver: Driver,
    response: Response,
    workloads: Sequence[Workload],
    warnings: Mapping[str, tuple[str, ...]],
    taken: Sequence[Acknowledgement],
    *,
    dry_run: bool,
) -> list[Submission]:
    if dry_run or not any(one.created for one in taken):
        response.status_code = 200
    made, now = list[Submission](), asyncio.get_running_loop().time
    until = now() + FORESEES_SECONDS
    for workload, acknowledged in zip(workloads, taken, strict=True):
        told = [] if dry_run else _not_kept(driver, workload)
        if not (dry_run or told) and now() < until:
            told = await _foreseen(driver, workload, until - now())
        warned = [*warnings.get(workload.name, ()), *told]
        shown = await _preview(driver, workload) if dry_run else _NO_PREVIEW
        made.append(Submission.of(acknowledged, warnings=warned, **shown))
    return made


FORESEES_SECONDS = 1.0
"""So long an answer waits, in all, for what can be foreseen of its workloads."""


async def _foreseen(driver: Driver, workload: Workload, seconds: float) -> list[str]:
    """That its target can't be kept, where its program was measured before."""
    try:
        miss = await asyncio.wait_for(foreseen_miss(driver.runtime, workload), seconds)
    except TimeoutError:
        return []
    # Meanwhile it may have been placed.
    return [miss] if miss else _not_kept(driver, workload)


_NOT_KEPT = frozenset({ReasonCode.WILL_MISS, ReasonCode.NO_SLACK})


def _not_kept(driver: Driver, workload: Workload) -> list[str]:
    """What is known at once not to be kept: of its target, or of how it may wait.

    That is told by the newest decision, or by its admission; a dry run shows all of them.
    """
    record = driver.runtime.manager.state.workloads.get(workload.name)
    if record is None:
        return []
    made = [each.decision for each in record.decisions if each.time >= record.submitted_at]
    told = [*made[-1:], *(each for each in made if each.stage is Stage.ADMISSION)]
    return [each.message for each in told if each.reason in _NOT_KEPT][:1]


async def _preview(driver: Driver, workload: Workload) -> dict[str, Any]:
    """What would differ, what would be decided, and with what outlook."""
    core, now = driver.runtime.manager, driver.runtime.now()
    existing = core.state.workloads.get(workload.name)
    return {
        "changes": None if existing is None else changes(existing.workload, workload),
        "decisions": list(map(decision, core.preview(workload, now))),
        "outlook": await outlook_of(driver.runtime, workload),
    }


@router.put(
    "/v1/workloads/{name}",
    openapi_extra=_TAKES_MANIFESTS,
    responses=may_fail(400, 404, 409, 413, 503, 507),
)
async def replace_workload(
    name: str, body: _Body, driver: TheDriver, dry_run: _DryRun = False
) -> shown.WorkloadModel | UpdatePreview:
    """Change what a live workload must reach or may use, by its whole manifest.

    An array's name means all its members, and the answer is the first's.
    """
    workloads, _ = await body.read()
    names = {w.name if w.array is None else w.array.name for w in workloads}
    if names != {name} or (len(workloads) > 1 and workloads[0].array is None):
        there = ", ".join(map(repr, sorted(names)[:3]))
        raise InvalidInput(f"the manifest is of {there}; an update takes one, of {name!r}")
    return await _update(driver, workloads, dry_run=dry_run)


@router.patch(
    "/v1/workloads/{name}",
    openapi_extra=_TAKES_PATCH,
    responses=may_fail(400, 404, 409, 413, 503, 507),
)
async def patch_workload(
    name: str, request: Request, driver: TheDriver, dry_run: _DryRun = False
) -> shown.WorkloadModel | UpdatePreview:
    """Change what a live workload must reach or may use, by what is to be different.

    An array's name means all its members, and the answer is the first's.
    """
    patch = _parse_patch(await read_body(request))
    members = driver.runtime.manager.members(name)
    workloads = [_patched(record.workload, patch) for record in members]
    return await _update(driver, workloads, dry_run=dry_run)


def _patched(workload: Workload, patch: dict[str, Any]) -> Workload:
    manifest = json.dumps(_merged(workload_to_manifest(workload, redact=False), patch))
    try:
        changed, *others = load_manifests(manifest, source="update", working_directory="/")
    except InvalidManifest as error:
        # The line is one of a document that the user never saw.
        problems = [problem.replace("update:1: ", "") for problem in error.problems]
        raise InvalidManifest(problems) from None
    if changed.name != workload.name or others:
        raise InvalidInput(f"the patch makes it {changed.name!r}; a workload keeps its name")
    return replace(changed, array=workload.array)


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


def _parse_patch(body: bytes) -> dict[str, Any]:
    try:
        patch = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"the patch is not JSON: {error}") from None
    if not isinstance(patch, dict):
        mend = 'write what is to change, e.g. {"spec": {"priority": 5}}'
        raise InvalidInput(f"the patch is not a JSON object; {mend}")
    return patch


async def _update(
    driver: Driver, workloads: Sequence[Workload], *, dry_run: bool
) -> shown.WorkloadModel | UpdatePreview:
    runtime, first = driver.runtime, workloads[0]
    for workload in workloads:
        # All before the first is changed.
        check_update(runtime.manager, workload)
    if dry_run:
        return UpdatePreview(name=first.name, **await _preview(driver, first))
    for workload in workloads:
        driver.request(partial(runtime.update, workload))
    return shown.workload(runtime.manager.find(first.name), runtime.now())
