"""What entries that err say of all platforms together."""

import math

import numpy as np
import pytest

from wharfinger.classification.classifier import Classifier
from wharfinger.classification.paces import paces
from wharfinger.classification.utility import Aspect, UtilityMatrix
from wharfinger.estimators.recommender import Recommender
from wharfinger.model.configuration import Configuration, Setting
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Entry, Estimate, Measurements, Origin, SettingEntry
from wharfinger.model.workload import WorkloadType

PLATFORMS = tuple(f"p{number}" for number in range(10))


def drawn(rng: np.random.Generator) -> dict[str, float]:
    """Performance hangs on a level and on two traits of a program."""
    level, traits = rng.normal(0, 2), rng.normal(0, 0.2, 2)
    at = np.linspace(-1, 1, len(PLATFORMS))
    logs = level + traits[0] * at + traits[1] * at**2
    return dict(zip(PLATFORMS, np.exp(logs).tolist(), strict=True))


def trained() -> Classifier:
    rng = np.random.default_rng(1)
    rows = {f"k{number}": drawn(rng) for number in range(40)}
    sizes = {f"k{number}": {"cpu=1000m": 1.0, "cpu=2000m": 2.0} for number in range(40)}
    matrices = {
        Aspect.HETEROGENEITY: UtilityMatrix.of(Aspect.HETEROGENEITY, rows),
        Aspect.SCALE_UP: UtilityMatrix.of(Aspect.SCALE_UP, sizes),
    }
    return Classifier(matrices)


CLASSIFIER = trained()


def recommender() -> Recommender:
    known = CLASSIFIER.classifications.recommender(Aspect.HETEROGENEITY)
    assert known is not None
    return known


def test_many_entries_that_err_are_corrected_by_one_another() -> None:
    rng = np.random.default_rng(2)
    raw, told, standard = [], [], []
    for _ in range(60):
        truth = drawn(rng)
        errors = rng.normal(0, 0.05, len(PLATFORMS))
        entries = {
            name: Entry(truth[name] * math.exp(error), 0.05)
            for name, error in zip(PLATFORMS, errors, strict=True)
        }
        known = paces(recommender(), entries)
        assert known is not None
        for name, error in zip(PLATFORMS, errors.tolist(), strict=True):
            off = math.log(known.on(name).mean / truth[name])
            raw.append(error)
            told.append(off)
            standard.append(off / known.on(name).std)
    assert np.std(told) < 0.8 * np.std(raw)
    assert 0.7 < np.std(standard) < 1.3, "and it knows how well"


def test_what_was_seen_for_long_outweighs_a_copy_and_is_the_reference() -> None:
    entries = {
        "p0": Entry(1.0, 0.03),
        "p5": Entry(2.0, 0.005, origin=Origin.OBSERVED),
        "p9": Entry(1.5, 0.03),
    }
    known = paces(recommender(), entries)
    assert known is not None
    assert known.best_known == "p5"
    assert known.on("p5").mean == pytest.approx(2.0, rel=0.01)
    assert known.on("p5").std == pytest.approx(0.01, abs=0.002)
    changes = known.relative_to("p5")
    assert set(changes) == set(PLATFORMS) - {"p5"}
    total = math.hypot(known.on("p5").std, changes["p0"].std)
    assert total == pytest.approx(known.on("p0").std), "each one's doubt is counted once"


@pytest.mark.parametrize("type_", [None, WorkloadType.BEST_EFFORT])
def test_of_what_was_never_run_others_say_which_platform_suits_it(
    type_: WorkloadType | None,
) -> None:
    """A cold start goes where most programs are fastest, if only by a little."""
    cold = CLASSIFIER.classify(Measurements(), type_)
    assert cold.platform == max(cold.platforms, key=lambda name: cold.platforms[name].mean)
    assert cold.platforms[cold.platform] == Estimate(1.0, 0.0)
    assert set(cold.platforms) == set(PLATFORMS)
    assert cold.measured == 0


def test_what_is_no_column_says_nothing() -> None:
    assert paces(recommender(), {"elsewhere": Entry(1.0, 0.03)}) is None
    assert paces(recommender(), {}) is None


def test_a_classification_starts_from_the_platform_that_is_known_best() -> None:
    runs = tuple(
        SettingEntry(Setting(name, Configuration(1000)), Entry(value, 0.03, origin=origin))
        for name, value, origin in (
            ("p3", 12.0, Origin.PROFILED),
            ("p6", 14.0, Origin.OBSERVED),
        )
    )
    row = {Quantity.RATE: {1000: Entry(10.0, 0.06)}}
    one = Measurements(row, platform="p0")
    assert CLASSIFIER.classify(one).platform == "p0", "a single run is the reference"
    made = CLASSIFIER.classify(Measurements(row, platform="p0", further={Quantity.RATE: runs}))
    here = made.curves[Quantity.RATE].at(1000)
    assert made.platform != "p0"
    assert "p0" in made.platforms
    there = {name: here.mean * change.mean for name, change in made.platforms.items()}
    assert there["p0"] == pytest.approx(10.0, rel=0.1)
    assert here.std < 0.04
