"""What a workload requires of a server's labels (``spec.requires`` of its manifest).

It decides where the workload may be placed, profiled and moved to, never how good a server is. A
workload that runs stays where it is when labels change.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Requirement:
    """One label must have one of these values; ``excluded`` = none of them.

    A server without the label has no value: it is allowed where values are excluded alone.

    >>> gpu = Requirement("gpu", ("a100", "h100"))
    >>> str(gpu), gpu.holds({"gpu": "h100"}), gpu.holds({})
    ('gpu=a100|h100', True, False)
    >>> spot = Requirement("spot", ("yes",), excluded=True)
    >>> str(spot), spot.holds({"spot": "yes"}), spot.holds({})
    ('spot=!yes', False, True)
    """

    label: str
    values: tuple[str, ...]
    excluded: bool = False

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether a server with these labels meets it."""
        return (labels.get(self.label) in self.values) != self.excluded

    def __str__(self) -> str:
        return f"{self.label}={'!' if self.excluded else ''}{'|'.join(self.values)}"


Requires = tuple[Requirement, ...]
"""All must hold; none = any server."""


def are_met(requires: Requires, labels: Mapping[str, str]) -> bool:
    """Whether a server with these labels meets all.

    >>> are_met((), {"gpu": "a100"})
    True
    """
    return all(requirement.holds(labels) for requirement in requires)


def in_words(requires: Requires) -> str:
    """For people, e.g. ``gpu=a100|h100 and spot=!yes``."""
    return " and ".join(map(str, requires))
