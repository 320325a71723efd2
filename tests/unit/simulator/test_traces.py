"""Traces in CSV: columns and units as mapped, and no row dropped in silence."""

from dataclasses import replace
from math import inf
from pathlib import Path

import pytest

from wharfinger.errors import InvalidInput
from wharfinger.model.workload import WorkloadType
from wharfinger.simulator.scenario.traces import (
    CsvTrace,
    JobColumns,
    NodeColumns,
    TraceServer,
    Units,
    Window,
    read_csv_trace,
    tell,
)

JOBS = """pod,came,began,left,cpu_milli,mem_mib,qos
web,1000,1010,1070,2000,512,LS
web,900,900,1000,500,,BE
stuck,1001,,1500,500,1,LS
open,1002,1003,,500,1,LS
blink,1003,1004,1004,500,1,LS
none,1004,1005,1010,0,1,LS
early,5,6,10,100,1,LS
odd,1010,1010,1020,250,64,weird
"""
NODES = "sn,cpu_milli,mem_mib,model\nn1,8000,1024,G2\nn2,8000,1024,G2\nn3,16000,2048,\n"
COLUMNS = JobColumns("came", "cpu_milli", "pod", "began", "left", memory="mem_mib", type="qos")


def trace(folder: Path, jobs: str = JOBS, **changes) -> CsvTrace:
    (folder / "jobs.csv").write_text(jobs)
    (folder / "nodes.csv").write_text(NODES)
    plain = CsvTrace(
        "jobs.csv",
        COLUMNS,
        str(folder),
        "nodes.csv",
        NodeColumns("cpu_milli", "mem_mib", ("model",)),
        Units(1.0, 1, 1024**2),
        {"LS": WorkloadType.BATCH, "BE": WorkloadType.BEST_EFFORT},
        WorkloadType.SINGLE_NODE,
        Window(100.0),
    )
    return replace(plain, **changes)


def test_rows_become_jobs_in_order_of_arrival(tmp_path: Path):
    found = read_csv_trace(trace(tmp_path))
    assert [(job.name, job.arrives_at, job.duration_seconds) for job in found.jobs] == [
        ("web", 800, 100),
        ("web", 900, 60),
        ("odd", 910, 10),
    ]
    assert [job.cpu_millicpus for job in found.jobs] == [500, 2000, 250]
    assert [job.memory_bytes // 1024**2 for job in found.jobs] == [1, 512, 64]
    assert [job.type.value for job in found.jobs] == ["best-effort", "batch", "single-node"]


def test_rows_that_cannot_be_used_are_counted(tmp_path: Path):
    skipped = read_csv_trace(trace(tmp_path)).skipped
    assert skipped == {
        "without a start or an end": 2,
        "that took no time": 1,
        "that ask for no CPU": 1,
        "outside of the window": 1,
    }
    assert tell(skipped).startswith("2 without a start or an end, 1 ")


def test_servers_are_read(tmp_path: Path):
    found = read_csv_trace(trace(tmp_path)).servers
    assert found == (
        TraceServer("G2", 8000, 1024**3),
        TraceServer("G2", 8000, 1024**3),
        TraceServer("", 16000, 2 * 1024**3),
    )
    assert read_csv_trace(trace(tmp_path, nodes=None, node_columns=None)).servers == ()


def test_times_are_scaled(tmp_path: Path):
    window = Window(100.0, time_scale=0.5, arrival_scale=0.1)
    found = read_csv_trace(trace(tmp_path, window=window)).jobs
    assert [job.arrives_at for job in found] == pytest.approx([40, 45, 45.5])
    assert [job.duration_seconds for job in found] == [50, 30, 5]


def test_a_duration_may_stand_instead_of_an_end(tmp_path: Path):
    columns = replace(COLUMNS, end=None, duration="left", start=None)
    found = read_csv_trace(trace(tmp_path, columns=columns, window=Window(950.0)))
    assert found.jobs[0].duration_seconds == 1070


@pytest.mark.parametrize(
    ("jobs", "says"),
    [
        ("pod,came\n", "1: no column 'cpu_milli'"),
        (JOBS.replace("web,1000", "web,today"), "2: column 'came': 'today' is not a number"),
        (JOBS.replace("web,1000", "web,inf"), "2: column 'came': 'inf' is not finite"),
        (JOBS.splitlines()[0] + "\n", "no row can be used: there is none"),
    ],
)
def test_a_wrong_mapping_is_said(tmp_path: Path, jobs: str, says: str):
    with pytest.raises(InvalidInput) as refused:
        read_csv_trace(trace(tmp_path, jobs))
    assert says in str(refused.value)


def test_a_window_without_rows_says_where_they_are(tmp_path: Path):
    with pytest.raises(InvalidInput, match="no row can be used: 4 outside of the window"):
        read_csv_trace(trace(tmp_path, window=Window(1e6, inf)))


def test_services_are_refused_for_they_have_no_load():
    with pytest.raises(InvalidInput, match="a trace tells no load"):
        CsvTrace("a.csv", COLUMNS, types={"LS": WorkloadType.LATENCY_CRITICAL})


def test_a_server_without_cpu_is_refused(tmp_path: Path):
    wrong = trace(tmp_path)
    (tmp_path / "nodes.csv").write_text("cpu_milli,mem_mib,model\n0,1,a\n")
    with pytest.raises(InvalidInput, match="column 'cpu_milli': '0' is no CPU"):
        read_csv_trace(wrong)
