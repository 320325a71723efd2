"""What every part of a policy has: a name, and settings."""

from typing import Any, Protocol


class PolicyPart(Protocol):
    """A part of a policy. It keeps nothing between calls."""

    @property
    def name(self) -> str:
        """As the command line (``--admission NAME``) and decisions' records name it."""

    @property
    def settings(self) -> Any:
        """Every tunable, as a frozen dataclass; ``None`` = there are none."""
