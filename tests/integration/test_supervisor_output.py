"""Output is kept to the byte, under its cap, and never at the workload's cost."""

import os
import resource
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.supervised import Run, Runs, launcher_script, until
from wharfinger.host.run_dir import output_offset_at, output_times, read_output
from wharfinger.host.supervisor import SupervisorStatus

NUMBERS = b"".join(b"%d\n" % number for number in range(1, 100001))


def test_binary_output_is_kept_to_the_byte(run: Run, tmp_path: Path) -> None:
    source = tmp_path / "bytes"
    source.write_bytes(bytes(range(256)) * 100 + b"\0\0\xff\n\0")
    run.launch("cat", str(source))
    assert run.end().output_bytes == source.stat().st_size
    assert run.output() == source.read_bytes()


def test_both_streams_lie_in_one_order(run: Run) -> None:
    run.sh("echo one; echo two >&2; echo three")
    run.end()
    assert run.output() == b"one\ntwo\nthree\n"


def test_offsets_read_on_where_one_stopped(run: Run) -> None:
    run.sh("printf 0123456789")
    run.end()
    assert read_output(run.run_dir, 2, 3) == (b"234", 5)
    assert read_output(run.run_dir, 5, 99) == (b"56789", 10)
    assert read_output(run.run_dir, 10, 99) == (b"", 10)
    assert read_output(run.run_dir, -4, 99) == (b"6789", 10)
    assert read_output(run.run_dir, -99, 2) == (b"01", 2)
    assert read_output(run.run_dir, 99, 2) == (b"", 99)


