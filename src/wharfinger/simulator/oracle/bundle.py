"""The oracle as a policy that can be named: which one depends on what the ground truth knows."""

from collections.abc import Callable

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.core.seams.estimation import ProfilingPlanner
from wharfinger.policies.placement.quasar import QuasarSettings
from wharfinger.policies.registry import Bundle, Part
from wharfinger.simulator.oracle.greedy import GreedyOracle
from wharfinger.simulator.oracle.true_numbers import NothingToProfile, Oracle, TrueNumbers
from wharfinger.simulator.scenario.setup import Setup

ORACLE = Oracle.name
Classify = Callable[[act.ClassifyWorkload], ev.Report]


def oracle_of(setup: Setup) -> tuple[Bundle, ProfilingPlanner | None, Classify | None]:
    """The oracle for a setup: its bundle, its estimation and its classifier, where it has them.

    Where contention is known between pairs, it decides by the rules of ``quasar`` with true numbers
    in place of estimates; else it looks at the truth itself.
    """
    if not setup.truth.references:
        return Bundle(Part(lambda: GreedyOracle(setup))), None, None
    bundle = Bundle(Part(Oracle, QuasarSettings), contention="combined", needs_measurements=True)
    return bundle, NothingToProfile(), TrueNumbers(setup).classify
