"""Puts the API together and serves it: uvicorn and the runtime in one asyncio loop, in one thread.

``cli/up.py`` calls ``serve`` with a started runtime and listening sockets. On SIGTERM, SIGINT and
``POST /v1/stop`` it stops taking requests, ends long polls and returns; closing the runtime, which
leaves all workloads running, is the caller's.
"""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Coroutine, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import Depends, FastAPI

from wharfinger import __version__
from wharfinger.runtime.runtime import Runtime
from wharfinger.service import (
    routes_cluster,
    routes_manager,
    routes_output,
    routes_submitting,
    routes_workloads,
    routing,
)
from wharfinger.service.driver import Driver
from wharfinger.service.protocol import make_protocol

GRACE_SECONDS = 5
"""How long an answer that is under way may take at the end."""
KEEP_ALIVE_SECONDS = 30


def make_app(driver: Driver, process: routing.ManagerProcess) -> FastAPI:
    """The API of one manager; its routes are coroutines: only the loop's thread may touch it."""
    app = FastAPI(
        title="wharfinger",
        version=__version__,
        description="A cluster manager that is told performance targets, not reservations.",
        generate_unique_id_function=lambda route: route.name,
        redirect_slashes=False,
        # Their pages load scripts from a network; ``reference`` makes one that loads none.
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        dependencies=[Depends(routing.check_query)],
    )
    app.state.driver, app.state.process = driver, process
    routing.install(app)
    for routes in (
        routes_submitting,
        routes_workloads,
        routes_output,
        routes_cluster,
        routes_manager,
    ):
        app.include_router(routes.router)
    return app


class _Server(uvicorn.Server):
    """uvicorn with our signals, and asleep while nothing happens."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self._stop = asyncio.Event()

    def stop(self) -> None:
        self.should_exit = True
        self._stop.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Nothing: ``serve`` has taken the signals before."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
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
    beside: Callable[[Driver], Coroutine[Any, Any, None]] | None = None,
) -> Exception | None:
    """Serve until SIGTERM, SIGINT or a request to stop, or the fault that is returned.

    Args:
        runtime: Started.
        sockets: Listening; closed on return.
        state_directory: For ``/v1/status``.
        token: For the TCP ones among the sockets.
        on_ready: Called when requests are answered.
        beside: Runs in the same loop, until the driver stops.
    """

    async def run() -> Exception | None:
        loop = asyncio.get_running_loop()
        # Only manifests are read in threads; two at once are enough.
        loop.set_default_executor(ThreadPoolExecutor(2, thread_name_prefix="manifests"))
        driver = Driver(runtime, on_end=lambda: server.stop())  # noqa: PLW0108 - made below
        app = make_app(driver, routing.ManagerProcess(state_directory, runtime.now()))
        config = uvicorn.Config(
            app,
            http=make_protocol(token),  # type: ignore[arg-type] # a factory does as well
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
        server = _Server(config, on_ready)

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, driver.stop)
        driver.attach()
        other = None if beside is None else asyncio.create_task(beside(driver))
        await server.serve(sockets=list(sockets))
        if other is not None:
            await other
        return driver.fault

    return asyncio.run(run())
