"""What goes into an experiment, and what comes of it.

An experiment is a paper's table or figure, or a comparison of ours, by one command: data in one of
two frames, ``RunExperiment`` or ``GroundTruthStudy``. ``results.py`` keeps what came of it.
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
    """What an experiment may be told; which of these, it says in ``takes``.

    Attributes:
        repeats: Seeds.
        seed: The first of them.
        tables: Directory of measured tables.
        servers: Of the simulated cluster; ``None`` = as the experiment has it.
        workloads: In one run; the same.
        regime: Of the physics; ``None`` = the experiment's.
    """

    repeats: int
    seed: int = 0
    tables: Path | None = None
    servers: int | None = None
    workloads: int | None = None
    regime: str | None = None

    @property
    def seeds(self) -> tuple[int, ...]:
        """All of them."""
        return tuple(range(self.seed, self.seed + self.repeats))


@dataclass(frozen=True, slots=True)
class Context:
    """Where an experiment runs.

    Attributes:
        run: Simulates one run; a module's function.
        arguments: Its own.
        space: Where it writes what its runs read, and keeps what it read itself.
        processes: At most so many at once; ``None`` = one for each CPU.
        progress: Is told how many runs are done, of how many.
    """

    run: Run
    arguments: Arguments
    space: Workspace
    processes: int | None = None
    progress: Progress | None = None


@dataclass(frozen=True, slots=True)
class ResultRow:
    """One number of a table or figure.

    Attributes:
        name: Which.
        published: What the paper says; ``None`` = nothing was published.
        measured: What came out here; ``None`` = nothing did.
        low: Of the 95% interval over seeds, as is ``high``; ``None`` = one seed does not tell.
        unit: Of all of these, e.g. ``"fraction"``.
    """

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
        """A mean over seeds, if there is one."""
        if mean is None:
            return cls(name, published, None, None, None, unit)
        return cls(name, published, mean.mean, mean.low, mean.high, unit)


@dataclass(frozen=True, slots=True, eq=False)
class ExperimentResult:
    """What came of an experiment.

    Attributes:
        name: The experiment's.
        seeds: Of its runs.
        rows: Its numbers, in the order in which they are shown.
        notes: Sentences about them.
        comparisons: All runs, by the case in which the policies were compared.
        pictures: By file name without its ending: each draws one when it is called.
    """

    name: str
    seeds: tuple[int, ...]
    rows: tuple[ResultRow, ...]
    notes: tuple[str, ...] = ()
    comparisons: Mapping[str, Comparison] = field(default_factory=dict)
    pictures: "Mapping[str, Callable[[], Figure]]" = field(default_factory=dict)
