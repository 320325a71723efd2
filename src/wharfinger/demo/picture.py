"""The demo's picture: performance over target and CPU over time, both runs side by side."""

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wharfinger.demo.report import Report, Run
from wharfinger.demo.verdict import (
    MOST,
    busy_over_time,
    cpus_over_time,
    scores_over_time,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00")
"""Okabe and Ito's, told apart by the colour-blind as well."""
BEST_EFFORT = "#bbbbbb"


def draw(report: Report, path: Path) -> bool:
    """Write the picture; ``False`` = matplotlib is not installed.

    Raises:
        OSError: The file can't be written.
    """
    try:
        import matplotlib as mpl  # noqa: PLC0415 - an extra
    except ImportError:
        return False
    mpl.use("agg")
    import matplotlib.pyplot as plt  # noqa: PLC0415 - after the backend is chosen

    figure, axes = plt.subplots(3, 2, figsize=(13, 10), sharex="col", sharey="row")
    for column, run in enumerate((report.main, report.baseline)):
        _performance(axes[0][column], run)
        _given(axes[1][column], run)
        _used(axes[2][column], run)
        axes[0][column].set_title(
            f"{run.course.policy}: {run.met} of {len(run.outcomes)} targets met, "
            f"{run.utilization:.0%} of CPU used, {run.targeted_utilization:.0%} by targeted work"
        )
        axes[2][column].set_xlabel("seconds since the workloads were handed in")
    axes[1][0].set_ylim(bottom=0)  # After both: the axis is shared.
    axes[0][0].set_ylabel("performance / target")
    axes[1][0].set_ylabel("CPUs given")
    axes[2][0].set_ylabel("CPUs used")
    handles, labels = axes[2][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=len(labels), frameon=False)
    figure.tight_layout(rect=(0, 0.04, 1, 1))
    figure.savefig(path, dpi=110, format="png")
    plt.close(figure)
    return True


def _performance(axes: "Axes", run: Run) -> None:
    for outcome, colour in zip(run.outcomes, COLOURS, strict=False):
        member, goal = outcome.member, outcome.goal
        seen = run.seen.get(member.name, ())
        times, scores = scores_over_time(run.course, member, goal, seen)
        axes.plot(times, scores, color=colour, linewidth=1.5, label=member.name)
    axes.axhline(1.0, color="black", linewidth=1)
    axes.axhspan(0.9, 1.0, color="black", alpha=0.08, linewidth=0)
    axes.set_ylim(0, MOST)
    _mark_surge(axes, run, words=True)
    for step in run.course.adjustments:
        axes.axvline(step.at_seconds, color="#666666", linewidth=0.6, linestyle=":")


def _given(axes: "Axes", run: Run) -> None:
    course = run.course
    for outcome, colour in zip(run.outcomes, COLOURS, strict=False):
        name = outcome.member.name
        cpus = [look[name].cpus if name in look else 0.0 for look in course.looks]
        axes.step(course.times, cpus, where="post", color=colour, linewidth=1.5)
        axes.axhline(outcome.goal.need_cpus, color=colour, linewidth=0.5, alpha=0.4)
        for step in outcome.adjustments:
            axes.plot(step.at_seconds, step.cpus or 0.0, "o", color=colour, markersize=5)
    _mark_surge(axes, run)


def _used(axes: "Axes", run: Run) -> None:
    names = [outcome.member.name for outcome in run.outcomes]
    times, layers, labels = _layers(run, names)
    colours: Sequence[Any] = [*COLOURS[: len(names)], BEST_EFFORT]
    axes.stackplot(times, layers, labels=labels, colors=colours, linewidth=0)
    axes.plot(*busy_over_time(run.course), color="black", linewidth=0.8, label="all on these CPUs")
    axes.axhline(run.course.cpus, color="black", linewidth=1)
    axes.set_ylim(0, run.course.cpus * 1.05)
    _mark_surge(axes, run)


def _layers(run: Run, names: Sequence[str]) -> tuple[list[float], list[list[float]], list[str]]:
    """CPUs used over time: a layer for each targeted workload, one for all best-effort work."""
    times = cpus_over_time(run.course, names[0])[0]
    found = {name: cpus_over_time(run.course, name) for name in [*names, *run.fillers]}
    layers = [_at(times, *found[name]) for name in names]
    fillers = [_at(times, *found[name]) for name in run.fillers]
    rest = [sum(values) for values in zip(*fillers, strict=True)] if fillers else [0.0] * len(times)
    return times, [*layers, rest], [*names, "best-effort"]


def _at(times: Sequence[float], known: Sequence[float], values: Sequence[float]) -> list[float]:
    """Values at these times, smoothed over three; 0 where there is none."""
    by_time = dict(zip(known, values, strict=True))
    found = [by_time.get(time, 0.0) for time in times]
    sums = [0.0, *accumulate(found)]
    last = len(found)
    return [
        (sums[min(last, i + 2)] - sums[max(0, i - 1)]) / (min(last, i + 2) - max(0, i - 1))
        for i in range(last)
    ]


def _mark_surge(axes: "Axes", run: Run, *, words: bool = False) -> None:
    axes.axvline(run.surge_seconds, color="black", linewidth=0.8, linestyle="--")
    if words:
        at = (run.surge_seconds, MOST * 0.95)
        axes.annotate("load of web surges", at, xytext=(4, 0), textcoords="offset points", va="top")
