"""Routes that show a workload's output, and run commands beside its program."""

import asyncio
import base64
import json
import os
import secrets
import time
from bisect import bisect_right
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from wharfinger.engines.base import Execution, LogChunk, LogSource
from wharfinger.errors import Conflict, InvalidInput, NotFound
from wharfinger.service.driver import Driver
from wharfinger.service.models import timestamp
from wharfinger.service.routing import TheDriver, TheRecord, WaitSeconds, header, may_fail
from wharfinger.service.workloads import HAS_PROGRAM

router = APIRouter(tags=["workloads"])

MAX_LOG_BYTES = 1024**2
LOG_POLL_SECONDS = 0.1
LOOK_SECONDS = 1.0
"""How often it is looked whether a command's client is still there."""
MAX_WORDS = 10_000


# --- output -------------------------------------------------------------------------------------


@router.get(
    "/v1/workloads/{name}/log",
    response_class=Response,
    responses={
        200: {
            "description": "The bytes as the program wrote them, or with times before its lines.",
            "content": {"application/octet-stream": {}},
            "headers": {
                "Wharfinger-Next-Offset": header("integer", "Where to go on reading."),
                "Wharfinger-Ended": header(
                    "boolean", "`true` = the workload has ended; with no bytes, that was all."
                ),
                "Wharfinger-Key": header(
                    "string", "Of the start that wrote it; offsets are those of one start."
                ),
            },
        },
        **may_fail(400, 404, 409),
    },
)
async def read_log(
    record: TheRecord,
    request: Request,
    driver: TheDriver,
    offset: Annotated[
        int, Query(ge=-64 * MAX_LOG_BYTES, le=2**62, description="Negative = from the end.")
    ] = 0,
    limit_bytes: Annotated[
        int, Query(ge=1, le=MAX_LOG_BYTES, description="The most to read; times come on top.")
    ] = 65536,
    wait_seconds: WaitSeconds = 0.0,
    source: Annotated[
        LogSource, Query(description="`load` = what its load generator says.")
    ] = "output",
    previous: Annotated[bool, Query(description="Of the start before its newest.")] = False,
    since_seconds: Annotated[
        float | None, Query(ge=0, le=1e10, description="Only what is no older; not of `load`.")
    ] = None,
    timestamps: Annotated[
        bool, Query(description="When each line was written, before it; not of `load`.")
    ] = False,
) -> Response:
    """A piece of a workload's output."""
    if source == "load" and (timestamps or since_seconds is not None):
        raise InvalidInput("source: when a load generator's output was written is not known")
    name, deadline = record.name, time.monotonic() + wait_seconds
    log = _Log(driver, name, source, previous=previous)
    if since_seconds is not None:
        offset = log.since(driver.runtime.now() - since_seconds, offset)
    chunk = log.read(offset, limit_bytes)
    while not (chunk.data or chunk.ended or driver.stopping) and time.monotonic() < deadline:
        if await request.is_disconnected():
            break
        await asyncio.sleep(LOG_POLL_SECONDS)
        former, log = log, _Log(driver, name, source, previous=previous)
        chunk = log.read(chunk.next_offset if log.key == former.key else 0, limit_bytes)
    headers = {
        "wharfinger-next-offset": str(chunk.next_offset),
        "wharfinger-ended": str(chunk.ended).lower(),
        "wharfinger-key": log.key,
        "x-content-type-options": "nosniff",
    }
    data = log.with_times(chunk) if timestamps else chunk.data
    return Response(data, media_type="application/octet-stream", headers=headers)


class _Log:
    """The output of a workload's newest start, or of the one before; ``key`` may be empty."""

    def __init__(self, driver: Driver, name: str, source: LogSource, *, previous: bool) -> None:
        self._record = driver.runtime.manager.find(name)
        self._engine = driver.runtime.engine
        self._source = source
        self._ended = previous or self._record.ended
        self.key = self._record.previous_key if previous else self._record.key
        if previous and not self.key:
            raise NotFound(f"workload {name!r}: no output of an earlier start is kept")

    def read(self, offset: int, limit_bytes: int) -> LogChunk:
        """A piece of it; nothing where the program was never started.

        It has not ended as long as its program may be started again.
        """
        try:
            chunk = self._engine.read_log(self.key, offset, limit_bytes, self._source)
        except NotFound:
            return LogChunk(b"", max(0, offset), self._ended)
        return replace(chunk, ended=chunk.ended and self._ended)

    def since(self, seconds: float, offset: int) -> int:
        """The offset, but not before what was written at that time."""
        try:
            begin = self._engine.log_offset_at(self.key, seconds)
        except NotFound:
            begin = 0
        if begin is None:
            raise self._unknown()
        if offset < 0:
            piece = self.read(offset, 1)
            offset = piece.next_offset - len(piece.data)
        return max(begin, offset)

    def with_times(self, chunk: LogChunk) -> bytes:
        """Its bytes, with the time before each line that begins in it."""
        if not chunk.data:
            return b""
        start = chunk.next_offset - len(chunk.data)
        times = self._engine.log_times(self.key, start, len(chunk.data))
        if not times:
            raise self._unknown()
        offsets = [at for at, _ in times]
        begins = start == 0 or self.read(start - 1, 1).data == b"\n"
        lines = []
        for line in chunk.data.splitlines(keepends=True):
            if begins:
                row = max(0, bisect_right(offsets, start) - 1)
                lines.append(f"{timestamp(times[row][1])} ".encode())
            lines.append(line)
            start, begins = start + len(line), line.endswith(b"\n")
        return b"".join(lines)

    def _unknown(self) -> Conflict:
        name = self._record.name
        return Conflict(f"workload {name!r}: when its output was written is not known; restart it")


