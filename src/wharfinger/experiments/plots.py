"""Pictures of simulated runs, as PNG and SVG, and the style of all pictures.

Lines that differ in colour differ in lightness or dashes as well, for prints in grey. Letters are
sized for a picture at half of a page's width. matplotlib is an extra, imported when needed.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wharfinger.errors import Unavailable
from wharfinger.experiments.statistics import MeanInterval
from wharfinger.model.arrays import Array
from wharfinger.simulator.results.outcome import Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.text import Text
    from matplotlib.transforms import Bbox

Curve = tuple[Sequence[float] | Array, Array]
"""Horizontal and vertical values."""

DOTS_PER_INCH = 160
WIDTH_INCHES = 6.4
STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.labelsize": 12,
    "axes.linewidth": 0.7,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 12,
    "figure.titlesize": 14,
    "figure.titleweight": "bold",
    "font.family": "DejaVu Sans",  # Comes with matplotlib, so it is the same everywhere.
    "font.size": 12,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.7,
    "hatch.color": "#cccccc",
    "hatch.linewidth": 0.6,
    "lines.linewidth": 1.8,
    "savefig.dpi": DOTS_PER_INCH,
    "svg.hashsalt": "wharfinger",  # Else names within the file are random.
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.0,
}
COLOURS = (
    "#000000", "#14307d", "#821a56", "#0a6664", "#b8460f", "#7c7a1a", "#c67f10", "#5b9bdc",
    "#9a9a9a",
)  # fmt: skip
"""From dark to light; the lightest is still visible on white."""
DASHES: tuple[Any, ...] = (
    "-", (0, (6, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)), (0, (3, 1.2)),
)  # fmt: skip
"""Five, to nine colours: no two lines share both, nor those of similar lightness the dashes."""
TINT, HATCHES = 0.6, ("", "////", "....")
"""Opacity of a bar's colour; what tells bars of one colour apart."""
LIGHT = "#b9d3ea"
"""Of areas."""
BUSY = "YlGnBu"
"""A colour map whose lightness falls steadily from idle to busy."""
PERFORMANCE = "performance\n(1 = alone on its best platform)"
FEW = 4
"""More panels than that are drawn lower."""
OF_BOUND: Array = np.geomspace(0.01, 100, 401)
"""Multiples of a latency bound."""
AXIS_LETTERS = 55
"""Characters that fit along an axis."""
LEGEND_LETTERS = 80
"""Characters of a legend's line, each name with its sample."""
SHORT = 8
"""Characters of a short name."""
MIN_SHOWN = 0.05
"""Percent of the time."""
PLACES = 160
"""Positions to try for a label on a line."""
MARGIN_PIXELS = 2.0
"""Around such a label."""
MOST_ON_LINE = 40
"""Characters of such a label: a policy with all its settings may be wider than a picture."""


# --- shared by all pictures -----------------------------------------------------------------


@contextlib.contextmanager
def canvas(
    rows: int,
    columns: int,
    title: str,
    size_inches: tuple[float, float],
    *,
    on_lines: bool = False,
    sharex: bool = False,
) -> "Iterator[tuple[Figure, list[Axes]]]":
    """Panels, row by row, in the style of all pictures; laid out when the block ends.

    With ``on_lines``, labels are written on the lines of panels without a legend.
    """
    check()
    import matplotlib as mpl  # noqa: PLC0415 - an extra
    from matplotlib.figure import Figure  # noqa: PLC0415 - an extra

    with _style(mpl):
        figure = Figure(size_inches, layout="constrained")
        figure.suptitle(title, x=0.01, horizontalalignment="left")
        panels = list(figure.subplots(rows, columns, squeeze=False, sharex=sharex).flat)
        yield figure, panels
        # From here on positions are final.
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
        for axes in panels if on_lines else ():
            if axes.get_legend() is None:
                named = [line for line in axes.lines if not str(line.get_label()).startswith("_")]
                _label_lines(axes, named)


def draw_lines(axes: "Axes", lines: "Mapping[str, Curve]") -> None:
    """Lines with their names as labels."""
    for number, (name, (along, up)) in enumerate(lines.items()):
        axes.plot(along, up, label=name, **_line_style(number))


def _line_style(number: int) -> dict[str, Any]:
    """Colour and dashes of the n-th line, unique among the first 45."""
    return {"color": COLOURS[number % len(COLOURS)], "linestyle": DASHES[number % len(DASHES)]}


