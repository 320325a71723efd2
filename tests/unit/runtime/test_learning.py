"""What ran is learnt from by a process beside the manager, and kept from run to run."""

import math
from pathlib import Path

import numpy as np
import pytest

from tests.unit.classification.test_learnt import found, of
from wharfinger.classification.utility import Kind, UtilityMatrix
from wharfinger.model.configuration import Configuration
from wharfinger.model.performance import Quantity
from wharfinger.runtime.learning import ALL, REFIT_SECONDS, ROWS, LearningClassifier

CPUS = (250, 500, 1000, 2000)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def known() -> dict[Kind, UtilityMatrix]:
    """Programs that gain from all CPU there is."""
    rng = np.random.default_rng(0)
    rows = {
        f"p{n}": {Configuration(cpu).name: cpu * math.exp(rng.normal(0, 0.03)) for cpu in CPUS}
        for n in range(9)
    }
    return {Kind.SCALE_UP: UtilityMatrix.of(Kind.SCALE_UP, rows)}


def learning(path: Path, clock: Clock) -> LearningClassifier:
    return LearningClassifier(known(), path / "learnt", clock, estimator="row-column-means")


def wait(classifier: LearningClassifier) -> None:
    assert classifier._child is not None
    classifier._child.wait(timeout=60)
    classifier.go_on()


FLAT = {250: 9.0, 500: 10.0, 1000: 10.0, 2000: 10.0}


def at_two_cpus(classifier: LearningClassifier) -> float:
    classified = classifier.classify(found({250: 9.0, 500: 10.0}))
    return classified.curves[Quantity.RATE].at(2000).mean


def test_what_ran_is_learnt_beside_the_manager_and_kept(tmp_path: Path) -> None:
    clock = Clock()
    classifier = learning(tmp_path, clock)
    assert classifier.due_in() is None
    before = classifier.classify(found({250: 9.0, 500: 10.0}))
    assert before.estimator == "gaussian"
    for number in range(12):
        classifier.learn(of("flat", str(number)), found(FLAT))
    assert classifier.rows == 12
    assert classifier.due_in() == REFIT_SECONDS
    at_first = at_two_cpus(classifier)
    assert classifier._child is None, "who begins first is measured first"

    clock.now = REFIT_SECONDS
    assert classifier.due_in() == 0
    classifier.go_on()
    assert classifier.due_in() is None
    wait(classifier)
    after = classifier.classify(found({250: 9.0, 500: 10.0}))
    assert after.estimator == "row-column-means"
    assert at_two_cpus(classifier) < at_first
    classifier.close()

    again = learning(tmp_path, clock)
    assert again.rows == 12
    assert again.due_in() is None, "nothing is new"
    assert at_two_cpus(again) == at_two_cpus(classifier)
    again.learn(of("flat", "more"), found(FLAT))
    again.close()
    assert learning(tmp_path, clock).due_in() is not None, "the last one is not learnt from yet"


def test_while_a_child_is_at_work_nobody_spins(tmp_path: Path) -> None:
    clock = Clock()
    classifier = learning(tmp_path, clock)
    clock.now = REFIT_SECONDS
    classifier.learn(of("flat"), found(FLAT))
    classifier.go_on()
    classifier.learn(of("flat", "2"), found(FLAT))
    clock.now = 2 * REFIT_SECONDS
    assert classifier.due_in() > 0
    wait(classifier)
    assert classifier._child is not None, "the second one comes next"
    classifier.close()
    assert classifier._child is None


@pytest.mark.parametrize("folder", [ROWS, ALL])
def test_what_is_broken_is_passed_over(tmp_path: Path, folder: str, caplog) -> None:
    clock = Clock()
    classifier = learning(tmp_path, clock)
    clock.now = REFIT_SECONDS
    classifier.learn(of("flat"), found(FLAT))
    classifier.go_on()
    wait(classifier)
    classifier.close()
    (tmp_path / "learnt" / folder / "scale-up.csv").write_text("nonsense\n")
    again = learning(tmp_path, clock)
    assert "passed over" in caplog.text
    assert again.classify(found({500: 10.0})).curves
    again.close()


def test_nothing_is_learnt_of_what_was_not_measured(tmp_path: Path) -> None:
    classifier = learning(tmp_path, Clock())
    classifier.learn(of("flat"), found({500: 1.0}))
    assert classifier.due_in() is None
    classifier.close()
    assert not (tmp_path / "learnt").exists()
