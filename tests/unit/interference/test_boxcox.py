"""The default form finds how slow-downs add up, and how sure it is."""

from itertools import combinations_with_replacement

import numpy as np
import pytest

from wharfinger.errors import InvalidInput
from wharfinger.interference import evidence
from wharfinger.interference.boxcox import BoxCox
from wharfinger.interference.evidence import Block, Regression, posterior
from wharfinger.interference.measurements import (
    ContentionMeasurements,
    ContentionSetting,
    MeasuredSet,
)
from wharfinger.interference.model import InterferenceModel
from wharfinger.interference.transform import phi, phi_inverse, phi_slope, secant

SERVICE = ContentionSetting("web")


def drawn(k: float, seed: int = 0, names: int = 12, error: float = 0.002) -> ContentionMeasurements:
    """Sets that are additive after φ_k."""
    rng = np.random.default_rng(seed)
    single = rng.uniform(0.02, 0.3, names)
    rows = []
    for degree in (1, 2, 3):
        for one in combinations_with_replacement(range(names), degree):
            drop = float(phi_inverse(phi(single[list(one)], k).sum(), k))
            value = float(np.exp(-drop + error * rng.standard_normal()))
            rows.append(MeasuredSet(SERVICE, tuple(f"w{at:02d}" for at in one), value, error))
    return ContentionMeasurements.of(rows)


@pytest.mark.parametrize("k", [-1.0, 0.0, 1.0, 15.0])
def test_how_slowdowns_add_up_is_found(k: float):
    learned, held = drawn(k).sampled(0.2, np.random.default_rng(1))
    model = InterferenceModel.fit(BoxCox(), learned)
    (service,) = held.services
    for table in service.sets.values():
        drops, stds = model.predictors[SERVICE].drops(table.members)
        off = np.abs(drops - table.drops)
        assert off.mean() < 0.006
        assert np.mean(off < 1.645 * np.hypot(stds, table.errors)) > 0.8


def test_weight_space_agrees_with_function_space():
    """The evidence and the posterior are those of the Gaussian process on the sets."""
    rng = np.random.default_rng(3)
    single, errors = rng.uniform(0.02, 0.2, 5), np.full(5, 0.004)
    blocks = tuple(
        Block(
            rng.integers(0, 5, (n, degree)),
            rng.uniform(0.05, 0.4, n),
            rng.uniform(0.003, 0.02, n),
        )
        for n, degree in ((7, 2), (9, 3))
    )
    regression = Regression(single, errors, blocks)
    k, spread, step, noise = 2.0, 0.15, 0.15, 0.004
    rows, kernel, off, slopes, variances = [], [], [], [], []
    base = phi(single, k)
    for members, drops, own in blocks:
        counts = np.zeros((len(drops), 5))
        for at in range(members.shape[1]):
            np.add.at(counts, (np.arange(len(drops)), members[:, at]), 1)
        total = counts @ base
        steps = np.stack([total, total * (members.shape[1] == 3)], axis=1)
        rows.append(np.concatenate([counts, steps], axis=1))
        off.append(phi(drops, k) - total)
        slopes.append(secant(off[-1], drops - phi_inverse(total, k), drops, k))
        variances.append(own**2 + noise**2)
    design, left = np.concatenate(rows), np.concatenate(off)
    slope, variance = np.concatenate(slopes), np.concatenate(variances)
    prior = np.append((spread * base) ** 2 + (phi_slope(single, k) * errors) ** 2, [step**2] * 2)
    kernel = (design * prior) @ design.T + np.diag(slope**2 * variance)
    expected = -0.5 * left @ np.linalg.solve(kernel, left) - 0.5 * np.linalg.slogdet(kernel)[1]
    expected += np.log(slope).sum()
    expected -= 0.5 * (k / evidence.K_PRIOR) ** 2 + 0.5 * (noise / evidence.NOISE_PRIOR) ** 2
    assert regression.log_evidence(k, spread, step, noise) == pytest.approx(expected, rel=1e-8)
    mean, covariance = regression.weights(k, spread, step, noise)
    gain = (prior[:, None] * design.T) @ np.linalg.inv(kernel)
    assert mean == pytest.approx(gain @ left, rel=1e-6)
    assert covariance == pytest.approx(np.diag(prior) - gain @ design * prior, abs=1e-10)


