"""Every experiment by name. A new one is a file beside this one and a line here."""

from wharfinger.errors import InvalidInput
from wharfinger.experiments.base import Experiment
from wharfinger.experiments.ibench_figure54 import IbenchFigure54
from wharfinger.experiments.measured_gavel import MeasuredGavel
from wharfinger.experiments.papers_scenarios import PapersScenarios
from wharfinger.experiments.paragon_figure2 import ParagonFigure2
from wharfinger.experiments.physics_matrices import PhysicsMatrices
from wharfinger.experiments.pythia_figure6 import PythiaFigure6
from wharfinger.experiments.quasar_figure2 import QuasarFigure2

_ALL: tuple[Experiment, ...] = (
    ParagonFigure2(),
    PapersScenarios(),
    QuasarFigure2(),
    PythiaFigure6(),
    IbenchFigure54(),
    PhysicsMatrices(),
    MeasuredGavel(),
)
EXPERIMENTS: dict[str, Experiment] = {each.name: each for each in _ALL}


def find_experiment(name: str) -> Experiment:
    """The experiment of that name.

    Raises:
        InvalidInput: There is none.
    """
    if name not in EXPERIMENTS:
        raise InvalidInput(f"{name!r} is not an experiment; there are {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name]
