"""What is asked of a supervisor and what is read of a run, without starting anything."""

import errno
import os
import struct
from dataclasses import replace
from itertools import count
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wharfinger.errors import EngineFault, InvalidInput, NotFound
from wharfinger.host.processes import ProcessIdentity, identity_of, open_pidfd
from wharfinger.host.run_dir import (
    Claim,
    ExitRecord,
    output_offset_at,
    output_times,
    read_output,
    read_run,
)
from wharfinger.host.supervisor import LaunchSpec, cancel, launch, request_stop

SPEC = LaunchSpec(command=("true",), env={}, working_directory=Path("/"))
EXIT = (
    "how exited 3\nstop_requested 1\ncpu_seconds 1.500000\nstarted_at_seconds 10.000000\n"
    "ended_at_seconds 12.000000\noutput_bytes 70\ndropped_bytes 7\nunkilled_processes 0\nend\n"
)


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    directory = tmp_path / "run"
    directory.mkdir(mode=0o700)
    return directory


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"command": ()}, "command: empty"),
        ({"command": ("a\0b",)}, "arg: holds a NUL"),
        ({"env": {"A=B": "c"}}, "'A=B'"),
        ({"env": {"": "c"}}, "''"),
        ({"env": {"PASSWORD": "x\0y"}}, "env: holds a NUL"),
        ({"working_directory": Path("here")}, "here: not an absolute path"),
        ({"freezer": Path("here")}, "here: not an absolute path"),
        ({"stop_grace_seconds": float("nan")}, "nan seconds"),
        ({"stop_grace_seconds": -1.0}, "-1.0 seconds"),
        ({"log_cap_bytes": 4095}, "4095"),
        ({"command": ("x" * (17 << 20),)}, "shorten"),
    ],
)
def test_a_wrong_spec_gets_one_line(fields: dict[str, object], told: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        replace(SPEC, **fields).encode()  # type: ignore[arg-type]  # wrong on purpose
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_untouched_directory_tells_nothing(run_dir: Path) -> None:
    record = read_run(run_dir)
    assert (record.claim, record.supervisor) == (Claim.NONE, None)
    assert (record.started, record.exit) == (None, None)


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "none"
    for ask in (read_run, read_output, output_times, cancel):
        with pytest.raises(NotFound, match="none"):
            ask(missing)


def test_an_exit_record_is_read(run_dir: Path) -> None:
    (run_dir / "exit").write_text(EXIT)
    assert read_run(run_dir).exit == ExitRecord(
        3, None, None, None, True, 1.5, 10.0, 12.0, 70, 7, 0
    )


def test_blanks_behind_a_record_are_no_damage(run_dir: Path) -> None:
    (run_dir / "exit").write_text(EXIT + "\n" * 4000)
    assert read_run(run_dir).exit is not None


def test_no_part_of_a_record_is_taken_for_one(run_dir: Path) -> None:
    for size in range(len(EXIT) - 1):
        (run_dir / "exit").write_text(EXIT[:size])
        assert read_run(run_dir).exit is None, EXIT[:size]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=300))
def test_garbage_counts_as_not_there(run_dir: Path, content: bytes) -> None:
    for name in ("claim", "started", "exit"):
        (run_dir / name).write_bytes(content)
    record = read_run(run_dir)
    assert record.claim == Claim.UNREADABLE
    assert (record.supervisor, record.started, record.exit) == (None, None, None)


