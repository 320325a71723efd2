"""``wharfinger top``: how running workloads keep their targets, and with how much, live.

Worst first: those that miss a target, by how much; then by the CPU that they use.
"""

import argparse
import shutil
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from wharfinger.cli import format as fmt
from wharfinger.cli import targets
from wharfinger.cli.options import add_common, add_option, connect
from wharfinger.cli.output import Column, Record, column, show, table
from wharfinger.cli.readers import seconds
from wharfinger.cli.selecting import in_order
from wharfinger.cli.workload_text import change, done

if TYPE_CHECKING:
    from wharfinger.cli.client import Client

SAMPLE_SECONDS = 0.5
MIN_INTERVAL_SECONDS = 0.1
WIDTH = 100
"""Of a line, where there is no terminal to ask."""
_CLEAR = "\x1b[H\x1b[J"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    add_option(parser, "--once", "print once, also on a terminal")
    add_option(parser, "--interval DURATION", "between two refreshes", "2s", seconds)
    words = (
        "by this field of the JSON output; --sort-by=-cpus_used: downwards (default: worst first)"
    )
    add_option(parser, "--sort-by FIELD", words)
    add_common(parser)


def run(arguments: argparse.Namespace) -> None:
    """Print once, or again and again on a terminal until interrupted."""
    client = connect(arguments)
    refresh = arguments.output in ("table", "wide") and sys.stdout.isatty() and not arguments.once
    before = _sample(client)
    pause = SAMPLE_SECONDS
    while True:
        time.sleep(pause)
        now = _sample(client)
        rows = [_with_rate(usage, before.get(name)) for name, usage in now.items()]
        rows = in_order(sorted(rows, key=_worst_first), arguments.sort_by)
        text = rows_text(rows, wide=arguments.output == "wide", live=refresh)
        if not refresh:
            show(rows, arguments.output, lambda text=text: text)  # type: ignore[misc] # bound now
            return
        sys.stdout.write(f"{_CLEAR}{text}\n")
        sys.stdout.flush()
        before, pause = now, max(MIN_INTERVAL_SECONDS, arguments.interval)


def rows_text(rows: list[Record], *, wide: bool = False, live: bool = False) -> str:
    """One table: as wide as the terminal, or ``WIDTH`` in a pipe; ``wide``: all of it."""
    if wide:
        return table(rows, _WIDE, empty="nothing runs")
    width = shutil.get_terminal_size((WIDTH, 24)).columns if live else WIDTH
    throttles = any(targets.throttled_share(row) is not None for row in rows)
    columns = [*_COLUMNS[:3], *([_THROTTLED] if throttles else []), *_COLUMNS[3:]]
    return table(rows, columns, empty="nothing runs", width=width, flexible=_FLEXIBLE)


def _sample(client: "Client") -> dict[str, Record]:
    return {usage["name"]: usage for usage in client.get("usage")}


def _worst_first(row: Record) -> tuple[float, float]:
    missed = row["met"] is False
    performance = (row["normalized_performance"] or 0.0) if missed else float("inf")
    return performance, -(row["cpus_used"] or 0.0)


def _with_rate(usage: Record, before: Mapping[str, Any] | None) -> Record:
    """The usage with the CPUs used since the sample before; ``None`` = unknown."""
    used = None
    if before and usage["cpu_seconds"] is not None and before["cpu_seconds"] is not None:
        span = usage["measured_at_seconds"] - before["measured_at_seconds"]
        more = usage["cpu_seconds"] - before["cpu_seconds"]
        # Less than before: it is another workload of the same name.
        used = round(more / span, 3) if span > 0 and more >= 0 else None
    kept = {key: value for key, value in usage.items() if key != "measured_at_seconds"}
    return {**kept, "cpus_used": used}


def _used_and_given(usage: Record) -> str:
    used = fmt.NONE if usage["cpus_used"] is None else f"{usage['cpus_used']:.2f}"
    return f"{used}/{fmt.number(usage['cpus']) if usage['cpus'] else 'rest'}"


def _adjustment(made: Record) -> str:
    changed = f": {made['reason']}" if made["kind"] == "unchanged" else f" {change(made)}"
    what = done(made["kind"]) + changed.removesuffix(f" {fmt.NONE}")
    return f"{fmt.time_of_day(made['time'])} {what}"


_COLUMNS: list[Column] = [
    column("NAME"),
    ("STATUS", lambda usage: "not ready" if usage["ready"] is False else usage["phase"]),
    ("CPU USED/GIVEN", _used_and_given),
    column("TARGET", form=targets.target),
    ("ACHIEVED", targets.achieved_of_target),
    (
        "OF IT",
        lambda w: fmt.percent(w["normalized_performance"]) + (" !" if w["met"] is False else ""),
    ),
    column("NEIGHBORS", "co_runners"),
    column("LAST ADJUSTMENT", form=_adjustment),
]
_THROTTLED: Column = ("THROTTLED", lambda usage: fmt.percent(targets.throttled_share(usage)))
"""Of the periods of its quota, those in which that did not last."""
_FLEXIBLE = {"NAME": 8, "TARGET": 8, "ACHIEVED": 8, "NEIGHBORS": 9, "LAST ADJUSTMENT": 16}
"""Columns that are cut where a line would be too long, with their least widths."""
_WIDE: list[Column] = [
    *_COLUMNS[:3],
    _THROTTLED,
    column("SERVER", "servers"),
    column("MEMORY USED", "memory_bytes", fmt.size),
    column("MEMORY", "memory_limit_bytes", fmt.size),
    column("PROCESSES", form=fmt.number),
    column("CPU TIME", "cpu_seconds", fmt.duration),
    *_COLUMNS[3:],
    column("MEASURED", form=targets.measured_by),
]
