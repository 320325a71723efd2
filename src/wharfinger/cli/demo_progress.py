"""The demo's progress on standard error: lines, and in a terminal a live table (rich)."""

from typing import TYPE_CHECKING, Any, Self, TextIO

from wharfinger.cli import format as fmt
from wharfinger.cli.targets import target, term
from wharfinger.demo.timeline import Row, Timeline
from wharfinger.demo.workloads import FILLERS, TARGETED

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

STATUS_SECONDS = 10.0
RECENT = 4
"""Samples over which the table's CPU use is averaged."""
SHOWN_STAGES = frozenset({"placement", "adaptation", "profiling", "classification"})
COLORS = {True: "green", False: "red", None: ""}


class DemoProgress:
    """Shows progress, unless the stream is ``None``; a context that restores the terminal."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._live: Live | None = None
        self._timeline: Timeline | None = None
        self._shown = 0
        self._next_status = 0.0
        if stream is not None and stream.isatty():
            try:
                self._live = _make_live(stream, self.view)
            except ImportError:
                print("rich is not installed: no live table, but lines", file=stream)

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_error: object) -> None:
        if self._live is not None:
            self._live.stop()

    def tell(self, text: str, style: str = "") -> None:
        """A line; those that begin with a bracket are the demo's steps."""
        if text.startswith("["):
            self._timeline, style = None, "bold"
        if self._live is not None:
            self._live.console.print(text, style=style, markup=False, highlight=False)
        elif self._stream is not None:
            print(text, file=self._stream, flush=True)

    def show(self, timeline: Timeline) -> None:
        """New decisions of a run, and every ten seconds its workloads' states."""
        if timeline is not self._timeline:
            self._timeline, self._shown, self._next_status = timeline, 0, STATUS_SECONDS
        for decision in timeline.decisions[self._shown :]:
            if decision["stage"] in SHOWN_STAGES:
                style = "yellow" if decision["adjusts"] else "" if decision["accepted"] else "dim"
                self.tell(f"      {_line(decision)}", style)
        self._shown = len(timeline.decisions)
        if self._live is None and timeline.seconds >= self._next_status:
            self._next_status += STATUS_SECONDS
            rows = timeline.samples[-1].workloads
            states = (f"{name} {_state(rows[name])}" for name in TARGETED)
            self.tell(f"      {timeline.seconds:4.0f} s  {', '.join(states)}")

    def view(self) -> "RenderableType":
        """The live table; nothing outside of a run."""
        from rich.table import Table  # noqa: PLC0415 - an extra
        from rich.text import Text  # noqa: PLC0415 - an extra

        timeline = self._timeline
        if timeline is None:
            return ""
        rows = timeline.samples[-1].workloads
        used = f"{_cpus_now(timeline, *rows):.2f} of {timeline.cpus:g} CPUs used"
        title = f"{timeline.seconds:.0f} s under {timeline.policy}: {used}"
        table = Table(title=title, title_justify="left", title_style="bold", expand=True)
        for head in ("workload", "phase", "server", "target", "achieved", "met"):
            table.add_column(head, no_wrap=True)
        for head in ("CPUs allocated", "used"):
            table.add_column(head, justify="right", no_wrap=True)
        for name, row in rows.items():
            table.add_row(
                name,
                row["phase"],
                ",".join(row["servers"]) or fmt.NONE,
                target(row["target"]) if row["target"] else row["type"],
                _achieved(row),
                Text(fmt.yes_no(row["met"]), style=COLORS[row["met"]]),
                fmt.NONE if name in FILLERS else f"{row['cpus']:.2f}",
                f"{_cpus_now(timeline, name):.2f}",
            )
        return table


def _make_live(stream: TextIO, view: Any) -> "Live":
    from rich.console import Console  # noqa: PLC0415 - an extra
    from rich.live import Live  # noqa: PLC0415 - an extra

    console = Console(file=stream)
    return Live(console=console, refresh_per_second=2, transient=True, get_renderable=view)


def _achieved(row: Row) -> str:
    values = (row["achieved"] or {}).items()
    return " ".join(term(*pair) for pair in values if pair[1] is not None) or fmt.NONE


def _state(row: Row) -> str:
    if row["phase"] != "running":
        return str(row["phase"])
    return {True: "on target", False: "below target", None: "running"}[row["met"]]


def _line(decision: Row) -> str:
    refused = "unchanged: " if decision["stage"] == "adaptation" else "waits: "
    sign = "" if decision["accepted"] else refused
    return f"{decision['at_seconds']:4.0f} s  {decision['name']}: {sign}{decision['message']}"


def _cpus_now(timeline: Timeline, *names: str) -> float:
    before, now = timeline.samples[-RECENT:][0], timeline.samples[-1]
    span = now.at_seconds - before.at_seconds
    return (now.cpu_seconds(names) - before.cpu_seconds(names)) / span if span > 0 else 0.0
