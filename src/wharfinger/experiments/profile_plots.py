"""Pictures of several interference profiles, before and after changes."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from wharfinger.experiments.plots import COLOURS, HATCHES, LIGHT, WIDTH_INCHES, canvas

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Scores = Mapping[str, Mapping[str, Mapping[str, float]]]
"""By kind, by the profile's name, by source."""


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
            axes.set_ylim(max(1, len(sources)) - 0.5, -0.5)
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
