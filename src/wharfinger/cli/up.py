"""``wharfinger up``: one manager in the foreground, until SIGTERM or Ctrl-C.

It locks the state directory, puts a runtime together, starts it and serves the API. What
runs goes on when it ends, however it ends; the next ``up`` takes it over.
"""

import argparse
import contextlib
import logging
import os
import socket
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wharfinger.cli.options import add_parts, add_state, state_path
from wharfinger.errors import InvalidInput

if TYPE_CHECKING:
    from wharfinger.runtime.runtime import Runtime
    from wharfinger.runtime.state_directory import StateDirectory


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    add_state(parser)
    parser.add_argument("--engine", default="local", metavar="NAME", help="default: local")
    parser.add_argument(
        "--servers",
        metavar="SPEC",
        help="how the local engine divides this machine: a number of servers, or sets of CPUs "
        "such as big=0-3,small=4 (default: as its hardware is)",
    )
    parser.add_argument(
        "--policy",
        default="quasar",
        metavar="NAME",
        help="places and sizes: NAME or NAME[SETTING=VALUE,...] (default: quasar)",
    )
    add_parts(parser)
    parser.add_argument(
        "--mode",
        default="act",
        metavar="MODE",
        help="act, or recommend: say what would be done and do nothing (default: act)",
    )
    parser.add_argument(
        "--confidence",
        type=_probability,
        default=0.8,
        metavar="P",
        help="with which probability a target must be reached, from 0.5 to below 1 (default: 0.8)",
    )
    parser.add_argument(
        "--known",
        type=Path,
        metavar="DIR",
        help="known programs to classify by (default: this site's own, else those that are "
        "shipped)",
    )
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help="serve the API on TCP too, for clients that have the token",
    )
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        type=Path,
        help="the token for --listen (default: $WHARFINGER_TOKEN)",
    )
    parser.add_argument(
        "--accept-loss",
        action="store_true",
        help="start with nothing when no event of a damaged log can be saved",
    )


def _probability(text: str) -> float:
    """A number; a percentage is one too.

    Raises:
        argparse.ArgumentTypeError: It is none.
    """
    try:
        return float(text.removesuffix("%")) / 100 if text.endswith("%") else float(text)
    except ValueError:
        message = f"{text!r} is not a probability; write 0.8 or 80%"
        raise argparse.ArgumentTypeError(message) from None


def run(arguments: argparse.Namespace) -> int:
    """Serve until told to stop."""
    # Only here: no other command pays for NumPy, FastAPI and uvicorn.
    from wharfinger.runtime.assembly import Options  # noqa: PLC0415
    from wharfinger.runtime.state_directory import StateDirectory  # noqa: PLC0415
    from wharfinger.service.listening import find_token, parse_listen  # noqa: PLC0415

    _log_to_stderr()
    address = arguments.listen and parse_listen(arguments.listen)
    if arguments.token_file and not address:
        raise InvalidInput("--token-file: without --listen nothing is served that needs a token")
    token = find_token(arguments.token_file, os.environ) if address else None
    options = Options(
        engine=arguments.engine,
        servers=arguments.servers,
        policy=arguments.policy,
        admission=arguments.admission,
        adaptation=arguments.adaptation,
        contention=arguments.contention,
        mode=arguments.mode,
        confidence=arguments.confidence,
        known=arguments.known,
        accept_loss=arguments.accept_loss,
    )
    directory = StateDirectory(state_path(arguments))
    directory.lock()
    try:
        with _running(directory, options) as runtime:
            return _serve(runtime, directory, address, token)
    finally:
        directory.unlock()


@contextlib.contextmanager
def _running(directory: "StateDirectory", options: object) -> Iterator["Runtime"]:
    from wharfinger.runtime.assembly import Options, assemble  # noqa: PLC0415 - as in run

    assert isinstance(options, Options)
    runtime = assemble(directory, options)
    try:
        runtime.start()
        yield runtime
    finally:
        runtime.close()


def _serve(
    runtime: "Runtime",
    directory: "StateDirectory",
    address: tuple[str, int] | None,
    token: str | None,
) -> int:
    from wharfinger.service.listening import listen_tcp, listen_unix  # noqa: PLC0415 - as in run
    from wharfinger.service.server import serve  # noqa: PLC0415 - as in run

    tcp = [listen_tcp(*address)] if address else []
    sockets = [listen_unix(directory.socket), *tcp]
    try:
        fault = serve(
            runtime,
            sockets,
            state_directory=directory.path,
            token=token,
            on_ready=lambda: _announce(directory.path, tcp),
        )
    finally:
        directory.socket.unlink(missing_ok=True)
    if fault is None:
        return 0
    print(
        f"wharfinger: the manager stopped after a fault, start it again: {fault}", file=sys.stderr
    )
    return 1


def _announce(state: Path, tcp: Sequence[socket.socket]) -> None:
    lines = [f"state {state}"]
    for listener in tcp:
        host, port = listener.getsockname()[:2]
        lines.append(f"listening on http://{f'[{host}]' if ':' in host else host}:{port}")
    # The parent process may not want to read this.
    with contextlib.suppress(OSError):
        print("\n".join([*lines, "ready"]), flush=True)


class _OneLine(logging.Formatter):
    """One line a record; of an exception, the place where it was raised."""

    def formatException(self, ei: object) -> str:  # noqa: N802 - logging's own name
        """The innermost frame; all of it with ``WHARFINGER_DEBUG``."""
        error = sys.exc_info()[1] if not isinstance(ei, tuple) else ei[1]
        if os.environ.get("WHARFINGER_DEBUG"):
            return "".join(traceback.format_exception(error))
        frames = traceback.extract_tb(error.__traceback__ if error else None)
        place = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
        return f"{type(error).__name__}: {error}{place}"

    def format(self, record: logging.LogRecord) -> str:
        """On one line."""
        text = super().format(record)
        return text if os.environ.get("WHARFINGER_DEBUG") else text.replace("\n", "; ")


def _log_to_stderr() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(_OneLine("wharfinger: %(levelname)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