def test_a_flood_leaves_its_tail_under_the_cap(run: Run) -> None:
    cap_bytes = 65536
    run.launch("seq", "1", "100000", log_cap_bytes=cap_bytes)
    ended = run.end()
    assert (ended.output_bytes, ended.dropped_bytes) == (len(NUMBERS), 0)
    segments = sorted(run.run_dir.glob("output.*"))
    assert len(segments) == 2
    assert all(path.stat().st_size <= cap_bytes // 2 for path in segments)
    kept, end = read_output(run.run_dir, 0, 1 << 20)
    assert (end, kept) == (len(NUMBERS), NUMBERS[-len(kept) :])
    assert len(kept) > cap_bytes // 2
    assert read_output(run.run_dir, -7, 99) == (NUMBERS[-7:], len(NUMBERS))


def test_a_flood_never_exceeds_its_cap_while_it_lasts(run: Run) -> None:
    cap_bytes = 16384
    run.launch("seq", "1", "3000000", log_cap_bytes=cap_bytes)
    lasts = True
    while lasts:
        lasts = run.supervisors[-1].poll() is None  # Asked first, so there is a look in any case.
        for path in run.run_dir.glob("output.*"):
            try:
                assert path.stat().st_size <= cap_bytes // 2
            except FileNotFoundError:  # rotated away
                continue
    assert run.record().exit is not None


def test_output_has_its_times(run: Run, tmp_path: Path) -> None:
    # One for each line: a reader that opens one again meets its former writer.
    gates = [tmp_path / "gate1", tmp_path / "gate2"]
    for gate in gates:
        os.mkfifo(gate)
    waits = [f"read line < {gate}" for gate in gates]
    run.sh(f"echo first; {waits[0]}; echo second; {waits[1]}; echo third")
    before = time.time()
    for word, gate in zip((b"first\n", b"second\n"), gates, strict=True):
        until(lambda word=word: run.output().endswith(word))
        opened_at = time.time()
        until(lambda opened_at=opened_at: time.time() > opened_at + 0.2)  # past the index's gap
        gate.write_text("go\n")
    run.end()
    times = output_times(run.run_dir)
    assert [at for at, _ in times] == [0, 6, 13]
    assert before - 1 < times[0][1] < times[1][1] < times[2][1] <= time.time()
    for at, when in times:
        assert output_offset_at(run.run_dir, when) == at
    assert output_offset_at(run.run_dir, time.time()) == len(run.output())
    assert output_times(run.run_dir, 7, 3) == [times[1]]


def test_the_index_of_times_goes_with_its_segment_and_stays_small(run: Run) -> None:
    run.launch("seq", "1", "3000000", log_cap_bytes=16384)
    run.end()
    segments = {path.name.partition(".")[2] for path in run.run_dir.glob("output.*")}
    indexes = {path.name.partition(".")[2]: path for path in run.run_dir.glob("times.*")}
    assert set(indexes) == segments
    for start, index in indexes.items():
        entries = index.read_bytes()
        assert struct.unpack_from("<Q", entries)[0] == int(start), "each tells of its own beginning"
        assert len(entries) % 16 == 0
    assert sum(path.stat().st_size for path in indexes.values()) < 1024


def test_a_program_that_closes_its_output_runs_on_at_no_cost(run: Run, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    supervisor = run.sh(f"exec >&- 2>&-; read line < {gate}; exit 3")
    run.started()
    until(lambda: _output_is_closed(supervisor.pid), "the supervisor has let go of the pipe")
    gate.write_text("end\n")
    assert run.end().exit_code == 3


def _output_is_closed(pid: int) -> bool:
    try:
        links = [str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir()]
    except FileNotFoundError:  # It has closed one as we looked.
        return False
    return not any(link.startswith("pipe:") for link in links)


def test_a_file_size_limit_costs_output_but_no_status(run: Run) -> None:
    limit = "resource.setrlimit(resource.RLIMIT_FSIZE, (16384, 16384))"
    command = ["sh", "-c", "seq 1 100000; exit 13"]
    subprocess.run(launcher_script(run, command, before=limit), check=True, timeout=120)
    until(lambda: run.record().exit)
    ended = run.record().exit
    assert ended is not None
    assert (ended.exit_code, ended.output_bytes) == (13, len(NUMBERS))
    kept, end = read_output(run.run_dir, -1000)
    assert (kept, end) == (NUMBERS[-1000:], len(NUMBERS))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small tmpfs")
    where = tmp_path / "disk"
    where.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=128k,mode=0700", "wharfinger-test", str(where)]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("tmpfs cannot be mounted here")
    yield where
    umount = ["umount", str(where)]
    until(lambda: subprocess.run(umount, check=False).returncode == 0, "it is free")


def _fill(disk: Path) -> None:
    with (disk / "ballast").open("ab", buffering=0) as ballast:
        for size in (4096, 1):
            try:
                while ballast.write(b"x" * size):
                    pass
            except OSError:
                continue


@pytest.mark.root
def test_a_full_disk_costs_output_but_no_status(
    runs: Runs, small_disk: Path, tmp_path: Path
) -> None:
    run = runs.new(small_disk)
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    run.sh(f"echo first; read line < {gate}; seq 1 100000; exit 14", log_cap_bytes=1 << 20)
    until(lambda: b"first" in run.output())
    _fill(small_disk)
    gate.write_text("go\n")
    ended = run.end()
    assert (ended.exit_code, ended.output_bytes) == (14, len(NUMBERS) + 6)
    # Of the first segment's page the rest was free; where nothing more fits it is counted.
    assert ended.dropped_bytes > 0
    kept, end = read_output(run.run_dir, 0, 1 << 20)
    assert kept == (b"first\n" + NUMBERS)[end - len(kept) : end]
    run.clean_up()
    run.supervisors.clear()


@pytest.mark.root
def test_a_disk_that_is_full_before_refuses_and_claims_nothing(
    runs: Runs, small_disk: Path
) -> None:
    run = runs.new(small_disk)
    _fill(small_disk)
    supervisor = run.sh("echo started")
    assert run.status() == SupervisorStatus.FAULT
    assert "No space left on device" in supervisor.fault()
    assert list(run.run_dir.iterdir()) == []
    (small_disk / "ballast").unlink()
    run.sh("exit 15")
    assert run.end().exit_code == 15, "with room again, the same run starts"


def test_the_supervisor_is_small(run: Run) -> None:
    supervisor = run.sh("seq 1 100000; sleep 60", log_cap_bytes=65536)
    until(lambda: read_output(run.run_dir, -1)[1] == len(NUMBERS))
    usage = Path(f"/proc/{supervisor.pid}/smaps_rollup")
    if not usage.exists():
        pytest.skip("the kernel tells no smaps_rollup")
    fields = dict(line.split()[:2] for line in usage.read_text().splitlines()[1:])
    private_kib = int(fields["Private_Dirty:"]) + int(fields["Private_Clean:"])
    assert private_kib * 1024 < resource.getpagesize() * 100
