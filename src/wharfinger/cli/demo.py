"""``wharfinger demo``: real programs with targets on this machine, under two policies."""

import argparse
import json
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from wharfinger.cli.main import NOT_AS_EXPECTED, OK
from wharfinger.cli.options import add_option, add_output
from wharfinger.cli.progress import ended_in_order
from wharfinger.cli.readers import seconds
from wharfinger.errors import InvalidInput, Unavailable

if TYPE_CHECKING:
    from wharfinger.demo.stage import DemoStage

MIN_SECONDS = 15.0
RUN_SECONDS = {"local": 110.0, "slurm": 150.0}
"""Profiling on a node takes longer: its share of a CPU has to start a profiler, too."""
ENOUGH = 0.8
"""Of the targets: when fewer are met the exit status is 3."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    add = partial(add_option, parser)
    add(
        "--engine NAME",
        "local: this machine; slurm: a Slurm cluster of six nodes, made here",
        "local",
    )
    add("--policy NAME", "of the first run", "quasar")
    add("--seed N", "of what users would reserve", "0", int)
    add("--seconds DURATION", "length of each of the two runs: 110s, on Slurm 150s", None, seconds)
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
    if arguments.seconds is not None and arguments.seconds < MIN_SECONDS:
        length = f"{arguments.seconds:g} s is too short"
        raise InvalidInput(f"--seconds: {length}; give at least {MIN_SECONDS:g} s")
    stage = _stage(arguments)
    run_seconds = arguments.seconds or RUN_SECONDS[arguments.engine]
    wants_text = arguments.output == "table"
    # With JSON in a pipe nothing else is wanted; on a terminal progress helps.
    stream = sys.stderr if wants_text or sys.stderr.isatty() else None
    directory = Path(tempfile.mkdtemp(prefix="wharfinger-demo-"))
    kept = False
    try:
        with ended_in_order(), DemoProgress(stream) as progress:
            result = Demo(
                directory,
                stage,
                progress.tell,
                progress.show,
                policy=arguments.policy,
                seed=arguments.seed,
                run_seconds=run_seconds,
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


def _stage(arguments: argparse.Namespace) -> "DemoStage":
    """What it runs on; refused here where this machine does not have it."""
    from wharfinger.cli.client import Client  # noqa: PLC0415 - as in run

    if arguments.engine == "local":
        from wharfinger.demo.stage import LocalStage  # noqa: PLC0415 - as in run

        return LocalStage(Client)
    if arguments.engine != "slurm":
        raise InvalidInput(f"--engine: {arguments.engine!r} is not local or slurm")
    from wharfinger.demo.slurm.cluster import missing_slurm  # noqa: PLC0415 - as in run
    from wharfinger.demo.slurm.stage import SlurmStage  # noqa: PLC0415 - as in run

    if arguments.keep:
        raise InvalidInput("--keep: the Slurm cluster ends with the demo; leave it out")
    if missing := missing_slurm():
        raise Unavailable(f"--engine slurm: Slurm is not installed; do so by: {missing}")
    return SlurmStage(Client)
