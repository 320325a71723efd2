"""Progress as it comes: a live view in a terminal, plain lines elsewhere.

Both go to standard error; standard output is for the result.
"""

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, TextIO

from wharfinger.demo import words
from wharfinger.demo.plan import MEMBERS, Goal, Kind
from wharfinger.demo.timeline import Course, Moment, Step
from wharfinger.demo.verdict import cpus_over_time

if TYPE_CHECKING:
    from rich.console import RenderableType

STATUS_SECONDS = 10.0
STEPS_SHOWN = 8
RECENT = 3
SHOWN_STAGES = frozenset({"placement", "adaptation", "profiling", "classification"})


class Screen(Protocol):
    """Where progress goes."""

    def __enter__(self) -> Self:
        """Begin."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the terminal as it was."""

    def step(self, number: int, of: int, text: str) -> None:
        """One of the demo's steps begins."""

    def note(self, text: str) -> None:
        """Something within a step."""

    def look(self, course: Course) -> None:
        """A run was looked at once more."""

    def goals(self, goals: Mapping[str, Goal]) -> None:
        """Targets are known."""


class PlainScreen:
    """Lines, one after the other.

    Args:
        stream: Where to; ``None`` = nowhere.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._told = 0
        self._next_status = 0.0
        self._course: Course | None = None

    def __enter__(self) -> Self:
        """Nothing to begin."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing to end."""

    def _say(self, text: str) -> None:
        if self._stream is not None:
            print(text, file=self._stream, flush=True)

    def step(self, number: int, of: int, text: str) -> None:
        """A line of its own."""
        self._say(f"[{number}/{of}] {text}")

    def note(self, text: str) -> None:
        """An indented line."""
        self._say(f"      {text}")

    def goals(self, goals: Mapping[str, Goal]) -> None:
        """One line for each target."""
        for name, goal in goals.items():
            self._say(f"      {name}: {words.target(goal)} (needs {goal.need_cpus:.2f} CPUs)")

    def look(self, course: Course) -> None:
        """New decisions, and from time to time how all fare."""
        if course is not self._course:
            self._course, self._told, self._next_status = course, 0, STATUS_SECONDS
        for step in shown_steps(course)[self._told :]:
            self._say(f"      {line_of(step)}")
        self._told = len(shown_steps(course))
        if course.times[-1] >= self._next_status:
            self._next_status += STATUS_SECONDS
            states = (
                f"{m.name} {state(course.looks[-1].get(m.name))}" for m in MEMBERS if m.targeted
            )
            self._say(f"      {course.times[-1]:4.0f} s  {', '.join(states)}")


def state(found: Moment | None) -> str:
    """How one workload fares, in a word or two."""
    if found is None:
        return "not there"
    if found.phase != "running":
        return found.phase
    return {True: "on target", False: "below target", None: "running"}[found.met]


def shown_steps(course: Course) -> list[Step]:
    """Decisions that are worth showing, oldest first."""
    return [step for step in course.steps if step.stage in SHOWN_STAGES]


def line_of(step: Step) -> str:
    """One decision."""
    sign = "" if step.accepted else "waits: " if step.stage == "placement" else "kept: "
    return f"{step.at_seconds:4.0f} s  {step.name}: {sign}{step.message}"


class LiveScreen:
    """A view that is drawn anew each second (rich)."""

    def __init__(self) -> None:
        from rich.console import Console  # noqa: PLC0415 - an extra
        from rich.live import Live  # noqa: PLC0415 - an extra

        self._steps: list[str] = []
        self._notes: list[str] = []
        self._goals: Mapping[str, Goal] = {}
        self._course: Course | None = None
        self._length = 0
        self._console = Console(stderr=True)
        self._live = Live(
            console=self._console, refresh_per_second=2, transient=True, get_renderable=self._view
        )

    def __enter__(self) -> Self:
        """Take the terminal."""
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the terminal back."""
        self._live.stop()

    def step(self, number: int, of: int, text: str) -> None:
        """The step moves on."""
        self._steps.append(text)
        self._length = of
        self._notes, self._course = [], None

    def note(self, text: str) -> None:
        """Shown beneath the step."""
        self._notes.append(text)

    def goals(self, goals: Mapping[str, Goal]) -> None:
        """Shown in the table."""
        self._goals = goals

    def look(self, course: Course) -> None:
        """Shown at the next refresh."""
        self._course = course

    def _view(self) -> "RenderableType":
        from rich.console import Group  # noqa: PLC0415 - an extra
        from rich.text import Text  # noqa: PLC0415 - an extra

        lines = Text()
        for number, text in enumerate(self._steps, 1):
            is_now = number == len(self._steps)
            lines.append(f" {number}/{self._length} ", style="bold" if is_now else "dim")
            lines.append(f"{text}\n", style="bold" if is_now else "dim")
        for note in self._notes[-STEPS_SHOWN:]:
            lines.append(f"     {note}\n")
        if self._course is None or not self._course.looks:
            return lines
        return Group(lines, self._table(self._course), self._decisions(self._course))

    def _table(self, course: Course) -> "RenderableType":
        from rich.table import Table  # noqa: PLC0415 - an extra
        from rich.text import Text  # noqa: PLC0415 - an extra

        used = sum(_cpus_now(course, name) for name in course.looks[-1])
        table = Table(
            title=f"{course.times[-1]:.0f} s under {course.policy}: "
            f"{used:.2f} of {course.cpus:g} CPUs used",
            title_justify="left",
            title_style="bold",
            expand=True,
        )
        for head in ("workload", "phase", "server", "target", "achieved", "met"):
            table.add_column(head, no_wrap=True)
        for head in ("CPUs given", "used"):
            table.add_column(head, justify="right", no_wrap=True)
        for member in MEMBERS:
            found = course.looks[-1].get(member.name)
            if found is None:
                continue
            goal = self._goals.get(member.name)
            colour = {True: "green", False: "red", None: ""}[found.met]
            table.add_row(
                member.name,
                found.phase,
                found.server or words.NONE,
                words.target(goal) if goal else "best-effort",
                words.live(found.achieved),
                Text(words.verdict(found.met), style=colour),
                words.NONE if member.kind is Kind.FILLER else f"{found.cpus:.2f}",
                f"{_cpus_now(course, member.name):.2f}",
            )
        return table

    def _decisions(self, course: Course) -> "RenderableType":
        from rich.text import Text  # noqa: PLC0415 - an extra

        lines = Text("last decisions\n", style="bold", overflow="ellipsis", no_wrap=True)
        for step in shown_steps(course)[-STEPS_SHOWN:]:
            style = "yellow" if step.adjusts else "" if step.accepted else "dim"
            lines.append(f"{line_of(step)}\n", style=style)
        return lines


def _cpus_now(course: Course, name: str) -> float:
    used = cpus_over_time(course, name)[1][-RECENT:]
    return sum(used) / len(used) if used else 0.0


def make_screen(stream: TextIO | None) -> Screen:
    """The live view where somebody looks and rich is installed, else lines.

    Args:
        stream: Standard error; ``None`` = say nothing.
    """
    if stream is not None and stream.isatty():
        try:
            return LiveScreen()
        except ImportError:
            print("rich is not installed: no live view, but lines", file=stream)
    return PlainScreen(stream)
