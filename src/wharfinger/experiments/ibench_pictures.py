"""iBench's Figures 5.2 and 5.4 of a real machine, from what ``ibench validate`` found."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wharfinger.experiments import plots
from wharfinger.experiments.physics_plots import Square, matrices

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLUMNS = 4
_PANEL_INCHES = (2.5, 2.1)
_LETTERS = 9


def draw(document: Mapping[str, Any], folder: Path) -> list[Path]:
    """Write what there is to draw; raises ``Unavailable`` without matplotlib, ``OSError``."""
    written = []
    shown = [row for row in document["sources"] if row["points"]]
    if shown:
        figure = linearity(shown)
        written += plots.save(figure, folder / "linearity")
    squares = {
        title: _square(document[key])
        for title, key in (
            ("on one CPU, by CPU time", "independence"),
            ("on two CPUs", "independence_across_cpus"),
        )
        if document[key]
    }
    if squares:
        figure = matrices(squares, "What each source keeps beside each")
        written += plots.save(figure, folder / "independence")
    return written


def linearity(rows: Sequence[Mapping[str, Any]]) -> "Figure":
    """Achieved against asked, by the source's own account and by the kernel's (Figure 5.2)."""
    columns = min(_COLUMNS, len(rows))
    lines = -(-len(rows) // columns)
    size = (max(plots.WIDTH_INCHES, _PANEL_INCHES[0] * columns), _PANEL_INCHES[1] * lines + 0.9)
    title = "What each source achieves"
    with plots.canvas(lines, columns, title, size, sharex=True) as (figure, panels):
        for axes, row in zip(panels, rows, strict=False):
            _line(axes, row)
        for axes in panels[len(rows) :]:
            axes.set_visible(False)
        for axes in panels[len(rows) - columns : len(rows)]:
            axes.set_xlabel("intensity", fontsize=_LETTERS)
            axes.tick_params(labelbottom=True)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(
            handles, labels, loc="outside lower left", frameon=False, ncols=4, fontsize=_LETTERS
        )
    return figure


def _line(axes: "Axes", row: Mapping[str, Any]) -> None:
    points = row["points"]
    asked = [point["intensity"] for point in points]
    axes.plot([0, 100], [0, 100], color="#9a9a9a", linewidth=0.8, label="as asked")
    counted = [np.nan if point["counted"] is None else point["counted"] for point in points]
    axes.plot(
        asked, counted, "s", color=plots.COLOURS[7], markersize=6, label="the kernel's counter"
    )
    told = [point["achieved"] if point["tells"] else np.nan for point in points]
    untold = [np.nan if point["tells"] else point["achieved"] for point in points]
    axes.plot(asked, told, "o", color=plots.COLOURS[0], markersize=3, label="the source's account")
    axes.plot(asked, untold, "x", color=plots.COLOURS[4], label="others had the CPU")
    r_squared = row["r_squared"]
    words = "" if r_squared is None else f"\nr² {r_squared:.3f}"
    axes.set_title(f"{row['name']}{words}", fontsize=_LETTERS)
    axes.set(xlim=(-4, 104), ylim=(-6, 118), xticks=[0, 50, 100], yticks=[0, 50, 100])
    axes.tick_params(labelsize=_LETTERS - 1)


def _square(square: Mapping[str, Mapping[str, float]]) -> Square:
    names = list(square)
    columns = list(dict.fromkeys(other for row in square.values() for other in row))
    values = np.array([[square[one].get(other, np.nan) for other in columns] for one in names])
    return names, columns, values
