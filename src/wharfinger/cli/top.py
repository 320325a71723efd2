"""``wharfinger top``: how those who run keep their targets, and with how much, live.

Worst first: those who miss a target, by how much; then by the CPU that they use.
"""

import argparse
import shutil
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from wharfinger.cli import forecast, human
from wharfinger.cli.main import OK
from wharfinger.cli.options import add_common, connect, seconds
from wharfinger.cli.output import Column, show, table

if TYPE_CHECKING:
    from wharfinger.cli.client import Client


SAMPLE_SECONDS = 0.5
MIN_INTERVAL_SECONDS = 0.1
_CLEAR = "\x1b[H\x1b[J"

WIDTH = 100
"""Of a line, where there is no terminal to ask."""


def _used_and_given(usage: dict[str, Any]) -> str:
    used = human.NONE if usage["cpus_used"] is None else f"{usage['cpus_used']:.2f}"
    return f"{used}/{human.number(usage['cpus']) if usage['cpus'] else 'rest'}"


def _of_target(usage: dict[str, Any]) -> str:
    missed = " !" if usage["met"] is False else ""
    return human.percent(usage["pace"]) + missed


def _adjustment(made: dict[str, Any] | None) -> str:
    if made is None:
        return human.NONE
    changed = forecast.change(made)
    what = forecast.DONE[made["kind"]] + (f" {changed}" if changed != human.NONE else "")
    if made["kind"] == "kept":
        what = f"nothing: {made['reason']}"
    return f"{human.time_of_day(made['time'])} {what}"


COLUMNS: list[Column] = [
    ("NAME", lambda w: w["name"]),
    ("PHASE", lambda w: w["phase"]),
    ("CPU USED/GIVEN", _used_and_given),
    ("TARGET", lambda w: human.target(w["target"])),
    ("ACHIEVED", lambda w: forecast.short_achieved(w["target"], w["achieved"])),
    ("OF IT", _of_target),
    ("BESIDE", lambda w: ",".join(w["neighbours"]) or human.NONE),
    ("LAST ADJUSTMENT", lambda w: _adjustment(w["last_adjustment"])),
]
FLEXIBLE = {"NAME": 8, "TARGET": 8, "ACHIEVED": 8, "BESIDE": 6, "LAST ADJUSTMENT": 16}
"""Columns that are cut where a line would be too long, and what they keep at least."""
WIDE: list[Column] = [
    *COLUMNS[:3],
    ("SERVER", lambda w: ",".join(w["servers"])),
    ("MEMORY USED", lambda w: human.size(w["memory_bytes"])),
    ("MEMORY", lambda w: human.size(w["memory_limit_bytes"])),
    ("PROCESSES", lambda w: human.number(w["processes"])),
    ("CPU TIME", lambda w: human.duration(w["cpu_seconds"])),
    *COLUMNS[3:],
    ("MEASURED", lambda w: human.measured_by(w["measured"])),
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
        rows.sort(key=_worst_first)
        text = rows_text(rows, wide=arguments.output == "wide", live=refresh)
        if not refresh:
            show(rows, arguments.output, lambda text=text: text)  # type: ignore[misc] # bound now
            return OK
        sys.stdout.write(f"{_CLEAR}{text}\n")
        sys.stdout.flush()
        before, pause = now, max(MIN_INTERVAL_SECONDS, arguments.interval)


def rows_text(rows: list[dict[str, Any]], *, wide: bool = False, live: bool = False) -> str:
    """One table: as wide as the terminal, or ``WIDTH`` in a pipe; ``wide``: all of it."""
    if wide:
        return table(rows, WIDE, empty="nothing runs")
    width = shutil.get_terminal_size((WIDTH, 24)).columns if live else WIDTH
    return table(rows, COLUMNS, empty="nothing runs", width=width, flexible=FLEXIBLE)


def _sample(client: "Client") -> dict[str, dict[str, Any]]:
    return {usage["name"]: usage for usage in client.get("usage")}


def _worst_first(row: dict[str, Any]) -> tuple[float, float]:
    missed = row["met"] is False
    return (row["pace"] or 0.0) if missed else float("inf"), -(row["cpus_used"] or 0.0)


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
