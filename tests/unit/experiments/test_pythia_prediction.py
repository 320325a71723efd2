"""Pythia's Figures 9 and 10 on one small population."""

from functools import partial

import numpy as np
import pytest

from wharfinger.experiments import pythia_prediction
from wharfinger.experiments.pythia_figure6 import world
from wharfinger.experiments.pythia_prediction import judged, measured_sets
from wharfinger.interference.registry import FORMS
from wharfinger.simulator.truth.physics.named import PYTHIA_BATCH, PYTHIA_SERVICES
from wharfinger.simulator.truth.physics.regimes import find_regime

FEW = PYTHIA_BATCH[:5]
REGIME = find_regime("moderate")


@pytest.fixture(autouse=True)
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pythia_prediction, "REPEATS", 1)
    monkeypatch.setattr(pythia_prediction, "SHARES", (0.1, 0.3))
    monkeypatch.setattr(pythia_prediction, "INFORMED", (0.3,))
    monkeypatch.setattr(pythia_prediction, "UNSEEN", 1)


def test_what_was_measured_is_the_truth_with_an_error():
    truth = world(REGIME, 1, 1.0)
    noisy, exact = measured_sets(truth, PYTHIA_SERVICES, FEW, 1)
    for one, other in zip(noisy.services, exact.services, strict=True):
        assert one.names == other.names == tuple(sorted(FEW))
        off = np.concatenate([one.sets[d].drops - other.sets[d].drops for d in (2, 3)])
        assert 0.003 < off.std() < 0.008
        assert np.array_equal(one.sets[3].members, other.sets[3].members)


@pytest.mark.parametrize("informed", [False, True])
def test_what_is_learnt_is_not_judged(informed: bool):
    both = measured_sets(world(REGIME, 1, 1.0), PYTHIA_SERVICES, FEW, 1)
    held = judged(both, ["box-cox"], 0.2, 0, informed=informed)["box-cox"]
    total = sum(len(table) for each in both[0].services for table in each.sets.values())
    left = sum(len(table) for each in held.values() for _, table in each.parts)
    assert left == total - 2 * (3 + 7)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["predict", "learn", "unseen"])
def test_an_experiment_measures_a_population(name: str):
    measure = partial(getattr(pythia_prediction, name), names=FEW)
    found = measure(REGIME, 1)
    assert all(np.isfinite(value) for value in found.numbers.values())
    if name == "predict":
        forms = {key.split("/")[0] for key in found.numbers} - {"with-whims"}
        assert forms == set(FORMS)
        ours, sums = (
            found.numbers[f"{form}/degree-3/log-error"] for form in ("box-cox", "multi-bubble-up")
        )
        assert ours < sums
    if name == "unseen":
        assert set(found.numbers) == {
            f"{how}/log-error" for how in ("measured", "completed", "average")
        }
