"""A profile's picture: bars of what it tolerates and causes, and each source's curve."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wharfinger.experiments.plots import COLOURS, DOTS_PER_INCH, HATCHES, canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDTH_INCHES, _PANEL_INCHES = 3.4, 2.8
_MOST_COLUMNS = 3
_BAR = 0.38


def draw(document: Mapping[str, Any], path: Path) -> None:
    """Write the picture as PNG; ``Unavailable`` without matplotlib, ``OSError`` without room."""
    measured = [row for row in document["sources"] if row["tolerated"] or row["caused"]]
    curves = [row for row in document["sources"] if row["curve"]]
    count = 1 + len(curves)
    columns = min(_MOST_COLUMNS, count)
    rows = -(-count // columns)
    size = (_WIDTH_INCHES * columns + 1, _PANEL_INCHES * rows + 0.5)
    title = f"Interference profile of {document['name']}"
    with canvas(rows, columns, title, size) as (figure, panels):
        _bars(panels[0], measured)
        for axes, row in zip(panels[1:], curves, strict=False):
            _curve(axes, row, document["tolerance"])
        for axes in panels[count:]:
            axes.set_visible(False)
        figure.savefig(path, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})


def _bars(axes: "Axes", rows: Sequence[Mapping[str, Any]]) -> None:
    for number, (kind, side) in enumerate((("tolerated", -1), ("caused", 1))):
        told = [(place, row[kind]) for place, row in enumerate(rows) if row[kind]]
        places = [place + side * _BAR / 2 for place, _ in told]
        values = [score["value"] for _, score in told]
        errors = [
            [max(0.0, score["value"] - score["low"]) for _, score in told],
            [max(0.0, score["high"] - score["value"]) for _, score in told],
        ]
        bars = axes.bar(
            places, values, _BAR, yerr=errors, label=kind, color=COLOURS[7 - 6 * number],
            hatch=HATCHES[number], capsize=2,
        )  # fmt: skip
        for bar, (place, _) in zip(bars, told, strict=True):
            if kind in rows[place].get("estimated", ()):
                bar.set(fill=False, linestyle="--", edgecolor=COLOURS[7 - 6 * number])
    axes.set_title("scores", loc="left", fontsize=10)
    axes.set_ylim(0, 105)
    names = [row["name"] + (" (est.)" if row.get("estimated") else "") for row in rows]
    axes.set_xticks(range(len(rows)), names, rotation=30, ha="right")
    axes.tick_params(labelsize=8)
    axes.legend(frameon=False, fontsize=8, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2)


def _curve(axes: "Axes", row: Mapping[str, Any], tolerance: float) -> None:
    points = row["curve"]
    at = [0.0, *(point["intensity"] for point in points)]
    axes.fill_between(
        at, [1.0, *(p["low"] for p in points)], [1.0, *(p["high"] for p in points)],
        color=COLOURS[7], alpha=0.35, linewidth=0,
    )  # fmt: skip
    axes.plot(at, [1.0, *(p["fitted"] for p in points)], color=COLOURS[1])
    axes.plot(at[1:], [p["performance"] for p in points], "o", color=COLOURS[0], markersize=3)
    axes.axhline(1 - tolerance, color=COLOURS[4], linestyle="--", linewidth=1)
    axes.set_title(row["name"], fontsize=10)
    axes.set_xlim(0, 100)
    axes.set_ylim(bottom=0)
    axes.tick_params(labelsize=8)
    axes.set_xlabel("intensity", fontsize=8)
    axes.set_ylabel("of performance alone", fontsize=8)
