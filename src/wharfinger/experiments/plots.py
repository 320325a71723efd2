"""Pictures of simulated runs, as PNG and SVG.

Experiments call the functions that draw, and ``save``. Lines bear their names themselves
(``labels.py``); every distinction of colour is one of lightness or of dashes as well, so that a
print in grey says the same. Type is sized for a picture at half of a page's width. matplotlib is an
extra, imported when something is drawn.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wharfinger.errors import Unavailable
from wharfinger.experiments import labels
from wharfinger.model.workload import WorkloadType
from wharfinger.simulator.results.outcome import Outcome, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

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
    "font.family": "DejaVu Sans",  # It comes with matplotlib: the same letters everywhere.
    "font.size": 12,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.7,
    "hatch.color": "#cccccc",
    "hatch.linewidth": 0.6,
    "lines.linewidth": 1.8,
    "savefig.dpi": DOTS_PER_INCH,
    "svg.hashsalt": "wharfinger",  # Else names within the file are drawn by chance.
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.0,
}
COLOURS = (
    "#000000", "#14307d", "#821a56", "#0a6664", "#b8460f", "#7c7a1a", "#c67f10", "#5b9bdc",
    "#9a9a9a",
)  # fmt: skip
"""From dark to light; the lightest is still seen on white."""
DASHES: tuple[Any, ...] = (
    "-", (0, (6, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)), (0, (3, 1.2)),
)  # fmt: skip
"""Five against nine colours: no two lines share both, and neighbours in lightness never dashes."""
_ABOVE: dict[str, Any] = {
    "loc": "lower right",
    "bbox_to_anchor": (1.0, 1.0),
    "borderaxespad": 0.0,
    "frameon": False,
    "handlelength": 1.6,
    "columnspacing": 1.2,
}
"""A legend beside a panel's title."""
BUSY = "YlGnBu"
"""Lightness falls steadily from idle to busy."""
FEW = 4
"""Panels; more of them are lower."""
OF_BOUND: Array = np.geomspace(0.01, 100, 401)
"""Multiples of a latency bound."""
SHORT = 8
"""Characters."""
LEAST_SHOWN = 0.05
"""Percent of the time."""


def performance(runs: Mapping[str, Sequence[Outcome]], title: str) -> "Figure":
    """Performance of all workloads, sorted from worst to best: a line a policy.

    The form of Paragon's figures of performance. Runs with several seeds are put together;
    best-effort work is left out.

    Args:
        runs: By policy.
        title: What it shows, in words.
    """
    with _style():
        figure, (axes,) = _panels(1, title, height=4.2)
        lines = []
        for number, (name, outcomes) in enumerate(runs.items()):
            found = np.sort(
                [
                    fate.performance
                    for each in outcomes
                    for fate in each.fates
                    if fate.type != WorkloadType.BEST_EFFORT
                ]
            )
            share = (np.arange(len(found)) + 0.5) / max(1, len(found)) * 100
            lines += axes.plot(share, found, label=name, **_line(number))
        axes.set(xlim=(0, 100), ylim=(0, 1.03))
        axes.set_xlabel("workloads, from worst to best (%)")
        axes.set_ylabel("performance\n(1 = alone on its best platform)")
        _settle(figure)
        labels.on_lines(axes, lines)
    return figure


def utilization(series: Mapping[str, Series], title: str) -> "Figure":
    """CPU used of each server over time: a panel a policy.

    Args:
        series: By policy.
        title: What it shows, in words.
    """
    from matplotlib.cm import ScalarMappable  # noqa: PLC0415 - an extra

    with _style():
        unit, seconds = _time_unit(series)
        figure, panels = _panels(len(series), title, _height(len(series), 1.9))
        for axes, (name, one) in zip(panels, series.items(), strict=True):
            shown = axes.pcolormesh(
                one.edges / seconds,
                np.arange(len(one.groups) + 1),
                one.utilization,
                cmap=BUSY,
                vmin=0,
                vmax=1,
                rasterized=True,  # Tens of thousands of rectangles make no file smaller.
            )
            axes.grid(visible=False)
            axes.set_title(f"{name}: {_mean(one):.0%} of CPU used")
            _server_axis(axes, one.groups)
            axes.patch.set(hatch="////", facecolor="white")  # After its end there is nothing.
        _time_axes(panels, series, unit, seconds)
        bar = figure.colorbar(
            ScalarMappable(shown.norm, shown.cmap), ax=list(panels), aspect=40, pad=0.02
        )
        bar.set_label("CPU used (%)")
        bar.set_ticks([0, 0.5, 1], labels=["0", "50", "100"])
        bar.outline.set_visible(False)
        _settle(figure)
    return figure


