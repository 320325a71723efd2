"""Pictures of the physics, in the style of ``plots``: panels by title, data by name in each."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from wharfinger.experiments.plots import (
    BUSY,
    COLOURS,
    LIGHT,
    WIDTH_INCHES,
    Curve,
    canvas,
    draw_lines,
    shares,
)
from wharfinger.model.arrays import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend

T = TypeVar("T")
Panels = Mapping[str, Mapping[str, T]]
"""By panel and by name."""
Square = tuple[Sequence[str], Sequence[str], Array]
"""Names of rows and of columns, and values."""
PANEL_INCHES = 4.6
_EDGE = "#14307d"
_SHAPES = ("o", "s", "^", "D", "v", "P", "X")
_PARTS = (("#14307d", ""), ("#9a9a9a", "...."), ("#f2f2f2", "////"), ("#ffffff", ""))
UPRIGHT = 60
"""Where the names below all bars have more characters together, they are turned."""
NAMED_CELLS = 17
"""Limit of columns with names and numbers; more would be too small to read."""
_ROOM = 0.55
"""Value of a cell, below which its number is written in white."""


def violins(panels: Panels[Sequence[float]], title: str, ylabel: str) -> "Figure":
    """Distributions with their medians, on a logarithmic axis."""
    with _grid(panels, title, 3.0, ylabel) as (figure, all_axes):
        for axes, groups in zip(all_axes, panels.values(), strict=False):
            _violin(axes, groups)
    return figure


def _violin(axes: "Axes", groups: Mapping[str, Sequence[float]]) -> None:
    values = [np.log10(np.asarray(each, dtype=np.float64)) for each in groups.values()]
    places = np.arange(1, len(values) + 1)
    spread = [number for number, each in enumerate(values) if np.ptp(each) > 1e-6]
    if spread:
        parts: Any = axes.violinplot(
            [values[number] for number in spread], places[spread], widths=0.85, showextrema=False
        )
        for body in parts["bodies"]:
            body.set(facecolor=LIGHT, edgecolor=_EDGE, alpha=1.0, linewidth=0.9)
    for place, each in zip(places, values, strict=True):
        axes.hlines(np.median(each), place - 0.3, place + 0.3, color="black", linewidth=1.6)
    axes.set_xticks(places, labels=list(groups))
    if max(map(len, groups)) > 3:
        axes.tick_params("x", rotation=40)
        for label in axes.get_xticklabels():
            label.set(horizontalalignment="right", rotation_mode="anchor")
    low = min(float(each.min()) for each in values)
    high = max(float(each.max()) for each in values)
    _log_ticks(axes, low, high)


def _log_ticks(axes: "Axes", low: float, high: float) -> None:
    shown = _plain(low - 0.2, high + 0.2, (1, 2, 5) if high - low < 2.2 else (1,))
    axes.set_ylim(low - 0.08 * (high - low) - 0.02, high + 0.08 * (high - low) + 0.02)
    axes.set_yticks(np.log10(shown), labels=[f"{each:g}" for each in shown])


def _round_ticks(axes: "Axes") -> None:
    low, high = np.log10(axes.get_xlim())
    shown = _plain(low, high, (1, 2, 5))
    axes.set_xticks(shown, labels=[f"{each:g}" for each in shown])
    axes.minorticks_off()


def _plain(low: float, high: float, digits: Sequence[int]) -> list[float]:
    powers = range(int(np.floor(low)), int(np.ceil(high)) + 1)
    numbers = [10.0**power * digit for power in powers for digit in digits]
    return [each for each in numbers if low <= np.log10(each) <= high]


def curves(
    panels: Panels[Curve],
    title: str,
    axes_labels: tuple[str, str],
    *,
    log: bool = False,
    limits: tuple[float | None, float | None] = (0.0, None),
    legend: Literal["", "upper left", "upper right", "lower right", "below"] = "",
    columns: int = 2,
) -> "Figure":
    """Labelled lines, with a legend where they are too close for labels on them.

    ``log`` is for the horizontal axis, ``limits`` are for the vertical one. With more than two
    ``columns`` of panels they are small.
    """
    along_label, up_label = axes_labels
    inches = 3.4 if columns <= 2 else 1.9
    on_lines = legend != "below"
    with _grid(panels, title, inches, up_label, on_lines=on_lines, most=columns) as (
        figure,
        all_axes,
    ):
        for axes, group in zip(all_axes, panels.values(), strict=False):
            draw_lines(axes, group)
            axes.set(ylim=limits)
            if columns <= 2:
                axes.set_xlabel(along_label)
            if log:
                axes.set_xscale("log")
                _round_ticks(axes)
            if legend and legend != "below":
                axes.legend(loc=legend, frameon=False, fontsize=10, handlelength=2.4)
        if legend == "below":
            _legend_below(figure, all_axes)
        if columns > 2:
            figure.supxlabel(along_label)
    return figure


@contextlib.contextmanager
def _grid(
    panels: Mapping[str, Any],
    title: str,
    inches: float,
    ylabel: str,
    *,
    on_lines: bool = False,
    most: int = 2,
) -> "Iterator[tuple[Figure, list[Axes]]]":
    columns = min(most, len(panels))
    rows = -(-len(panels) // columns)
    width = WIDTH_INCHES if columns == 1 else PANEL_INCHES * min(columns, 2)
    size = (width, inches * rows + 0.5)
    with canvas(rows, columns, title, size, on_lines=on_lines) as (figure, all_axes):
        for axes, name in zip(all_axes, panels, strict=False):
            axes.set_title(name, fontsize=12 if most <= 2 else 9.5)
        yield figure, all_axes
        for axes in all_axes[len(panels) :]:
            axes.set_axis_off()
        if most > 2:
            figure.supylabel(ylabel)
        for axes in all_axes[::columns] if most <= 2 else ():
            axes.set_ylabel(ylabel)


def matrices(panels: Mapping[str, Square], title: str) -> "Figure":
    """Values from 0 to 1 as lightness, dark = low; small matrices with numbers as well."""
    most = max(len(columns) for _, columns, _ in panels.values())
    side = max(PANEL_INCHES, 0.42 * most + 1.9) if most <= NAMED_CELLS else PANEL_INCHES
    with canvas(1, len(panels), title, (side * len(panels), side + 0.2)) as (figure, all_axes):
        for axes, (name, (rows, columns, values)) in zip(all_axes, panels.items(), strict=True):
            axes.set_title(name)
            shown = axes.imshow(values, cmap=f"{BUSY}_r", vmin=0, vmax=1, aspect="auto")
            axes.grid(visible=False)
            axes.patch.set(hatch="////", facecolor="white")  # Where nothing was measured.
            if len(columns) <= NAMED_CELLS:
                axes.set_xticks(range(len(columns)), labels=columns, rotation=90, fontsize=9)
                axes.set_yticks(range(len(rows)), labels=rows, fontsize=9)
                _write_in(axes, values)
            else:
                axes.set(xlabel="neighbors, the noisiest first", ylabel="programs")
                axes.set(xticks=[], yticks=[])
        figure.colorbar(shown, ax=all_axes, shrink=0.7, label="kept")
    return figure


def _write_in(axes: "Axes", values: Array) -> None:
    for row, line in enumerate(values):
        for column, value in enumerate(line):
            if value < 0.995:
                colour = "black" if value > _ROOM else "white"
                text = f"{value:.2f}".lstrip("0")
                axes.text(column, row, text, color=colour, ha="center", va="center", fontsize=7)


def bubbles(
    panels: "Panels[tuple[Array, Array, Array]]", title: str, axes_labels: tuple[str, str]
) -> "Figure":
    """Points with sizes, in percent; kinds differ in shade and in shape."""
    with _grid(panels, title, 4.6, axes_labels[1]) as (figure, all_axes):
        for axes, kinds in zip(all_axes, panels.values(), strict=False):
            for number, (kind, (along, up, size)) in enumerate(kinds.items()):
                axes.scatter(
                    along, up, 14 * np.asarray(size), marker=_SHAPES[number % len(_SHAPES)],
                    facecolor=COLOURS[number % len(COLOURS)], edgecolor="black", linewidth=0.5,
                    alpha=0.55, label=kind,
                )  # fmt: skip
            axes.set(xlim=(-3, 103), ylim=(-3, 103), xlabel=axes_labels[0])
        legend = _legend_below(figure, all_axes)
        for handle in legend.legend_handles:
            handle.set_sizes([50.0])  # type: ignore[union-attr] # of a scatter
    return figure


def stacks(panels: Panels[Mapping[str, float]], title: str, ylabel: str) -> "Figure":
    """Bars of parts, by bar and part, in shades with hatches."""
    return _bars(panels, title, ylabel, stacked=True)


def grouped(panels: Panels[Mapping[str, float]], title: str, ylabel: str) -> "Figure":
    """Bars side by side, by group and name, in shades with hatches."""
    return _bars(panels, title, ylabel, stacked=False)


def _bars(
    panels: Panels[Mapping[str, float]], title: str, ylabel: str, *, stacked: bool
) -> "Figure":
    with _grid(panels, title, 3.6, ylabel) as (figure, all_axes):
        for axes, each in zip(all_axes, panels.values(), strict=False):
            names = list(next(iter(each.values())))
            places, below = np.arange(len(each)), np.zeros(len(each))
            width = 0.7 if stacked else 0.8 / len(names)
            for number, name in enumerate(names):
                values = np.array([one[name] for one in each.values()])
                shade, hatch = _PARTS[number % len(_PARTS)]
                aside = 0.0 if stacked else (number + 0.5) * width - 0.4
                axes.bar(
                    places + aside, values, width, below, label=name, facecolor=shade, hatch=hatch,
                    edgecolor="black", linewidth=0.6,
                )  # fmt: skip
                below = below + values if stacked else below
            rotation, side = (60, "right") if sum(map(len, each)) > UPRIGHT else (0, "center")
            axes.set_xticks(places, labels=list(each), rotation=rotation, ha=side)
        _legend_below(figure, all_axes)
    return figure


def _legend_below(figure: "Figure", all_axes: "Sequence[Axes]") -> "Legend":
    """One for all panels, of that with most names."""
    handles, labels = max(
        (axes.get_legend_handles_labels() for axes in all_axes), key=lambda each: len(each[1])
    )
    place: Any = "outside lower center"
    legend: Legend = figure.legend(handles, labels, loc=place, frameon=False, ncols=3, fontsize=10)
    return legend


def distributions(groups: Panels[Array], title: str, xlabel: str) -> "Figure":
    """Cumulative distributions as lines."""
    panels = {
        panel: {name: (np.sort(values), shares(values)) for name, values in lines.items()}
        for panel, lines in groups.items()
    }
    return curves(panels, title, (xlabel, "sets (%)"), limits=(0.0, 100.0))
