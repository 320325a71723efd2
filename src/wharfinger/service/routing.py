"""What all routes share: the manager that they ask, the body they read, errors in one JSON form.

``install`` is called once by ``server.py``. A fault of our own is logged with its traceback by the
manager and answered without.
"""

import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, cast

from fastapi import Depends, FastAPI, Query, Request
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic_core import CoreSchema, core_schema
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from wharfinger import errors
from wharfinger.core.pipeline import Core
from wharfinger.core.state import WorkloadRecord
from wharfinger.service.driver import Driver
from wharfinger.service.models import ErrorAnswer, ErrorDetail

log = logging.getLogger(__name__)

MAX_BODY_BYTES = 4 * 1024**2

_BY_ERROR: tuple[tuple[type[Exception], int, str], ...] = (
    # The first that matches counts, so the special stand before the general.
    (errors.InvalidManifest, 400, "invalid-manifest"),
    (errors.InvalidInput, 400, "invalid-input"),
    (errors.Conflict, 409, "conflict"),
    (errors.NotFound, 404, "not-found"),
    (errors.OutOfSpace, 507, "out-of-space"),
    (errors.Unavailable, 503, "unavailable"),
    (errors.StoreDamaged, 503, "store-damaged"),
    (errors.EngineFault, 503, "engine-fault"),
    (errors.WharfingerError, 503, "unavailable"),
)
_BY_STATUS = {401: "unauthorized", 404: "not-found", 405: "method-not-allowed", 413: "too-large"}


@dataclass(frozen=True, slots=True)
class ManagerProcess:
    """What ``/v1/status`` shows that is not in the log; it took over at ``started_at``."""

    state_directory: Path
    started_at: float


@dataclass(frozen=True, slots=True)
class OneOf:
    """In ``Annotated[str, OneOf(words)]``: only these words, which errors and OpenAPI list."""

    words: Iterable[str]

    def __get_pydantic_core_schema__(self, _source: object, _handler: object) -> CoreSchema:
        """A choice of literals."""
        return core_schema.literal_schema([str(word) for word in self.words])


# Coroutines, or FastAPI would run them in a thread of their own.
async def _driver(request: Request) -> Driver:
    return cast("Driver", request.app.state.driver)


async def _core(request: Request) -> Core:
    return (await _driver(request)).runtime.manager


async def _process(request: Request) -> ManagerProcess:
    return cast("ManagerProcess", request.app.state.process)


async def check_query(request: Request) -> None:
    """Refuse parameters of the query that the route does not have: a misspelt one does nothing."""
    known = _parameters(request.scope["route"].dependant)
    for name in request.query_params:
        if name not in known:
            there_are = f"there are {', '.join(known)}" if known else "there are none here"
            near = get_close_matches(_WORD.sub("_", name[:80]).lower(), known, 1)
            mend = f"did you mean {near[0]}? " if near else ""
            raise errors.InvalidInput(f"query: no parameter {name[:80]!r}; {mend}{there_are}")


_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])|-")
"""Where a word begins in names of other styles than ours."""


def _parameters(dependant: Dependant) -> list[str]:
    names = [parameter.alias for parameter in dependant.query_params]
    return names + [name for part in dependant.dependencies for name in _parameters(part)]


async def _record(name: str, request: Request) -> WorkloadRecord:
    core = await _core(request)
    record = core.state.workloads.get(name)
    if record is not None:
        return record
    members = core.members(name)
    first = f"name one of its members, e.g. {members[0].name!r}"
    raise errors.NotFound(f"{name!r} is an array of {len(members)} workloads; {first}")


WaitSeconds = Annotated[float, Query(ge=0, le=30, description="Wait so long for something new.")]
TheDriver = Annotated[Driver, Depends(_driver)]
TheCore = Annotated[Core, Depends(_core)]
TheRecord = Annotated[WorkloadRecord, Depends(_record)]
"""One workload, by the ``name`` in the path; 404 says so where that is an array's."""
TheProcess = Annotated[ManagerProcess, Depends(_process)]


async def read_body(request: Request) -> bytes:
    """The request's body; ``HTTPException`` 413 as soon as it is too large."""
    body = bytearray()
    if int(request.headers.get("content-length", "0")) <= MAX_BODY_BYTES:
        async for piece in request.stream():
            body += piece
            if len(body) > MAX_BODY_BYTES:
                break
        else:
            return bytes(body)
    raise HTTPException(413, f"the body is larger than {MAX_BODY_BYTES} bytes; submit less at once")


def may_fail(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For the OpenAPI document: which errors a route answers with, all in one form."""
    return {status: {"model": ErrorAnswer} for status in statuses} | {
        "default": {"model": ErrorAnswer, "description": "Any other error."}
    }


def header(kind: str, description: str) -> dict[str, Any]:
    """For the OpenAPI document: a header of an answer."""
    return {"description": description, "schema": {"type": kind}}


def answer(
    status: int,
    code: str,
    message: str,
    *,
    retryable: bool = False,
    problems: tuple[str, ...] | None = None,
    headers: dict[str, str] | None = None,
) -> JSONResponse:
    """An error in the API's one form."""
    listed = None if problems is None else list(problems)
    detail = ErrorDetail(code=code, message=message, retryable=retryable, problems=listed)
    content = ErrorAnswer(error=detail).model_dump(exclude_none=True)
    return JSONResponse(content, status, headers=headers)


def install(app: FastAPI) -> None:
    """Give every error of the app the one form."""

    @app.exception_handler(errors.WharfingerError)
    async def known(_request: Request, error: Exception) -> JSONResponse:
        status, code = next(row[1:] for row in _BY_ERROR if isinstance(error, row[0]))
        retryable, problems = getattr(error, "retryable", False), getattr(error, "problems", None)
        return answer(status, code, str(error), retryable=retryable, problems=problems)

    @app.exception_handler(HTTPException)
    async def http(_request: Request, error: HTTPException) -> JSONResponse:
        code, headers = _BY_STATUS.get(error.status_code, "invalid-input"), error.headers or {}
        if error.status_code == 413:
            # What is left of a body that is too large is never read.
            headers = {**headers, "connection": "close"}
        return answer(error.status_code, code, str(error.detail), headers=dict(headers))

    @app.exception_handler(RequestValidationError)
    async def invalid_query(_request: Request, error: RequestValidationError) -> JSONResponse:
        problems = "; ".join(
            f"{'.'.join(map(str, problem['loc']))}: {str(problem.get('input'))[:80]!r}: "
            f"{problem['msg']}"
            for problem in error.errors()
        )
        return answer(400, "invalid-input", problems)

    @app.exception_handler(ClientDisconnect)
    async def disconnected(_request: Request, _error: ClientDisconnect) -> JSONResponse:
        return answer(400, "invalid-input", "the request ended before its body did")

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> JSONResponse:
        log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return answer(500, "internal", "a fault of the manager; its own output says more")
