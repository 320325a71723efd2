"""Where each point of the gap between Paragon's policy and the oracle goes.

Nothing was published of this. Pieces of the truth are added one after the other (``informed``):
the scores of interference, then platforms, then no copies are run, then true slowdowns take the
place of those that scores predict. What is left to the oracle is the rule, and how residents do.
"""

from dataclasses import replace

from wharfinger.experiments.paragon_figures import (
    HIGH,
    KEPT,
    LOW,
    OF_SCHEDULERS,
    OVERSUBSCRIBED,
    PERFORMANCE,
    PUBLISHED_RULE,
)
from wharfinger.experiments.runs import Figure, RunMeasure
from wharfinger.simulator.pieces import (
    NO_PROFILING,
    TRUE_CONTENTION,
    TRUE_PLATFORMS,
    TRUE_SCORES,
    informed,
)
from wharfinger.simulator.policies import ORACLE
from wharfinger.simulator.run import UNDER

PIECES = (TRUE_SCORES, TRUE_PLATFORMS, NO_PROFILING, TRUE_CONTENTION)
LADDER = tuple(informed("paragon", *PIECES[:count]) for count in range(len(PIECES) + 1))
BY_THEMSELVES = tuple(informed("paragon", piece) for piece in (TRUE_PLATFORMS, TRUE_CONTENTION))
UNDER_ORACLE = f"paragon{UNDER}{ORACLE}"
"""By the oracle's admission: what any admission could add."""
PUBLISHED_EXACT = informed(PUBLISHED_RULE, *PIECES[:-1])
"""The published rule, which goes by scores, with all others."""
OF_ORACLE = "kept-over-oracles"

PARAGON_ACCOUNTING = replace(
    OF_SCHEDULERS,
    name="paragon-accounting",
    about="the gap between paragon and the oracle, piece by piece",
    source="nothing published: what Paragon's predictions, profiling and rule cost here",
    policies=(
        ORACLE,
        *LADDER,
        *BY_THEMSELVES,
        UNDER_ORACLE,
        f"{ORACLE}{UNDER}{ORACLE}",
        f"paragon{UNDER}arq",
        PUBLISHED_RULE,
        PUBLISHED_EXACT,
        "sparrow",
        "least-loaded",
    ),
    scenarios=(LOW, HIGH, OVERSUBSCRIBED),
    measures=(
        RunMeasure(KEPT, better=1),
        RunMeasure(OF_ORACLE, over=(KEPT, ORACLE)),
        RunMeasure(PERFORMANCE, better=1),
        RunMeasure("platform_loss_mean", better=-1),
        RunMeasure("interference_loss_mean", better=-1),
        RunMeasure("waiting_loss_mean", better=-1),
    ),
    figures=(Figure("bars", "kept-{regime}", "Targets kept: {regime}", of=KEPT, label="share"),),
    notes=(
        (
            f"From paragon on, each of {', '.join(PIECES)} is added to those before: the "
            "difference between two is what a piece is worth. What is left to the oracle is the "
            "rule's, and the residents' true performance, which only the oracle asks."
        ),
        (
            f"Under the admission '{ORACLE}' those who can keep a target wait for platforms on "
            "which they do, the most urgent first, and the lost come last: what an admission can "
            "add."
        ),
        "Scores are true on the reference platform, as profiling would read them without noise.",
    ),
)
