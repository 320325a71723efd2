"""``wharfinger top``: what running workloads use, against what they were given."""

import argparse
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from wharfinger.cli import human
from wharfinger.cli.main import OK
from wharfinger.cli.options import add_common, connect, seconds
from wharfinger.cli.output import Column, show, table

if TYPE_CHECKING:
    from wharfinger.cli.client import Client


SAMPLE_SECONDS = 0.5
MIN_INTERVAL_SECONDS = 0.1
_CLEAR = "\x1b[H\x1b[J"

COLUMNS: list[Column] = [
    ("NAME", lambda w: w["name"]),
    ("PHASE", lambda w: w["phase"]),
    ("SERVER", lambda w: ",".join(w["servers"])),
    ("CPUS USED", lambda w: human.number(w["cpus_used"])),
    ("CPUS", lambda w: human.number(w["cpus"])),
    ("MEMORY USED", lambda w: human.size(w["memory_bytes"])),
    ("MEMORY", lambda w: human.size(w["memory_limit_bytes"])),
    ("PROCESSES", lambda w: human.number(w["processes"])),
    ("TARGET", lambda w: human.target(w["target"])),
    ("ACHIEVED", lambda w: human.achieved(w["achieved"])),
    ("MET", lambda w: human.met(w["met"])),
    ("MEASURED", lambda w: human.measured_by(w["measured"])),
    ("CPU TIME", lambda w: human.duration(w["cpu_seconds"])),
]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("--once", action="store_true", help="print once, also on a terminal")
    parser.add_argument(
        "--interval",
        type=seconds,
        default=2.0,
        metavar="DURATION",
        help="between two refreshes (default: 2s)",
    )
    add_common(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print once, or again and again on a terminal until interrupted."""
    client = connect(arguments)
    refresh = arguments.output in ("table", "wide") and sys.stdout.isatty() and not arguments.once
    before = _sample(client)
    pause = SAMPLE_SECONDS
    while True:
        time.sleep(pause)
        now = _sample(client)
        rows = [_with_rate(usage, before.get(name)) for name, usage in now.items()]
        rows.sort(key=lambda row: -(row["cpus_used"] or 0.0))
        text = table(rows, COLUMNS, empty="nothing runs")
        if not refresh:
            show(rows, arguments.output, lambda text=text: text)  # type: ignore[misc] # bound now
            return OK
        sys.stdout.write(f"{_CLEAR}{text}\n")
        sys.stdout.flush()
        before, pause = now, max(MIN_INTERVAL_SECONDS, arguments.interval)


def _sample(client: "Client") -> dict[str, dict[str, Any]]:
    return {usage["name"]: usage for usage in client.get("usage")}


def _with_rate(usage: dict[str, Any], before: Mapping[str, Any] | None) -> dict[str, Any]:
    """The usage with the CPUs used since the sample before; ``None`` = not known yet."""
    used = None
    if before and usage["cpu_seconds"] is not None and before["cpu_seconds"] is not None:
        span = usage["measured_at_seconds"] - before["measured_at_seconds"]
        more = usage["cpu_seconds"] - before["cpu_seconds"]
        # Less than before: it is another workload of the same name.
        used = round(more / span, 3) if span > 0 and more >= 0 else None
    kept = {key: value for key, value in usage.items() if key != "measured_at_seconds"}
    return {**kept, "cpus_used": used}
