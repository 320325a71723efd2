"""The CSV of measured sets: every bad input is one line with its number and a mend."""

from pathlib import Path

import numpy as np
import pytest

from wharfinger.errors import InvalidInput
from wharfinger.files.contention_sets import load_model, parse_set, read_measurements, save_model
from wharfinger.interference.measurements import ContentionMeasurements
from wharfinger.interference.model import InterferenceModel

HEAD = "ls,batch,performance\n"


def read(tmp_path: Path, text: str) -> ContentionMeasurements:
    path = tmp_path / "sets.csv"
    path.write_text(text)
    return read_measurements(path)


def test_sets_are_read(tmp_path: Path):
    found = read(
        tmp_path,
        "platform,ls,class,batch,performance,error\n"
        "x,redis,high,a,0.9,0.01\nx,redis,high,b,0.8,\nx,redis,high,b+a,0.75,\n"
        "x,redis,high,bubble:8Mi,0.85,\n",
    )
    (service,) = found.services
    assert str(service.setting) == "x/redis/high"
    assert service.names == ("a", "b")
    assert np.exp(-service.single) == pytest.approx([0.9, 0.8])
    assert service.single_errors[0] == pytest.approx(0.01 / 0.9)
    assert service.sets[2].members.tolist() == [[0, 1]]
    assert service.scale.unit == "bytes"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HEAD, ":1: no row follows the header; give at least one"),
        ("ls,batch\nredis,a\n", ":1: no column performance or contention; write one of the two"),
        (HEAD + "redis,a++b,0.9\n", ":2: column 'batch': 'a++b' has an empty name; write names"),
        (HEAD + "redis,a,1.3\n", "'1.3' is out of range; write 0 to 1.2"),
        (HEAD + "redis,a,-0.1\n", "'-0.1' is negative; write 0 to 1.2"),
        (HEAD + "redis,a,nan\n", "'nan' is not finite; leave the line out"),
        (HEAD + "redis,a,\n", ":2: has neither performance nor contention; leave the line out"),
        (HEAD + ",a,0.9\n", ":2: column 'ls': '' is empty; write a name"),
        (HEAD + "redis,bubble:8Mb,0.9\n", ":2: column 'batch': 'bubble:8Mb' is no bubble"),
        (HEAD + "redis,bubble:8Mi+a,0.9\n", "has a bubble among neighbors; measure a bubble alone"),
        (HEAD + f"redis,{'+'.join('abcdefghi')},0.9\n", "has 9 neighbors, more than 8; leave"),
        (HEAD + "redis,a,0.9\nredis,a+b,0.8\n", ":3: redis was never measured beside 'b' alone"),
        (
            HEAD + "redis,a,0.9\nredis,a,0.5\n",
            ":3: redis beside a has 0.5, and 0.9 in line 2; remove the wrong one",
        ),
        (
            HEAD + "redis,a,0.9\nredis,bubble:4Mi,0.7\nredis,bubble:8Mi,0.9\n",
            ":4: redis: a bubble of 8Mi leaves 0.9, but a smaller one",
        ),
        (
            "ls,batch,performance,contention\nredis,a,0.9,\nredis,b,,7\n",
            ":3: redis has both performance and contention; write one of the two",
        ),
        (
            "ls,batch,contention\nredis,a,3\nredis,bubble:8Mi,8\n",
            ":3: redis: the contention of a bubble is its size; write the performance",
        ),
    ],
)
def test_bad_input_is_one_line(tmp_path: Path, text: str, words: str):
    with pytest.raises(InvalidInput) as refused:
        read(tmp_path, text)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_repeated_runs_become_their_mean(tmp_path: Path):
    (service,) = read(tmp_path, HEAD + "redis,a,0.90\nredis,a,0.91\n").services
    assert np.exp(-service.single[0]) == pytest.approx(0.905, abs=1e-3)
    assert service.single_errors[0] < 0.005


def test_performance_of_nothing_and_above_alone_are_told(tmp_path: Path):
    (service,) = read(tmp_path, HEAD + "redis,a,0\nredis,b,1.1\n").services
    assert np.isfinite(service.single).all()
    assert service.single[1] < 0


def test_missing_singles_are_completed_from_other_services(tmp_path: Path):
    lines = [
        f"s{service},w{at},{np.exp(-0.01 * (service + 1) * (at + 1)):.5f}"
        for service in range(4)
        for at in range(6)
        if (service, at) != (3, 5)
    ]
    found = read(tmp_path, HEAD + "\n".join([*lines, "s3,w0+w5,0.75"]) + "\n")
    service = found.services[3]
    assert not service.measured[5]
    assert service.single[5] == pytest.approx(0.24, abs=0.08)
    assert service.single_errors[5] > service.single_errors[0]


def test_a_model_is_kept(tmp_path: Path):
    found = read(tmp_path, HEAD + "redis,a,0.9\nredis,b,0.8\nredis,a+b,0.75\n")
    model = InterferenceModel.fit("box-cox", found)
    save_model(model, tmp_path / "model.json")
    again = load_model(tmp_path / "model.json")
    (setting,) = again.services
    one, other = (each.predict(setting, [("a", "a", "b")]) for each in (model, again))
    assert one.drops.tolist() == other.drops.tolist()
    assert one.stds.tolist() == other.stds.tolist()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"model":"box-cox"}', '{"model":"none"}'])
def test_a_damaged_model_is_one_line(tmp_path: Path, text: str):
    path = tmp_path / "model.json"
    path.write_text(text)
    with pytest.raises(InvalidInput) as refused:
        load_model(path)
    assert "\n" not in str(refused.value)


def test_a_missing_model_is_named(tmp_path: Path):
    with pytest.raises(InvalidInput, match="contention fit --out"):
        load_model(tmp_path / "none.json")


def test_names_are_sorted_and_may_repeat():
    assert parse_set("b+a+b") == ("a", "b", "b")
