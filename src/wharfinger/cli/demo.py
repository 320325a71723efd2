"""``wharfinger demo``: real programs with targets on this machine, under two policies."""

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from wharfinger.cli.interrupts import ended_in_order
from wharfinger.cli.main import NOT_AS_EXPECTED, OK
from wharfinger.cli.options import seconds
from wharfinger.errors import InvalidInput

if TYPE_CHECKING:
    from wharfinger.demo.run import Settings

POLICY = "quasar"
LEAST_SECONDS = 15.0
PICTURE = "wharfinger-demo.png"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument(
        "--policy", default=POLICY, metavar="NAME", help=f"of the first run (default: {POLICY})"
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="of what users would reserve (default: 0)",
    )
    parser.add_argument(
        "--seconds",
        type=seconds,
        default=110.0,
        metavar="DURATION",
        help="length of each of the two runs (default: 110s)",
    )
    parser.add_argument(
        "--png",
        metavar="FILE",
        type=Path,
        help=f"the picture (default: {PICTURE} in the current directory)",
    )
    parser.add_argument(
        "--keep", action="store_true", help="leave the first run's manager up, and its records"
    )
    parser.add_argument(
        "-o", "--output", choices=["table", "json"], default="table", help="default: table"
    )


def run(arguments: argparse.Namespace) -> int:
    """0 when enough targets were met, 3 when not."""
    # Here and not above: no other command pays for it.
    from wharfinger.cli.client import Client  # noqa: PLC0415
    from wharfinger.demo.report import as_json, as_text  # noqa: PLC0415
    from wharfinger.demo.run import play  # noqa: PLC0415
    from wharfinger.demo.screen import make_screen  # noqa: PLC0415

    as_text_wanted = arguments.output == "table"
    # Whoever wants JSON in a pipe wants nothing else there; on a terminal progress helps.
    stream = sys.stderr if as_text_wanted or sys.stderr.isatty() else None
    directory = Path(tempfile.mkdtemp(prefix="wharfinger-demo-"))
    kept = False
    try:
        settings = _settings(arguments, directory)
        with ended_in_order(), make_screen(stream) as screen:
            report = play(settings, Client, screen)
        kept = arguments.keep
    finally:
        if not kept:
            shutil.rmtree(directory, ignore_errors=True)
    print(as_text(report) if as_text_wanted else json.dumps(as_json(report), indent=2))
    if kept:
        _say_how_to_go_on(settings.directory / "state", as_text_wanted)
    return OK if report.passed else NOT_AS_EXPECTED


def _settings(arguments: argparse.Namespace, directory: Path) -> "Settings":
    from wharfinger.demo.plan import Timing  # noqa: PLC0415 - as in run
    from wharfinger.demo.run import Settings  # noqa: PLC0415 - as in run
    from wharfinger.policies.registry import make_policy  # noqa: PLC0415 - as in run

    make_policy(arguments.policy)  # A wrong name is said now, not after the first measurements.
    if arguments.seconds < LEAST_SECONDS:
        raise InvalidInput(
            f"--seconds: {arguments.seconds:g} s is too short; {LEAST_SECONDS:g} s is the least"
        )
    whole = Timing()
    share = min(1.0, arguments.seconds / whole.run_seconds)
    timing = Timing(
        run_seconds=arguments.seconds,
        solo_seconds=max(1.0, whole.solo_seconds * share),
        profile_seconds=max(1.0, whole.profile_seconds * share),
        service_profile_seconds=max(1.0, whole.service_profile_seconds * share),
    )
    return Settings(
        directory=directory,
        policy=arguments.policy,
        seed=arguments.seed,
        timing=timing,
        picture=arguments.png if arguments.png is not None else Path(PICTURE),
        keep=arguments.keep,
    )


def _say_how_to_go_on(state: Path, to_output: bool) -> None:
    lines = [
        "",
        "The manager of the first run is up, with its records:",
        f"  wharfinger get workloads --state {state}",
        f"  wharfinger explain web --state {state}",
        f"Its end: kill {_manager_pid(state)}; then remove {state.parent}",
    ]
    print("\n".join(lines), file=sys.stdout if to_output else sys.stderr)


def _manager_pid(state: Path) -> int:
    from wharfinger.cli.client import Client  # noqa: PLC0415 - as in run

    pid: int = Client(state).get("status")["pid"]
    return pid
