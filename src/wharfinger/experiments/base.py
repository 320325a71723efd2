"""What an experiment is: a paper's table or figure, or a comparison of ours, by one command.

``registry.py`` names them, ``wharfinger experiment run`` runs one, ``results.py`` keeps what came
of it. Nearly all are data in one of two frames: ``RunExperiment`` (policies × scenarios × seeds)
or ``GroundTruthStudy`` (a function of a drawn population).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self

from wharfinger.experiments.comparison import Comparison, Run
from wharfinger.experiments.parallel import Progress
from wharfinger.experiments.statistics import Interval
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
class Row:
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
        cls, name: str, mean: Interval | None, unit: str, published: float | None = None
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
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    comparisons: Mapping[str, Comparison] = field(default_factory=dict)
    pictures: "Mapping[str, Callable[[], Figure]]" = field(default_factory=dict)


class Experiment(Protocol):
    """One table or figure.

    Attributes:
        name: As it is asked for.
        about: One line.
        source: Paper and section, table or figure; where nothing was published, it says so.
        repeats: Seeds, where it is not told how many.
    """

    @property
    def name(self) -> str: ...  # noqa: D102 - above, as are the next three

    @property
    def about(self) -> str: ...  # noqa: D102

    @property
    def source(self) -> str: ...  # noqa: D102

    @property
    def repeats(self) -> int: ...  # noqa: D102

    @property
    def takes(self) -> frozenset[str]:
        """Which of ``tables``, ``servers``, ``workloads`` and ``regime`` it can be told."""

    def check(self, arguments: Arguments) -> None:
        """Refuse at once what could not be run.

        Raises:
            InvalidInput: With the value and the mend.
        """

    def run(self, context: Context) -> ExperimentResult:
        """Run all of it.

        Raises:
            WharfingerError: A run failed; the message says which.
        """
