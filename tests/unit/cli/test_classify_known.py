"""``wharfinger classify measure`` and ``evaluate --known``: what they print and refuse."""

import json
from pathlib import Path

import pytest

from tests.support.fake_slurm import FakeSlurm
from wharfinger.catalog import campaign
from wharfinger.catalog.known_files import SHIPPED
from wharfinger.catalog.listing import PROGRAMS
from wharfinger.catalog.quiet import CpuTimes, Disturbance
from wharfinger.cli import classify_measure
from wharfinger.cli.main import main
from wharfinger.engines.slurm import SlurmSettings
from wharfinger.engines.slurm.client.client import CommandClient
from wharfinger.engines.supervised.machine import identity_of_directory


def call(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    try:
        status = main(["classify", *argv])
    except SystemExit as end:
        status = int(end.code or 0)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_the_catalog_is_listed(capsys: pytest.CaptureFixture[str]):
    status, out, _ = call(capsys, "measure", "--list", "-o", "json")
    rows = json.loads(out)
    assert status == 0
    assert [row["name"] for row in rows] == [program.name for program in PROGRAMS]
    assert {"group", "kind", "threads", "needs", "missing"} <= rows[0].keys()
    _, out, _ = call(capsys, "measure", "--list", "--only", "gzip,xz")
    assert len(out.splitlines()) == 3


def test_rows_are_kept_where_the_command_is_refused(capsys: pytest.CaptureFixture[str], tmp_path):
    row = tmp_path / campaign._ROWS / "gzip.json"
    row.parent.mkdir()
    row.write_text("{}")
    argv = ["measure", "--only", "gzip", "--anew", "--out", str(tmp_path), "--engine", "slurm"]
    status, _, err = call(capsys, *argv)
    assert (status, err.count("\n")) == (2, 1)
    assert "--shared-dir is missing" in err
    assert row.exists()


@pytest.mark.slow
def test_known_matrices_are_evaluated(capsys: pytest.CaptureFixture[str]):
    argv = ["evaluate", "--known", str(SHIPPED), "--repeats", "1"]
    argv += ["--estimator", "column-means,nearest-neighbours"]
    status, out, err = call(capsys, *argv, "-o", "json")
    assert (status, err) == (0, "")
    found = {document["name"]: document for document in json.loads(out)}
    assert list(found) == ["scale-up", "tolerated", "caused"]
    assert found["scale-up"]["reveal"] == 2
    assert found["scale-up"]["estimators"]["nearest-neighbours"]["mean_relative_error"] < 2
    assert found["tolerated"]["reveal"] == len(found["tolerated"]["columns"]) - 1
    assert 0 <= found["tolerated"]["estimators"]["column-means"]["mean_absolute_error"] <= 100
    _, out, _ = call(capsys, *argv)
    assert "known programs, measured" in out
    assert "MEAN ERROR (OF 100)" in out


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["measure", "matrix.csv"], "unrecognized arguments: matrix.csv"),
        (["evaluate"], "classify evaluate needs MATRIX.csv"),
        (["evaluate", "m.csv", "--known"], "reads no file; leave 'm.csv' out"),
        (["evaluate", "--known", "--scale", "common"], "--scale is not for --known"),
        (["evaluate", "m.csv", "--out", "d"], "unrecognized arguments: --out"),
        (["measure", "--reveal", "2"], "unrecognized arguments: --reveal"),
        (["measure", "--only", "gzp"], "program 'gzp' is not in the catalog"),
        (["measure", "--engine", "slurm"], "--engine slurm: --shared-dir is missing"),
        (["measure", "--engine", "x"], "'x' is not local or slurm"),
        (["measure", "--seconds", "0"], "--seconds: '0s' is no time"),
        (["evaluate", "--known", "/nowhere"], "/nowhere/machine.json: No such file"),
    ],
)
def test_a_wrong_call_is_one_line(capsys: pytest.CaptureFixture[str], argv: list[str], words: str):
    status, out, err = call(capsys, *argv)
    assert (status, out) == (2, "")
    assert words in err
    assert len(err.splitlines()) == 1


def test_a_busy_machine_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(classify_measure, "watch", lambda _: Disturbance(0.4, 0.03))
    status, _, err = call(capsys, "measure", "--out", str(tmp_path / "out"))
    assert status == 1
    assert "others use 40% of its CPUs' time and 3% is stolen" in err
    assert not (tmp_path / "out").exists()


def test_a_work_directory_that_another_user_has_made_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    elsewhere.mkdir()
    work = tmp_path / f"measure-{identity_of_directory(out)}"
    work.symlink_to(elsewhere)
    slurm = ("--engine", "slurm", "--shared-dir", str(tmp_path))
    status, _, err = call(capsys, "measure", *slurm, "--out", str(out))
    assert (status, err) == (2, f"wharfinger: {work}: is no directory; remove it\n")


def test_users_offers_are_neither_read_nor_written_into(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    slurm = FakeSlurm(tmp_path)
    for name in ("site", "partitions", "nodes", "jobs", "scripts", "update"):
        call = getattr(slurm, name)
        monkeypatch.setattr(CommandClient, name, lambda _, *given, call=call: call(*given))
    slurm.hand_in("#!/bin/sh\n", "wharfinger: {target: wrong}")
    settings = SlurmSettings(shared_dir=tmp_path)
    with classify_measure._slurm(tmp_path / "out", settings).profiler as profiler:
        assert [server.name for server in profiler.servers] == ["n1", "n2"]
    assert not {"script", "update"} & set(slurm.calls)


def test_cpu_times_are_the_kernels(tmp_path: Path):
    stat = tmp_path / "stat"
    stat.write_text("cpu  10 1 4 100 20 2 3 5 9 9\ncpu0 1 2 3\n")
    assert CpuTimes.read(stat) == CpuTimes(busy=20, steal=5, total=145)
    now = CpuTimes.read()
    assert 0 < now.busy < now.total
