"""Batch scripts: what users write is data in them, whatever it is."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wharfinger.engines.slurm.own_comments import comment_of, key_of
from wharfinger.engines.slurm.script import (
    NOT_SHARED,
    options_of,
    plain_script,
    supervised_script,
)
from wharfinger.engines.slurm.settings import SlurmSettings
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.workload import Run, Workload, WorkloadType

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)


def _workload(name: str = "w", **run: object) -> Workload:
    return Workload(name, WorkloadType.SINGLE_NODE, Run(**{"command": ("true",), **run}))  # type: ignore[arg-type]


@pytest.mark.slow
@given(words=st.lists(TEXT, max_size=4), value=TEXT)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_arguments_and_environment_come_through_the_shell_unchanged(
    words: list[str], value: str, tmp_path: Path
) -> None:
    show = ("printf", "%s\\0", "$X", *words)
    reader = ("python3", "-c", "import os,sys;sys.stdout.buffer.write(os.environb[b'X'])")
    for command, expected in ((show, ["$X", *words]), (reader, None)):
        script = plain_script(_workload(command=command, env={"X": value, "PATH": os.defpath}))
        path = tmp_path / "script"
        path.write_bytes(os.fsencode(script))
        output = subprocess.run(["/bin/sh", path], capture_output=True, check=True).stdout
        if expected is None:
            assert output.decode() == value
        else:
            assert output.decode() == "".join(f"{word}\0" for word in expected)


def test_a_node_without_the_run_directory_says_so(tmp_path: Path) -> None:
    script = supervised_script(tmp_path / "not $HOME; there", Path("/bin/true"))
    assert subprocess.run(["/bin/sh", "-c", script], check=False).returncode == NOT_SHARED


def test_the_specification_is_gone_once_it_is_open(tmp_path: Path) -> None:
    run_dir = tmp_path / "it's here"
    run_dir.mkdir()
    (run_dir / "spec").write_text("secret")
    program = tmp_path / "program"
    program.write_text('#!/bin/sh\necho "$1"; cat <&3\n')
    program.chmod(0o755)
    script = supervised_script(run_dir, program)
    done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == f"{run_dir}\nsecret"
    assert not (run_dir / "spec").exists()
    # A second time nothing is started.
    assert subprocess.run(["/bin/sh", "-c", script], check=False, capture_output=True).returncode


def test_options_are_whole_cpus_mebibytes_and_a_name_without_newlines() -> None:
    options = options_of(
        _workload("a\nb", time_limit_seconds=90.0, stop_grace_seconds=10.0),
        (Placement("n1", Allocation(1500, (64 << 20) + 1)),),
        comment_of("0" * 12, "k"),
        "main",
        SlurmSettings(sbatch={"account": "physics"}),
        Path("/shared/k"),
    )
    assert options == {
        "account": "physics",
        "job-name": "a_b",
        "comment": "wharfinger-run 000000000000 k",
        "partition": "main",
        "nodelist": "n1",
        "nodes": "1",
        "ntasks": "1",
        "cpus-per-task": "2",
        "mem": "65M",
        "no-requeue": "",
        "output": "/shared/k/slurm.log",
        "chdir": "/",
        "time": "3",
    }


def test_only_ours_are_ours() -> None:
    identity = "0123456789ab"
    assert key_of(identity, comment_of(identity, "a.b-c")) == "a.b-c"
    foreign = ["", "wharfinger: {}", comment_of("f" * 12, "k"), "wharfinger-run 0123456789ab a b"]
    assert [key_of(identity, comment) for comment in foreign] == [None] * 4
