"""Puts the API together and serves it: uvicorn and the runtime in one asyncio loop, in one thread.

``cli/up.py`` calls ``serve`` with a started runtime and listening sockets. On SIGTERM and SIGINT it
stops taking requests, ends long polls and returns; closing the runtime, which leaves all workloads
running, is the caller's.
"""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from wharfinger import __version__
from wharfinger.runtime.runtime import Runtime
from wharfinger.service import routes_cluster, routes_workloads, routing
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
    )
    app.state.driver, app.state.process = driver, process
    routing.install(app)
    app.include_router(routes_workloads.router)
    app.include_router(routes_cluster.router)
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
) -> Exception | None:
    """Serve until SIGTERM or SIGINT, or the fault that is returned.

    Args:
        runtime: Started.
        sockets: Listening; closed on return.
        state_directory: For ``/v1/status``.
        token: For the TCP ones among the sockets.
        on_ready: Called when requests are answered.
    """

    async def run() -> Exception | None:
        loop = asyncio.get_running_loop()
        # Only manifests are read in threads; two at once are enough.
        loop.set_default_executor(ThreadPoolExecutor(2, thread_name_prefix="manifests"))
        driver = Driver(runtime, on_fault=lambda: server.stop())  # noqa: PLW0108 - made below
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

        def stop() -> None:
            driver.detach()
            server.stop()

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop)
        driver.attach()
        await server.serve(sockets=list(sockets))
        return driver.fault

    return asyncio.run(run())