def cores(series: Mapping[str, Series], title: str) -> "Figure":
    """CPUs that workloads could use, that they were given, that did something: a panel a policy.

    Args:
        series: By policy.
        title: What it shows, in words.
    """
    with _style():
        unit, seconds = _time_unit(series)
        figure, panels = _panels(len(series), title, _height(len(series), 2.1))
        for axes, (name, one) in zip(panels, series.items(), strict=True):
            axes.set_title(name)
            axes.set_ylabel("CPUs")
            _cores(axes, one, seconds)
        most = max(
            max(one.required_cpus.max(), one.allocated_cpus.max()) for one in series.values()
        )
        for axes in panels:
            axes.set_ylim(0, most * 1.08)
        _time_axes(panels, series, unit, seconds)
        # In words above, not on the lines: they often lie upon one another.
        panels[0].legend(**_ABOVE, ncols=3)
        _settle(figure)
    return figure


def _cores(axes: "Axes", one: Series, seconds: float) -> None:
    times = np.repeat(one.edges, 2)[1:-1] / seconds
    used, allocated, required = (
        np.repeat(values, 2) for values in (one.used_cpus, one.allocated_cpus, one.required_cpus)
    )
    dashes = (0, (2, 1.2))
    axes.plot(times, required, color="black", linewidth=1.4, linestyle=dashes, label="required")
    axes.plot(times, allocated, color=COLOURS[1], label="allocated", zorder=1.9)
    axes.fill_between(times, used, color="#b9d3ea", linewidth=0, label="used")


def latency(
    series: Mapping[str, Series], bounds_seconds: Mapping[str, float], title: str
) -> "Figure":
    """For how much of the time services exceeded multiples of their bound: a line a policy.

    The axis of shares is logarithmic: a target is lost in the slowest part of the time.

    Args:
        series: By policy; latencies are those at the percentile that a target bounds.
        bounds_seconds: By service; services without one are left out.
        title: What it shows, in words.
    """
    with _style():
        figure, (axes,) = _panels(1, title, height=4.2)
        lines = []
        for number, (name, one) in enumerate(series.items()):
            slower = slower_than(one, bounds_seconds) * 100
            lines += axes.plot(OF_BOUND, slower, label=name, **_line(number))
        _latency_axes(axes, np.array([line.get_ydata() for line in lines]))
        _settle(figure)
        labels.on_lines(axes, lines)
    return figure


def _latency_axes(axes: "Axes", slower: Array) -> None:
    # Where nothing changes any more there is nothing to see: what is saturated is late for ever.
    told = np.flatnonzero(((slower > slower[:, -1:] + LEAST_SHOWN) & (slower < 99)).any(axis=0))
    first, last = (OF_BOUND[told[0]], OF_BOUND[told[-1]]) if len(told) else (1.0, 1.0)
    axes.set(xscale="log", yscale="log", ylim=(LEAST_SHOWN, 100))
    axes.set_xlim(min(0.4, first), max(2.5, last * 1.1))
    axes.set_yticks([100, 10, 1, 0.1], labels=["100", "10", "1", "0.1"])
    axes.xaxis.set_major_formatter("{x:g}×")
    axes.minorticks_off()
    axes.axvline(1, color="black", linewidth=1)
    axes.annotate("bound", (1, 1), (4, -4), ("data", "axes fraction"), "offset points", va="top")
    axes.set_xlabel("latency at the percentile that is bounded, over the bound")
    axes.set_ylabel("time with a higher latency (%)")


def slower_than(one: Series, bounds_seconds: Mapping[str, float]) -> Array:
    """Share of time above each multiple in ``OF_BOUND``; all services weigh alike."""
    edges = one.latency_edges_seconds
    shares = [
        1 - np.interp(OF_BOUND * bounds_seconds[name], edges, np.r_[0.0, np.cumsum(found)])
        for name, found in one.latency.items()
        if name in bounds_seconds
    ]
    return np.mean(shares, axis=0) if shares else np.full(len(OF_BOUND), np.nan)


