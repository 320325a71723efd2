"""Pictures of services over time, in the form of Quasar's Figure 8, in the style of ``plots``."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from wharfinger.experiments.paragon_plots import middles
from wharfinger.experiments.plots import WIDTH_INCHES, canvas, draw_lines, time_unit
from wharfinger.model.arrays import Array
from wharfinger.simulator.results.outcome import Series

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def throughput(series: Mapping[str, Series], title: str) -> "Figure":
    """Requests asked and answered over time; below, of those asked, the share within the bound."""
    one = next(iter(series.values()))
    unit, seconds = time_unit(float(one.edges[-1]))
    times = {name: middles(each.edges) / seconds for name, each in series.items()}
    lines = {"asked": (middles(one.edges) / seconds, one.asked_per_second)}
    lines |= {name: (times[name], each.answered_per_second) for name, each in series.items()}
    shares = {name: (times[name], in_bound(each) * 100) for name, each in series.items()}
    with canvas(2, 1, title, (WIDTH_INCHES, 6.4), sharex=True) as (figure, (above, below)):
        draw_lines(above, lines)
        above.set(ylabel="requests per second", ylim=(0, None))
        # One colour and dash for a policy in both.
        draw_lines(below, {"": ([], np.zeros(0)), **shares})
        below.set(ylabel="within the bound (%)", ylim=(0, 103))
        wanted = np.flatnonzero(one.asked_per_second)
        if wanted.size:
            below.set_xlim(one.edges[wanted[0]] / seconds, one.edges[wanted[-1] + 1] / seconds)
        below.set_xlabel(f"time since the beginning ({unit})")
        figure.legend(
            *above.get_legend_handles_labels(),
            loc="outside lower left",
            frameon=False,
            ncols=3,
            fontsize=10,
        )
    return figure


def in_bound(one: Series) -> Array:
    """(B,) of the requests asked, the share that could be answered in the bound; NaN = none."""
    asked = one.asked_per_second
    there = asked > 0
    return np.where(there, one.in_bound_per_second / np.where(there, asked, 1.0), np.nan)
