"""Checks that hold a form of the interference model to what its users rely on.

They fit it to made-up measurements, the same on every machine. In a test, say
``check_interference(MyForm())``:

    >>> from wharfinger.interference.baselines import PRODUCT
    >>> from wharfinger.testing import check_interference
    >>> check_interference(PRODUCT)
"""

import json
from itertools import combinations_with_replacement

import numpy as np

from wharfinger.interference.form import Form
from wharfinger.interference.measurements import (
    ContentionMeasurements,
    ContentionSetting,
    MeasuredSet,
)
from wharfinger.interference.model import InterferenceModel
from wharfinger.testing.harness import Expecting

NEIGHBORS = ("a", "b", "c", "d", "e")
SERVICES = (ContentionSetting("one", "p"), ContentionSetting("two", "p"))


def check_interference(form: Form, *, measures_singles: bool = True) -> None:
    """Hold a form to its promises.

    * A set is the same in every order, alone or among others; asking changes nothing.
    * One more neighbor that slows the service alone never raises its performance.
    * Degree 1 is the measurement (unless ``measures_singles`` is false), degree 0 is alone.
    * What was saved as JSON predicts as before.
    * Intervals hold the prediction, probabilities are probabilities, and rise with the QoS.
    * What can't be told is unknown, and unsafe.

    Raises:
        AssertionError: The first promise that is not kept, and on what.
    """
    for what, measurements in (
        ("with bubbles", made_up(bubbles=True)),
        ("without bubbles", made_up(bubbles=False)),
        ("without sets", made_up(bubbles=True, degrees=(1,))),
        ("exact", made_up(bubbles=True, error=0.0)),
        ("contentions", made_up(bubbles=False, contention=True)),
    ):
        _check(form, measurements, Expecting(f"{form.name}, {what}"), singles=measures_singles)


def made_up(
    *,
    bubbles: bool,
    degrees: tuple[int, ...] = (1, 2, 3),
    error: float = 0.002,
    contention: bool = False,
    seed: int = 0,
) -> ContentionMeasurements:
    """Two services beside all sets of five neighbors, which add up to less than their sum."""
    rng = np.random.default_rng(seed)
    rows = []
    for number, setting in enumerate(SERVICES):
        pressure = dict(zip(NEIGHBORS, 0.02 * (1 + np.arange(5)) / (1 + number), strict=True))
        for degree in degrees:
            for one in combinations_with_replacement(NEIGHBORS, degree):
                drop = float(np.log1p(sum(pressure[name] for name in one)))
                kept = float(np.exp(-drop + error * rng.standard_normal()))
                value = drop * 100 if contention else kept
                rows.append(MeasuredSet(setting, one, value, error, is_contention=contention))
        for size in (1, 2, 4, 8, 16) if bubbles else ():
            kept = 1 - 0.4 * (1 - float(np.exp(-size / 6)))
            rows.append(MeasuredSet(setting, (), kept, error, bubble_bytes=size * 2.0**20))
    return ContentionMeasurements.of(rows)


def _check(
    form: Form, measurements: ContentionMeasurements, expect: Expecting, *, singles: bool
) -> None:
    model = InterferenceModel.fit(form, measurements)
    expect(set(model.predictors) == set(SERVICES), "every setting has a predictor")
    text = json.dumps(model.as_json(), allow_nan=False)
    again = InterferenceModel.from_json(json.loads(text))
    for service in measurements.services:
        sets = [
            one
            for degree in (1, 2, 3, 4)
            for one in combinations_with_replacement(service.names, degree)
        ]
        _check_sets(model, service.setting, sets, expect)
        first, loaded = (each.predict(service.setting, sets) for each in (model, again))
        same = np.array_equal(first.drops, loaded.drops, equal_nan=True)
        same &= np.array_equal(first.stds, loaded.stds, equal_nan=True)
        expect(same, "what was saved predicts as before")
        alone = model.predict(service.setting, [()])
        expect(alone.drops.tolist() == [0.0], "beside nothing, nothing is lost")
        if singles:
            told = model.predict(service.setting, [(name,) for name in service.names]).drops
            expect(bool(np.array_equal(told, service.single)), "degree 1 is the measurement")
    after = json.dumps(model.as_json(), allow_nan=False)
    expect(text == after, "predicting changes nothing")


def _check_sets(
    model: InterferenceModel,
    setting: ContentionSetting,
    sets: list[tuple[str, ...]],
    expect: Expecting,
) -> None:
    found = model.predict(setting, sets)
    turned = model.predict(setting, [one[::-1] for one in sets])
    expect(np.allclose(found.drops, turned.drops, rtol=1e-9, equal_nan=True), "order shows")
    expect(np.allclose(found.stds, turned.stds, rtol=1e-6, equal_nan=True), "order shows")
    service = model.services[setting]
    place = {name: at for at, name in enumerate(service.names)}
    predictor = model.predictors[setting]
    number = {one: at for at, one in enumerate(sets)}
    for one, drop, std in zip(sets, found.drops.tolist(), found.stds.tolist(), strict=True):
        mean, spread = predictor.drop([place[name] for name in one])
        same = np.allclose((mean, spread), (drop, std), rtol=1e-5, atol=1e-9, equal_nan=True)
        expect(bool(same), f"{one} alone is {(mean, spread)}, among others {(drop, std)}")
        for at in range(len(one)) if len(one) > 1 else ():
            fewer = found.drops[number[one[:at] + one[at + 1 :]]]
            falls = drop < fewer - 1e-9 and service.single[place[one[at]]] >= 0
            expect(not falls, f"{one} slows less than without {one[at]}: {drop}, {fewer}")
    _check_probabilities(model, setting, sets, expect)


def _check_probabilities(
    model: InterferenceModel,
    setting: ContentionSetting,
    sets: list[tuple[str, ...]],
    expect: Expecting,
) -> None:
    found = model.predict(setting, [*sets, ("nobody",), ("a", "nobody")])
    known = ~np.isnan(found.drops)
    expect(not known[-2:].any(), "a neighbor that nobody measured is unknown")
    expect(bool((found.stds[known] >= 0).all()), "no deviation is negative")
    if found.scale.tells_performance:
        low, high = found.interval_90()
        inside = (low <= found.performance) & (found.performance <= high)
        expect(bool(inside[known].all()), "an interval holds its prediction")
    before = np.zeros(len(known))
    for qos in (0.5, 0.8, 0.9, 0.99, 1.0):
        unsafe = found.unsafe(qos)
        expect(bool(((unsafe >= 0) & (unsafe <= 1)).all()), "a probability is none")
        expect(bool((unsafe[~known] == 1).all()), "what is unknown is unsafe")
        expect(bool((unsafe >= before - 1e-9).all()), "more QoS is no safer")
        before = unsafe
