"""Errors as answers: one JSON form, the right status, never a traceback.

``install`` is called once by ``app.py``. A fault of our own is logged with its traceback by
the manager and answered without.
"""

import logging

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from wharfinger import errors
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
)
_BY_STATUS = {401: "unauthorized", 404: "not-found", 405: "method-not-allowed", 413: "too-large"}


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
    detail = ErrorDetail(
        code=code,
        message=message,
        retryable=retryable,
        problems=None if problems is None else list(problems),
    )
    content = ErrorAnswer(error=detail).model_dump(exclude_none=True)
    return JSONResponse(content, status, headers=headers)


async def read_body(request: Request) -> bytes:
    """The request's body, given up as soon as it is too large.

    Raises:
        HTTPException: 413, before more of it is read.
    """
    declared = request.headers.get("content-length", "0")
    body = bytearray()
    if int(declared) <= MAX_BODY_BYTES:
        async for piece in request.stream():
            body += piece
            if len(body) > MAX_BODY_BYTES:
                break
        else:
            return bytes(body)
    raise HTTPException(
        413, f"the body is larger than {MAX_BODY_BYTES} bytes; hand it in in smaller pieces"
    )


async def _known(_request: Request, error: Exception) -> JSONResponse:
    status, code = next(
        ((status, code) for kind, status, code in _BY_ERROR if isinstance(error, kind)),
        (503, "unavailable"),
    )
    return answer(
        status,
        code,
        str(error),
        retryable=getattr(error, "retryable", False),
        problems=getattr(error, "problems", None),
    )


async def _http(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    code = _BY_STATUS.get(error.status_code, "invalid-input")
    # What is left of a body that is too large is never read.
    headers = {"connection": "close"} if error.status_code == 413 else {}
    return answer(
        error.status_code, code, str(error.detail), headers={**(error.headers or {}), **headers}
    )


async def _invalid_query(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    problems = "; ".join(
        f"{'.'.join(map(str, problem['loc']))}: {str(problem.get('input'))[:80]!r}: "
        f"{problem['msg']}"
        for problem in error.errors()
    )
    return answer(400, "invalid-input", problems)


async def _disconnected(_request: Request, _error: Exception) -> JSONResponse:
    return answer(400, "invalid-input", "the request ended before its body did")


async def _unexpected(request: Request, error: Exception) -> JSONResponse:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return answer(500, "internal", "a fault of the manager; its own output says more")


def install(app: FastAPI) -> None:
    """Give every error of the app the one form."""
    app.add_exception_handler(errors.WharfingerError, _known)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _invalid_query)
    app.add_exception_handler(ClientDisconnect, _disconnected)
    app.add_exception_handler(Exception, _unexpected)
