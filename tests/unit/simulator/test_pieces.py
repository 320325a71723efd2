"""Words before a policy's name that say what the engine under it can do."""

from dataclasses import replace

import pytest

from tests.support import first_and_long
from wharfinger.core import actions as act
from wharfinger.errors import InvalidInput
from wharfinger.model.view import Resize
from wharfinger.simulator.pieces import engine_under, words_of
from wharfinger.simulator.run import RunSpec, prepare
from wharfinger.simulator.scenario.setup import EngineAbility


def test_words_change_what_the_engine_can_do_and_leave_the_rest() -> None:
    able = EngineAbility()
    words, policy = words_of("whole-cpus+no-resize+quasar[confidence=0.9]")
    assert policy == "quasar[confidence=0.9]"
    changed = engine_under(words, able)
    assert changed == replace(able, resize=Resize.NONE, fractional_cpu=False)
    assert engine_under(words_of("resize+fractional-cpus+quasar")[0], changed) == able
    assert engine_under(words_of("no-suspend+quasar")[0], able) == replace(able, suspend=False)
    assert engine_under(words_of("stated+quasar")[0], changed) == changed


def test_words_that_contradict_one_another_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"resize and no-resize|no-resize and resize"):
        engine_under(words_of("resize+no-resize+quasar")[0], EngineAbility())


@pytest.mark.parametrize(
    "policy", first_and_long(["backfill", "quasar", "paragon", "feedback", "oracle"])
)
def test_nothing_that_the_engine_can_not_do_is_asked_of_it(policy: str) -> None:
    spec = RunSpec("quasar-batch", f"whole-cpus+no-resize+no-suspend+{policy}", seed=2, scale=0.15)
    simulation = prepare(spec)
    perform, asked = simulation.cluster.perform, list[act.EngineAction]()

    def noted(action: act.EngineAction) -> None:
        asked.append(action)
        perform(action)

    simulation.cluster.perform = noted  # type: ignore[method-assign]
    simulation.run()
    cant = (act.ResizeAllocation, act.SuspendWorkload, act.ResumeWorkload)
    assert not [action for action in asked if isinstance(action, cant)]
    starts = [action for action in asked if isinstance(action, act.StartWorkload)]
    given = [p.allocation.cpu_millicpus for each in starts for p in each.placements]
    assert starts
    assert not [cpu for cpu in given if cpu % 1000]
