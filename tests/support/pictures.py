"""What a picture shows, for tests that do not look at it."""

from typing import Any


def shows_data(figure: Any) -> bool:
    """Whether lines, areas or cells are drawn in its first panel."""
    return bool(figure.axes[0].has_data())
