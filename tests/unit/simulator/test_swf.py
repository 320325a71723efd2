"""The Standard Workload Format: headers, unknown values, and jobs larger than a server."""

import gzip
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.synthetic_swf import lines as synthetic_lines
from wharfinger.errors import InvalidInput
from wharfinger.simulator.scenario.scenario_files import SHIPPED
from wharfinger.simulator.scenario.swf import Larger, SwfTrace, fitted, read_swf
from wharfinger.simulator.scenario.traces import TraceServer, Window

GIB = 1024**3
HEADER = "; Version: 2.2\n; Computer: a cluster\n; MaxNodes: 4\n; MaxProcs: 32\n;\n"


def job(number: int, submit: int, run: int, **given: int) -> str:
    fields = [-1] * 18
    fields[0], fields[1], fields[3], fields[4], fields[10] = number, submit, run, 2, 1
    places = {"allocated": 4, "used": 6, "requested": 7, "memory": 9, "status": 10, "program": 13}
    for name, value in given.items():
        fields[places[name]] = value
    return " ".join(map(str, fields)) + "\n"


JOBS = (
    job(1, 10, 100, used=1024, program=7)
    + job(2, 5, 50, allocated=-1, requested=20, memory=1024)
    + job(3, 20, -1)
    + job(4, 21, 0)
    + job(5, 22, 9, allocated=-1)
    + job(6, 23, 9, status=3)
    + job(7, 24, 30, status=5)
)


def write(folder: Path, text: str) -> SwfTrace:
    path = folder / "trace.swf"
    path.write_text(text)
    return SwfTrace(str(path), 64 * GIB)


def test_jobs_and_servers(tmp_path: Path):
    found = read_swf(write(tmp_path, HEADER + JOBS))
    assert [(each.name, each.arrives_at, each.cpu_millicpus) for each in found.jobs] == [
        ("job-2", 5, 20_000),
        ("job-1", 10, 2000),
        ("job-7", 24, 2000),
    ]
    assert [each.memory_bytes // 1024**2 for each in found.jobs] == [20, 2, 1]
    assert [each.application for each in found.jobs] == ["", "executable-7", ""]
    assert found.servers == (TraceServer("node", 8000, 64 * GIB),) * 4


def test_lines_that_cannot_be_used_are_counted(tmp_path: Path):
    assert read_swf(write(tmp_path, JOBS)).skipped == {
        "without a run time": 1,
        "that took no time": 1,
        "without processors": 1,
        "that tell part of a job": 1,
    }


def test_a_large_job_is_spread_or_left_out(tmp_path: Path):
    trace = read_swf(write(tmp_path, HEADER + JOBS))
    spread = fitted(trace, Larger.SPREAD, 8000)
    assert [(each.servers, each.cpu_millicpus) for each in spread.jobs] == [
        (3, 20_000),
        (1, 2000),
        (1, 2000),
    ]
    assert spread.jobs[0].memory_bytes == -(-20 * 1024**2 // 3)
    left = fitted(trace, Larger.SKIP, 8000)
    assert [each.name for each in left.jobs] == ["job-1", "job-7"]
    assert left.skipped["larger than every server"] == 1
    assert fitted(trace, Larger.SPREAD, 32_000) is trace


def test_only_nodes_or_nothing_in_the_header(tmp_path: Path):
    nodes = read_swf(write(tmp_path, "; MaxNodes: 3 (of two kinds)\n" + JOBS)).servers
    assert nodes == (TraceServer("node", 1000, 64 * GIB),) * 3
    assert read_swf(write(tmp_path, "; MaxProcs: 32\n" + JOBS)).servers == ()
    with pytest.raises(InvalidInput, match="header MaxNodes: 'many' is not a number"):
        read_swf(write(tmp_path, "; MaxNodes: many\n" + JOBS))


def test_the_window_is_on_the_clock_of_the_trace(tmp_path: Path):
    trace = replace(write(tmp_path, JOBS), window=Window(8.0, 20.0, time_scale=0.5))
    found = read_swf(trace)
    assert [(each.arrives_at, each.duration_seconds) for each in found.jobs] == [(1, 50)]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1 2 3\n", ":1: 3 fields; a job has 18"),
        (job(1, 1, 1).replace("-1", "x", 1), ":1: 'x' is not a number; write -1"),
        (job(1, 1, 1).replace("-1", "nan", 1), ":1: 'nan' is not a number; write -1"),
        (HEADER, "no row can be used: there is none"),
    ],
)
def test_what_is_no_trace_is_refused(tmp_path: Path, text: str, says: str):
    with pytest.raises(InvalidInput) as refused:
        read_swf(write(tmp_path, text))
    assert says in str(refused.value)


def test_a_missing_file():
    with pytest.raises(InvalidInput, match="name an SWF file"):
        read_swf(SwfTrace("/nowhere/x.swf"))


def test_what_users_ask_for_is_expected_and_scaled_with_the_times(tmp_path: Path):
    told = job(1, 0, 100).split()
    told[8] = "900"
    trace = write(tmp_path, " ".join(told) + "\n" + job(2, 5, 50))
    assert [each.requested_seconds for each in read_swf(trace).jobs] == [900, None]
    slower = replace(trace, window=Window(time_scale=2.0))
    assert [each.requested_seconds for each in read_swf(slower).jobs] == [1800, None]


def test_a_packed_trace_is_read_as_it_is(tmp_path: Path):
    plain = read_swf(write(tmp_path, HEADER + JOBS))
    packed = tmp_path / "trace.swf.gz"
    packed.write_bytes(gzip.compress((HEADER + JOBS).encode()))
    assert read_swf(SwfTrace(str(packed), 64 * GIB)) == plain


@pytest.mark.parametrize("cut", [lambda data: data[:-20], lambda data: b"no gzip at all" + data])
def test_a_broken_packed_trace_is_told_in_one_line(tmp_path: Path, cut: Callable[[bytes], bytes]):
    packed = tmp_path / "trace.swf.gz"
    packed.write_bytes(cut(gzip.compress((HEADER + JOBS).encode())))
    with pytest.raises(InvalidInput, match=r"trace\.swf\.gz: broken gzip after line \d+; fetch"):
        read_swf(SwfTrace(str(packed)))


@pytest.mark.long
def test_what_is_outside_of_the_window_is_not_kept(tmp_path: Path):
    lines = (job(number, number, 10) for number in range(50_000))
    trace = write(tmp_path, HEADER + "".join(lines))
    tracemalloc.start()
    found = read_swf(replace(trace, window=Window(100.0, 110.0)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(found.jobs) == 10
    assert found.skipped == {"outside of the window": 49_990}
    assert peak < 1_000_000


def test_the_synthetic_trace_is_what_its_script_prints():
    shipped = SHIPPED / "slurm-site.swf"
    assert shipped.read_text().splitlines() == list(synthetic_lines(240, 1))
