"""Known and new programs' profiles, from matrices of pairs."""

from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from wharfinger.contention.factors import MAX_FACTORS
from wharfinger.contention.pairs import NOTHING, PairModel, Seen
from wharfinger.errors import InvalidInput, NotFound
from wharfinger.estimators.estimator import NORMAL_90


def world(programs: int, seed: int = 0, noise: float = 0.01) -> np.ndarray:
    """How much each minds and each disturbs, two kinds of contention, and some noise."""
    rng = np.random.default_rng(seed)
    minds, disturbs = rng.uniform(0.0, 0.4, (2, programs))
    victims, neighbours = rng.uniform(0.0, 0.7, (2, programs, 2))
    drop = minds[:, None] + disturbs + victims @ neighbours.T
    return np.exp(-drop + noise * rng.standard_normal(drop.shape))


def names_of(count: int) -> tuple[str, ...]:
    return tuple(f"p{i}" for i in range(count))


def seen_of(relative: np.ndarray, new: int, references: tuple[str, ...]) -> Seen:
    places = [int(name[1:]) for name in references]
    return Seen(
        {name: relative[new, at] for name, at in zip(references, places, strict=True)},
        {name: relative[at, new] for name, at in zip(references, places, strict=True)},
    )


RELATIVE = world(30)
KNOWN = names_of(24)
MODEL = PairModel.fit(KNOWN, {"fast": RELATIVE[:24, :24]})
REFERENCES = MODEL.references(2)
NEW = {
    new: MODEL.predict(seen_of(RELATIVE, new, REFERENCES), "fast")["fast"] for new in range(24, 30)
}


def test_known_programs_are_as_they_were_measured():
    profiles = {name: MODEL.of(name)["fast"] for name in KNOWN}
    for i, u in enumerate(KNOWN):
        for j, v in enumerate(KNOWN):
            found = profiles[u].beside(profiles[v])
            assert found.mean == pytest.approx(RELATIVE[i, j])
            assert (found.std, found.unfit) == (pytest.approx(0.0, abs=1e-6), 0.0)


def errors(of_means: bool) -> list[float]:
    """Of new programs beside known ones, known beside new, and new beside new."""
    logs = np.log(RELATIVE)
    known = logs[:24, :24]
    found: list[list[float]] = [[], [], []]
    for u, profile in NEW.items():
        for at, name in enumerate(KNOWN):
            if name in REFERENCES:
                continue
            other = MODEL.of(name)["fast"]
            said = known[:, at].mean() if of_means else log(profile.beside(other).mean)
            found[0].append(abs(said - logs[u, at]))
            said = known[at].mean() if of_means else log(other.beside(profile).mean)
            found[1].append(abs(said - logs[at, u]))
        for v, other in NEW.items():
            said = known.mean() if of_means else log(profile.beside(other).mean)
            found[2].append(abs(said - logs[u, v]))
    return [float(np.mean(each)) for each in found]


def test_new_ones_are_predicted_from_two_entries_each_way_better_than_by_means():
    for ours, means in zip(errors(of_means=False), errors(of_means=True), strict=True):
        assert ours < 0.75 * means


def test_intervals_hold_most_of_what_is_predicted():
    within = []
    for u, profile in NEW.items():
        others = {at: MODEL.of(name)["fast"] for at, name in enumerate(KNOWN)} | NEW
        for v, other in others.items():
            found = profile.beside(other)
            within.append(abs(log(found.mean / RELATIVE[u, v])) <= NORMAL_90 * found.std + 1e-9)
    assert 0.75 <= np.mean(within) <= 1.0


def test_without_anything_seen_it_is_like_any_and_as_unsure():
    cold = MODEL.predict(NOTHING, "fast")["fast"]
    logs = np.log(RELATIVE[:24, :24])
    for at, name in enumerate(KNOWN[:5]):
        beside = cold.beside(MODEL.of(name)["fast"])
        assert log(beside.mean) == pytest.approx(logs[:, at].mean(), abs=0.1)
        assert beside.std == pytest.approx(logs[:, at].std(), rel=0.6)
    sure = NEW[24].beside(MODEL.of("p0")["fast"]).std
    assert sure < cold.beside(MODEL.of("p0")["fast"]).std


def test_the_same_gives_the_same_and_another_matrix_another_basis():
    again = PairModel.fit(KNOWN, {"fast": RELATIVE[:24, :24]})
    assert again.of("p3") == MODEL.of("p3")
    assert again.predict(seen_of(RELATIVE, 25, REFERENCES), "fast") == {"fast": NEW[25]}
    other = PairModel.fit(KNOWN, {"fast": world(24, seed=5)})
    assert other.of("p3")["fast"].basis != MODEL.of("p3")["fast"].basis


def test_gaps_are_filled_in_and_doubted():
    gappy = RELATIVE[:12, :12].copy()
    gappy[2, 5] = np.nan
    model = PairModel.fit(names_of(12), {"": gappy})
    assert model.completed("")[2, 5] == pytest.approx(RELATIVE[2, 5], rel=0.25)
    assert model.completed("")[2, 4] == pytest.approx(RELATIVE[2, 4])
    pair = model.of("p2")[""].beside(model.of("p5")[""])
    assert pair.mean == pytest.approx(model.completed("")[2, 5])
    assert pair.std > 0


def test_of_many_programs_the_strongest_factors_are_kept():
    relative = world(40, noise=0.002)
    model = PairModel.fit(names_of(40), {"": relative})
    profile = model.of("p7")[""]
    assert len(profile.suffers) == MAX_FACTORS + 3
    found = profile.beside(model.of("p9")[""])
    assert found.mean == pytest.approx(relative[7, 9], rel=0.02)
    assert found.std > 0