@pytest.mark.parametrize("name", ["claim", "started", "exit", f"output.{0:020}"])
def test_links_fifos_and_directories_are_not_read(run_dir: Path, name: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(EXIT)
    makers = (
        lambda path: path.symlink_to(secret),
        os.mkfifo,
        lambda path: path.mkdir(),
    )
    for number, make in enumerate(makers):
        directory = tmp_path / f"run-{number}"
        directory.mkdir()
        make(directory / name)
        record = read_run(directory)
        assert (record.supervisor, record.started, record.exit) == (None, None, None)
        assert record.claim == (Claim.UNREADABLE if name == "claim" else Claim.NONE)
        assert read_output(directory)[0] == b""


def test_a_gap_in_the_output_is_a_gap_in_the_offsets(run_dir: Path) -> None:
    (run_dir / f"output.{100:020}").write_bytes(b"x" * 10)
    (run_dir / f"output.{150:020}").write_bytes(b"y" * 10)
    assert read_output(run_dir, 0) == (b"x" * 10, 110)
    assert read_output(run_dir, 110) == (b"y" * 10, 160)
    assert read_output(run_dir, -15) == (b"y" * 10, 160)
    assert read_output(run_dir, 105, 3) == (b"xxx", 108)


def test_touching_segments_are_one_stretch(run_dir: Path) -> None:
    (run_dir / f"output.{100:020}").write_bytes(b"x" * 10)
    (run_dir / f"output.{110:020}").write_bytes(b"y" * 10)
    assert read_output(run_dir, 105) == (b"x" * 5 + b"y" * 10, 120)
    assert read_output(run_dir, 105, 7) == (b"x" * 5 + b"yy", 112)


def _index(run_dir: Path, start: int, *entries: tuple[int, float]) -> Path:
    path = run_dir / f"times.{start:020}"
    path.write_bytes(b"".join(struct.pack("<QQ", at, int(when * 1e6)) for at, when in entries))
    return path


def test_the_times_of_a_piece_are_those_from_before_its_beginning(run_dir: Path) -> None:
    (run_dir / f"output.{100:020}").write_bytes(b"x" * 10)
    (run_dir / f"output.{150:020}").write_bytes(b"y" * 10)
    _index(run_dir, 100, (100, 1.0), (104, 2.0), (108, 3.5))
    _index(run_dir, 150, (150, 9.0))
    assert output_times(run_dir, 105) == [(104, 2.0), (108, 3.5), (150, 9.0)]
    assert output_times(run_dir, 104, 4) == [(104, 2.0)]
    assert output_times(run_dir, 0, 104) == [(100, 1.0)]
    assert output_times(run_dir, 155) == [(150, 9.0)]
    since = [output_offset_at(run_dir, when) for when in (0.0, 1.5, 3.5, 4.0, 9.5)]
    assert since == [100, 104, 108, 150, 160]


def test_an_entry_of_time_that_was_cut_off_counts_for_nothing(run_dir: Path) -> None:
    (run_dir / f"output.{0:020}").write_bytes(b"x" * 10)
    index = _index(run_dir, 0, (0, 1.0), (5, 2.0))
    for size in range(17, 32):
        os.truncate(_index(run_dir, 0, (0, 1.0), (5, 2.0)), size)
        assert output_times(run_dir) == [(0, 1.0)]
        assert output_offset_at(run_dir, 1.5) == 10
    index.write_bytes(b"\xff" * 64)  # meddled with
    assert len(output_times(run_dir)) <= 1


def test_output_of_version_0_1_has_no_times(run_dir: Path) -> None:
    assert output_offset_at(run_dir, 0.0) == 0, "no output"
    (run_dir / f"output.{0:020}").write_bytes(b"x" * 10)
    assert output_offset_at(run_dir, 0.0) is None
    assert output_times(run_dir) == []


def test_a_process_is_itself_and_no_other() -> None:
    own = identity_of(os.getpid())
    assert own is not None and own.is_alive()
    assert not replace(own, start_ticks=own.start_ticks + 1).is_alive()
    assert not replace(own, boot_id="0000").is_alive(), "the machine was started again"
    assert not ProcessIdentity(own.boot_id, 2**31 - 1, 0).is_alive()


def test_one_that_ended_and_was_not_reaped_is_not_alive() -> None:
    pid = os.posix_spawn("/bin/true", ["true"], {})
    identity = identity_of(pid)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    try:
        assert identity is not None
        assert open_pidfd(identity) is None
    finally:
        os.waitpid(pid, 0)


def test_a_wrong_grace_is_named(run_dir: Path) -> None:
    with pytest.raises(InvalidInput, match="-1 seconds"):
        request_stop(run_dir, -1, -1)


@pytest.mark.parametrize(
    ("true", "forged"),
    [
        ("exited 3", "exited 256"),
        ("exited 3", f"exited {10**30}"),
        ("exited 3", "signaled -9"),
        ("cpu_seconds 1.500000", "cpu_seconds nan"),
        ("cpu_seconds 1.500000", "cpu_seconds inf"),
        ("ended_at_seconds 12.000000", "ended_at_seconds -1"),
        ("output_bytes 70", f"output_bytes {10**30}"),
    ],
)
def test_an_exit_record_that_no_supervisor_writes_counts_as_none(
    run_dir: Path, true: str, forged: str
) -> None:
    (run_dir / "exit").write_text(EXIT)
    assert read_run(run_dir).exit is not None
    (run_dir / "exit").write_text(EXIT.replace(true, forged))
    assert read_run(run_dir).exit is None


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is closed to root")
def test_a_directory_that_was_closed_to_us_is_read_all_the_same(run_dir: Path) -> None:
    (run_dir / "exit").write_text(EXIT)
    run_dir.chmod(0)
    assert read_run(run_dir).exit is not None


def test_output_that_never_holds_still_is_read_another_time(run_dir: Path) -> None:
    numbers = count()

    def changed(_directory: int) -> list[int]:
        number = next(numbers)
        assert number < 1000, "it looks again and again"
        return [number]

    with patch("wharfinger.host.run_dir._segments", changed):
        assert read_output(run_dir, 7) == (b"", 7)


@pytest.mark.parametrize("offset", [2**63, -(2**63), 10**30])
def test_an_offset_that_no_output_has_is_named(run_dir: Path, offset: int) -> None:
    (run_dir / f"output.{0:020}").write_bytes(b"text")
    with pytest.raises(InvalidInput, match="offset"):
        read_output(run_dir, offset)
    assert read_output(run_dir, 2**63 - 1) == (b"", 2**63 - 1)


def test_a_segment_beyond_all_offsets_is_none(run_dir: Path) -> None:
    (run_dir / f"output.{10**20 - 1}").write_bytes(b"text")
    assert read_output(run_dir) == (b"", 0)


def test_a_full_disk_does_not_hide_whose_the_claim_is(run_dir: Path) -> None:
    full = OSError(errno.ENOSPC, "full")
    assert cancel(run_dir)
    with patch("wharfinger.host.supervisor.write_synced", side_effect=full):
        assert cancel(run_dir)


def test_a_supervisor_that_can_not_be_watched_leaves_no_zombie(run_dir: Path) -> None:
    children = Path("/proc/thread-self/children")
    before = set(children.read_text().split())
    none_left = OSError(errno.EMFILE, "Too many open files")
    with (
        patch("os.pidfd_open", side_effect=none_left),
        pytest.raises(EngineFault, match="Too many") as caught,
    ):
        launch(run_dir, SPEC)
    assert caught.value.retryable
    assert set(children.read_text().split()) <= before
