"""Pictures: what they say, that the same data make the same bytes, and that grey says as much."""

import re
import struct
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.support import slow
from tests.support.simulated_runs import Spec, fate, series, simulate
from wharfinger.errors import Unavailable
from wharfinger.experiments import plots
from wharfinger.experiments.comparison import RunGroup, kept_of
from wharfinger.experiments.statistics import MeanInterval
from wharfinger.simulator.results.outcome import Outcome, Series

NAMES = ("oracle", "least-loaded", "random")


@pytest.fixture(autouse=True)
def _drawable(request: pytest.FixtureRequest) -> None:
    if "without" not in request.node.name:
        pytest.importorskip("matplotlib")


def values() -> dict[str, np.ndarray]:
    runs = {name: simulate(Spec("made", name, 1, workloads=80)) for name in NAMES}
    return {
        name: kept_of(run, RunGroup("", (), ("performance",))).values["performance"]
        for name, run in runs.items()
    }


def means() -> dict[str, dict[str, MeanInterval]]:
    each = {name: MeanInterval(0.5, 0.4, 0.6) for name in NAMES}
    return {"low": each, "high": each}


def courses() -> dict[str, Series]:
    return {name: series(seed) for seed, name in enumerate(NAMES)}


DRAWN = {
    "performance": lambda: plots.ranked(values(), "Performance of each workload"),
    "bars": lambda: plots.bars(means(), "Kept", "fraction", {("low", "oracle"): 0.5}),
    "utilization": lambda: plots.utilization(courses(), "How busy the servers are"),
    "cores": lambda: plots.cores(courses(), "CPUs required, allocated and used"),
    "latency": lambda: plots.latency(courses(), "Latency against the bound"),
}


@cache
def drawn(name: str):
    """Once for all who only look."""
    return DRAWN[name]()


def texts(figure) -> list[str]:
    from matplotlib.text import Text  # noqa: PLC0415 - an extra

    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["performance", *slow(sorted(DRAWN.keys() - {"performance"}))])
def test_the_same_data_make_the_same_bytes(name: str, tmp_path: Path):
    first, again = tmp_path / "first", tmp_path / "again"
    for folder in (first, again):
        folder.mkdir()
        written = plots.save(DRAWN[name](), folder / name)
        assert [path.name for path in written] == [f"{name}.png", f"{name}.svg"]
    for ending in ("png", "svg"):
        file = f"{name}.{ending}"
        assert (first / file).read_bytes() == (again / file).read_bytes()


def test_a_picture_names_no_day_and_is_as_sharp_as_said(tmp_path: Path):
    png, svg = plots.save(drawn("performance"), tmp_path / "performance")
    assert "<dc:date>" not in svg.read_text()
    width, _ = struct.unpack(">II", png.read_bytes()[16:24])
    assert width == plots.WIDTH_INCHES * plots.DOTS_PER_INCH


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_says_what_it_shows_with_units(name: str):
    said = texts(drawn(name))
    words = {
        "performance": ["Performance of each workload", "workloads, from worst to best (%)"],
        "bars": ["Kept", "fraction", "low", "high"],
        "utilization": ["How busy the servers are", "time since the beginning (h)"],
        "cores": ["required", "allocated", "used", "CPUs", "time since the beginning (h)"],
        "latency": ["bound", "time with a higher latency (%)"],
    }
    assert set(words[name]) <= set(said)
    for policy in NAMES:
        assert any(text.startswith(policy) for text in said)


def test_lines_bear_their_names_and_there_is_no_legend():
    figure = drawn("performance")
    (axes,) = figure.axes
    assert axes.get_legend() is None
    assert [text.get_text() for text in axes.texts] == list(NAMES)
    boxes = [text.get_window_extent() for text in axes.texts]
    for number, box in enumerate(boxes):
        assert axes.bbox.x0 <= box.x0
        assert box.x1 <= axes.bbox.x1
        assert not any(box.overlaps(other) for other in boxes[number + 1 :])


def test_a_line_too_long_to_name_bears_the_beginning_of_its_name():
    policy = "paragon[rule=published,confidence=0.5,placement.sources=2,idle_share=0]"
    (axes, *_) = plots.ranked({policy: np.linspace(0.2, 1, 50)}, "").axes
    assert [text.get_text() for text in axes.texts] == ["paragon[rule=published, …]"]
    (axes, *_) = plots.cores({policy: series()}, "").axes
    assert axes.get_title(loc="left") == "paragon[rule=published, …]"


