"""What ran is learnt from by a process beside the manager, and kept from run to run."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from tests.support import wait_until
from tests.support.cluster import ProfileTheLabelled, workload
from tests.unit.classification.test_learnt import found, of
from wharfinger.classification.colocation import FIRST_FIT, ColocationModel, Corun
from wharfinger.classification.utility import Aspect, UtilityMatrix
from wharfinger.core.lifecycle import Phase
from wharfinger.core.pipeline import Core
from wharfinger.core.ports import Port
from wharfinger.model.configuration import Configuration
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Classification, Curve, Estimate, Measurements
from wharfinger.model.view import Capabilities
from wharfinger.model.workload import LatencyBound, Run, Target, Workload, WorkloadType
from wharfinger.policies.registry import make_policy
from wharfinger.runtime import refit
from wharfinger.runtime.classifying import ClassifierService
from wharfinger.runtime.learning import (
    ALL,
    CHILD_SECONDS,
    CORUNS,
    REFIT_SECONDS,
    ROWS,
    LearningClassifier,
)
from wharfinger.runtime.runtime import SETTLED_SECONDS, Runtime
from wharfinger.store.sqlite import SqliteStore
from wharfinger.testing import MemoryCluster, MemoryEngine

CPUS = (250, 500, 1000, 2000)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def known() -> dict[Aspect, UtilityMatrix]:
    """Programs that gain from all CPU there is."""
    rng = np.random.default_rng(0)
    rows = {
        f"p{n}": {Configuration(cpu).name: cpu * math.exp(rng.normal(0, 0.03)) for cpu in CPUS}
        for n in range(9)
    }
    return {Aspect.SCALE_UP: UtilityMatrix.of(Aspect.SCALE_UP, rows)}


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


@pytest.mark.slow
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
    assert classifier.due_in() in (0.0, CHILD_SECONDS)
    classifier._child.wait(timeout=60)
    assert classifier.due_in() == 0, "there is something to take over"
    wait(classifier)
    assert classifier.due_in() is None
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


@pytest.mark.slow
def test_while_a_child_is_at_work_nobody_spins(tmp_path: Path) -> None:
    clock = Clock()
    classifier = learning(tmp_path, clock)
    clock.now = REFIT_SECONDS
    classifier.learn(of("flat"), found(FLAT))
    classifier.go_on()
    classifier.learn(of("flat", "2"), found(FLAT))
    clock.now = 2 * REFIT_SECONDS
    if classifier._child.poll() is None:
        assert classifier.due_in() == CHILD_SECONDS
    wait(classifier)
    assert classifier._child is not None, "the second one comes next"
    classifier.close()
    assert classifier._child is None


@pytest.mark.slow
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


def test_what_the_site_has_taken_away_is_not_learnt_from(tmp_path: Path) -> None:
    scores = UtilityMatrix.of(Aspect.TOLERATED, {"p": {"integer": 1.0}})
    refit.write_matrices({**known(), Aspect.TOLERATED: scores}, tmp_path)
    refit.write_matrices(known(), tmp_path)
    assert set(refit.read_matrices(tmp_path)) == {Aspect.SCALE_UP}


def test_what_can_not_be_learnt_harms_nobody(tmp_path: Path, caplog) -> None:
    classifier = learning(tmp_path, Clock())
    classifier.learn(of("flat"), found(dict.fromkeys(FLAT, math.inf)))
    assert classifier.due_in() is None
    assert "nothing is learnt of w" in caplog.text
    classifier.close()


def test_nothing_is_learnt_of_what_was_not_measured(tmp_path: Path) -> None:
    classifier = learning(tmp_path, Clock())
    classifier.learn(of("flat"), found({500: 1.0}))
    assert classifier.due_in() is None
    classifier.close()
    assert not (tmp_path / "learnt").exists()


class Noted:
    """A classifier that notes what it is asked and told."""

    def __init__(self) -> None:
        self.asked: list[tuple[Measurements, WorkloadType | None, LatencyBound | None]] = []
        self.told: list[tuple[str, Measurements]] = []
        self.coruns: list[Corun] = []
        self.servers: dict[str, int] = {}
        self.due: float | None = None
        self.went_on = self.closed = 0

    def classify(self, measurements, type_=None, bound=None) -> Classification:
        self.asked.append((measurements, type_, bound))
        curve = Curve((1000,), (Estimate(2.0, 0.03),))
        return Classification("noted", "1", curves={Quantity.RATE: curve})

    def beside(self, workload: Workload, made: Classification) -> Classification:
        return replace(made, pairs=ColocationModel().profiles(workload.name, {"": 0.5}))

    def see(self, coruns: Sequence[Corun], servers: Mapping[str, int]) -> None:
        self.coruns += coruns
        self.servers |= servers

    def learn(self, workload: Workload, found: Measurements) -> None:
        self.told.append((workload.name, found))

    def due_in(self) -> float | None:
        return self.due

    def go_on(self) -> None:
        self.went_on += 1
        self.due = None

    def close(self) -> None:
        self.closed += 1


def test_the_runtime_tells_what_was_measured_of_a_workload_when_it_has_ended(tmp_path) -> None:
    cluster, noted = MemoryCluster(profiles=True), Noted()
    classifier = ClassifierService(noted)
    runtime = Runtime(
        lambda state: Core(
            make_policy("least-loaded", estimation=ProfileTheLabelled()), state=state
        ),
        MemoryEngine(cluster),
        SqliteStore.open(tmp_path),
        lambda: 100.0,
        services={Port.CLASSIFIER: classifier},
        learns=classifier.learn,
    )
    runtime.start()
    bound = LatencyBound(99, 0.1)
    run = Run(("work",))  # until it is ended
    service = replace(workload("w", profile=True), run=run, target=Target(latency=bound))
    runtime.submit([service, replace(workload("other"), run=run)])
    runtime.pump()
    cluster.advance(60.0)  # All programs do one unit of work per second.
    wait_until(lambda: runtime.pump() or runtime.manager.find("w").phase is Phase.RUNNING)
    assert [(type_, asked) for _, type_, asked in noted.asked] == [(service.type, bound)]
    assert not noted.told
    for name in ("w", "other"):
        cluster.end(runtime.manager.find(name).key)
    noted.due = 0.0
    runtime.pump()
    wait_until(lambda: noted.went_on)
    assert [name for name, _ in noted.told] == ["w"], "nothing was measured of the other"
    entries = noted.told[0][1].performance[Quantity.RATE]
    assert {cpu: e.value for cpu, e in entries.items()} == {250: 1.0, 500: 1.0}
    runtime.close()
    assert noted.closed == 1


def test_the_runtime_tells_how_workloads_run_beside_one_another(tmp_path) -> None:
    able = Capabilities(profiles=True, probes=True, measures=True)
    cluster, noted, at = MemoryCluster(capabilities=able), Noted(), Clock()
    classifier = ClassifierService(noted)
    policy = make_policy("paragon", estimation=ProfileTheLabelled())
    runtime = Runtime(
        lambda state: Core(policy, state=state),
        MemoryEngine(cluster),
        SqliteStore.open(tmp_path),
        at,
        services={Port.CLASSIFIER: classifier},
        learns=classifier.learn,
        sees=classifier.see,
    )
    runtime.start()
    made = [
        replace(workload(name, profile=True), run=Run((name,)), target=Target(rate_per_second=1.0))
        for name in ("sort", "join")
    ]
    runtime.submit(made)

    def goes_on(seconds: float) -> None:
        at.now += seconds
        cluster.advance(seconds)
        runtime.pump()
        runtime.tick()

    goes_on(60.0)
    wait_until(lambda: goes_on(1.0) or len(cluster.running()) == 2)
    assert {
        each.classification.pairs[""].presses for each in runtime.manager.state.workloads.values()
    } == {(0.5,)}
    goes_on(SETTLED_SECONDS + 40.0)
    wait_until(lambda: goes_on(10.0) or len(noted.coruns) >= 2)
    assert noted.servers == {"memory-4000m": 4000}
    (share,) = {share for each in noted.coruns for share in each.neighbors.values()}
    assert share == 0.25
    assert [each.drop for each in noted.coruns] == pytest.approx([math.log(2)] * 2)
    goes_on(60.0)
    assert len(noted.coruns) == 2, "each once beside the same neighbors"
    runtime.close()


def together(count: int) -> list[Corun]:
    return [Corun("sort", "small", 0.2, 0.01, {"join": 0.5 + at / 1000}) for at in range(count)]


def test_what_ran_together_is_kept_from_run_to_run(tmp_path: Path) -> None:
    first = LearningClassifier(known(), tmp_path, Clock(), colocation=True)
    stated = replace(of("sort"), run=Run(("sort",)))
    first.see(together(FIRST_FIT), {"small": 4_000})
    seen = first.beside(stated, Classification("g", "1")).pairs
    first.close()
    again = LearningClassifier(known(), tmp_path, Clock(), colocation=True)
    again.see((), {"small": 4_000})
    assert again.beside(stated, Classification("g", "1")).pairs == seen
    again.close()
    without = LearningClassifier(known(), tmp_path, Clock())
    assert without.beside(stated, Classification("g", "1")).pairs == {}
    without.close()


@pytest.mark.parametrize("content", ["", "[1]", '[{"program": "x"}]', "{}", '"word"'])
def test_a_damaged_file_of_what_ran_together_is_passed_over(tmp_path: Path, content) -> None:
    (tmp_path / CORUNS).write_text(content)
    classifier = LearningClassifier(known(), tmp_path, Clock(), colocation=True)
    classifier.see(together(1), {})
    classifier.close()
    (kept,) = json.loads((tmp_path / CORUNS).read_text())
    assert kept == asdict(together(1)[0])
