"""``wharfinger contention``: its JSON, and one line about whatever is wrong."""

import json
from pathlib import Path

import pytest

from wharfinger.cli.main import main
from wharfinger.interference.registry import FORMS

EXAMPLE = str(Path(__file__).parents[3] / "examples/contention.csv")
METRICS = {
    "name", "degree", "sets", "median_error", "median_absolute_error", "p95_error", "bias",
    "std_error", "mean_absolute_log_error", "coverage_90", "censored", "unknown", "fit_seconds",
    "predict_nanoseconds", "qos",
}  # fmt: skip


def call(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    try:
        status = main(["contention", *argv])
    except SystemExit as end:
        status = int(end.code or 0)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("model") / "model.json")
    assert main(["contention", "fit", EXAMPLE, "--sample", "30%", "--out", path]) == 0
    return path


def test_fit_says_what_the_file_holds(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    out = str(tmp_path / "m.json")
    status, text, err = call(
        capsys, "fit", EXAMPLE, "--model", "pythia", "--out", out, "-o", "json"
    )
    assert (status, err) == (0, "")
    told = json.loads(text)
    assert (told["model"], told["file"]) == ("pythia", out)
    assert [each["name"] for each in told["services"]] == ["mongodb", "redis"]
    assert told["services"][0]["sets"] == {"2": 21, "3": 56}


def test_predict_tells_what_is_known(capsys: pytest.CaptureFixture[str], model: str):
    asked = [
        "--batch",
        "mcf",
        "--batch",
        "mcf+gcc+gcc",
        "--batch",
        "none",
        "--batch",
        "gcc+" * 4 + "gcc",
    ]
    status, text, err = call(capsys, "predict", model, "--ls", "redis", *asked, "-o", "json")
    assert (status, err) == (0, "")
    single, triple, nobody, five = json.loads(text)
    assert triple["name"] == "gcc+gcc+mcf"
    assert triple["performance_low"] < triple["performance"] < triple["performance_high"]
    assert triple["performance"] <= single["performance"]
    assert triple["contention_unit"] == "bytes"
    assert (nobody["performance"], nobody["unsafe_probability"]) == (None, 1.0)
    assert nobody["note"] == "none was never measured"
    assert five["note"] == "5 neighbors were never measured, at most 3"


def test_predict_in_a_table(capsys: pytest.CaptureFixture[str], model: str):
    _, text, _ = call(capsys, "predict", model, "--ls", "redis", "--batch", "a", "--qos", "90%")
    assert text.splitlines()[0].split("  ")[0] == "BATCH"
    assert "UNSAFE AT 90%" in text
    assert "unknown" in text


@pytest.mark.slow
def test_evaluate_compares_all(capsys: pytest.CaptureFixture[str]):
    argv = ["evaluate", EXAMPLE, "--sample", "20%", "--repeats", "2", "-o", "json"]
    status, text, err = call(capsys, *argv)
    assert (status, err) == (0, "")
    results = json.loads(text)["results"]
    assert [(each["name"], each["degree"]) for each in results] == [
        (name, degree) for name in FORMS for degree in (2, 3)
    ]
    assert all(set(each) == METRICS for each in results)
    assert [each["qos"] for each in results[0]["qos"]] == [0.8, 0.9, 0.95, 0.99]
    again = json.loads(call(capsys, *argv)[1])["results"]
    assert [each["bias"] for each in again] == [each["bias"] for each in results]


@pytest.mark.slow
def test_evaluate_by_information(capsys: pytest.CaptureFixture[str]):
    argv = ["--model", "box-cox", "--sampling", "information", "--sample", "20%", "--repeats", "1"]
    status, text, err = call(capsys, "evaluate", EXAMPLE, *argv)
    assert (status, err) == (0, "")
    assert "chosen by information" in text


def test_plan_proposes_what_was_not_measured(capsys: pytest.CaptureFixture[str]):
    status, text, err = call(capsys, "plan", EXAMPLE, "--degree", "4", "--count", "3", "-o", "json")
    assert (status, err) == (0, "")
    proposed = json.loads(text)
    assert len(proposed) == 3
    assert all(each["name"].count("+") == 3 for each in proposed)
    worths = [each["worth"] for each in proposed]
    assert worths == sorted(worths, reverse=True)
    assert all(0 < worth <= 1 for worth in worths)
    _, text, _ = call(capsys, "plan", EXAMPLE, "--degree", "2")
    assert text == "no set is left to measure that could be safe and tells anything\n"


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["fit", EXAMPLE, "--model", "none"], "unknown model 'none'; there are bubble-up"),
        (["fit", EXAMPLE, "--sample", "1%"], "--sample 0.01: less than one of 56 sets; sample at"),
        (["fit", "none.csv"], "none.csv"),
        (["fit", EXAMPLE, "--sample", "0"], "a share above 0 and up to 1"),
        (["evaluate", EXAMPLE, "--sample", "100%", "--repeats", "1"], "is left to predict"),
        (["predict", "none.json", "--ls", "redis", "--batch", "a"], "contention fit --out"),
        (["predict", EXAMPLE, "--ls", "redis", "--batch", "a"], "is damaged"),
        (["predict", EXAMPLE, "--ls", "redis", "--batch", "a++b"], "'a++b' has an empty name"),
        (["predict", "MODEL", "--ls", "web", "--batch", "a"], "--ls: no service 'web'"),
    ],
)
def test_what_is_wrong_is_one_line(
    capsys: pytest.CaptureFixture[str], model: str, argv: list[str], words: str
):
    status, out, err = call(capsys, *(model if word == "MODEL" else word for word in argv))
    assert (status, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


def test_a_sample_without_sets_says_what_to_add(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    path = tmp_path / "singles.csv"
    path.write_text("ls,batch,performance\nredis,a,0.9\n")
    _, _, err = call(capsys, "evaluate", str(path))
    assert "no set of two neighbors or more was measured; add lines such as" in err