def test_performance_is_sorted_and_best_effort_left_out():
    fates = tuple(fate(f"job-{n}", value) for n, value in enumerate((0.9, 0.1, 0.5)))
    filler = fate("filler", 0.0, "best-effort")
    run = Outcome("made", "any", "fifo", 0, {}, (*fates, filler))
    wanted = kept_of(run, RunGroup("", (), ("performance",))).values["performance"]
    (axes,) = plots.ranked({"any": wanted}, "Performance").axes
    (line,) = axes.get_lines()
    assert line.get_ydata().tolist() == [0.1, 0.5, 0.9]
    assert line.get_xdata() == pytest.approx([100 / 6, 50, 500 / 6])


def test_in_grey_lines_differ_by_lightness_or_dashes():
    looks = [
        (colour, str(plots._line_style(n)["linestyle"])) for n, colour in enumerate(plots.COLOURS)
    ]
    greys = [lightness(colour) for colour, _ in looks]
    assert greys == sorted(greys)
    assert greys[-1] < 0.65  # Still seen on white.
    for (grey, (_, dashes)), (other, (_, others)) in zip(
        list(zip(greys, looks, strict=True))[:-1],
        list(zip(greys, looks, strict=True))[1:],
        strict=True,
    ):
        assert dashes != others or other - grey > 0.25


def test_in_grey_busier_is_darker():
    from matplotlib import colormaps  # noqa: PLC0415 - an extra

    shades = [lightness(colour[:3]) for colour in colormaps[plots.BUSY](np.linspace(0, 1, 64))]
    assert shades == sorted(shades, reverse=True)


def lightness(colour) -> float:
    from matplotlib.colors import to_rgb  # noqa: PLC0415 - an extra

    return float(np.dot(to_rgb(colour), (0.299, 0.587, 0.114)))


def test_the_share_of_time_above_the_bound():
    edges = np.array([0.0, 0.01, 0.02, np.inf])
    one = replace_latency(edges, {"web": [0.5, 0.25, 0.25], "other": [0.0, 0.0, 1.0]})
    above = plots.slower_than(one, {"web": 0.01})
    at_bound = int(np.argmin(np.abs(plots.OF_BOUND - 1)))
    assert above[at_bound] == pytest.approx(0.5)
    assert above[-1] == pytest.approx(0.25)
    both = plots.slower_than(one, {"web": 0.01, "other": 0.01})
    assert both[at_bound] == pytest.approx(0.75)


def replace_latency(edges, latency) -> Series:
    plain = series()
    return Series(
        plain.edges, plain.groups, plain.utilization, plain.required_cpus, plain.allocated_cpus,
        plain.used_cpus, edges, {name: np.array(each) for name, each in latency.items()},
    )  # fmt: skip


@pytest.mark.parametrize("policies", [1, pytest.param(9, marks=pytest.mark.slow)])
def test_few_policies_and_many(policies: int, tmp_path: Path):
    many = {f"policy-{number}": series(number) for number in range(policies)}
    for figure in (plots.utilization(many, "Busy"), plots.cores(many, "CPUs")):
        said = texts(figure)
        assert all(any(text.startswith(name) for text in said) for name in many)
    ranks = {name: np.linspace(0, 1, 20) ** (number + 1) for number, name in enumerate(many)}
    assert set(many) <= set(texts(plots.ranked(ranks, "Performance")))


def test_nobody_arrived():
    assert texts(plots.ranked({"any": np.array([])}, "Performance"))
    plots.latency({"any": replace(series(), bounds_seconds={})}, "Latency of nobody")


@pytest.mark.parametrize(("hours", "unit"), [(0.01, "s"), (0.5, "min"), (5.0, "h"), (200.0, "d")])
def test_time_is_told_in_a_unit_that_fits(hours: float, unit: str):
    said = texts(plots.cores({"any": series(hours=hours)}, "CPUs"))
    assert f"time since the beginning ({unit})" in said


def test_a_users_own_style_changes_nothing(tmp_path: Path):
    import matplotlib as mpl  # noqa: PLC0415 - an extra

    (plain, _) = plots.save(drawn("performance"), tmp_path / "plain")
    with mpl.rc_context({"lines.linewidth": 9, "axes.facecolor": "red"}):
        (styled, _) = plots.save(DRAWN["performance"](), tmp_path / "styled")
    assert plain.read_bytes() == styled.read_bytes()


def test_without_matplotlib_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(Unavailable, match=re.escape("pip install '.[plots]'")):
        plots.ranked(values(), "Performance")
