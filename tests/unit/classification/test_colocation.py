"""Sensitivities and pressures of programs, learnt from what ran together."""

from dataclasses import asdict, replace
from math import log

import numpy as np
import pytest

from wharfinger.classification.colocation import (
    BASIS,
    FIRST_COEFFICIENT,
    FIRST_FIT,
    UNSEEN,
    ColocationLearner,
    ColocationModel,
    Corun,
    CorunObserver,
    fit,
)
from wharfinger.core.lifecycle import Phase
from wharfinger.core.state import WorkloadRecord
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.performance import Quantity
from wharfinger.model.platform import Platform, Server
from wharfinger.model.profile import Classification, Curve, Estimate
from wharfinger.model.workload import Reservation, Run, Workload, WorkloadType

SERVER = Server("one", Platform("small", "x86_64", "", 8_000, 2**34), 8_000, 2**34)


def drawn(runs: int, seed: int = 0) -> tuple[list[Corun], dict[str, float], dict[str, float]]:
    """Of twenty programs on two platforms, the second of which shares four times as little."""
    random = np.random.default_rng(seed)
    programs = [f"p{at}" for at in range(20)]
    sensitivity = dict(zip(programs, random.gamma(1.5, 1 / 1.5, 20).tolist(), strict=True))
    pressure = dict(zip(programs, random.gamma(1.5, 1 / 1.5, 20).tolist(), strict=True))
    coruns = []
    for _ in range(runs):
        own, *others = random.choice(programs, random.integers(2, 5), replace=False).tolist()
        shares = {name: float(random.uniform(0.05, 0.3)) for name in others}
        platform, coefficient = (("small", 0.4), ("large", 0.1))[random.integers(2)]
        pressed = sum(pressure[name] * share for name, share in shares.items())
        drop = coefficient * sensitivity[own] * pressed + 0.02 * random.standard_normal()
        coruns.append(Corun(own, platform, drop, 0.02**2, shares))
    return coruns, sensitivity, pressure


def test_sensitivities_pressures_and_platforms_are_found():
    coruns, sensitivity, pressure = drawn(2_000)
    model = fit(coruns)
    ratio = model.coefficients["small"] / model.coefficients["large"]
    assert ratio == pytest.approx(4.0, rel=0.15)
    for true, found in ((sensitivity, model.sensitivities), (pressure, model.pressures)):
        names = sorted(true)
        pairs = [true[name] for name in names], [found[name].mean for name in names]
        assert np.corrcoef(*pairs)[0, 1] > 0.95


def test_what_was_seen_more_often_is_known_better():
    coruns, _, _ = drawn(400)
    few, many = fit(coruns[:40]), fit(coruns)
    name = coruns[0].program
    assert many.sensitivities[name].variance < few.sensitivities[name].variance < UNSEEN.variance


def test_predictions_of_pairs_that_never_met_are_better_than_the_mean():
    coruns, sensitivity, pressure = drawn(1_000)
    apart = [each for each in coruns if not {each.program, *each.neighbors} >= {"p0", "p1"}]
    model = fit(apart)
    shares = {"small": 0.5}
    own, other = model.profiles("p0", shares)["small"], model.profiles("p1", shares)["small"]
    true = 0.4 * sensitivity["p0"] * pressure["p1"] * 0.5
    usual = model.profiles("new", shares)["small"]
    error = abs(-log(own.beside(other).mean) - true)
    assert error < abs(-log(usual.beside(usual).mean) - true)


def test_nothing_seen_is_the_usual_with_its_spread():
    (profile,) = ColocationModel().profiles("new", {"small": 0.25}).values()
    assert profile.basis == BASIS
    assert profile.suffers == (FIRST_COEFFICIENT,)
    assert profile.presses == (0.25,)
    assert profile.beside(profile).std > 0


def workload(name: str, program: str, cpu: int = 2_000) -> Workload:
    return Workload(
        name,
        WorkloadType.BATCH,
        Run((program,)),
        reservation=Reservation(cpu_millicpus=cpu, memory_bytes=2**30),
    )


def resident(name: str, program: str, rate: float = 10.0, cpu: int = 2_000) -> WorkloadRecord:
    curve = Curve((1_000, 8_000), (Estimate(rate, 0.03), Estimate(rate, 0.03)))
    made = Classification("g", "1", curves={Quantity.RATE: curve}, platform="small")
    return WorkloadRecord(
        workload(name, program, cpu),
        uid=1,
        submitted_at=0.0,
        phase=Phase.RUNNING,
        key=f"{name}-key",
        placements=(Placement("one", Allocation(cpu, 2**30)),),
        classification=made,
    )


def program_of(stated: Workload) -> str:
    return stated.run.command[0]


def test_a_resident_is_told_once_beside_the_same_neighbors():
    observer = CorunObserver(program_of)
    sort, join = resident("a", "sort"), resident("b", "join", cpu=4_000)
    rates = {"a-key": Estimate(8.0, 0.05), "b-key": Estimate(10.0, 0.05)}
    first, second = observer.look(SERVER, [sort, join], rates)
    assert (first.program, first.platform, first.neighbors) == ("sort", "small", {"join": 0.5})
    assert first.drop == pytest.approx(log(10 / 8))
    assert second.drop == pytest.approx(0.0)
    assert second.neighbors == {"sort": 0.25}
    assert observer.look(SERVER, [sort, join], rates) == []
    more = [sort, join, resident("c", "sort")]
    told = observer.look(SERVER, more, rates)
    assert [each.neighbors for each in told] == [
        {"join": 0.5, "sort": 0.25},
        {"sort": 0.5},
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"classification": None},
        {"phase": Phase.SUSPENDED},
        {"placements": (Placement("one", Allocation(1, 1)), Placement("two", Allocation(1, 1)))},
    ],
)
def test_what_can_not_be_told_is_left_out(change):
    one = resident("a", "sort")
    for name, value in change.items():
        setattr(one, name, value)
    rates = {"a-key": Estimate(8.0, 0.05)}
    assert CorunObserver(program_of).look(SERVER, [one, resident("b", "join")], rates) == []


def test_alone_nothing_is_told():
    rates = {"a-key": Estimate(8.0, 0.05)}
    assert CorunObserver(program_of).look(SERVER, [resident("a", "sort")], rates) == []


def test_a_learner_fits_now_and_then_and_knows_its_programs():
    coruns, _, _ = drawn(FIRST_FIT + 10)
    learner = ColocationLearner(program_of, {"small": 8_000, "huge": 1_000})
    learner.learn(coruns[: FIRST_FIT - 1])
    assert learner.model == ColocationModel()
    learner.learn(coruns[FIRST_FIT - 1 :])
    assert set(learner.model.coefficients) == {"small", "large"}
    profiles = learner.profiles(workload("w", coruns[0].program))
    assert set(profiles) == {"small", "huge"}
    assert profiles["huge"].presses[0] == pytest.approx(4 * profiles["small"].presses[0])
    assert learner.profiles(replace(workload("w", "x"), reservation=None)) == {}


def test_coruns_are_read_as_they_are_written():
    (corun, *_), _, _ = drawn(1)
    assert Corun.from_json(asdict(corun)) == corun
    with pytest.raises(ValueError, match="is no co-run"):
        Corun.from_json({"program": "x"})
