"""No contention: nobody slows anybody, which costs nothing to keep."""

from wharfinger.core.seams.contention import ContentionTable


class NoContention:
    """The model."""

    name = "none"

    def table(self) -> ContentionTable:
        """One that knows nothing."""
        return ContentionTable()
