"""``wharfinger up``: one manager in the foreground, until SIGTERM or Ctrl-C.

It locks the state directory, assembles a runtime, starts it and serves the API. What runs goes on
when it ends, however it ends; the next ``up`` takes it over.
"""

import argparse
import contextlib
import os
import socket
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from wharfinger.cli.main import FAILED, OK, complain
from wharfinger.cli.options import add_option, add_parts, add_state, refuse, state_path
from wharfinger.cli.readers import probability, server_label
from wharfinger.cli.up_log import FORMS, LEVELS, UpLog, begin
from wharfinger.errors import InvalidInput

if TYPE_CHECKING:
    from wharfinger.engines.slurm.settings import SlurmSettings
    from wharfinger.runtime.runtime import Runtime
    from wharfinger.runtime.state_directory import StateDirectory

_OF_THE_RUNTIME = (
    "engine", "servers", "policy", "admission", "adaptation", "contention", "mode", "confidence",
    "known", "accept_loss",
)  # fmt: skip
"""Options that ``runtime.assembly.Options`` takes under these names."""
_OF_SLURM = ("--partition", "--platform-feature", "--shared-dir", "--sbatch-option")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    add = partial(add_option, parser)
    add_state(parser)
    add(
        "--engine NAME",
        "what runs the workloads: local, or slurm",
        "local",
    )
    words = (
        "how the local engine divides this machine: a number of servers, or sets of CPUs such as "
        "big=0-3,small=4 (default: as its hardware is)"
    )
    add("--servers SPEC", words)
    words = "a label of all servers, or of one, which workloads may require; repeatable"
    add("--label [SERVER:]LABEL=VALUE ...", words, read=server_label)
    add_slurm(parser)
    add("--policy NAME", "places and sizes: NAME or NAME[SETTING=VALUE,...]", "quasar")
    add_parts(parser)
    words = (
        "act; recommend: only say what would be done, by profiling runs in sandboxes; or "
        "recommend-cold: the same without these"
    )
    add("--mode MODE", words, "act")
    words = "with which probability a target must be reached, 0.5 to below 1"
    add("--confidence P", words, "0.8", probability)
    words = "known programs to classify by (default: this site's own, else those that are shipped)"
    add("--known DIR", words, read=Path)
    add("--listen HOST:PORT", "serve the API on TCP too, for clients that have the token")
    # Here or before the command: whichever is written.
    words = "the token for --listen (default: $WHARFINGER_TOKEN)"
    parser.add_argument("--token-file", metavar="FILE", default=argparse.SUPPRESS, help=words)
    words = "on standard error, a line for each decision: text, json or none"
    parser.add_argument("--log", choices=FORMS, default="text", help=f"{words} (default: text)")
    words = "the least that is logged; debug: measurements, too (default: info)"
    parser.add_argument("--log-level", choices=LEVELS, default="info", help=words)
    add("--accept-loss", "start with nothing when no event of a damaged log can be saved")


def add_slurm(parser: argparse.ArgumentParser) -> None:
    """Options that say how a Slurm cluster is used."""
    add = partial(add_option, parser)
    words = "with --engine slurm: use this partition's nodes (default: the default partition's)"
    add("--partition NAME ...", f"{words}; may be repeated")
    words = (
        "with --engine slurm: nodes with this feature are a platform of that name, or with PREFIX* "
        "of what follows the prefix (default: by CPU type and size); may be repeated"
    )
    add("--platform-feature NAME ...", words)
    words = (
        "with --engine slurm: a directory that every node sees under this path, for records and "
        "output of workloads"
    )
    add("--shared-dir DIR", words, read=Path)
    words = "with --engine slurm: an option of sbatch for every job, such as account=physics"
    add("--sbatch-option NAME=VALUE ...", f"{words}; may be repeated")


def slurm_settings(arguments: argparse.Namespace) -> "SlurmSettings | None":
    """How a Slurm cluster is used; ``None`` = that is not asked for."""
    if arguments.engine != "slurm":
        refuse(arguments, _OF_SLURM, "says how a Slurm cluster is used, with --engine slurm")
        return None
    from wharfinger.engines.slurm.settings import (  # noqa: PLC0415 - as in run
        SlurmSettings,
        read_sbatch_options,
    )

    return SlurmSettings(
        partitions=tuple(arguments.partition or ()),
        platform_features=tuple(arguments.platform_feature or ()),
        shared_dir=arguments.shared_dir,
        sbatch=read_sbatch_options(arguments.sbatch_option or ()),
    )


def run(arguments: argparse.Namespace) -> int:
    """Serve until told to stop."""
    # Only here: no other command pays for NumPy, FastAPI and uvicorn.
    from wharfinger.runtime.assembly import Options, assemble  # noqa: PLC0415
    from wharfinger.runtime.state_directory import StateDirectory  # noqa: PLC0415
    from wharfinger.service.listening import find_token, parse_listen  # noqa: PLC0415

    address = arguments.listen and parse_listen(arguments.listen)
    token_file = getattr(arguments, "token_file", None)
    if token_file and not address:
        raise InvalidInput("--token-file: without --listen nothing is served that needs a token")
    token = find_token(token_file and Path(token_file), os.environ) if address else None
    if arguments.engine == "slurm":
        words = "names servers of this machine; features label Slurm's nodes"
        refuse(arguments, ["--servers"], "divides this machine, with --engine local")
        refuse(arguments, ["--label"], words)
    given = {name: getattr(arguments, name) for name in _OF_THE_RUNTIME}
    labels = tuple(arguments.label or ())
    options = Options(**given, labels=labels, slurm=slurm_settings(arguments))
    directory = StateDirectory(state_path(arguments))
    directory.lock()
    log, lines = begin(arguments.log, arguments.log_level)
    try:
        with contextlib.closing(assemble(directory, options)) as runtime:
            return _serve(runtime, directory, address, token, log)
    finally:
        lines.close()
        directory.unlock()


def _serve(
    runtime: "Runtime",
    directory: "StateDirectory",
    address: tuple[str, int] | None,
    token: str | None,
    log: UpLog,
) -> int:
    from wharfinger.service.listening import listen_tcp, listen_unix  # noqa: PLC0415 - as in run
    from wharfinger.service.server import serve  # noqa: PLC0415 - as in run

    seen = runtime.store.last_sequence
    runtime.start()
    tcp = [listen_tcp(*address)] if address else []
    sockets = [listen_unix(directory.socket), *tcp]
    try:
        fault = serve(
            runtime,
            sockets,
            state_directory=directory.path,
            token=token,
            on_ready=lambda: _announce(directory.path, tcp),
            beside=lambda driver: log.follow(driver, after=seen),
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
