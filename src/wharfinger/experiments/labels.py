"""Labels on the lines themselves, where they are furthest from one another; for ``plots.py``."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D
    from matplotlib.text import Text
    from matplotlib.transforms import Bbox

Array = NDArray[np.float64]

PLACES = 160
"""Positions to try along the axis."""
MARGIN_PIXELS = 2.0
"""Around a label."""


def on_lines(axes: "Axes", lines: "Sequence[Line2D]") -> None:
    """Write each visible line's label on it; the axes must not change afterwards."""
    across = np.linspace(axes.bbox.x0, axes.bbox.x1, PLACES)
    heights = np.array([_heights(axes, line, across) for line in lines])
    placed: list[Bbox] = []
    for number, line in enumerate(lines):
        text = axes.text(
            0.0,
            0.0,
            str(line.get_label()),
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
    text: "Text",
    axes: "Axes",
    across: Array,
    heights: Array,
    number: int,
    placed: "Sequence[Bbox]",
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
