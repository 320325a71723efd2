"""Regimes: calibrations of what the papers leave open.

No one calibration reproduces all published figures (``docs/decisions/0034-regimes.md``), so every
experiment runs in three. They were chosen by results of baselines only.
"""

from dataclasses import dataclass
from types import MappingProxyType

from wharfinger.errors import InvalidInput
from wharfinger.simulator.truth.physics.solver import Constants


@dataclass(frozen=True, slots=True)
class Regime:
    """A calibration.

    Attributes:
        intensive: Share of drawn programs that are memory-intensive.
        misses: Scale of every program's misses; ``durations`` of every job's duration.
        cpu_overcommit: CPUs that a server promises over those that it has; memory likewise.
    """

    name: str
    about: str
    constants: Constants
    intensive: float
    misses: float = 1.0
    durations: float = 1.0
    cpu_overcommit: float = 1.0
    memory_overcommit: float = 1.0


_ALL = (
    Regime(
        "moderate",
        "cores are whole, half of the programs memory-intensive, mean duration 25 minutes",
        Constants(smt=False),
        intensive=0.5,
    ),
    Regime(
        "contended",
        "CPUs are hardware threads, two thirds memory-intensive, 33 minutes",
        Constants(smt=True, bandwidth=0.8),
        intensive=0.67,
        misses=1.3,
        durations=1.33,
    ),
    Regime(
        "overcommitted",
        "as contended, 55 minutes, and servers promise twice their CPUs and a tenth more memory",
        Constants(smt=True, bandwidth=0.8),
        intensive=0.67,
        misses=1.3,
        durations=2.2,
        cpu_overcommit=2.0,
        memory_overcommit=1.1,
    ),
)
REGIMES = MappingProxyType({each.name: each for each in _ALL})
DEFAULT = "moderate"


def find_regime(name: str) -> Regime:
    """The regime of that name; ``InvalidInput`` if there is none."""
    if name not in REGIMES:
        raise InvalidInput(f"--regime: {name!r} is no regime; there are {', '.join(REGIMES)}")
    return REGIMES[name]