def save(figure: "Figure", path: Path) -> list[Path]:
    """Write ``path.png`` and ``path.svg``, reproducibly.

    Raises:
        OSError: A file can't be written.
    """
    import matplotlib as mpl  # noqa: PLC0415 - an extra

    written = []
    with _style(mpl):
        for ending, about in (("png", {"Software": None}), ("svg", {"Date": None})):
            written.append(path.with_name(f"{path.name}.{ending}"))
            figure.savefig(written[-1], metadata=about)
    return written


def check() -> None:
    """Raise ``Unavailable`` if matplotlib is not installed."""
    try:
        import matplotlib as mpl  # noqa: F401, PLC0415 - an extra
    except ImportError:
        raise Unavailable(
            "pictures need matplotlib; install it with pip install '.[plots]' in its source"
        ) from None


@contextlib.contextmanager
def _style(mpl: Any) -> Iterator[None]:
    with mpl.rc_context():
        mpl.rcdefaults()  # Not the user's own style.
        mpl.rcParams.update(STYLE)
        yield


# --- labels on lines, where they are furthest from one another -----------------------------------


def _label_lines(axes: "Axes", lines: "Sequence[Line2D]") -> None:
    """Write each visible line's label on it; the axes must not change afterwards."""
    across = np.linspace(axes.bbox.x0, axes.bbox.x1, PLACES)
    heights = np.array([_heights(axes, line, across) for line in lines])
    placed: list[Bbox] = []
    for number, line in enumerate(lines):
        text = axes.text(
            0.0,
            0.0,
            _short(str(line.get_label())),
            color=line.get_color(),
            fontsize=11,
            horizontalalignment="center",
            verticalalignment="center_baseline",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.9},
            zorder=line.get_zorder() + 1,
        )
        box = _place(text, axes, across, heights, number, placed)
        if box is None:
            text.remove()
            continue
        placed.append(box)
        centre = (box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2
        x, y = axes.transData.inverted().transform(centre)
        text.set_position((float(x), float(y)))


def _short(label: str) -> str:
    first, comma, _ = label.partition(",")
    return f"{first}, …]" if comma and len(label) > MOST_ON_LINE else label


def _heights(axes: "Axes", line: "Line2D", across: Array) -> Array:
    """Of a line at these positions, in pixels; NaN outside of the line or the axes."""
    points = line.get_transform().transform(np.column_stack(line.get_data()))
    points = points[np.isfinite(points).all(axis=1)]
    if not len(points):
        return np.full(len(across), np.nan)
    heights = np.interp(across, points[:, 0], points[:, 1], left=np.nan, right=np.nan)
    box = axes.bbox
    return np.where((heights >= box.y0) & (heights <= box.y1), heights, np.nan)


def _place(
    text: "Text", axes: "Axes", across: Array, heights: Array, number: int, placed: "Sequence[Bbox]"
) -> "Bbox | None":
    size = text.get_window_extent().padded(MARGIN_PIXELS)
    best, least = None, np.inf
    for x in across:
        beneath = np.abs(across - x) <= size.width / 2
        own = heights[number][beneath]
        if np.isnan(own).any():
            continue
        to_x, to_y = x - (size.x0 + size.x1) / 2, own.mean() - (size.y0 + size.y1) / 2
        box = size.translated(to_x, to_y)
        cost = _cost(box, axes, own, np.delete(heights, number, axis=0)[:, beneath], placed)
        if cost < least:
            best, least = box, cost
    return best


def _cost(box: "Bbox", axes: "Axes", own: Array, others: Array, placed: "Sequence[Bbox]") -> float:
    """Penalties: outside of the axes, on labels or other lines, on a steep piece, near lines."""
    inside, half_height = axes.bbox, box.height / 2
    if np.any(box.min < inside.min) or np.any(box.max > inside.max):
        return 1e6
    on_labels = box.count_overlaps(placed)
    away = np.abs(others - own.mean())
    on_lines = float((away < half_height).mean(axis=1).sum()) if len(others) else 0.0
    near = np.nanmin(away, initial=10 * half_height) if others.size else 0.0
    free = min(1.0, float(near) / (4 * half_height))
    steep = float(np.ptp(own)) / half_height
    return 100 * on_labels + 2 * on_lines + 0.15 * steep - 0.5 * free


# --- runs -----------------------------------------------------------------------------------


def ranked(values: Mapping[str, Array], title: str, ylabel: str = PERFORMANCE) -> "Figure":
    """Values of all workloads by policy, from worst to best, as in Paragon's figures."""
    with canvas(1, 1, title, (WIDTH_INCHES, 4.8), on_lines=True) as (figure, (axes,)):
        draw_lines(axes, {name: (shares(each), np.sort(each)) for name, each in values.items()})
        axes.set(xlim=(0, 100), ylim=(0, 1.03), ylabel=ylabel)
        axes.set_xlabel("workloads, from worst to best (%)")
    return figure


def shares(values: Array) -> Array:
    """(values,) the percentiles of sorted values."""
    return (np.arange(len(values)) + 0.5) / max(1, len(values)) * 100


def bars(
    groups: Mapping[str, Mapping[str, MeanInterval]],
    title: str,
    ylabel: str,
    published: Mapping[tuple[str, str], float],
) -> "Figure":
    """Means by case and policy with their intervals, and a tick where one was published."""
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    width = 0.8 / max(1, len(names))
    columns = min(FEW, max(1, LEGEND_LETTERS // (max(map(len, names), default=0) + 6)))
    more_lines = max(0, len(names) // columns - FEW)
    size = (max(WIDTH_INCHES, 0.25 * len(names) * len(groups)), 4.8 + 0.21 * more_lines)
    with canvas(1, 1, title, size) as (figure, (axes,)):
        for number, name in enumerate(names):
            style, label = _bar_style(number), name
            for at, (case, group) in enumerate(groups.items()):
                if name not in group:
                    continue
                x, value = at + (number + 0.5) * width - 0.4, group[name]
                axes.bar(x, value.mean, 0.9 * width, label=label, **style)
                label = ""
                if value.low is not None and value.high is not None:
                    axes.vlines(x, value.low, value.high, color="black", linewidth=1.2)
                if (case, name) in published:
                    ends = x - 0.45 * width, x + 0.45 * width
                    axes.hlines(published[case, name], *ends, color="black", linewidth=2.5)
        labels = _apart(list(groups))
        axes.set_xticks(range(len(groups)), labels=labels)
        if sum(map(len, labels)) > AXIS_LETTERS:
            axes.tick_params("x", rotation=90)
        axes.set_ylabel(ylabel)
        # With two seeds an interval may reach far below what is possible.
        means = [each.mean for group in groups.values() for each in group.values()]
        axes.set_ylim(min([0.0, *means]))
        figure.legend(loc="outside lower left", frameon=False, ncols=columns, fontsize=10)
    return figure


def _apart(labels: Sequence[str]) -> list[str]:
    """Where all together are too long: without the words with which they begin in common.

    >>> _apart(["quasar-webserver-flat", "quasar-webserver-fluctuating", "quasar-webserver-spike"])
    ['flat', 'fluctuating', 'spike']
    """
    words = [label.split("-") for label in labels]
    if sum(map(len, labels)) <= AXIS_LETTERS or len(set(labels)) == 1:
        return list(labels)
    common = sum(1 for _ in takewhile(lambda each: len(set(each)) == 1, zip(*words, strict=False)))
    return ["-".join(each[common:]) or label for each, label in zip(words, labels, strict=True)]


def _bar_style(number: int) -> dict[str, Any]:
    """Of the n-th bar: light enough for black lines on it, hatched where a colour comes again."""
    hatch, at = divmod(number, len(COLOURS) - 1)
    return {"color": (COLOURS[1 + at], TINT), "hatch": HATCHES[hatch % len(HATCHES)]}


def utilization(series: Mapping[str, Series], title: str) -> "Figure":
    """CPU used of each server over time, one panel per policy."""
    from matplotlib.cm import ScalarMappable  # noqa: PLC0415 - an extra

    with _over_time(series, title, 1.9) as (figure, panels, seconds):
        for axes, (name, one) in zip(panels, series.items(), strict=True):
            shown = axes.pcolormesh(
                one.edges / seconds,
                np.arange(len(one.groups) + 1),
                one.utilization,
                cmap=BUSY,
                vmin=0,
                vmax=1,
                rasterized=True,  # Tens of thousands of rectangles would make a large file.
            )
            axes.grid(visible=False)
            mean = np.average(one.utilization.mean(axis=0), weights=np.diff(one.edges))
            axes.set_title(f"{_short(name)}: {mean:.0%} of CPU used")
            _server_axis(axes, one.groups)
            axes.patch.set(hatch="////", facecolor="white")  # After the end of the run.
        bar = figure.colorbar(
            ScalarMappable(shown.norm, shown.cmap), ax=list(panels), aspect=40, pad=0.02
        )
        bar.set_label("CPU used (%)")
        bar.set_ticks([0, 0.5, 1], labels=["0", "50", "100"])
        bar.outline.set_visible(False)
    return figure


def _server_axis(axes: "Axes", groups: Sequence[str]) -> None:
    short = all(len(name) <= SHORT for name in (groups[0], groups[-1]))
    ends = {0.5: groups[0], len(groups) - 0.5: groups[-1]} if short else {}
    axes.set_yticks(list(ends), labels=list(ends.values()))
    axes.set_ylim(len(groups), 0)
    axes.set_ylabel("servers")


def cores(series: Mapping[str, Series], title: str, *, ideal: bool = False) -> "Figure":
    """CPUs required, allocated and used over time, one panel per policy.

    With ``ideal`` the first are those required if nobody had waited or been slowed.
    """
    needed = {name: one.ideal_cpus if ideal else one.required_cpus for name, one in series.items()}
    most = max(max(needed[name].max(), one.allocated_cpus.max()) for name, one in series.items())
    with _over_time(series, title, 2.1) as (figure, panels, seconds):
        for axes, (name, one) in zip(panels, series.items(), strict=True):
            axes.set(title=_short(name), ylabel="CPUs", ylim=(0, most * 1.08))
            stairs = partial(axes.stairs, edges=one.edges / seconds, baseline=None)
            dashed: dict[str, Any] = {"linewidth": 1.4, "linestyle": (0, (2, 1.2))}
            stairs(needed[name], color="black", label="required", zorder=2, **dashed)
            stairs(
                one.allocated_cpus, color=COLOURS[1], label="allocated", zorder=1.9, linewidth=1.8
            )
            stairs(one.used_cpus, baseline=0, color=LIGHT, fill=True, label="used")
        # A legend, since the lines often overlap; below, since names of policies are long.
        shown = panels[0].get_legend_handles_labels()
        figure.legend(*shown, loc="outside lower right", frameon=False, handlelength=1.6, ncols=3)
    return figure


@contextlib.contextmanager
def _over_time(
    series: Mapping[str, Series], title: str, inches: float
) -> "Iterator[tuple[Figure, list[Axes], float]]":
    count = len(series)
    height = 1.5 * inches if count == 1 else inches if count <= FEW else 0.72 * inches
    longest = max(float(one.edges[-1]) for one in series.values())
    unit, seconds = time_unit(longest)
    size = (WIDTH_INCHES, height * count + 0.6)
    with canvas(count, 1, title, size, sharex=True) as (figure, panels):
        yield figure, panels, seconds
        panels[-1].set_xlim(0, longest / seconds)
        panels[-1].set_xlabel(f"time since the beginning ({unit})")


def time_unit(longest: float) -> tuple[str, float]:
    """Name and seconds of the largest unit of which the longest run takes at least three."""
    units = (("d", 86_400.0), ("h", 3_600.0), ("min", 60.0))
    return next((unit for unit in units if longest >= 3 * unit[1]), ("s", 1.0))


def latency(series: Mapping[str, Series], title: str) -> "Figure":
    """Share of time with latencies above multiples of the bound, one line per policy.

    Latencies are at the percentile that the target bounds; services without a bound are left out.
    """
    bounds = {name: each for one in series.values() for name, each in one.bounds_seconds.items()}
    slower = {name: slower_than(one, bounds) * 100 for name, one in series.items()}
    with canvas(1, 1, title, (WIDTH_INCHES, 4.8), on_lines=True) as (figure, (axes,)):
        draw_lines(axes, {name: (OF_BOUND, each) for name, each in slower.items()})
        _latency_axes(axes, np.array(list(slower.values())))
    return figure


def _latency_axes(axes: "Axes", slower: Array) -> None:
    # Show the range where shares change: a saturated service stays late.
    varying = np.flatnonzero(((slower > slower[:, -1:] + MIN_SHOWN) & (slower < 99)).any(axis=0))
    first, last = (OF_BOUND[varying[0]], OF_BOUND[varying[-1]]) if len(varying) else (1.0, 1.0)
    axes.set(xscale="log", yscale="log", ylim=(MIN_SHOWN, 100))
    axes.set_xlim(min(0.4, first), max(2.5, last * 1.1))
    axes.set_yticks([100, 10, 1, 0.1], labels=["100", "10", "1", "0.1"])
    axes.xaxis.set_major_formatter("{x:g}×")
    axes.minorticks_off()
    axes.axvline(1, color="black", linewidth=1)
    axes.annotate("bound", (1, 1), (4, -4), ("data", "axes fraction"), "offset points", va="top")
    axes.set_xlabel("latency at the percentile that is bounded, over the bound")
    axes.set_ylabel("time with a higher latency (%)")


def slower_than(one: Series, bounds_seconds: Mapping[str, float]) -> Array:
    """Share of time above each multiple in ``OF_BOUND``, averaged over services."""
    edges = one.latency_edges_seconds
    shares = [
        1 - np.interp(OF_BOUND * bounds_seconds[name], edges, np.r_[0.0, np.cumsum(each)])
        for name, each in one.latency.items()
        if name in bounds_seconds
    ]
    return np.mean(shares, axis=0) if shares else np.full(len(OF_BOUND), np.nan)
