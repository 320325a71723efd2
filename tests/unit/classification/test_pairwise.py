"""Profiles of pairs as classifications have them."""

from dataclasses import replace
from math import log

import numpy as np
import pytest

from tests.support.courses import curve
from wharfinger.classification.pairwise import REFERENCES, PairClassifier
from wharfinger.model.configuration import Configuration, Setting
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Entry, Estimate, Measurements, Origin, SettingEntry

NAMES = [f"p{i}" for i in range(8)]
RNG = np.random.default_rng(0)
RELATIVE = np.exp(-RNG.uniform(0, 0.5, 8)[:, None] - RNG.uniform(0, 0.5, 8))
CLASSIFIER = PairClassifier.fit(NAMES, {"fast": RELATIVE, "slow": RELATIVE**2})
KNOWN = curve((1000, 100.0), tolerated={SharedResource.INTEGER: Estimate(50.0, 5.0)}, measured=2)


def measured(value: float, error: float = 0.0) -> Measurements:
    entries = {name: Entry(value, error) for name in CLASSIFIER.references}
    return Measurements(beside=entries, upon=entries, platform="fast")


def test_two_references_are_chosen():
    assert len(CLASSIFIER.references) == REFERENCES == 2
    assert set(CLASSIFIER.references) < set(NAMES)


def test_what_was_measured_beside_references_becomes_a_profile_on_each_platform():
    found = CLASSIFIER.complete(KNOWN, measured(0.5))
    assert set(found.pairs) == {"fast", "slow"}
    assert found.curves == KNOWN.curves
    assert found.tolerated == {}, "pairs are instead of scores by source"
    assert found.measured == 6
    gentle = CLASSIFIER.complete(KNOWN, measured(0.95))
    worse, better = (each.pairs["fast"].beside(each.pairs["fast"]) for each in (found, gentle))
    assert worse.mean < better.mean


def test_what_was_not_run_beside_anybody_is_like_any():
    found = CLASSIFIER.complete(KNOWN, Measurements(platform="fast"))
    assert found.measured == 2
    pace = found.pairs["fast"].beside(found.pairs["fast"])
    assert log(pace.mean) == pytest.approx(np.log(RELATIVE).mean(), abs=0.1)


def test_noise_of_the_measurements_is_in_the_doubt():
    sure, noisy = (CLASSIFIER.complete(KNOWN, measured(0.5, e)).pairs["fast"] for e in (0.0, 0.5))
    assert noisy.beside(noisy).std > sure.beside(sure).std


def test_one_matrix_stands_for_any_platform():
    found = PairClassifier.fit(NAMES, RELATIVE).complete(KNOWN, measured(0.5))
    assert set(found.pairs) == {""}


@pytest.mark.parametrize(("names", "relative"), [([], np.zeros((0, 0))), (["a"], np.zeros((1, 1)))])
def test_where_no_pairs_are_known_classifications_stay_as_they_are(names, relative):
    classifier = PairClassifier.fit(names, relative)
    assert classifier.references == ()
    assert classifier.complete(KNOWN, Measurements()) is KNOWN


def test_what_residents_take_from_a_copy_is_added_again_with_its_doubt():
    alone = measured(0.8, 0.02)
    profile = CLASSIFIER.complete(KNOWN, alone).pairs["fast"]
    pressure = replace(profile, suffers=(), presses_variance=(0.01,) * len(profile.presses))
    slowdown = profile.beside(pressure)
    row = {1000: Entry(10.0 * slowdown.mean, 0.03), 2000: Entry(20.0 * slowdown.mean, 0.03)}
    observed = Entry(30.0, 0.03, origin=Origin.OBSERVED)
    rows = {
        Quantity.RATE: {**row, 3000: observed},
        Quantity.LATENCY: {1000: Entry(0.1 / slowdown.mean)},
        Quantity.CPU: {1000: Entry(0.9)},
    }
    elsewhere = SettingEntry(Setting("slow", Configuration(1000)), Entry(5.0))
    copied = replace(
        alone,
        performance=rows,
        further={Quantity.RATE: (elsewhere,)},
        neighbors={"fast": pressure},
    )

    found = CLASSIFIER.without_neighbors(copied)
    rates = found.performance[Quantity.RATE]
    assert [rates[cpu].value for cpu in row] == pytest.approx([10.0, 20.0])
    assert rates[1000].error == pytest.approx(np.hypot(0.03, slowdown.std))
    assert slowdown.std > 0
    assert rates[3000] == observed, "that is corrected where it is learnt"
    assert found.performance[Quantity.LATENCY][1000].value == pytest.approx(0.1)
    assert found.performance[Quantity.CPU] == rows[Quantity.CPU]
    assert found.further[Quantity.RATE] == (elsewhere,), "nobody pressed on it there"
    assert CLASSIFIER.without_neighbors(alone) is alone
    strange = replace(copied, neighbors={"fast": replace(pressure, basis="another")})
    assert CLASSIFIER.without_neighbors(strange).performance == rows
