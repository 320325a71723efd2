"""Plans run by the local engine on real programs: what they find."""

import os
import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.support import first_and_long
from tests.support.local import session, start, started
from tests.support.profiling import COUNTING, LINES, SYNCING, answered, ask, measured
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.engines.local import LocalEngine
from wharfinger.engines.local.profiler import profile_workload
from wharfinger.errors import EngineFault
from wharfinger.host.cgroups import discover
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import ProfilingPlan
from wharfinger.model.workload import (
    HttpMeasure,
    LatencyBound,
    Measure,
    MetricKind,
    NumberKind,
    Run,
    Target,
    Workload,
    WorkloadType,
)
from wharfinger.testing.harness import Session

pytestmark = pytest.mark.alone

ONE_CPU = f"a={min(os.sched_getaffinity(0))}"
INTEGER, STORAGE = SharedResource.INTEGER, SharedResource.STORAGE_BANDWIDTH


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


@pytest.fixture
def profiler(tmp_path: Path) -> Iterator[Session]:
    with session(tmp_path, servers=ONE_CPU) as opened:
        opened.deadline_seconds = 120.0
        if not opened.engine.capabilities.profiles:
            pytest.skip("no sandbox here")
        yield opened


def test_performance_follows_the_allocation(profiler: Session, folder: Path) -> None:
    found = measured(profiler, ask(profiler, COUNTING, folder=folder, cpus=(100, 300), seconds=4))
    rates = found.performance[Quantity.RATE]
    assert rates[300].value > 1.2 * rates[100].value
    assert all(0 < entry.error < 1 for entry in rates.values())
    assert found.runs == 1
    assert not found.silent


def test_the_most_memory_that_it_used_is_measured(profiler: Session, folder: Path) -> None:
    if not profiler.engine.capabilities.memory_limit:
        pytest.skip("no control group of memory here")
    holding = f"held = bytearray(b'x') * (150 << 20)\n{COUNTING}"
    found = measured(profiler, ask(profiler, holding, folder=folder, cpus=(500,), seconds=2))
    assert found.memory_peak_bytes is not None
    assert 150 << 20 < found.memory_peak_bytes < 300 << 20


def test_integer_work_beside_a_busy_program(profiler: Session, folder: Path) -> None:
    """It has the CPU's other part: whether that slows the program is the machine's affair."""
    plan = ask(profiler, COUNTING, INTEGER, folder=folder, cpus=(600,), seconds=10)
    found = measured(profiler, plan)
    assert INTEGER in found.tolerated or "intensity" in found.silent["tolerated/integer"]
    assert 5 < found.caused[INTEGER].value < 75


def test_there_is_no_source_where_the_copy_has_all(profiler: Session, folder: Path) -> None:
    found = measured(profiler, ask(profiler, COUNTING, INTEGER, folder=folder, seconds=2))
    assert INTEGER not in found.tolerated
    assert "all of the server's CPUs" in found.silent["tolerated/integer"]


@pytest.mark.long
def test_storage_is_measured_or_says_why_not(profiler: Session, folder: Path) -> None:
    found = measured(
        profiler, ask(profiler, SYNCING, STORAGE, folder=folder, cpus=(500,), seconds=8)
    )
    for name, entries in (("tolerated", found.tolerated), ("caused", found.caused)):
        what = f"{name}/{STORAGE.value}"
        assert (STORAGE in entries and 0 <= entries[STORAGE].value <= 100) or found.silent[what]
    assert not list(folder.iterdir())


def test_a_program_that_tells_nothing_is_timed_as_a_whole(profiler: Session, folder: Path) -> None:
    found = measured(
        profiler,
        ask(
            profiler,
            "sum(range(1_000_000))",
            INTEGER,
            folder=folder,
            cpus=(500, 1000),
            seconds=60,
            measure=Measure(),
            target=Target(completion_seconds=60),
        ),
    )
    assert set(found.performance[Quantity.RATE]) == {500, 1000}
    assert (found.total, found.runs) == (1.0, 4)
    assert INTEGER in found.tolerated
    assert INTEGER in found.caused


