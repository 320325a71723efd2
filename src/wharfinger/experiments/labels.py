"""Labels on the lines themselves, where they are furthest from one another; for ``plots.py``."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D
    from matplotlib.text import Text

Array = NDArray[np.float64]

PLACES = 160
"""Positions to try along the axis."""
MARGIN_PIXELS = 2.0
"""Around a label."""


@dataclass(frozen=True, slots=True)
class _Box:
    """Centre and size of a label, in pixels."""

    x: float
    y: float
    half_width: float
    half_height: float

    def overlaps(self, other: "_Box") -> bool:
        return (
            abs(self.x - other.x) < self.half_width + other.half_width
            and abs(self.y - other.y) < self.half_height + other.half_height
        )


def on_lines(axes: "Axes", lines: "Sequence[Line2D]") -> None:
    """Write each visible line's label on it; the axes must not change afterwards."""
    across = np.linspace(axes.bbox.x0, axes.bbox.x1, PLACES)
    heights = np.array([_heights(axes, line, across) for line in lines])
    placed: list[_Box] = []
    for number, line in enumerate(lines):
        text = _text(axes, line)
        box = _place(text, axes, across, heights, number, placed)
        if box is None:
            text.remove()
            continue
        placed.append(box)
        x, y = axes.transData.inverted().transform((box.x, box.y))
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


def _text(axes: "Axes", line: "Line2D") -> "Text":
    return axes.text(
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


def _place(
    text: "Text", axes: "Axes", across: Array, heights: Array, number: int, placed: Sequence[_Box]
) -> _Box | None:
    size = text.get_window_extent()
    half_width, half_height = size.width / 2 + MARGIN_PIXELS, size.height / 2 + MARGIN_PIXELS
    best, least = None, np.inf
    for x in across:
        beneath = np.abs(across - x) <= half_width
        own = heights[number][beneath]
        if np.isnan(own).any():
            continue
        box = _Box(float(x), float(own.mean()), half_width, half_height)
        cost = _cost(box, axes, own, np.delete(heights, number, axis=0)[:, beneath], placed)
        if cost < least:
            best, least = box, cost
    return best


def _cost(box: _Box, axes: "Axes", own: Array, others: Array, placed: Sequence[_Box]) -> float:
    """Penalties: outside of the axes, on labels or other lines, on a steep piece, near lines."""
    inside = axes.bbox
    if not (
        inside.x0 <= box.x - box.half_width
        and box.x + box.half_width <= inside.x1
        and inside.y0 <= box.y - box.half_height
        and box.y + box.half_height <= inside.y1
    ):
        return 1e6
    on_labels = sum(box.overlaps(other) for other in placed)
    away = np.abs(others - box.y)
    on_lines = float((away < box.half_height).mean(axis=1).sum()) if len(others) else 0.0
    near = np.nanmin(away, initial=10 * box.half_height) if others.size else 0.0
    free = min(1.0, float(near) / (4 * box.half_height))
    steep = float(np.ptp(own)) / box.half_height
    return 100 * on_labels + 2 * on_lines + 0.15 * steep - 0.5 * free
