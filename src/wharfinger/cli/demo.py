"""``wharfinger demo``: real programs with targets on this machine, under two policies."""

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

from wharfinger.cli.interrupts import ended_in_order
from wharfinger.cli.main import NOT_AS_EXPECTED, OK
from wharfinger.cli.options import seconds
from wharfinger.errors import InvalidInput

POLICY = "quasar"
MIN_SECONDS = 15.0
ENOUGH = 0.8
"""Of the targets: when fewer are met the exit status is 3."""
DEMO_OPTIONS = ("policy", "seed", "run_seconds", "picture", "keep")
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
        dest="run_seconds",
        type=seconds,
        default=110.0,
        metavar="DURATION",
        help="length of each of the two runs (default: 110s)",
    )
    parser.add_argument(
        "--png",
        dest="picture",
        metavar="FILE",
        type=Path,
        default=Path(PICTURE),
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
    from wharfinger.cli.demo_progress import DemoProgress  # noqa: PLC0415
    from wharfinger.cli.demo_report import as_text  # noqa: PLC0415
    from wharfinger.demo.run import Demo  # noqa: PLC0415

    _check(arguments)
    wants_text = arguments.output == "table"
    # Beside JSON in a pipe nothing else is wanted; on a terminal progress helps.
    stream = sys.stderr if wants_text or sys.stderr.isatty() else None
    directory = Path(tempfile.mkdtemp(prefix="wharfinger-demo-"))
    options = {key: getattr(arguments, key) for key in DEMO_OPTIONS}
    kept = False
    try:
        with ended_in_order(), DemoProgress(stream) as progress:
            demo = Demo(directory, Client, progress.tell, progress.show, **options)
            result = demo.run()
        kept = arguments.keep
    finally:
        if not kept:
            shutil.rmtree(directory, ignore_errors=True)
    print(as_text(result) if wants_text else json.dumps(result, indent=2))
    if kept:
        state = directory / "state"
        pid = Client(state).get("status")["pid"]
        print(
            "\nThe manager of the first run is up, with its records:\n"
            f"  wharfinger get workloads --state {state}\n"
            f"  wharfinger explain web --state {state}\n"
            f"Its end: kill {pid}; then remove {directory}",
            file=sys.stdout if wants_text else sys.stderr,
        )
    return OK if result["targets_met"] >= ENOUGH * result["targets"] else NOT_AS_EXPECTED


def _check(arguments: argparse.Namespace) -> None:
    from wharfinger.policies.registry import make_policy  # noqa: PLC0415 - as in run

    make_policy(arguments.policy)  # A wrong name is refused now, not after the measurements.
    if arguments.run_seconds < MIN_SECONDS:
        raise InvalidInput(
            f"--seconds: {arguments.run_seconds:g} s is too short; {MIN_SECONDS:g} s is the least"
        )
