"""Serves the API of one runtime until it is told to stop: uvicorn and the runtime in one loop.

``cli/up.py`` calls ``serve`` with a started runtime and listening sockets. On SIGTERM and
SIGINT it stops taking requests, ends long polls and returns; closing the runtime, which
leaves all workloads running, is the caller's.
"""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import uvicorn

from wharfinger.runtime.runtime import Runtime
from wharfinger.service.app import make_app
from wharfinger.service.dependencies import StateOfManager
from wharfinger.service.driver import Driver
from wharfinger.service.protocol import make_protocol

GRACE_SECONDS = 5
"""How long an answer that is under way may take at the end."""
KEEP_ALIVE_SECONDS = 30


class _Server(uvicorn.Server):
    """uvicorn with our signals, and asleep while nothing happens."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self._stop = asyncio.Event()

    def stop(self) -> None:
        """Begin to end."""
        self.should_exit = True
        self._stop.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Nothing: ``serve`` has taken the signals before."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer, and say so."""
        await super().startup(sockets=sockets)
        self._on_ready()

    async def main_loop(self) -> None:
        """Wait to be stopped, where uvicorn looks ten times a second."""
        await self._stop.wait()


def serve(
    runtime: Runtime,
    sockets: Sequence[socket.socket],
    *,
    state_directory: Path,
    token: str | None,
    on_ready: Callable[[], None],
) -> Exception | None:
    """Serve until SIGTERM, SIGINT or a fault.

    Args:
        runtime: Started.
        sockets: Listening; closed on return.
        state_directory: For ``/v1/status``.
        token: For the TCP ones among the sockets.
        on_ready: Called when requests are answered.

    Returns:
        The fault that ended it; ``None`` = it was told to stop.
    """
    return asyncio.run(_serve(runtime, sockets, state_directory, token, on_ready))


async def _serve(
    runtime: Runtime,
    sockets: Sequence[socket.socket],
    state_directory: Path,
    token: str | None,
    on_ready: Callable[[], None],
) -> Exception | None:
    loop = asyncio.get_running_loop()
    # Only manifests are read in threads; two at once are enough.
    loop.set_default_executor(ThreadPoolExecutor(2, thread_name_prefix="manifests"))
    driver = Driver(runtime, on_fault=lambda: server.stop())  # noqa: PLW0108 - made below
    app = make_app(driver, StateOfManager(state_directory, runtime.now()))
    server = _Server(_config(app, token), on_ready)

    def stop() -> None:
        driver.stopping = True
        driver.detach()
        server.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    driver.attach()
    await server.serve(sockets=list(sockets))
    return driver.fault


def _config(app: object, token: str | None) -> uvicorn.Config:
    return uvicorn.Config(
        app,  # type: ignore[arg-type] # FastAPI is an ASGI app; uvicorn's alias is narrower
        http=make_protocol(token),  # type: ignore[arg-type] # typed as a class, used as a factory
        ws="none",
        lifespan="off",
        loop="asyncio",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=16_384,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