@contextlib.contextmanager
def canvas(
    rows: int, columns: int, title: str, size_inches: tuple[float, float]
) -> "Iterator[tuple[Figure, list[Axes]]]":
    """Panels side by side in the style of all pictures; laid out when the block ends.

    Args:
        rows: Of panels.
        columns: Likewise; panels are given row by row.
        title: What they show, in words.
        size_inches: Width and height of all.
    """
    with _style():
        from matplotlib.figure import Figure  # noqa: PLC0415 - an extra

        figure = Figure(size_inches, layout="constrained")
        figure.suptitle(title, x=0.01, horizontalalignment="left")
        yield figure, list(figure.subplots(rows, columns, squeeze=False).flat)
        _settle(figure)


def line_style(number: int) -> dict[str, Any]:
    """Colour and dashes of the n-th line, none of which another of the first 45 shares."""
    return _line(number)


def save(figure: "Figure", path: Path) -> list[Path]:
    """Write ``path.png`` and ``path.svg``; the same picture makes the same bytes.

    Raises:
        OSError: A file can't be written.
    """
    written = []
    with _style():
        for ending, about in (("png", {"Software": None}), ("svg", {"Date": None})):
            written.append(path.with_name(f"{path.name}.{ending}"))
            figure.savefig(written[-1], metadata=about)
    return written


def check() -> None:
    """See whether anything can be drawn.

    Raises:
        Unavailable: matplotlib is not installed.
    """
    try:
        import matplotlib as mpl  # noqa: F401, PLC0415 - an extra
    except ImportError:
        raise Unavailable(
            "pictures need matplotlib; install it with: pip install 'wharfinger[plots]'"
        ) from None


@contextlib.contextmanager
def _style() -> Iterator[None]:
    check()
    import matplotlib as mpl  # noqa: PLC0415 - an extra

    with mpl.rc_context():
        mpl.rcdefaults()  # Whatever the user's own style is.
        mpl.rcParams.update(STYLE)
        yield


def _panels(count: int, title: str, height: float) -> "tuple[Figure, list[Axes]]":
    """Panels below one another with one title, each of that height in inches."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - an extra

    size = (WIDTH_INCHES, height * count + 0.6)
    figure = Figure(size, layout="constrained")
    figure.suptitle(title, x=0.01, horizontalalignment="left")
    return figure, list(figure.subplots(count, 1, squeeze=False, sharex=True)[:, 0])


def _height(panels: int, inches: float) -> float:
    """Of each: one has all the room, many have less."""
    return 1.5 * inches if panels == 1 else inches if panels <= FEW else 0.72 * inches


def _settle(figure: "Figure") -> None:
    """Lay it out, once: from here on it is known where things lie."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


def _line(number: int) -> dict[str, Any]:
    return {
        "color": COLOURS[number % len(COLOURS)],
        "linestyle": DASHES[number % len(DASHES)],
    }


def _server_axis(axes: "Axes", groups: Sequence[str]) -> None:
    """The first on top, as in a list; only the ends are named, if names are short."""
    short = all(len(name) <= SHORT for name in (groups[0], groups[-1]))
    ends = {0.5: groups[0], len(groups) - 0.5: groups[-1]} if short else {}
    axes.set_yticks(list(ends), labels=list(ends.values()))
    axes.set_ylim(len(groups), 0)
    axes.set_ylabel("servers")


def _mean(one: Series) -> float:
    return float(np.average(one.utilization.mean(axis=0), weights=np.diff(one.edges)))


def _time_unit(series: Mapping[str, Series]) -> tuple[str, float]:
    """Its name and seconds, such that the longest run takes a few."""
    longest = max(float(one.edges[-1]) for one in series.values())
    for name, seconds in (("d", 86_400.0), ("h", 3_600.0), ("min", 60.0)):
        if longest >= 3 * seconds:
            return name, seconds
    return "s", 1.0


def _time_axes(
    panels: "Sequence[Axes]", series: Mapping[str, Series], unit: str, seconds: float
) -> None:
    longest = max(float(one.edges[-1]) for one in series.values())
    panels[-1].set_xlim(0, longest / seconds)
    panels[-1].set_xlabel(f"time since the beginning ({unit})")