# --- commands -----------------------------------------------------------------------------------


class ExecRequest(BaseModel):
    """A command."""

    model_config = ConfigDict(extra="forbid", strict=True)

    command: list[Annotated[str, Field(pattern=r"^[^\x00]*$")]] = Field(
        min_length=1, max_length=MAX_WORDS, description="The program and its arguments; no shell."
    )
    stdin: bool = Field(
        default=False,
        description="Its input follows, by `POST /v1/executions/{id}/input`; else it is empty.",
    )


@router.post(
    "/v1/workloads/{name}/exec",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": 'Lines of JSON as it goes on: with `stdin` first `{"name": "begin", '
            '"id": ID}`; `{"name": "stdout", "data": BASE64}`, or `stderr`; the last is '
            '`{"name": "end", "status": STATUS}`. Without it the manager was stopped, which ends '
            "the command.",
            "content": {"application/x-ndjson": {"schema": {"type": "string"}}},
        },
        **may_fail(400, 404, 409, 503),
    },
)
async def execute_command(
    record: TheRecord, request: Request, wanted: ExecRequest, driver: TheDriver
) -> StreamingResponse:
    """Run a command beside a workload's program: as its user, in its directory and cgroup.

    Its CPU time and memory count to the workload. It ends with the connection.
    """
    if record.phase not in HAS_PROGRAM:
        raise Conflict(f"workload {record.name!r} does not run ({record.phase})")
    execution = driver.runtime.engine.execute(record.key, wanted.command, stdin=wanted.stdin)
    name = secrets.token_urlsafe(16) if wanted.stdin else ""
    lines = _Command(execution, request, driver, name).lines()
    return StreamingResponse(lines, media_type="application/x-ndjson")


@router.post(
    "/v1/executions/{id}/input",
    status_code=204,
    openapi_extra={
        "requestBody": {
            "description": "The bytes, of any length; the command reads their end as its input's.",
            "content": {"application/octet-stream": {"schema": {"type": "string"}}},
        }
    },
    responses={
        204: {"description": "All was written, or the command reads no more."},
        **may_fail(400, 404),
    },
)
async def write_input(
    id: Annotated[str, Path(description="As the command's first line says.")],  # noqa: A002 - the parameter's name
    request: Request,
    driver: TheDriver,
) -> Response:
    """Write a command's input, once, as it comes; the command takes it at its own pace."""
    execution = driver.inputs.pop(id, None)
    if execution is None:
        raise NotFound(
            f"no command waits for the input {id[:40]!r}: it has ended, or it is written"
        )
    descriptor = execution.take_input()
    try:
        async for piece in request.stream():
            await _write(descriptor, piece)
    except BrokenPipeError:
        # The command has closed it, or ended: what is left of the body is never read.
        return Response(status_code=204, headers={"connection": "close"})
    finally:
        os.close(descriptor)
    return Response(status_code=204)


async def _write(descriptor: int, data: bytes) -> None:
    """Write all of it to a pipe; ``BrokenPipeError`` where nobody reads it any more."""
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(descriptor, left) :]
        except BlockingIOError:
            loop, ready = asyncio.get_running_loop(), asyncio.Event()
            loop.add_writer(descriptor, ready.set)
            try:
                await ready.wait()
            finally:
                loop.remove_writer(descriptor)


@dataclass(frozen=True, slots=True)
class _Command:
    """A command under way, for one client; ``name`` is that for its input, empty = it has none."""

    execution: Execution
    request: Request
    driver: Driver
    name: str = ""

    async def lines(self) -> AsyncIterator[str]:
        """All that it prints, and its end; ended before where its client is gone."""
        try:
            if self.name:
                self.driver.inputs[self.name] = self.execution
                yield json.dumps({"name": "begin", "id": self.name}) + "\n"
            streams = {self.execution.stdout: "stdout", self.execution.stderr: "stderr"}
            while streams:
                await self._readable(*streams)
                if await self._is_over():
                    return
                for descriptor, name in list(streams.items()):
                    try:
                        data = os.read(descriptor, 65536)
                    except BlockingIOError:
                        continue
                    if not data:
                        del streams[descriptor]
                        continue
                    encoded = base64.b64encode(data).decode()
                    yield json.dumps({"name": name, "data": encoded}) + "\n"
            while (status := self.execution.wait(0)) is None:
                await self._readable(self.execution.fileno())
                if await self._is_over():
                    return
            yield json.dumps({"name": "end", "status": status}) + "\n"
        finally:
            self.driver.inputs.pop(self.name, None)
            # In a thread, for it may have to be killed; not awaited, as this may be cancelled.
            asyncio.get_running_loop().run_in_executor(None, self.execution.close)

    async def _is_over(self) -> bool:
        return self.driver.stopping or await self.request.is_disconnected()

    async def _readable(self, *descriptors: int) -> None:
        """Wait until one of them is, or for a moment."""
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        for descriptor in descriptors:
            loop.add_reader(descriptor, ready.set)
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                await ready.wait()
        except TimeoutError:
            pass
        finally:
            # While what was read is sent, nothing is to be read: a slow client slows the command.
            for descriptor in descriptors:
                loop.remove_reader(descriptor)
