"""``wharfinger demo``: real programs with targets on this machine, under two policies."""

import argparse
import json
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path

from wharfinger.cli.main import NOT_AS_EXPECTED, OK
from wharfinger.cli.options import add_option, add_output
from wharfinger.cli.progress import ended_in_order
from wharfinger.cli.readers import seconds
from wharfinger.errors import InvalidInput

MIN_SECONDS = 15.0
ENOUGH = 0.8
"""Of the targets: when fewer are met the exit status is 3."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    add = partial(add_option, parser)
    add("--policy NAME", "of the first run", "quasar")
    add("--seed N", "of what users would reserve", "0", int)
    add("--seconds DURATION", "length of each of the two runs", "110s", seconds)
    add("--png FILE", "the picture", "wharfinger-demo.png", Path)
    add("--keep", "leave the first run's manager up, and its records")
    add_output(parser, ["table", "json"])


def run(arguments: argparse.Namespace) -> int:
    """0 when enough targets were met, 3 when not."""
    # Here and not above: no other command pays for it.
    from wharfinger.cli.client import Client  # noqa: PLC0415
    from wharfinger.cli.demo_progress import DemoProgress  # noqa: PLC0415
    from wharfinger.cli.demo_report import as_text  # noqa: PLC0415
    from wharfinger.demo.run import Demo  # noqa: PLC0415
    from wharfinger.policies.registry import make_policy  # noqa: PLC0415

    make_policy(arguments.policy)  # A wrong name is refused now, not after the measurements.
    if arguments.seconds < MIN_SECONDS:
        length = f"{arguments.seconds:g} s is too short"
        raise InvalidInput(f"--seconds: {length}; give at least {MIN_SECONDS:g} s")
    wants_text = arguments.output == "table"
    # With JSON in a pipe nothing else is wanted; on a terminal progress helps.
    stream = sys.stderr if wants_text or sys.stderr.isatty() else None
    directory = Path(tempfile.mkdtemp(prefix="wharfinger-demo-"))
    kept = False
    try:
        with ended_in_order(), DemoProgress(stream) as progress:
            result = Demo(
                directory,
                Client,
                progress.tell,
                progress.show,
                policy=arguments.policy,
                seed=arguments.seed,
                run_seconds=arguments.seconds,
                picture=arguments.png,
                keep=arguments.keep,
            ).run()
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
            f"To end it: kill {pid}; then remove {directory}",
            file=sys.stdout if wants_text else sys.stderr,
        )
    return OK if result["targets_met"] >= ENOUGH * result["targets"] else NOT_AS_EXPECTED