def test_a_short_program_is_timed_by_its_work(profiler: Session, folder: Path) -> None:
    script = "for done in range(1, 101): print(f'done={done}', flush=True)"
    found = measured(profiler, ask(profiler, script, folder=folder, seconds=5))
    assert found.total == 100
    assert found.performance[Quantity.RATE][1000].value > 1


def test_what_tells_nothing_and_does_not_end_is_silent(profiler: Session, folder: Path) -> None:
    action = ask(profiler, "while True: pass", INTEGER, folder=folder, seconds=1, measure=Measure())
    found = measured(profiler, action)
    assert not found.performance
    assert "spec.measure" in found.silent["performance/1000"]
    assert found.caused[INTEGER].value > 1


SERVICE = """
import socketserver
class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            sum(range(2000))
            self.wfile.write(line)
socketserver.ThreadingTCPServer.allow_reuse_address = True
socketserver.ThreadingTCPServer(("127.0.0.1", PORT), Handler).serve_forever()
"""

LOAD = """
import socket, time
stream = socket.create_connection(("127.0.0.1", PORT)).makefile("rwb")
end = time.monotonic() + 1
while time.monotonic() < end:
    began, waits = time.monotonic(), []
    while time.monotonic() < began + 0.1:
        asked = time.monotonic()
        stream.write(b"x\\n")
        stream.flush()
        stream.readline()
        waits.append(time.monotonic() - asked)
    rate = len(waits) / (time.monotonic() - began)
    print(f"rate={rate:.1f} latency={1e3 * max(waits):.3f}", flush=True)
"""


def test_a_service_gets_its_load_inside(profiler: Session, folder: Path) -> None:
    """Its port is taken outside by somebody else, who is asked nothing."""
    with socket.create_server(("127.0.0.1", 0)) as outside:
        outside.setblocking(False)
        port = str(outside.getsockname()[1])
        run = Run(("python3", "-c", LOAD.replace("PORT", port)))
        pattern = r"rate=(?P<throughput>\S+) latency=(?P<latency_ms>\S+)"
        found = measured(
            profiler,
            ask(
                profiler,
                SERVICE.replace("PORT", port),
                folder=folder,
                measure=Measure(progress_regex=pattern, load_command=run.command),
                target=Target(100.0, LatencyBound(99, 0.1)),
                kind=WorkloadType.LATENCY_CRITICAL,
            ),
        )
        with pytest.raises(BlockingIOError):
            outside.accept()
    assert found.performance[Quantity.THROUGHPUT][1000].value > 10
    assert 0 < found.performance[Quantity.LATENCY][1000].value < 10
    assert found.runs == 1


ENDPOINT = """
import http.server, threading
done = 0
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"ops_total {done}\\n".encode())
    def log_message(self, *arguments):
        pass
threading.Thread(
    target=http.server.ThreadingHTTPServer(("127.0.0.1", 18123), Handler).serve_forever
).start()
while True:
    done += 1
"""

WRITING = "import os" + COUNTING.replace(
    'print(f"done={done}", flush=True)',
    "open(PATH + '.new', 'w').write(f'{done}'); os.rename(PATH + '.new', PATH)",
)


@pytest.mark.parametrize("way", first_and_long(["file", "http", "command"]))
def test_what_is_read_from_inside(profiler: Session, folder: Path, way: str) -> None:
    path = str(folder / "progress")
    script, measure = {
        "http": (
            ENDPOINT,
            Measure(http=HttpMeasure("http://127.0.0.1:18123", "ops_total", MetricKind.COUNTER)),
        ),
        "command": (
            WRITING.replace("PATH", repr(path)),
            Measure(command=("cat", path), command_kind=NumberKind.COUNTER),
        ),
        "file": (
            COUNTING.replace("flush=True", f"flush=True, file=open({path!r}, 'a')"),
            Measure(progress_regex=r"done=(\d+)", progress_file=path),
        ),
    }[way]
    found = measured(profiler, ask(profiler, script, folder=folder, measure=measure, seconds=8))
    assert found.performance[Quantity.RATE][1000].value > 100
    assert not list(folder.iterdir())


