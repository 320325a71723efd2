"""No contention: no workload slows another, which costs nothing to keep."""

from typing import Any

from wharfinger.core.seams.contention import ContentionTable


class NoContention:
    """The model."""

    name = "none"
    settings: Any = None

    def table(self) -> ContentionTable:
        """One that knows nothing."""
        return ContentionTable()
