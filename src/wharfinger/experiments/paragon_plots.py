"""Pictures in the form of Paragon's Figures 9, 10d, 12 and 14, in the style of ``plots``."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from wharfinger.experiments.plots import (
    FEW,
    PERFORMANCE,
    SHORT,
    WIDTH_INCHES,
    Curve,
    canvas,
    draw_lines,
)
from wharfinger.model.arrays import Array
from wharfinger.simulator.results.outcome import Series

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BAND_EDGES = (0.01, 0.1, 0.2)
"""Of what is lost; what is below a hundredth is none."""
BANDS = ("none", "below 10%", "10 to 20%", "over 20%")
PART_COLOURS = ("#14307d", "#5b9bdc", "#e8c39a", "#b8460f")


def breakdown(values: Mapping[str, Array], title: str, ylabel: str) -> "Figure":
    """Shares of workloads by how much they lose, as in Paragon's Figures 9 and 14."""
    shares_of = np.array([band_shares(each) for each in values.values()]).T
    names = [name.replace("[", "\n[").replace(",", ",\n").replace("+", "+\n") for name in values]
    parts = dict(zip(BANDS, shares_of, strict=True))
    return stacked({"parts": parts, "names": names}, title, ylabel)


def stacked(panels: Mapping[str, Any], title: str, ylabel: str) -> "Figure":
    """Of N ``names``, (N,) shares of each of the ``parts``, on top of each other, in percent."""
    parts, names = panels["parts"], panels["names"]
    with canvas(1, 1, title, (WIDTH_INCHES, 4.8)) as (figure, (axes,)):
        below = np.zeros(len(names))
        for shade, (label, share) in zip(PART_COLOURS, parts.items(), strict=False):
            axes.bar(range(len(names)), share * 100, 0.7, below * 100, color=shade, label=label)
            below = below + share
        axes.set_xticks(range(len(names)), labels=names)
        if max(map(len, names)) > SHORT:
            axes.tick_params("x", rotation=90, labelsize=9)
        axes.set_ylabel(ylabel)
        figure.legend(loc="outside lower left", frameon=False, ncols=FEW, fontsize=10)
    return figure


def band_shares(losses: Array) -> Array:
    """(4,) share of losses in each of the bands, which are those of Paragon's Figures 9 and 14.

    >>> band_shares(np.array([-0.02, 0.005, 0.04, 0.3])).tolist()
    [0.5, 0.25, 0.0, 0.25]
    """
    above = [float((losses > edge).mean()) if losses.size else 0.0 for edge in BAND_EDGES]
    return np.asarray(np.abs(np.diff([1.0 if losses.size else 0.0, *above, 0.0])))


def performance(series: Mapping[str, Series], title: str) -> "Figure":
    """Mean performance of those that run, over time, one line per policy."""
    lines = {n: (middles(one.edges) / 60, one.performance) for n, one in series.items()}
    return _performances(lines, title, "time since the beginning (min)")


def after_change(series: Mapping[str, Series], title: str) -> "Figure":
    """Mean performance of a workload since it entered another phase, one line per policy."""
    lines = {n: (middles(one.after_edges), one.after_change) for n, one in series.items()}
    return _performances(lines, title, "time since a workload entered a phase (s)", 0.0)


def _performances(
    lines: Mapping[str, Curve], title: str, xlabel: str, upright: float | None = None
) -> "Figure":
    with canvas(1, 1, title, (WIDTH_INCHES, 4.8), on_lines=True) as (figure, (axes,)):
        draw_lines(axes, lines)
        axes.set(xlabel=xlabel, ylabel=PERFORMANCE)
        axes.set_ylim(0, 1.03)
        if upright is not None:
            axes.axvline(upright, color="black", linewidth=1)
    return figure


def middles(edges: Array) -> Array:
    """(B,) of bins with (B + 1,) edges."""
    return (edges[1:] + edges[:-1]) / 2
