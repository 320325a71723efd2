"""Input and output of an experiment: a paper's table or figure, or a comparison of policies.

An experiment is a ``RunExperiment`` (``runs.py``) or a ``GroundTruthStudy`` (``ground_truth.py``).
``results.py`` writes its result.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from wharfinger.experiments.comparison import Comparison, Run
from wharfinger.experiments.parallel import Progress
from wharfinger.experiments.statistics import MeanInterval
from wharfinger.experiments.workspace import Workspace

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Arguments:
    """Options of the command; an experiment's ``takes`` names those that apply to it.

    ``repeats`` is the number of seeds, ``seed`` the first; ``None`` = the experiment's default.
    """

    repeats: int
    seed: int = 0
    tables: Path | None = None
    servers: int | None = None
    workloads: int | None = None
    scale: float | None = None
    regime: str | None = None

    @property
    def seeds(self) -> tuple[int, ...]:
        """All of them."""
        return tuple(range(self.seed, self.seed + self.repeats))


@dataclass(frozen=True, slots=True)
class Context:
    """How to run an experiment: as for ``compare``, and a folder for what runs read."""

    run: Run
    arguments: Arguments
    space: Workspace
    processes: int | None = None
    progress: Progress | None = None


@dataclass(frozen=True, slots=True)
class ResultRow:
    """One number of a table or figure, and the 95% interval over seeds; ``None`` = unknown."""

    name: str
    published: float | None
    measured: float | None
    low: float | None
    high: float | None
    unit: str

    @classmethod
    def of(
        cls, name: str, mean: MeanInterval | None, unit: str, published: float | None = None
    ) -> Self:
        """From a mean over seeds, if any."""
        if mean is None:
            return cls(name, published, None, None, None, unit)
        return cls(name, published, mean.mean, mean.low, mean.high, unit)


@dataclass(frozen=True, slots=True, eq=False)
class ExperimentResult:
    """The output of an experiment: its numbers, and sentences about them.

    ``comparisons`` are by the case in which policies were compared; ``pictures`` are functions that
    draw them, by file name without its ending.
    """

    name: str
    seeds: tuple[int, ...]
    rows: tuple[ResultRow, ...]
    notes: tuple[str, ...] = ()
    comparisons: Mapping[str, Comparison] = field(default_factory=dict)
    pictures: "Mapping[str, Callable[[], Figure]]" = field(default_factory=dict)