@pytest.mark.long
def test_a_neighbour_that_falls_has_the_source_withdrawn(profiler: Session, folder: Path) -> None:
    level = folder / "level"
    level.write_text("100\n")
    neighbour = start(profiler, "n", f"while sleep 0.1; do cat {level}; done")
    gauge = Measure(progress_regex=r"(\d+)", progress_kind=NumberKind.GAUGE)
    target = Target(rate_per_second=100)
    workload = Workload("neighbour", WorkloadType.BATCH, neighbour.workload.run, target)
    started(profiler, neighbour)
    measuring = act.MeasureWorkload("n", Workload(**{**_fields(workload), "measure": gauge}))
    profiler.perform(measuring)
    profiler.wait_until(
        lambda: any(isinstance(report, ev.ServerMeasured) for report in profiler.reports),
        "a first sample of the neighbour",
    )
    plan = ask(profiler, COUNTING, INTEGER, STORAGE, folder=folder, cpus=(500,), seconds=60)
    profiler.perform(plan)
    engine = profiler.engine
    assert isinstance(engine, LocalEngine)
    plans = engine._profiling._plans
    profiler.wait_until(lambda: plans["k"].injecting, "the injection")
    level.write_text("50\n")
    answer = answered(profiler, "k")
    assert isinstance(answer, ev.ProfilingFinished)
    found = answer.measurements
    assert "neighbour fell below its target" in found.silent["tolerated/integer"]
    assert "neighbour fell below its target" in found.silent["tolerated/storage-bandwidth"]
    assert Quantity.RATE in found.performance
    assert found.tolerated.get(INTEGER) is None or found.tolerated[INTEGER].censored
    profiler.perform(act.StopWorkload("n", 0.0))
    profiler.wait_for_end("n")


def _fields(workload: Workload) -> dict[str, object]:
    return {name: getattr(workload, name) for name in Workload.__dataclass_fields__}


@pytest.mark.long
def test_allocations_are_kept_without_cgroups(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = tmp_path / "nothing-is-mounted"
    nothing.touch()
    find_nothing = partial(discover, cgroup_file=nothing, mountinfo_file=nothing)
    monkeypatch.setattr("wharfinger.engines.local.engine.discover", find_nothing)
    with session(tmp_path, servers=ONE_CPU) as opened:
        opened.deadline_seconds = 120.0
        if not opened.engine.capabilities.profiles:
            pytest.skip("no sandbox here")
        plan = ask(opened, COUNTING, INTEGER, folder=folder, cpus=(100, 300), seconds=8)
        rates = measured(opened, plan).performance[Quantity.RATE]
    assert rates[300].value > 1.2 * rates[100].value


def test_without_a_manager(tmp_path: Path, folder: Path) -> None:
    run = Run(("/bin/sh", "-c", "exit 0"), {}, str(folder))
    workload = Workload("w", WorkloadType.BATCH, run, Target(completion_seconds=1))
    plan = ProfilingPlan("", (1000,), 64 << 20, (), 2.0)
    try:
        found = profile_workload(tmp_path / "state", workload, plan)
    except EngineFault as fault:
        pytest.skip(str(fault))
    assert found.performance[Quantity.RATE][1000].value > 0
    failing = Workload("w", WorkloadType.BATCH, Run(("false",), {}, str(folder)), measure=LINES)
    with pytest.raises(EngineFault, match="status 1"):
        profile_workload(tmp_path / "state", failing, plan)
    assert not list((tmp_path / "state").iterdir())