def test_a_common_error_needs_one_gram_matrix_for_all_noises():
    members = np.array([[0, 1], [1, 1], [0, 2]])
    drops = np.array([0.1, 0.2, 0.15])
    same = Regression(
        np.array([0.05, 0.1, 0.08]), np.zeros(3), (Block(members, drops, np.full(3, 0.01)),)
    )
    other = Regression(
        np.array([0.05, 0.1, 0.08]), np.zeros(3),
        (Block(members, drops, np.full(3, 0.01)), Block(members[:0], drops[:0], drops[:0])),
    )  # fmt: skip
    other.__dict__["common_error"] = None
    for noise in (0.001, 0.016):
        assert same.log_evidence(1.0, 0.15, 0.15, noise) == pytest.approx(
            other.log_evidence(1.0, 0.15, 0.15, noise)
        )


def test_services_with_few_sets_share_what_they_have():
    """Three sets for each of twelve services: alone none tells that sets add up to half."""
    rng = np.random.default_rng(0)
    rows = []
    for number in range(12):
        setting = ContentionSetting(f"s{number:02d}", "p")
        single = rng.uniform(0.05, 0.2, 6)
        for at, drop in enumerate(single.tolist()):
            rows.append(MeasuredSet(setting, (f"w{at}",), float(np.exp(-drop)), 0.002))
        for at in range(3):
            drop = 0.5 * (single[at] + single[at + 3]) + 0.002 * rng.standard_normal()
            rows.append(MeasuredSet(setting, (f"w{at}", f"w{at + 3}"), float(np.exp(-drop)), 0.002))
    model = InterferenceModel.fit(BoxCox(), ContentionMeasurements.of(rows))
    (component, *_) = model.predictors[ContentionSetting("s00", "p")].components  # type: ignore[attr-defined]
    assert len(component.mean) == 6
    unseen = model.predictors[ContentionSetting("s00", "p")].drops(np.array([[0, 1]]))[0]
    assert unseen[0] < 0.9 * model.services[ContentionSetting("s00", "p")].single[:2].sum()


def test_a_higher_degree_than_was_measured_is_less_certain():
    learned, _ = drawn(0.0, names=6).sampled(0.3, np.random.default_rng(0))
    model = InterferenceModel.fit(BoxCox(), learned)
    names = [("w00", "w01", "w02"), ("w00", "w01", "w02", "w03")]
    found = model.predict(SERVICE, names)
    assert found.drops[1] > found.drops[0]
    assert found.stds[1] > found.stds[0]


def test_too_many_neighbors_for_a_matrix_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(evidence, "MAX_COLUMNS", 3)
    block = Block(np.array([[0, 1], [2, 3]]), np.array([0.1, 0.2]), np.full(2, 0.01))
    with pytest.raises(InvalidInput, match="4 neighbors occur in the sampled sets, more than 3"):
        posterior(Regression(np.full(4, 0.1), np.zeros(4), (block,)))


def test_ten_thousand_neighbors_of_which_few_are_in_sets():
    rows = [
        MeasuredSet(SERVICE, (f"w{at:05d}",), float(np.exp(-0.001 * (at % 90))), 0.001)
        for at in range(10_000)
    ]
    rows += [
        MeasuredSet(SERVICE, (f"w{at:05d}", f"w{at + 1:05d}"), float(np.exp(-0.002 * (at % 90))))
        for at in range(1, 60, 2)
    ]
    model = InterferenceModel.fit(BoxCox(), ContentionMeasurements.of(rows))
    found = model.predict(SERVICE, [("w05000", "w09000"), ("w00001", "w00002")])
    assert np.isfinite(found.drops).all()


def test_sets_of_many_neighbors_take_no_longer_for_each_order_to_leave_them_out():
    model = InterferenceModel.fit(BoxCox(), drawn(0.0))
    predictor = model.predictors[SERVICE]
    twelve = np.arange(12)[None, :]
    (drop,), _ = predictor.drops(twelve)
    fewer = np.stack([np.delete(twelve[0], at) for at in range(12)])
    assert (predictor.drops(fewer)[0] <= drop + 1e-12).all()


def test_neighbors_that_leave_nothing_are_fitted_without_a_number_that_is_none():
    names = ("a",), ("b",), ("a", "b")
    rows = ContentionMeasurements.of(MeasuredSet(SERVICE, each, 0.0) for each in names)
    with np.errstate(all="raise"):
        model = InterferenceModel.fit(BoxCox(), rows)
    predicted = model.predict(SERVICE, [("a", "b")])
    assert np.isfinite(predicted.drops).all()
    assert predicted.unsafe(0.95)[0] > 0.99


def test_a_service_without_a_platform_is_meant_where_none_is_named():
    rows = [
        MeasuredSet(ContentionSetting("web", platform), ("a",), value)
        for platform, value in (("", 0.9), ("x", 0.8), ("y", 0.7))
    ]
    model = InterferenceModel.fit(BoxCox(), ContentionMeasurements.of(rows))
    assert model.setting("web") == SERVICE
    assert model.setting("web", "x").platform == "x"
