"""Every experiment by name. A new one is a file beside this one, and a line here.

``wharfinger experiment run`` calls ``check``, then ``run``.
"""

from wharfinger.errors import InvalidInput
from wharfinger.experiments.arq_figure2 import ARQ_FIGURE2
from wharfinger.experiments.arq_figures import ARQ_FIGURE3, ARQ_FIGURE4, ARQ_FIGURE5, ARQ_FIGURE6
from wharfinger.experiments.arq_tables import ARQ_TABLE62, ARQ_TABLE63
from wharfinger.experiments.ground_truth import GroundTruthStudy
from wharfinger.experiments.ibench_figure51 import IBENCH_FIGURE51
from wharfinger.experiments.ibench_figure52 import IBENCH_FIGURE52
from wharfinger.experiments.ibench_figure53 import IBENCH_FIGURE53
from wharfinger.experiments.ibench_figure54 import IBENCH_FIGURE54
from wharfinger.experiments.ibench_figure57 import IBENCH_FIGURE57
from wharfinger.experiments.ibench_figure58 import IBENCH_FIGURE58
from wharfinger.experiments.ibench_figure59 import IBENCH_FIGURE59
from wharfinger.experiments.ibench_figures import IBENCH_FIGURE55, IBENCH_FIGURE56
from wharfinger.experiments.ibench_profiler import IBENCH_PROFILER
from wharfinger.experiments.paragon_accounting import PARAGON_ACCOUNTING
from wharfinger.experiments.paragon_decisions import PARAGON_FIGURE9, PARAGON_FIGURE14
from wharfinger.experiments.paragon_figure5 import PARAGON_FIGURE5
from wharfinger.experiments.paragon_figure12 import PARAGON_FIGURE12
from wharfinger.experiments.paragon_figures import (
    PARAGON_FIGURE8,
    PARAGON_FIGURE13,
    PARAGON_FIGURE16,
)
from wharfinger.experiments.paragon_over_time import (
    PARAGON_FIGURE10,
    PARAGON_FIGURE11,
    PARAGON_FIGURE15,
)
from wharfinger.experiments.paragon_short_jobs import PARAGON_SHORT_JOBS
from wharfinger.experiments.paragon_table1 import PARAGON_TABLE1
from wharfinger.experiments.paragon_table3 import PARAGON_TABLE3
from wharfinger.experiments.paragon_table4 import PARAGON_TABLE4
from wharfinger.experiments.physics_matrices import PHYSICS_MATRICES
from wharfinger.experiments.pythia_contention import (
    PYTHIA_FIGURE5,
    PYTHIA_FIGURE15,
    PYTHIA_TABLE1,
)
from wharfinger.experiments.pythia_figure6 import PYTHIA_FIGURE6
from wharfinger.experiments.pythia_figure16 import PYTHIA_FIGURE16, PYTHIA_TWO_SERVICES
from wharfinger.experiments.pythia_prediction import (
    PYTHIA_FIGURE9,
    PYTHIA_FIGURE10,
    PYTHIA_UNSEEN,
)
from wharfinger.experiments.quasar_accounting import QUASAR_ACCOUNTING
from wharfinger.experiments.quasar_batch import QUASAR_FIGURE6, QUASAR_FIGURE7
from wharfinger.experiments.quasar_figure2 import QUASAR_FIGURE2
from wharfinger.experiments.quasar_figure3 import QUASAR_FIGURE3
from wharfinger.experiments.quasar_figures import QUASAR_FIGURE8, QUASAR_FIGURE11
from wharfinger.experiments.quasar_overheads import QUASAR_OVERHEADS
from wharfinger.experiments.quasar_phases import QUASAR_PHASES
from wharfinger.experiments.quasar_table2 import QUASAR_TABLE2
from wharfinger.experiments.run_experiments import (
    DO_NO_HARM,
    MEASURED_GAVEL,
    MEASURED_TABLES,
    PAPERS_SCENARIOS,
    PARAGON_AHEAD,
    PARAGON_FIGURE2,
)
from wharfinger.experiments.runs import RunExperiment
from wharfinger.experiments.slurm_sites import SLURM_SITES

Experiment = RunExperiment | GroundTruthStudy
_ALL: tuple[Experiment, ...] = (
    PARAGON_FIGURE2,
    PAPERS_SCENARIOS,
    QUASAR_TABLE2,
    QUASAR_FIGURE2,
    QUASAR_FIGURE3,
    QUASAR_FIGURE6,
    QUASAR_FIGURE7,
    QUASAR_FIGURE8,
    QUASAR_FIGURE11,
    QUASAR_OVERHEADS,
    QUASAR_PHASES,
    QUASAR_ACCOUNTING,
    PYTHIA_TABLE1,
    PYTHIA_FIGURE5,
    PYTHIA_FIGURE6,
    PYTHIA_FIGURE9,
    PYTHIA_FIGURE10,
    PYTHIA_UNSEEN,
    PYTHIA_FIGURE15,
    PYTHIA_FIGURE16,
    PYTHIA_TWO_SERVICES,
    IBENCH_FIGURE51,
    IBENCH_FIGURE52,
    IBENCH_FIGURE53,
    IBENCH_FIGURE54,
    IBENCH_FIGURE55,
    IBENCH_FIGURE56,
    IBENCH_FIGURE57,
    IBENCH_FIGURE58,
    IBENCH_FIGURE59,
    IBENCH_PROFILER,
    PHYSICS_MATRICES,
    MEASURED_GAVEL,
    MEASURED_TABLES,
    DO_NO_HARM,
    PARAGON_AHEAD,
    SLURM_SITES,
    PARAGON_TABLE1,
    PARAGON_TABLE3,
    PARAGON_TABLE4,
    PARAGON_FIGURE5,
    PARAGON_FIGURE8,
    PARAGON_FIGURE9,
    PARAGON_FIGURE10,
    PARAGON_FIGURE11,
    PARAGON_FIGURE12,
    PARAGON_FIGURE13,
    PARAGON_FIGURE14,
    PARAGON_FIGURE15,
    PARAGON_FIGURE16,
    PARAGON_SHORT_JOBS,
    PARAGON_ACCOUNTING,
    ARQ_FIGURE2,
    ARQ_FIGURE3,
    ARQ_FIGURE4,
    ARQ_FIGURE5,
    ARQ_FIGURE6,
    ARQ_TABLE62,
    ARQ_TABLE63,
)
EXPERIMENTS: dict[str, Experiment] = {each.name: each for each in _ALL}


def find_experiment(name: str) -> Experiment:
    """The experiment of that name.

    Raises:
        InvalidInput: No experiment has it.
    """
    if name not in EXPERIMENTS:
        raise InvalidInput(f"{name!r} is not an experiment; there are {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name]
