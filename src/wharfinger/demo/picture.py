"""The demo's picture: performance over target and CPU over time, both runs side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import nan
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from wharfinger.demo.timeline import Row, Timeline
from wharfinger.demo.verdict import MAX_SCORE, ClientSecond
from wharfinger.demo.workloads import FILLERS, SERVICES, TARGETED, TOLERANCE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLORS = dict(zip(TARGETED, ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00"), strict=True))
"""Okabe and Ito's, told apart by the color-blind as well."""
BEST_EFFORT_COLOR = "#bbbbbb"


@dataclass(frozen=True, slots=True)
class DemoRun:
    """One run: what was seen, what services' clients saw, and what came of it."""

    timeline: Timeline
    clients: Mapping[str, Sequence[ClientSecond]]
    result: Row
    surge_seconds: float


def draw(runs: Sequence[DemoRun], path: Path) -> None:
    """Write the picture, a column for each run; ``ImportError`` where matplotlib is missing."""
    import matplotlib as mpl  # noqa: PLC0415 - an extra

    mpl.use("agg")
    import matplotlib.pyplot as plt  # noqa: PLC0415 - after the backend is chosen

    figure, axes = plt.subplots(3, 2, figsize=(13, 10), sharex="col", sharey="row")
    for column, run in zip(axes.T, runs, strict=True):
        _performance(column[0], run)
        _given(column[1], run.timeline)
        for needed in {row["needed_cpus"] for row in run.result["workloads"]} - {None}:
            column[1].axhline(needed, color="black", linewidth=0.5, alpha=0.4)
        _used(column[2], run.timeline)
        column[0].set_title(
            f"{run.result['policy']}: {run.result['targets_met']} of {len(TARGETED)} targets met, "
            f"{run.result['utilization']:.0%} of CPU used, "
            f"{run.result['targeted_utilization']:.0%} by targeted work"
        )
        for each in column:
            each.axvline(run.surge_seconds, color="black", linewidth=0.8, linestyle="--")
        column[2].set_xlabel("seconds since the workloads were submitted")
    axes[1][0].set_ylim(bottom=0)  # After both: the axis is shared.
    for row, label in zip(
        axes, ("performance / target", "CPUs allocated", "CPUs used"), strict=True
    ):
        row[0].set_ylabel(label)
    handles, labels = axes[2][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=len(labels), frameon=False)
    figure.tight_layout(rect=(0, 0.04, 1, 1))
    figure.savefig(path, dpi=110, format="png")
    plt.close(figure)


def _performance(axes: "Axes", run: DemoRun) -> None:
    for row in run.result["workloads"]:
        if row["name"] in SERVICES:
            scores = [(one.second, one.score(row["target"])) for one in run.clients[row["name"]]]
        elif row["name"] in TARGETED:
            scores = _batch_scores(run.timeline, row)
        else:
            continue
        axes.plot(*zip(*scores or [(0, nan)], strict=True), color=COLORS[row["name"]])
    axes.axhline(1.0, color="black", linewidth=1)
    axes.axhspan(1 - TOLERANCE, 1.0, color="black", alpha=0.08, linewidth=0)
    axes.set_ylim(0, MAX_SCORE)
    at = (run.surge_seconds, MAX_SCORE * 0.95)
    axes.annotate("load of web surges", at, xytext=(4, 0), textcoords="offset points", va="top")
    for step in run.timeline.adjustments:
        axes.axvline(step["at_seconds"], color="#666666", linewidth=0.6, linestyle=":")


def _batch_scores(timeline: Timeline, row: Row) -> list[tuple[float, float]]:
    scores = []
    for sample in timeline.samples:
        then = sample.workloads[row["name"]]
        expected = (then["achieved"] or {}).get("completion_seconds")
        if then["phase"] in ("running", "adjusting") and expected:
            score = row["target"]["completion_seconds"] / expected
            scores.append((sample.at_seconds, min(MAX_SCORE, score)))
    return scores


def _given(axes: "Axes", timeline: Timeline) -> None:
    times = [sample.at_seconds for sample in timeline.samples]
    for name, color in COLORS.items():
        cpus = [sample.workloads[name]["cpus"] for sample in timeline.samples]
        axes.step(times, cpus, where="post", color=color)
        steps = [step for step in timeline.adjustments if step["name"] == name]
        at = [step["at_seconds"] for step in steps]
        axes.plot(at, [step["cpus"] or 0.0 for step in steps], "o", color=color, markersize=5)


def _used(axes: "Axes", timeline: Timeline) -> None:
    """CPUs used: a layer for each targeted workload, one for all best-effort work."""
    samples = timeline.samples
    times = [(a.at_seconds + b.at_seconds) / 2 for a, b in pairwise(samples)]

    def per_second(totals: Sequence[float]) -> list[float]:
        spans = pairwise(sample.at_seconds for sample in samples)
        return [(q - p) / (b - a) for (p, q), (a, b) in zip(pairwise(totals), spans, strict=True)]

    layers = [
        _smooth(per_second([sum(at) for at in zip(*map(timeline.accrued_cpu, names), strict=True)]))
        for names in (*([name] for name in TARGETED), FILLERS)
    ]
    colors, labels = [*COLORS.values(), BEST_EFFORT_COLOR], [*TARGETED, "best-effort"]
    axes.stackplot(times, layers, labels=labels, colors=colors, linewidth=0)
    busy = per_second([sample.busy_seconds or 0.0 for sample in samples])
    if any(busy):
        axes.plot(times, busy, color="black", linewidth=0.8, label="all on these CPUs")
    axes.axhline(timeline.cpus, color="black", linewidth=1)
    axes.set_ylim(0, timeline.cpus * 1.05)


def _smooth(values: Sequence[float]) -> list[float]:
    return [fmean(values[max(0, at - 1) : at + 2]) for at in range(len(values))]
