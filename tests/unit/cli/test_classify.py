"""``wharfinger classify``: its JSON, and one line about whatever is wrong."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from tests.support import first_and_long
from tests.support.matrices import pairs, performance, to_csv
from wharfinger.cli.main import main
from wharfinger.estimators import DEFAULT_ESTIMATOR, ESTIMATORS

METRICS = {
    "mean_relative_error", "median_relative_error", "p90_relative_error",
    "mean_absolute_log_error", "best_within_5pct", "best_within_10pct", "mean_regret",
    "coverage_90", "fit_seconds", "fold_in_seconds_median",
}  # fmt: skip


@pytest.fixture
def train(tmp_path: Path) -> str:
    path = tmp_path / "train.csv"
    path.write_text(to_csv(performance(1, rows=16, columns=6)))
    return str(path)


@pytest.fixture
def test(tmp_path: Path) -> str:
    path = tmp_path / "test.csv"
    path.write_text("name,config 4,config 1\nnew,20,10\nnothing,,\n")
    return str(path)


def call(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    try:
        status = main(["classify", *argv])
    except SystemExit as end:
        status = int(end.code or 0)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.mark.long
def test_evaluate_compares_all(capsys: pytest.CaptureFixture[str], train: str):
    status, out, err = call(capsys, "evaluate", train, "--repeats", "1", "-o", "json")
    assert (status, err) == (0, "")
    found = json.loads(out)
    assert found["default"] == DEFAULT_ESTIMATOR
    assert list(found["estimators"]) == list(ESTIMATORS)
    assert all(set(metrics) == METRICS for metrics in found["estimators"].values())
    assert (found["rows_predicted"], found["rows_passed_over"]) == (16, 0)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", first_and_long(["random", "variance", "improvement"]))
def test_the_same_seed_gives_the_same(
    capsys: pytest.CaptureFixture[str], train: str, strategy: str
):
    argv = ["evaluate", train, "--estimator", "gaussian", "--repeats", "1", "-o", "json"]
    found = []
    for _ in range(2):
        _, out, _ = call(capsys, *argv, "--strategy", strategy, "--seed", "5")
        metrics = json.loads(out)["estimators"]["gaussian"]
        found.append({k: v for k, v in metrics.items() if "seconds" not in k})
    assert found[0] == found[1]


@pytest.mark.long
def test_looking_for_the_best_stops_where_little_is_left_to_gain(
    capsys: pytest.CaptureFixture[str], train: str
):
    argv = ["evaluate", train, "--estimator", "row-column-means", "--repeats", "1", "-o", "json"]
    argv += ["--strategy", "improvement", "--reveal", "4"]
    revealed = []
    for stop in ([], ["--stop", "1%"], ["--stop", "1000%"]):
        status, out, _ = call(capsys, *argv, *stop)
        assert status == 0
        revealed.append(json.loads(out)["mean_revealed"])
    assert revealed[0] == 4
    assert revealed[0] > revealed[1] > revealed[2] == 1


def test_pairs_of_relative_values(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    path = tmp_path / "pairs.csv"
    path.write_text(to_csv(pairs(2)))
    status, out, _ = call(
        capsys, "evaluate", str(path), "--pairs", "--scale", "normalised", "--repeats", "1",
        "--estimator", "row-column-means,gaussian",
    )  # fmt: skip
    assert status == 0
    assert [line.split()[0] for line in out.splitlines()] == [
        "ESTIMATOR", "row-column-means", "gaussian", "16"
    ]  # fmt: skip


def test_what_levels_say_is_learnt_where_it_is_not_said(
    capsys: pytest.CaptureFixture[str], train: str, test: str
):
    found = {}
    for scale in ([], ["--scale", "auto"], ["--scale", "arbitrary"]):
        argv = ["--estimator", "row-column-means", *scale, "-o", "json"]
        status, out, _ = call(capsys, "evaluate", train, "--repeats", "1", *argv)
        assert status == 0
        assert json.loads(out)["scale"] == (scale or ["", "auto"])[1]
        _, found[tuple(scale)], _ = call(
            capsys, "predict", train, "--rows", test, "--suggest", "1", *argv
        )
    assert found[()] == found["--scale", "auto"] != found["--scale", "arbitrary"]


def test_a_scale_that_there_is_not_is_refused(capsys: pytest.CaptureFixture[str], train: str):
    status, out, err = call(capsys, "evaluate", train, "--scale", "guess")
    assert (status, out) == (2, "")
    assert "'guess'" in err
    assert "auto, arbitrary, common, normalised" in err.replace("'", "")


@pytest.mark.slow
def test_predict_fills_in_rows(capsys: pytest.CaptureFixture[str], train: str, test: str):
    status, out, err = call(
        capsys,
        "predict",
        train,
        "--rows",
        test,
        "--scale",
        "common",
        "--suggest",
        "2",
        "-o",
        "json",
    )
    assert (status, err) == (0, "")
    new, nothing = json.loads(out)
    assert [new["name"], nothing["name"]] == ["new", "nothing"]
    assert list(new["columns"]) == [f"config {j}" for j in range(6)]
    known = new["columns"]["config 4"]
    assert known["mean"] == pytest.approx(20)
    assert known["std"] == 0
    for column in ("config 0", "config 2", "config 3", "config 5"):
        numbers, blind = new["columns"][column], nothing["columns"][column]
        assert 0 < numbers["low_90"] < numbers["mean"] < numbers["high_90"]
        assert numbers["high_90"] / numbers["low_90"] < blind["high_90"] / blind["low_90"]
    assert len(new["suggest"]) == 2
    assert not {s["name"] for s in new["suggest"]} & {"config 1", "config 4"}


@pytest.mark.slow
def test_predict_for_people(capsys: pytest.CaptureFixture[str], train: str, test: str):
    status, out, _ = call(capsys, "predict", train, "--rows", test, "--suggest", "1")
    assert status == 0
    assert out.splitlines()[0].split() == [
        "NAME",
        "COLUMN",
        "MEDIAN",
        "STD",
        "LOW",
        "90%",
        "HIGH",
        "90%",
    ]
    assert "MEASURE NEXT" in out


@pytest.fixture
def takes(tmp_path: Path) -> str:
    path = tmp_path / "takes.csv"
    lines = [f"config {j},{10 * (j + 1)}" for j in range(6)]
    path.write_text("\n".join(["column,seconds", *lines]) + "\n")
    return str(path)


def suggested(capsys: pytest.CaptureFixture[str], *argv: str) -> list[dict[str, Any]]:
    status, out, err = call(capsys, "predict", *argv, "--estimator", "gaussian", "-o", "json")
    assert (status, err) == (0, "")
    found: list[dict[str, Any]] = json.loads(out)
    return found


def test_a_budget_is_kept(capsys: pytest.CaptureFixture[str], train: str, test: str, takes: str):
    argv = [train, "--rows", test, "--seconds", takes]
    for row in suggested(capsys, *argv, "--budget", "1m"):
        seconds = [each["seconds"] for each in row["suggest"]]
        assert seconds
        assert row["seconds"] == pytest.approx(sum(seconds))
        assert sum(seconds) <= 60
        assert row["stopped"] == "budget"
        assert row["mean_log_std"] == row["suggest"][-1]["mean_log_std_after"]
        assert all(each["gain_per_second"] > 0 for each in row["suggest"])
        assert all(int(e["name"][-1]) == e["seconds"] / 10 - 1 for e in row["suggest"])


def test_it_ends_where_it_is_enough(capsys: pytest.CaptureFixture[str], train: str, test: str):
    argv = [train, "--rows", test, "--scale", "common"]
    for row in suggested(capsys, *argv, "--enough", "5%"):
        assert row["stopped"] == "enough"
        assert row["mean_log_std"] <= math.log(1.05) < row["suggest"][-1]["mean_log_std_before"]
        assert "seconds" not in row["suggest"][0]
        assert row["seconds"] is None
    one, _ = suggested(capsys, *argv, "--suggest", "1", "--enough", "0.001")
    assert (len(one["suggest"]), one["stopped"]) == (1, "size")
    for row in suggested(capsys, *argv, "--suggest", "6", "--seconds", "30"):
        assert {each["seconds"] for each in row["suggest"]} == {30.0}
        assert row["stopped"] in {"nothing-left", "size"}


def test_a_budget_for_people(capsys: pytest.CaptureFixture[str], train: str, test: str, takes: str):
    status, out, _ = call(
        capsys, "predict", train, "--rows", test, "--seconds", takes, "--budget", "45",
        "--estimator", "gaussian", "--enough", "1%",
    )  # fmt: skip
    assert status == 0
    assert "TAKES" in out
    assert "GAIN PER SECOND" in out
    *_, new, nothing = out.splitlines()
    assert new.startswith("new: log std 0.")
    assert nothing.endswith("; no other fits the budget")


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("column,seconds\nconfig 9,1\n", "takes.csv:2: column 'column': 'config 9' is no column"),
        ("column,seconds\nconfig 0,0\n", "takes.csv:2: column 'seconds': '0' is no time"),
        ("column,seconds\nconfig 0,-1\n", "column 'seconds': '-1' is negative; write 0 or more"),
        ("column,seconds\nconfig 0,long\n", "column 'seconds': 'long' is not a number"),
        ("column,seconds\nconfig 0,nan\n", "column 'seconds': 'nan' is not finite"),
        ("column,seconds\nconfig 0,\n", "column 'seconds': '' is not a number"),
        (
            "column,seconds\nconfig 0,1\nconfig 0,2\n",
            "takes.csv:3: column 'column': 'config 0' stands twice",
        ),
        ("column,seconds\nconfig 0,1,2\n", "takes.csv:2: 3 fields where the header has 2"),
        ("column,seconds\nconfig 0,1\n", "no seconds for column 'config 1'; add a line for it"),
        ("", "takes.csv:1: no column 'column'; the header has none"),
        ("config 0,1\n", "takes.csv:1: unknown column 'config 0'; the columns are"),
        (None, "takes.csv: No such file or directory; name a CSV file"),
    ],
)
def test_wrong_seconds_are_one_line(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    train: str,
    test: str,
    lines: str | None,
    words: str,
):
    path = tmp_path / "takes.csv"
    if lines is not None:
        path.write_text(lines)
    argv = ["predict", train, "--rows", test, "--suggest", "1", "--seconds", str(path)]
    status, out, err = call(capsys, *argv)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert words in err


@pytest.mark.long
def test_in_pairs_a_new_rows_column_is_not_believed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    matrix = pairs(3)
    train, test = tmp_path / "a.csv", tmp_path / "b.csv"
    lines = to_csv(matrix).splitlines()
    train.write_text("\n".join(lines[:1] + lines[2:]) + "\n")
    test.write_text("name,job 1,job 2\njob 0,1.5,1.1\n")
    argv = ["predict", str(train), "--rows", str(test), "--scale", "normalised", "-o", "json"]
    _, out, _ = call(capsys, *argv, "--pairs")
    hidden = json.loads(out)[0]["columns"]["job 0"]
    _, out, _ = call(capsys, *argv)
    seen = json.loads(out)[0]["columns"]["job 0"]
    assert math.log(hidden["high_90"] / hidden["low_90"]) > math.log(
        seen["high_90"] / seen["low_90"]
    )


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["guess", "TRAIN"], "invalid choice: 'guess'"),
        (["evaluate"], "MATRIX.csv"),
        (["evaluate", "/no/such"], "/no/such: No such file or directory; name a CSV file"),
        (["evaluate", "TRAIN", "--rows", "x"], "unrecognized arguments: --rows"),
        (["evaluate", "TRAIN", "--reveal", "9"], "--reveal: no row has more than 9 entries"),
        (["evaluate", "TRAIN", "--reveal", "-1"], "'-1': write a whole number"),
        (["evaluate", "TRAIN", "--reveal", "0"], "--reveal: '0': write a whole number from 1"),
        (["predict", "TRAIN", "--rows", "TRAIN"], "row 'run 0' is a known row of"),
        (["predict", "TRAIN", "--rows", "TEST"], "row 'nothing' has no entry to predict from"),
        (["predict", "TRAIN", "--rows", "TEST", "--suggest", "7"], "--suggest: 7: write 1 to 6"),
        (
            ["predict", "TRAIN", "--rows", "TEST", "--suggest", "0"],
            "--suggest: '0': write a whole number from 1",
        ),
        (
            ["evaluate", "TRAIN", "--repeats", "0"],
            "--repeats: '0': write a whole number from 1 to 10000",
        ),
        (["evaluate", "TRAIN", "--estimator", "oracle"], "'oracle' is not an estimator; there are"),
        (["evaluate", "TRAIN", "--estimator", ""], "'' is not an estimator"),
        (["evaluate", "TRAIN", "--pairs"], "--pairs: no column has a row's name"),
        (["predict", "TRAIN"], "arguments are required: --rows"),
        (
            ["predict", "TRAIN", "--rows", "TEST", "--reveal", "2"],
            "unrecognized arguments: --reveal",
        ),
        (["predict", "TRAIN", "--rows", "TEST", "--estimator", "gaussian,svd-pq"], "takes one"),
        (["predict", "TEST", "--rows", "TRAIN"], "column 'config 0' is none of"),
        (["predict", "TRAIN", "--rows", "TEST", "--seconds", "9"], "--seconds: nothing is suggest"),
        (["predict", "TRAIN", "--rows", "TEST", "--budget", "9"], "--budget needs --seconds"),
        (["predict", "TRAIN", "--rows", "TEST", "--seconds", "0"], "--seconds: '0s' is no time"),
        (["predict", "TRAIN", "--rows", "TEST", "--budget", "0"], "--budget: '0s' is no time"),
        (["predict", "TRAIN", "--rows", "TEST", "--seconds", "-1"], "-1"),
        (["predict", "TRAIN", "--rows", "TEST", "--enough", "0%"], "'0%': write a share above 0"),
        (["predict", "TRAIN", "--rows", "TEST", "--enough", "few"], "'few': write a share above"),
        (["predict", "TRAIN", "--rows", "TEST", "--enough", "nan"], "'nan': write a share above"),
        (["evaluate", "TRAIN", "--enough", "1%"], "unrecognized arguments: --enough"),
        (["evaluate", "TRAIN", "--stop", "1%"], "--stop is for --strategy improvement"),
        (["evaluate", "TRAIN", "--budget", "1m"], "unrecognized arguments: --budget"),
        (["measure", "--seconds", "x.csv"], "argument --seconds: 'x.csv' is not a duration"),
    ],
)
def test_a_wrong_call_is_one_line(
    capsys: pytest.CaptureFixture[str], train: str, test: str, argv: list[str], words: str
):
    given = [{"TRAIN": train, "TEST": test}.get(word, word) for word in argv]
    status, out, err = call(capsys, *given)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert words in err


@pytest.mark.long
def test_a_hundred_thousand_rows(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    matrix = performance(9, rows=1000, columns=8, missing=0.3)
    header, *lines = to_csv(matrix).splitlines()
    train, test = tmp_path / "train.csv", tmp_path / "test.csv"
    with train.open("w") as file:
        print(header, file=file)
        for copy in range(100):
            print("\n".join(f"{copy} {line}" for line in lines), file=file)
    test.write_text("name,config 1,config 3\nnew,10,20\n")
    status, out, _ = call(capsys, "predict", str(train), "--rows", str(test), "-o", "json")
    assert status == 0
    assert len(json.loads(out)[0]["columns"]) == 8
