"""What holds of every fitted model and of every file of measurements."""

import json
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.errors import InvalidInput
from wharfinger.files.contention_sets import read_measurements
from wharfinger.interference.measurements import (
    ContentionMeasurements,
    ContentionSetting,
    MeasuredSet,
)
from wharfinger.interference.model import InterferenceModel
from wharfinger.interference.registry import FORMS

SERVICE = ContentionSetting("s")
NAMES = "abcd"
performances = st.floats(0.3, 1.0).map(lambda each: round(each, 4))
sets = st.lists(st.sampled_from(NAMES), min_size=2, max_size=4).map(lambda one: tuple(sorted(one)))


@st.composite
def measurements(draw: st.DrawFn) -> ContentionMeasurements:
    rows = [MeasuredSet(SERVICE, (name,), draw(performances), 0.005) for name in NAMES]
    rows += [
        MeasuredSet(SERVICE, one, draw(performances), draw(st.sampled_from([0.0, 0.005, 0.05])))
        for one in draw(st.lists(sets, unique=True, max_size=12))
    ]
    return ContentionMeasurements.of(rows)


@given(measurements(), st.sampled_from(list(FORMS)), sets, st.randoms(use_true_random=False))
def test_a_prediction_is_of_a_set(found: ContentionMeasurements, name: str, one, random):
    model = InterferenceModel.fit(name, found)
    shuffled = list(one)
    random.shuffle(shuffled)
    first, other = model.predict(SERVICE, [one, shuffled]).drops
    assert np.isclose(first, other, rtol=1e-9, equal_nan=True)


@given(measurements(), st.sampled_from(list(FORMS)), sets, st.sampled_from(NAMES))
def test_one_more_neighbor_never_helps(found: ContentionMeasurements, name: str, one, more: str):
    if name in {"pythia", "scaled-product", "bubble-up"}:
        return
    model = InterferenceModel.fit(name, found)
    fewer, most = model.predict(SERVICE, [one, (*one, more)]).drops
    assert np.isnan(most) or most >= fewer - 1e-9


@given(measurements(), st.sampled_from(list(FORMS)))
def test_what_was_saved_predicts_as_before(found: ContentionMeasurements, name: str):
    model = InterferenceModel.fit(name, found)
    again = InterferenceModel.from_json(json.loads(json.dumps(model.as_json(), allow_nan=False)))
    asked = [("a",), ("a", "b"), ("b", "b", "c"), ("a", "b", "c", "d")]
    one, other = (each.predict(SERVICE, asked) for each in (model, again))
    assert np.array_equal(one.drops, other.drops, equal_nan=True)
    assert np.array_equal(one.stds, other.stds, equal_nan=True)
    if name != "bubble-up":
        assert one.drops[0] == found.services[0].single[0]


cells = st.one_of(
    st.sampled_from(["redis", "a", "a+b", "b+a", "bubble:4Mi", "bubble:", "+", "", "x,y", '"']),
    st.floats().map(str),
    st.text(max_size=6),
)


@given(st.lists(st.lists(cells, min_size=1, max_size=5), max_size=6), st.booleans())
def test_any_file_is_read_or_refused_in_one_line(rows: list[list[str]], head: bool):
    lines = (["ls,batch,performance"] if head else []) + [",".join(row) for row in rows]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "sets.csv")
        path.write_text("\n".join(lines), encoding="utf-8", errors="surrogateescape")
        try:
            read_measurements(path)
        except InvalidInput as refused:
            assert "\n" not in str(refused)
