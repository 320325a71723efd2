"""One axis of a workload: relative to its reference, between columns and beyond them."""

import math
from dataclasses import replace

import numpy as np
import pytest

from wharfinger.classification.axis import UNKNOWN_STD, Axis, axes_between
from wharfinger.classification.classifier import Classifications, RowObservations
from wharfinger.classification.utility import Aspect, UtilityMatrix
from wharfinger.estimators.estimator import NORMAL_90
from wharfinger.model.configuration import Configuration, Setting
from wharfinger.model.interference import SharedResource
from wharfinger.model.profile import Entry

CPUS, SERVERS, PLATFORMS = (1000, 2000, 4000), (1, 2, 4), ("slow", "usual", "fast")
REFERENCE = Setting("usual", Configuration(2000))
ON_AXES = {
    Aspect.SCALE_UP: {
        Configuration(cpu).name: replace(REFERENCE, configuration=Configuration(cpu))
        for cpu in CPUS
    },
    Aspect.SCALE_OUT: {str(count): replace(REFERENCE, servers=count) for count in SERVERS},
    Aspect.HETEROGENEITY: {name: replace(REFERENCE, platform=name) for name in PLATFORMS},
}
RUNS = [
    REFERENCE,
    replace(REFERENCE, configuration=Configuration(1000)),
    replace(REFERENCE, servers=2),
    replace(REFERENCE, platform="slow"),
]


def performance(rng: np.random.Generator) -> dict[Setting, float]:
    """One program: how it gains from CPU, from servers and by platform, mostly of one kind."""
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
            + rng.normal(0, 0.02)
        )
        for settings in ON_AXES.values()
        for s in settings.values()
    }


def made() -> Classifications:
    rng = np.random.default_rng(0)
    programs = [performance(rng) for _ in range(16)]
    return Classifications(
        {
            kind: UtilityMatrix.of(
                kind,
                {f"p{n}": {c: p[s] for c, s in settings.items()} for n, p in enumerate(programs)},
            )
            for kind, settings in ON_AXES.items()
        },
        "gaussian",
    )


def axis(
    kind: Aspect, truth: dict[Setting, float] | None = None, reference: Setting = REFERENCE
) -> Axis:
    runs = {} if truth is None else {run: Entry(truth[run], 0.02) for run in RUNS}
    found = made().axis(kind, RowObservations(reference, runs))
    assert found is not None
    return found


def test_axes_are_what_differs() -> None:
    assert axes_between(REFERENCE, REFERENCE) == ()
    assert axes_between(Setting("fast", Configuration(2000), 2), REFERENCE) == (
        Aspect.SCALE_OUT,
        Aspect.HETEROGENEITY,
    )


@pytest.mark.parametrize("kind", ON_AXES)
def test_two_runs_tell_the_rest_of_an_axis_as_sure_as_they_say(kind: Aspect) -> None:
    classifications, held, errors = made(), [], []
    for seed in range(30):
        truth = performance(np.random.default_rng(100 + seed))
        runs = {run: Entry(truth[run], 0.02) for run in RUNS}
        found = classifications.axis(kind, RowObservations(REFERENCE, runs))
        assert found is not None
        for column, setting in ON_AXES[kind].items():
            if setting not in RUNS:
                mean, variance = found.change(column)
                errors.append(abs(mean - math.log(truth[setting] / truth[REFERENCE])))
                held.append(errors[-1] <= NORMAL_90 * math.sqrt(variance))
    assert np.mean(held) > 0.85
    assert np.mean(errors) < 0.1


@pytest.mark.parametrize("kind", ON_AXES)
def test_from_column_to_column_a_change_is_that_of_the_whole_covariance(kind: Aspect) -> None:
    truth = performance(np.random.default_rng(3))
    found = made().axis(kind, RowObservations(REFERENCE, {r: Entry(truth[r]) for r in RUNS}))
    assert found is not None
    columns, prediction = found.prediction.columns, found.prediction
    here = columns.index(found.reference)
    for there, column in enumerate(columns):
        if column != found.reference:
            line = np.zeros(len(columns))
            line[there], line[here] = 1.0, -1.0
            mean, variance = found.change(column)
            assert mean == pytest.approx(float(line @ prediction.log_mean))
            whole = prediction.covariance
            assert variance == pytest.approx(float(line @ whole @ line) + found.noise_variance)


def test_between_and_beyond_columns() -> None:
    truth = performance(np.random.default_rng(1))
    up, out = axis(Aspect.SCALE_UP, truth), axis(Aspect.SCALE_OUT, truth)

    def at(cpu: int) -> float:
        return up.change(Configuration(cpu).name)[0]

    assert at(2000) < at(3000) < at(4000)
    assert at(500) == pytest.approx(at(1000) - math.log(2)), "in proportion"
    assert out.change("16")[1] > out.change("8")[1] > out.change("4")[1]
    assert axis(Aspect.HETEROGENEITY, truth).change("never seen")[1] > 0.2
    parameters = Configuration(2000, parameters=(("heap", "1Gi"),))
    assert up.change(parameters.name)[1] > 0.2, "nobody was measured with it"


def test_relative_to_what_nobody_knows_nothing_is_known() -> None:
    strange = axis(Aspect.HETEROGENEITY, reference=Setting("strange", Configuration(2000)))
    assert strange.change("strange") == (0.0, 0.0)
    assert strange.change("fast") == (0.0, UNKNOWN_STD**2)
    beyond = axis(Aspect.SCALE_OUT, reference=replace(REFERENCE, servers=16))
    assert min(beyond.change("4")[1], beyond.change("2")[1]) > 0.3, "two doublings away"


def test_cold_start_is_the_average_of_its_type_and_unsure() -> None:
    mean, variance = axis(Aspect.HETEROGENEITY).change("fast")
    assert mean == pytest.approx(0.3, abs=0.1)
    measured = axis(Aspect.HETEROGENEITY, performance(np.random.default_rng(3)))
    assert variance > measured.change("fast")[1]


def test_what_nobody_was_measured_along_is_not_classified() -> None:
    assert Classifications({}).axis(Aspect.SCALE_OUT, RowObservations(REFERENCE)) is None


def test_scores_keep_what_was_measured_and_bounds_are_wide() -> None:
    scores = {f"p{n}": {"integer": 10.0 * n, "tlb": 9.0 * n} for n in range(10)}
    classifications = Classifications(
        {Aspect.TOLERATED: UtilityMatrix.of(Aspect.TOLERATED, scores)}
    )
    known = classifications.scores(Aspect.TOLERATED, {SharedResource.INTEGER: Entry(20.0, 2.0)})
    assert known[SharedResource.INTEGER].mean == 20.0
    assert known[SharedResource.TLB].mean == pytest.approx(18.0, abs=10)
    bound = Entry(50.0, 0.0, censored=True)
    wide = classifications.scores(Aspect.TOLERATED, {SharedResource.INTEGER: bound})
    assert wide[SharedResource.INTEGER].mean == 75.0
    assert wide[SharedResource.INTEGER].std > 14
    assert not classifications.scores(Aspect.CAUSED, {})