@pytest.mark.slow
def test_what_is_seen_on_one_platform_tells_of_others_as_far_as_they_are_alike():
    same, other = RELATIVE[:24, :24], world(24, seed=9)
    model = PairModel.fit(KNOWN, {"fast": same, "same": same.copy(), "other": other})
    new = model.predict(seen_of(RELATIVE, 26, model.references(2)), "fast")
    cold = model.predict()
    neighbour = {platform: model.of("p4")[platform] for platform in new}

    def pace(profiles, platform):
        return profiles[platform].beside(neighbour[platform])

    assert pace(new, "same").mean == pytest.approx(pace(new, "fast").mean, rel=0.02)
    assert pace(new, "other").mean == pytest.approx(pace(cold, "other").mean, rel=0.1)
    assert pace(new, "other").std > pace(new, "fast").std


def test_a_platform_without_pairs_of_its_own_takes_those_of_any():
    model = PairModel.fit(KNOWN, {"": RELATIVE[:24, :24]})
    seen = seen_of(RELATIVE, 27, model.references(2))
    assert model.predict(seen, "unheard of") == model.predict(seen)
    with pytest.raises(NotFound, match="none where it was measured"):
        MODEL.predict(seen, "unheard of")


def sized(sizes: list[int], capacity: int) -> np.ndarray:
    """Programs that fit beside one another while they do not take more than there is."""
    memory = np.array(sizes)
    relative = world(len(sizes))
    return np.where(memory[:, None] + memory > capacity, 0.0, relative)


def test_who_does_not_fit_is_known_of_known_programs_and_guessed_of_new_ones():
    relative = sized([1, 1, 1, 1, 4, 4, 6, 6], 9)
    model = PairModel.fit(names_of(8), {"": relative})
    for i in range(8):
        for j in range(8):
            one, other = model.of(f"p{i}")[""], model.of(f"p{j}")[""]
            assert one.beside(other).unfit == (relative[i, j] == 0)
    large = model.predict(Seen({"p4": 0.0}, {"p4": 0.0}))[""]
    small = model.predict(Seen({"p6": 0.8}, {"p6": 0.8}))[""]
    anyone = model.predict()[""]
    sixes = model.of("p6")[""]
    unfit = [each.beside(sixes).unfit for each in (small, anyone, large)]
    assert unfit[0] < 0.2 < unfit[1] < 0.8 < unfit[2]
    assert sixes.beside(large).unfit == pytest.approx(unfit[2])
    assert large.beside(large).unfit > 0.8


def test_where_all_fit_nothing_is_said_of_fitting():
    assert MODEL.of("p1")["fast"].excluded == ()
    assert NEW[25].excludes == ()


def test_references_are_told_apart_and_fit_beside_most():
    relative = sized([1, 1, 1, 1, 1, 9, 9, 1], 9)
    references = PairModel.fit(names_of(8), {"": relative}).references(3)
    assert len(set(references)) == 3
    assert not {"p5", "p6"} & set(references)
    assert len(MODEL.references(100)) == 24


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_few_programs_are_enough_to_begin_with(count):
    relative = world(count)
    model = PairModel.fit(names_of(count), {"": relative})
    own = model.of("p0")[""]
    assert own.beside(own).mean == pytest.approx(relative[0, 0])
    new = model.predict(Seen({"p0": 0.5}, {"p0": 0.5}))[""]
    assert 0.05 < new.beside(own).mean < 1.5
    assert np.isfinite(new.beside(new).std)


@pytest.mark.slow
@given(
    arrays(
        np.float64,
        (4, 4),
        elements=st.sampled_from([0.0, np.nan, 1e-6, 0.2, 0.7, 1.0, 3.0]),
    ).filter(lambda m: (m > 0).any())
)
def test_nothing_that_is_predicted_is_infinite_or_no_number(relative):
    model = PairModel.fit(names_of(4), {"": relative})
    profiles = [model.of(name)[""] for name in names_of(4)]
    profiles.append(model.predict(Seen({"p1": 0.5, "p2": 0.0}, {"p0": 0.3}))[""])
    profiles.append(model.predict()[""])
    for one in profiles:
        for other in profiles:
            found = one.beside(other)
            assert np.isfinite([found.mean, found.std, found.unfit]).all()
            assert found.mean > 0
            assert found.std >= 0


def test_noise_of_what_was_measured_is_doubt():
    seen = seen_of(RELATIVE, 24, REFERENCES)
    noisy = MODEL.predict(Seen(seen.beside, seen.upon, error=0.3), "fast")["fast"]
    other = MODEL.of("p0")["fast"]
    more = noisy.beside(other).std ** 2 - NEW[24].beside(other).std ** 2
    assert more == pytest.approx(0.3**2 / 2)


@pytest.mark.parametrize(
    ("relative", "words"),
    [
        ({}, "on no platform"),
        ({"x": np.ones((2, 3))}, "'x': 2 programs and a matrix of shape"),
        ({"": np.array([[1.0, -1.0], [1.0, 1.0]])}, "'p0' beside 'p1': -1"),
        ({"": np.array([[1.0, np.inf], [1.0, 1.0]])}, "'p0' beside 'p1': inf"),
        ({"": np.array([[0.0, np.nan], [np.nan, 0.0]])}, "no two programs were measured"),
    ],
)
def test_matrices_that_are_none_of_pairs_are_refused(relative, words):
    with pytest.raises(InvalidInput, match=words):
        PairModel.fit(names_of(2), relative)


def test_a_program_that_is_not_known_is_named():
    with pytest.raises(NotFound, match="'q'"):
        MODEL.of("q")
    with pytest.raises(NotFound, match="'q'"):
        MODEL.predict(Seen({"q": 0.5}, {}), "fast")
