"""``wharfinger up``: one manager in the foreground, until SIGTERM or Ctrl-C.

It locks the state directory, assembles a runtime, starts it and serves the API. What runs goes on
when it ends, however it ends; the next ``up`` takes it over.
"""

import argparse
import contextlib
import logging
import os
import socket
import sys
import traceback
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from wharfinger.cli.main import FAILED, OK, complain
from wharfinger.cli.options import add_option, add_parts, add_state, state_path
from wharfinger.cli.readers import probability
from wharfinger.errors import InvalidInput

if TYPE_CHECKING:
    from wharfinger.runtime.runtime import Runtime
    from wharfinger.runtime.state_directory import StateDirectory

_OF_THE_RUNTIME = (
    "engine", "servers", "policy", "admission", "adaptation", "contention", "mode", "confidence",
    "known", "accept_loss",
)  # fmt: skip
"""Options that ``runtime.assembly.Options`` takes under these names."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    add = partial(add_option, parser)
    add_state(parser)
    add("--engine NAME", "what runs the workloads", "local")
    words = (
        "how the local engine divides this machine: a number of servers, or sets of CPUs such as "
        "big=0-3,small=4 (default: as its hardware is)"
    )
    add("--servers SPEC", words)
    add("--policy NAME", "places and sizes: NAME or NAME[SETTING=VALUE,...]", "quasar")
    add_parts(parser)
    add("--mode MODE", "act, or recommend: only say what would be done", "act")
    words = "with which probability a target must be reached, 0.5 to below 1"
    add("--confidence P", words, "0.8", probability)
    words = "known programs to classify by (default: this site's own, else those that are shipped)"
    add("--known DIR", words, read=Path)
    add("--listen HOST:PORT", "serve the API on TCP too, for clients that have the token")
    add("--token-file FILE", "the token for --listen (default: $WHARFINGER_TOKEN)", read=Path)
    add("--accept-loss", "start with nothing when no event of a damaged log can be saved")


def run(arguments: argparse.Namespace) -> int:
    """Serve until told to stop."""
    # Only here: no other command pays for NumPy, FastAPI and uvicorn.
    from wharfinger.runtime.assembly import Options, assemble  # noqa: PLC0415
    from wharfinger.runtime.state_directory import StateDirectory  # noqa: PLC0415
    from wharfinger.service.listening import find_token, parse_listen  # noqa: PLC0415

    _log_to_stderr()
    address = arguments.listen and parse_listen(arguments.listen)
    if arguments.token_file and not address:
        raise InvalidInput("--token-file: without --listen nothing is served that needs a token")
    token = find_token(arguments.token_file, os.environ) if address else None
    options = Options(**{name: getattr(arguments, name) for name in _OF_THE_RUNTIME})
    directory = StateDirectory(state_path(arguments))
    directory.lock()
    try:
        with contextlib.closing(assemble(directory, options)) as runtime:
            runtime.start()
            return _serve(runtime, directory, address, token)
    finally:
        directory.unlock()


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
        return OK
    complain(f"the manager stopped after a fault, start it again: {fault}")
    return FAILED


def _announce(state: Path, tcp: Sequence[socket.socket]) -> None:
    lines = [f"state {state}"]
    for listener in tcp:
        host, port = listener.getsockname()[:2]
        lines.append(f"listening on http://{f'[{host}]' if ':' in host else host}:{port}")
    # The parent process may not want to read this.
    with contextlib.suppress(OSError):
        print("\n".join([*lines, "ready"]), flush=True)


class _OneLine(logging.Formatter):
    """One line a record, with the place where an exception was raised; all of it for debugging."""

    def formatException(self, ei: object) -> str:  # noqa: N802 - logging's own name
        error = sys.exc_info()[1] if not isinstance(ei, tuple) else ei[1]
        if os.environ.get("WHARFINGER_DEBUG"):
            return "".join(traceback.format_exception(error))
        frames = traceback.extract_tb(error.__traceback__ if error else None)
        place = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
        return f"{type(error).__name__}: {error}{place}"

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return text if os.environ.get("WHARFINGER_DEBUG") else text.replace("\n", "; ")


def _log_to_stderr() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(_OneLine("wharfinger: %(levelname)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
