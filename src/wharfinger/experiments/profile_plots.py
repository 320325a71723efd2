"""Pictures of interference profiles: bars of what is tolerated and caused, and curves.

One profile for ``wharfinger profile --png``; several, before and after changes, for experiments.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wharfinger.experiments.plots import (
    COLOURS,
    DOTS_PER_INCH,
    HATCHES,
    LIGHT,
    WIDTH_INCHES,
    canvas,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Scores = Mapping[str, Mapping[str, Mapping[str, float]]]
"""By kind, by the profile's name, by source."""

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
            [score["value"] - score["low"] for _, score in told],
            [max(0.0, score["high"] - score["value"]) for _, score in told],
        ]
        axes.bar(
            places, values, _BAR, yerr=errors, label=kind, color=COLOURS[7 - 6 * number],
            hatch=HATCHES[number], capsize=2,
        )  # fmt: skip
    axes.set_title("scores", loc="left", fontsize=10)
    axes.set_ylim(0, 105)
    axes.set_xticks(range(len(rows)), [row["name"] for row in rows], rotation=30, ha="right")
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


# --- several profiles ---------------------------------------------------------------------------


def profiles(kinds: Scores, title: str) -> "Figure":
    """Of each kind a panel: a row for each source, in it a bar for each profile.

    A source without a bar was not measured there.
    """
    names = list(dict.fromkeys(name for each in kinds.values() for name in each))
    told = (scores for each in kinds.values() for scores in each.values())
    sources = list(dict.fromkeys(source for scores in told for source in scores))
    height = 1.4 + len(sources) * (0.16 + 0.12 * len(names))
    with canvas(1, len(kinds), title, (WIDTH_INCHES + 2, height)) as (figure, panels):
        for axes, (kind, by_profile) in zip(panels, kinds.items(), strict=True):
            for number, name in enumerate(names):
                scores = by_profile.get(name, {})
                places = [_place(sources.index(each), number, len(names)) for each in scores]
                axes.barh(places, list(scores.values()), 0.8 / len(names), **_shade(number))
            axes.set_title(kind)
            axes.set_xlim(0, 105)
            axes.set_ylim(len(sources) - 0.5, -0.5)
            axes.set_yticks(range(len(sources)), sources if axes is panels[0] else [])
            axes.tick_params(labelsize=9)
            axes.grid(axis="x")
            axes.set_xlabel("intensity (%)", fontsize=10)
        _add_legend(figure, names)
    return figure


def _place(row: int, number: int, count: int) -> float:
    return row + 0.8 * ((number + 0.5) / count - 0.5)


def _shade(number: int) -> dict[str, Any]:
    """From dark to light, so that bars differ in grey; then with hatches."""
    shades = (COLOURS[0], COLOURS[3], COLOURS[7], LIGHT)
    hatch = HATCHES[number // len(shades) % len(HATCHES)]
    return {"color": shades[number % len(shades)], "hatch": hatch}


def _add_legend(figure: "Figure", names: Sequence[str]) -> None:
    from matplotlib.patches import Patch  # noqa: PLC0415 - an extra

    shown = [Patch(label=name, **_shade(number)) for number, name in enumerate(names)]
    figure.legend(handles=shown, loc="outside lower left", frameon=False, ncols=4, fontsize=10)


def bars_of(panels: Mapping[str, Mapping[str, float]], title: str, ylabel: str = "") -> "Figure":
    """A panel for each case, in it a bar with its number for each name.

    With ``ylabel`` all have one scale, else each its own, and its title says of what.
    """
    with canvas(1, len(panels), title, (WIDTH_INCHES, 3.6)) as (figure, all_axes):
        top = max(value for group in panels.values() for value in group.values())
        for axes, (case, group) in zip(all_axes, panels.items(), strict=True):
            for number, value in enumerate(group.values()):
                axes.bar(number, value, 0.8, **_shade(number))
                axes.text(number, value, f"{value:.3g}", ha="center", va="bottom", fontsize=9)
            axes.set_title(case)
            axes.set_ylim(0, 1.12 * (top if ylabel else max(group.values())))
            axes.set_xticks([])
        all_axes[0].set_ylabel(ylabel)
        _add_legend(figure, list(dict.fromkeys(name for each in panels.values() for name in each)))
    return figure
