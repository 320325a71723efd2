"""What services and their clients share: addresses, connections, leaving when asked to."""

import argparse
import asyncio
import signal
from collections.abc import Callable
from typing import cast


class Connection(asyncio.Protocol):
    """One end of a connection, once it is made."""

    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport, by which bytes are sent."""
        self.transport = cast(asyncio.Transport, transport)


def add_address(parser: argparse.ArgumentParser) -> None:
    """Where to listen."""
    parser.add_argument("--host", default="127.0.0.1", help="default: 127.0.0.1")
    parser.add_argument(
        "--port", type=port, default=0, metavar="N", help="default: 0, any that is free"
    )


def port(text: str) -> int:
    """A TCP port, else ``ArgumentTypeError``; 0 = any.

    >>> port("8080")
    8080
    """
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port; write 0 to 65535")
    return int(text)


def serve(factory: Callable[[], Connection], host: str, port: int) -> int:
    """Serve until SIGTERM or SIGINT; says ``listening on HOST:PORT`` once it listens."""
    asyncio.run(_serve(factory, host, port))
    return 0


async def _serve(factory: Callable[[], Connection], host: str, port: int) -> None:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    server = await loop.create_server(factory, host, port, backlog=512)
    name = server.sockets[0].getsockname()
    print(f"listening on {name[0]}:{name[1]}", flush=True)
    await stopped.wait()
    # Not server.wait_closed(): since Python 3.12 it waits for every client to leave.
    server.close()
