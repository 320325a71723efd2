"""The classifications together: additive where programs are, corrected where they are not."""

import math
from dataclasses import replace

import numpy as np
import pytest

from wharfinger.classification.classifications import Classifications, Found
from wharfinger.classification.combination import Composite, Misfit, axes_between, misfit_of
from wharfinger.classification.utility import Kind, UtilityMatrix
from wharfinger.errors import InvalidInput
from wharfinger.estimators.estimator import NORMAL_90
from wharfinger.model.configuration import Configuration, Setting
from wharfinger.model.interference import SharedResource
from wharfinger.model.profile import Entry

CPUS, SERVERS, PLATFORMS = (1000, 2000, 4000), (1, 2, 4), ("slow", "usual", "fast")
REFERENCE = Setting("usual", Configuration(2000))
ALL = [Setting(p, Configuration(c), n) for p in PLATFORMS for c in CPUS for n in SERVERS]


def performance(rng: np.random.Generator, twist: float = 0.0) -> dict[Setting, float]:
    """One program: how it gains from CPU, from servers and by platform, mostly of one kind.

    ``twist``: how much worse it scales out on the fast platform.
    """
    kind = rng.normal()
    up, out, fast = 0.7 + 0.2 * kind, 0.6 + 0.2 * rng.normal(), 0.3 + 0.1 * kind
    level = rng.normal(0, 2)
    speed = {"slow": -fast, "usual": 0.0, "fast": fast}
    return {
        s: math.exp(
            level
            + up * math.log(s.configuration.cpu_millicpus / 1000)
            + out * math.log(s.servers)
            + speed[s.platform]
            - twist * (s.platform == "fast" and s.servers > 1)
            + rng.normal(0, 0.02)
        )
        for s in ALL
    }


def on(kind: Kind, programs: list[dict[Setting, float]]) -> UtilityMatrix:
    def column(setting: Setting) -> str:
        return {
            Kind.SCALE_UP: setting.configuration.name,
            Kind.SCALE_OUT: str(setting.servers),
            Kind.HETEROGENEITY: setting.platform,
        }.get(kind, setting.name)

    def lies_on(setting: Setting) -> bool:
        return kind is Kind.EXHAUSTIVE or axes_between(setting, REFERENCE) in ((), (kind,))

    rows = {
        f"p{n}": {column(s): v for s, v in program.items() if lies_on(s)}
        for n, program in enumerate(programs)
    }
    return UtilityMatrix.of(kind, rows)


def made(twist: float = 0.0, *, exhaustive: bool = False) -> Classifications:
    rng = np.random.default_rng(0)
    programs = [performance(rng, twist) for _ in range(16)]
    kinds = [Kind.SCALE_UP, Kind.SCALE_OUT, Kind.HETEROGENEITY]
    kinds += [Kind.EXHAUSTIVE] if exhaustive else []
    return Classifications({kind: on(kind, programs) for kind in kinds}, "gaussian")


RUNS = [
    REFERENCE,
    replace(REFERENCE, configuration=Configuration(1000)),
    replace(REFERENCE, servers=2),
    replace(REFERENCE, platform="slow"),
]
FAR = [s for s in ALL if len(axes_between(s, REFERENCE)) > 1]


def found(truth: dict[Setting, float], runs: list[Setting] = RUNS) -> Found:
    return Found(REFERENCE, {run: Entry(truth[run], 0.02) for run in runs})


def errors(composite: Composite, truth: dict[Setting, float]) -> np.ndarray:
    predicted = composite.predict(FAR)
    return predicted.mean - np.log([truth[s] for s in FAR])


def test_four_runs_tell_every_setting_of_a_program_like_the_known_ones() -> None:
    truth = performance(np.random.default_rng(99))
    composite = made().classify(found(truth)).performance
    assert np.abs(errors(composite, truth)).mean() < 0.1
    assert composite.predict([REFERENCE]).mean[0] == pytest.approx(math.log(truth[REFERENCE]))


def test_intervals_hold_what_they_say() -> None:
    classifications, held = made(), []
    for seed in range(30):
        truth = performance(np.random.default_rng(100 + seed))
        composite = classifications.classify(found(truth)).performance
        predicted = composite.predict(FAR)
        off = np.abs(predicted.mean - np.log([truth[s] for s in FAR]))
        held += (off <= NORMAL_90 * np.sqrt(predicted.variances)).tolist()
    assert np.mean(held) > 0.85


@pytest.mark.parametrize("exhaustive", [False, True])
def test_what_adding_misses_is_learnt_from_programs_measured_everywhere(exhaustive) -> None:
    truth = performance(np.random.default_rng(7), twist=0.5)
    composite = made(0.5, exhaustive=exhaustive).classify(found(truth)).performance
    wrong = np.abs(errors(composite, truth)).mean()
    assert wrong < 0.1 if exhaustive else wrong > 0.12


def test_what_is_observed_elsewhere_corrects_that_setting_and_its_neighbours() -> None:
    truth = performance(np.random.default_rng(7), twist=0.5)
    far = Setting("fast", Configuration(4000), 2)
    near = Setting("fast", Configuration(2000), 2)
    classifications = made()
    before = classifications.classify(found(truth)).performance
    after = classifications.classify(
        found(truth).corrected(far, Entry(truth[far], 0.02), 60.0)
    ).performance

    def off(composite: Composite, setting: Setting) -> float:
        return abs(float(composite.predict([setting]).mean[0]) - math.log(truth[setting]))

    assert off(after, far) < 0.25 * off(before, far)
    assert off(after, near) < off(before, near)
    assert after.predict([far]).variances[0] < before.predict([far]).variances[0]


