"""``wharfinger slurm submit``: the call of sbatch that it makes."""

import os
import shlex
from pathlib import Path

import pytest

from wharfinger.cli.main import main
from wharfinger.engines.slurm.comments import JobProgram, workload_of


def call(*words: str) -> int:
    return main(["slurm", "submit", *words])


def test_it_writes_the_comment_and_holds_the_job(capsys: pytest.CaptureFixture[str]) -> None:
    regex = r"done=(\d+) # of 'all'"
    options = ("--within", "20m", "--tolerance", "10%", "--measure-regex", regex, "--total", "50")
    assert call("--dry-run", *options, "--", "-n", "4", "job.sh", "a b") == 0
    sbatch, hold, comment, *rest = shlex.split(capsys.readouterr().out)
    assert (sbatch, hold, rest) == ("sbatch", "--hold", ["-n", "4", "job.sh", "a b"])
    workload = workload_of("w", comment.removeprefix("--comment="), JobProgram("/j", "/", 4))
    assert workload.target is not None and workload.target.completion_seconds == 1200
    assert workload.tolerance == 0.1
    assert workload.measure.progress_regex == regex


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--within", "soon", "--", "job.sh"], "target.completionTime: 'soon' is not a duration"),
        (["--", "job.sh"], "target: is missing"),
        (["--within", "9m", "--", "--comment=x", "job.sh"], "--comment=x: is written here"),
        (["--within", "9m"], "after --"),
    ],
)
def test_what_a_manager_would_refuse_is_refused_at_once(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status = call(*words)
    except SystemExit as stopped:
        status = stopped.code
    assert status == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_it_says_what_sbatch_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = tmp_path / "sbatch"
    fake.write_text('#!/bin/sh\necho "Submitted batch job 17"\nexit ${STATUS:-0}\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert call("--within", "9m", "--", "job.sh") == 0
    assert capsys.readouterr().out == "Submitted batch job 17\n"
    monkeypatch.setenv("STATUS", "3")
    assert call("--within", "9m", "--", "job.sh") == 1
    assert "exit status 3" in capsys.readouterr().err
    monkeypatch.setenv("PATH", "/nonexistent")
    assert call("--within", "9m", "--", "job.sh") == 1
    assert "no such command in PATH" in capsys.readouterr().err
