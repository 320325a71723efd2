"""ARQ's figures: each published number has its place, and each policy exists."""

import pytest

from wharfinger.experiments.arq_figures import ARQ_FIGURE3, ARQ_FIGURE5, ARQ_FIGURE6
from wharfinger.policies.registry import make_policy
from wharfinger.simulator.policies import ORACLE
from wharfinger.simulator.run import UNDER

FIGURES = (ARQ_FIGURE3, ARQ_FIGURE5, ARQ_FIGURE6)


@pytest.mark.parametrize("figure", FIGURES, ids=lambda each: each.name)
def test_each_published_number_stands_beside_one_that_is_measured(figure):
    keys = {measure.key for measure in figure.measures}
    assert figure.published
    for each in figure.published:
        assert each.scenario in figure.scenarios
        assert each.policy in figure.policies
        assert each.measure in keys


@pytest.mark.parametrize("figure", FIGURES, ids=lambda each: each.name)
def test_each_admission_is_known(figure):
    for name in figure.policies:
        policy, _, admission = name.partition(UNDER)
        # The oracle and its admission need a scenario.
        own = "least-loaded" if policy == ORACLE else policy
        assert make_policy(own, admission="" if admission == ORACLE else admission)
