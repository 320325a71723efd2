"""A supervisor that a batch script starts: its instructions in a file, its end the program's."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from wharfinger.host.binaries import supervisor_path
from wharfinger.host.run_dir import Claim, read_run
from wharfinger.host.supervisor import LaunchSpec

SPEC = LaunchSpec(
    command=("sh", "-c", "exit 0"),
    env={"PATH": "/usr/bin:/bin"},
    working_directory=Path("/"),
    pass_status=True,
)


def _run(directory: Path, script: str, mode: int = 0o600) -> tuple[int, str, Path]:
    run_dir = directory / "run"
    run_dir.mkdir(mode=0o700)
    spec = directory / "spec"
    spec.write_bytes(replace(SPEC, command=("sh", "-c", script)).encode())
    spec.chmod(mode)
    done = subprocess.run(
        ["sh", "-c", f"exec 3<{spec}; rm {spec}; exec {supervisor_path()} {run_dir}"],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr, run_dir


@pytest.mark.parametrize(
    ("script", "status", "ended"),
    [
        ("exit 0", 0, (0, None)),
        ("exit 3", 3, (3, None)),
        ("kill -TERM $$", -15, (None, 15)),
        ("kill -SEGV $$", -11, (None, 11)),
        ("kill -KILL $$", -9, (None, 9)),
    ],
)
def test_it_ends_as_the_program_did(
    script: str, status: int, ended: tuple[int | None, int | None], tmp_path: Path
):
    returned, _, run_dir = _run(tmp_path, script)
    record = read_run(run_dir).exit
    assert record is not None
    assert (record.exit_code, record.signal) == ended
    assert returned == status


def test_a_program_that_cannot_start_is_127(tmp_path: Path):
    run_dir = tmp_path / "run"
    run_dir.mkdir(mode=0o700)
    spec = tmp_path / "spec"
    spec.write_bytes(replace(SPEC, command=("/no/such",)).encode())
    spec.chmod(0o600)
    command = ["sh", "-c", f"exec 3<{spec}; exec {supervisor_path()} {run_dir}"]
    assert subprocess.run(command, check=False).returncode == 127


def test_a_file_that_others_can_read_starts_nothing(tmp_path: Path):
    status, said, run_dir = _run(tmp_path, "exit 0", mode=0o644)
    assert status == 2
    assert "mode 0600" in said
    assert read_run(run_dir).claim is Claim.NONE