def test_two_settings_can_be_compared_by_their_covariance() -> None:
    composite = made().classify(found(performance(np.random.default_rng(1)))).performance
    two, four = (Setting("fast", Configuration(4000), n) for n in (2, 4))
    joint = composite.predict([two, four])
    difference = joint.variances.sum() - 2 * joint.covariance[0, 1]
    assert difference < 0.8 * joint.variances.sum(), "they share level and platform"
    assert np.linalg.eigvalsh(joint.covariance).min() > -1e-9


def test_neighbours_take_away_and_add_doubt() -> None:
    composite = made().classify(found(performance(np.random.default_rng(1)))).performance
    alone = composite.predict([REFERENCE])
    beside = composite.predict([REFERENCE], np.array([0.2]), np.array([0.01]))
    assert beside.mean[0] == pytest.approx(alone.mean[0] - 0.2)
    assert beside.variances[0] == pytest.approx(alone.variances[0] + 0.01)


def test_between_and_beyond_columns() -> None:
    composite = made().classify(found(performance(np.random.default_rng(1)))).performance

    def at(cpu: int = 2000, servers: int = 1, platform: str = "usual") -> tuple[float, float]:
        one = composite.predict([Setting(platform, Configuration(cpu), servers)])
        return float(one.mean[0]), float(one.variances[0])

    assert at(cpu=2000)[0] < at(cpu=3000)[0] < at(cpu=4000)[0]
    assert at(servers=16)[1] > at(servers=8)[1] > at(servers=4)[1]
    assert at(cpu=500)[0] == pytest.approx(at(cpu=1000)[0] - math.log(2)), "in proportion"
    assert at(platform="never seen")[1] > 0.2
    parameters = Setting("usual", Configuration(2000, parameters=(("heap", "1Gi"),)))
    assert composite.predict([parameters]).variances[0] > 0.2, "nobody was measured with it"


def test_relative_to_what_nobody_knows_nothing_is_known() -> None:
    strange = Setting("strange", Configuration(2000))
    composite = made().classify(Found(strange, {strange: Entry(5.0, 0.02)})).performance
    there = composite.predict([strange, Setting("fast", Configuration(2000))])
    assert there.mean == pytest.approx([math.log(5.0)] * 2)
    assert there.variances[0] < 0.01
    assert there.variances[1] > 0.2
    beyond = Setting("usual", Configuration(2000), 16)
    composite = made().classify(Found(beyond, {beyond: Entry(5.0, 0.02)})).performance
    one, two = composite.predict([replace(beyond, servers=4), replace(beyond, servers=2)]).variances
    assert min(one, two) > 0.3, "16 are two doublings beyond what was measured"


def test_cold_start_is_the_average_of_its_type_and_unsure() -> None:
    unknown = made().classify(Found(REFERENCE))
    assert unknown.measured == 0
    fast = Setting("fast", Configuration(2000))
    relative = unknown.performance.predict([REFERENCE, fast])
    assert relative.mean[0] == 0
    assert relative.mean[1] == pytest.approx(0.3, abs=0.1)
    measured = made().classify(found(performance(np.random.default_rng(3)))).performance
    assert relative.variances[1] > measured.predict([fast]).variances[0]


def test_what_was_not_classified_is_refused_and_the_reference_must_be_measured() -> None:
    only = Classifications(
        {Kind.SCALE_UP: on(Kind.SCALE_UP, [performance(np.random.default_rng(0))])}
    )
    composite = only.classify(Found(REFERENCE)).performance
    with pytest.raises(InvalidInput, match="heterogeneity was not classified"):
        composite.predict([Setting("fast", Configuration(2000))])
    with pytest.raises(InvalidInput, match="was not measured"):
        made().classify(Found(REFERENCE, {RUNS[1]: Entry(1.0)}))


def test_scores_keep_what_was_measured_and_bounds_are_wide() -> None:
    scores = {f"p{n}": {"integer": 10.0 * n, "tlb": 9.0 * n} for n in range(10)}
    classifications = Classifications({Kind.TOLERATED: UtilityMatrix.of(Kind.TOLERATED, scores)})
    known = classifications.scores(Kind.TOLERATED, {SharedResource.INTEGER: Entry(20.0, 2.0)})
    assert known[SharedResource.INTEGER].mean == 20.0
    assert known[SharedResource.TLB].mean == pytest.approx(18.0, abs=10)
    bound = Entry(50.0, 0.0, censored=True)
    wide = classifications.scores(Kind.TOLERATED, {SharedResource.INTEGER: bound})
    assert wide[SharedResource.INTEGER].mean == 75.0
    assert wide[SharedResource.INTEGER].std > 14
    assert not classifications.scores(Kind.CAUSED, {})


def test_what_three_axes_miss_is_told_whole() -> None:
    """On the fast platform all that is larger is half as fast as added up."""
    rng = np.random.default_rng(0)
    programs = []
    for _ in range(20):
        program = performance(rng)
        for s in program:
            if len(axes_between(s, REFERENCE)) == 3:
                program[s] /= 2
        programs.append(program)
    misfit = misfit_of(on(Kind.EXHAUSTIVE, programs), REFERENCE)
    told = [misfit.at(s, REFERENCE)[0] for s in ALL if len(axes_between(s, REFERENCE)) == 3]
    assert told == pytest.approx([-math.log(2)] * len(told), abs=0.1)


def test_misfit_without_programs_or_with_one_is_a_stated_doubt() -> None:
    assert misfit_of(UtilityMatrix(Kind.EXHAUSTIVE, (), {}), REFERENCE) == Misfit()
    one = on(Kind.EXHAUSTIVE, [performance(np.random.default_rng(0), twist=0.5)])
    assert misfit_of(one, REFERENCE).variance > Misfit().variance
