"""Real programs, measured by a real meter under the local engine: what the core is told of them."""

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support import wait_until
from tests.support.live import LiveManager, manifest
from tests.support.local import finished, is_gone, names, session, start, started
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.engines.base import LogChunk
from wharfinger.engines.local import LocalEngine
from wharfinger.engines.supervised import machine
from wharfinger.host.supervisor import LaunchSpec, Supervisor
from wharfinger.model.performance import Quantity, Reading, Sample
from wharfinger.model.workload import (
    HttpMeasure,
    LatencyBound,
    Measure,
    MetricKind,
    Target,
    WorkloadType,
)
from wharfinger.testing.harness import Session

COUNTING = "i=0; while true; do i=$((i+1)); echo done=$i; sleep 0.05; done"
LINES = Measure(r"done=(\d+)")
RATE = Target(rate_per_second=1.0)

SERVER = """
import http.server, time
began = time.monotonic()
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        count = int(100 * (time.monotonic() - began))
        body = f'lat_bucket{{le="0.1"}} 0\\nlat_bucket{{le="0.2"}} {count}\\n'
        body += f'lat_bucket{{le="+Inf"}} {count}\\nhits_total {count}\\n'
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body.encode())
    def log_message(self, *arguments):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


def measured(
    session: Session,
    key: str,
    script: str,
    measure: Measure,
    target: Target | None = RATE,
    kind: WorkloadType = WorkloadType.BATCH,
) -> act.MeasureWorkload:
    """Start a script and ask for its measuring."""
    action = start(session, key, script)
    workload = replace(action.workload, type=kind, target=target, measure=measure)
    started(session, replace(action, workload=workload))
    asked = act.MeasureWorkload(key, workload)
    session.perform(asked)
    return asked


def samples(session: Session, key: str) -> list[Sample]:
    session.take_in(0.05)
    return [
        sample
        for report in session.reports
        if isinstance(report, ev.ServerMeasured)
        for sample in report.samples
        if sample.key == key
    ]


def await_reading(
    session: Session, key: str, quantity: Quantity, condition: Callable[[Reading], bool]
) -> Reading:
    def look() -> Reading | None:
        found = (s.readings.get(quantity) for s in samples(session, key))
        return next((reading for reading in found if reading and condition(reading)), None)

    found = wait_until(look, what=f"{quantity} of {key}")
    assert found is not None
    return found


def await_silence(session: Session, key: str, quantity: Quantity, word: str) -> None:
    wait_until(
        lambda: any(
            word in s.silent[quantity].reason for s in samples(session, key) if quantity in s.silent
        ),
        what=f"no signal of {key}: {word}",
    )


def engine_of(session: Session) -> LocalEngine:
    assert isinstance(session.engine, LocalEngine)
    return session.engine


def meter_of(session: Session) -> int:
    pid = engine_of(session)._measuring._client.pid
    assert pid is not None
    return pid


def positive(reading: Reading) -> bool:
    return reading.value > 0


@pytest.mark.long
def test_progress_lines_on_output_and_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "progress"
    with session(tmp_path, report_seconds=1.0) as opened:
        measured(opened, "out", COUNTING, LINES)
        to_file = f"{{ {COUNTING}; }} > {file}"
        measured(opened, "file", to_file, replace(LINES, progress_file=str(file)))
        total = replace(LINES, progress_total=1e6)
        measured(opened, "total", COUNTING, total, Target(completion_seconds=60.0))
        for key in ("out", "file"):
            found = await_reading(opened, key, Quantity.RATE, positive)
            assert (found.source, found.trusted) == ("progress lines", True)
            assert found.value < 40  # It sleeps 50 ms between two, and none counts twice.
        left = await_reading(opened, "total", Quantity.REMAINING, positive)
        assert left.value > 1e6 / 40 - 60


@pytest.mark.long
def test_memory_in_use_leaves_out_the_page_cache(tmp_path: Path) -> None:
    file = tmp_path / "large"
    file.write_bytes(bytes(200 << 20))
    with session(tmp_path, report_seconds=1.0) as opened:
        if not opened.engine.capabilities.memory_limit:
            pytest.skip("no control group of memory here")
        measured(opened, "reads", f"cat {file} > /dev/null; {COUNTING}", LINES)
        found = await_reading(opened, "reads", Quantity.MEMORY, positive)
        assert found.value < 50 << 20


@pytest.mark.long
def test_one_bad_pattern_harms_only_itself(tmp_path: Path) -> None:
    with session(tmp_path, report_seconds=1.0) as opened:
        hostile = f"while true; do echo {'a' * 60}!; sleep 0.05; done"
        measured(opened, "bad", hostile, Measure("(a+)+$"))
        measured(opened, "good", COUNTING, LINES)
        await_silence(opened, "bad", Quantity.RATE, "took longer than 0.5 s")
        await_reading(opened, "good", Quantity.RATE, positive)


@pytest.mark.long
def test_a_meter_that_dies_or_hangs_is_replaced(tmp_path: Path) -> None:
    with session(tmp_path, report_seconds=1.0) as opened:
        measured(opened, "k", COUNTING, LINES)
        for number in (signal.SIGKILL, signal.SIGALRM):  # The latter is what ends one that hangs.
            await_reading(opened, "k", Quantity.RATE, positive)
            before = meter_of(opened)
            os.kill(before, number)
            wait_until(lambda: samples(opened, "k") and meter_of(opened) != before)  # noqa: B023
            opened.forget_reports()
        await_reading(opened, "k", Quantity.RATE, positive)
        last = meter_of(opened)
    wait_until(lambda: is_gone(last))


@pytest.mark.long
def test_an_endpoint_and_a_command(tmp_path: Path) -> None:
    program = tmp_path / "server.py"
    program.write_text(SERVER)
    with session(tmp_path, report_seconds=1.0) as opened:
        service = start(opened, "server", f"exec {sys.executable} {program}")
        started(opened, service)
        wait_until(lambda: opened.engine.read_log("server").data.endswith(b"\n"))
        url = f"http://127.0.0.1:{int(opened.engine.read_log('server').data)}/metrics"
        bound = LatencyBound(50.0, 1.0)
        http = HttpMeasure(url, "lat", MetricKind.HISTOGRAM)
        both = Target(throughput_per_second=1.0, latency=bound)
        critical = WorkloadType.LATENCY_CRITICAL
        measured(opened, "svc", "sleep 300", Measure(http=http), both, critical)
        assert await_reading(opened, "svc", Quantity.LATENCY, positive).value == pytest.approx(0.15)
        found = await_reading(opened, "svc", Quantity.THROUGHPUT, lambda r: r.value > 50)
        assert found.source == "HTTP endpoint"
        hits = HttpMeasure(url, "hits_total", MetricKind.COUNTER)
        measured(opened, "counter", "sleep 300", Measure(http=hits))
        await_reading(opened, "counter", Quantity.RATE, lambda r: r.value > 50)
        measured(opened, "command", "sleep 300", Measure(command=("echo", "7")))
        assert await_reading(opened, "command", Quantity.RATE, positive).value == 7.0
        gone = HttpMeasure("http://127.0.0.1:1/")
        measured(opened, "gone", "sleep 300", Measure(http=gone))
        await_silence(opened, "gone", Quantity.RATE, "refused")


def test_what_nobody_tells_is_cpu_time_and_not_trusted(tmp_path: Path) -> None:
    with session(tmp_path, report_seconds=1.0) as opened:
        measured(opened, "busy", "while true; do :; done", Measure())
        found = await_reading(opened, "busy", Quantity.CPU, lambda r: r.value > 0.05)
        assert (found.source, found.trusted) == ("CPU time (proxy)", False)
        await_silence(opened, "busy", Quantity.RATE, "spec.measure")


def load_log(opened: Session) -> LogChunk:
    """What the load generator of ``svc`` has said."""
    return opened.engine.read_log("svc", source="load")


def test_a_load_generator_runs_beside_its_service_and_ends_with_it(tmp_path: Path) -> None:
    loads = tmp_path / "state" / ".loads"
    # Again and again, else it would be taken for hung, and started again, after a time.
    script = "while :; do echo rps=120 p99=2.5; sleep 1; done"
    pattern = r"rps=(?P<throughput>\d+) p99=(?P<latency_ms>[\d.]+)"
    load = Measure(load_command=("sh", "-c", script), load_regex=pattern)
    both = Target(throughput_per_second=100, latency=LatencyBound(99, 0.01))
    with session(tmp_path, report_seconds=1.0) as opened:
        critical = WorkloadType.LATENCY_CRITICAL
        asked = measured(opened, "svc", "sleep 300", load, both, critical)
        assert await_reading(opened, "svc", Quantity.THROUGHPUT, positive).value == 120
        assert await_reading(opened, "svc", Quantity.LATENCY, positive).value == pytest.approx(
            0.0025
        )
        assert names(loads) == {"svc.1"}
        # Another manager finds it and goes on with it.
        opened.reopen()
        opened.perform(asked)
        await_reading(opened, "svc", Quantity.THROUGHPUT, positive)
        assert names(loads) == {"svc.1"}
        opened.perform(act.StopWorkload("svc", 0.0))
        finished(opened, "svc")
        wait_until(lambda: opened.take_in() is None and load_log(opened).ended)
        said = load_log(opened).data
        assert set(said.splitlines()) == {b"rps=120 p99=2.5"}, "as the service's own output"
        opened.reopen()
        wait_until(lambda: opened.take_in() is None and load_log(opened).ended)
        assert load_log(opened).data == said, "another manager has it, too"
        opened.perform(act.ForgetWorkload("svc"))
        wait_until(lambda: opened.take_in() is None and not loads.exists())


def test_a_load_generator_that_ends_is_started_again(tmp_path: Path) -> None:
    loads = tmp_path / "state" / ".loads"
    load = Measure(load_command=("echo", "ops", "120"), load_regex=r"ops (\d+)")
    target = Target(throughput_per_second=100)
    with session(tmp_path, report_seconds=1.0) as opened:
        measured(opened, "svc", "sleep 300", load, target, WorkloadType.LATENCY_CRITICAL)

        def again() -> bool:
            opened.take_in(0.05)
            return loads.exists() and any(int(n.rpartition(".")[2]) > 2 for n in names(loads))

        wait_until(again, what="a third run")
        opened.perform(act.StopWorkload("svc", 0.0))
        finished(opened, "svc")
        opened.take_in()
        both = load_log(opened).data
        assert set(both.splitlines()) == {b"ops 120"}
        opened.reopen()
        opened.take_in()
        assert load_log(opened).data == both
        opened.perform(act.ForgetWorkload("svc"))
        wait_until(lambda: opened.take_in() is None and not loads.exists())


def test_a_load_generator_that_is_stopped_as_it_begins_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = machine.launch

    def launch_late(run_dir: Path, spec: LaunchSpec) -> Supervisor:
        supervisor = launch(run_dir, spec)
        if run_dir.parent.name == ".loads":
            os.kill(supervisor.pid, signal.SIGSTOP)
        return supervisor

    monkeypatch.setattr(machine, "launch", launch_late)
    load = Measure(load_command=("sleep", "300"), load_regex=r"ops (\d+)")
    target = Target(throughput_per_second=100)
    with session(tmp_path) as opened:
        measured(opened, "svc", "sleep 300", load, target, WorkloadType.LATENCY_CRITICAL)
        opened.perform(act.StopWorkload("svc", 0.0))
        while not opened.ends("svc"):
            opened.take_in(0.01)
        opened.reopen()
        opened.perform(act.ForgetWorkload("svc"))
        loads = tmp_path / "state" / ".loads"
        wait_until(lambda: opened.take_in() is None and not loads.exists())


@pytest.mark.long
def test_a_load_generators_last_words_are_read(tmp_path: Path) -> None:
    """Most tell their figures when they end."""
    load = Measure(load_command=("sh", "-c", "sleep 2.5; echo ops 120"), load_regex=r"ops (\d+)")
    target = Target(throughput_per_second=100)
    with session(tmp_path, report_seconds=1.0) as opened:
        measured(opened, "svc", "sleep 300", load, target, WorkloadType.LATENCY_CRITICAL)
        assert await_reading(opened, "svc", Quantity.THROUGHPUT, positive).value == 120
        opened.perform(act.StopWorkload("svc", 0.0))
        finished(opened, "svc")
        opened.perform(act.ForgetWorkload("svc"))
        wait_until(lambda: opened.take_in() is None and not (tmp_path / "state/.loads").exists())


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (
            ("sh", "-c", "echo cannot connect >&2; exit 1"),
            "load generator ended with exit status 1: cannot connect",
        ),
        (("sh", "-c", "exit 3"), "ended with exit status 3 and printed nothing"),
        (("no-such-program",), "load generator: no such program: 'no-such-program'"),
    ],
)
def test_a_load_generator_that_fails_is_why_there_is_no_signal(
    tmp_path: Path, command: tuple[str, ...], why: str
) -> None:
    load = Measure(load_command=command, load_regex=r"ops (\d+)")
    target = Target(throughput_per_second=100)
    with session(tmp_path, report_seconds=1.0) as opened:
        measured(opened, "svc", "sleep 300", load, target, WorkloadType.LATENCY_CRITICAL)
        await_silence(opened, "svc", Quantity.THROUGHPUT, why)


@pytest.mark.long
def test_users_see_what_is_achieved_and_the_meter_dies_with_its_manager(tmp_path: Path) -> None:
    live = LiveManager(tmp_path / "state", "--servers", "1")
    live.start()
    try:
        job = manifest(
            "job",
            "sh",
            "-c",
            COUNTING,
            target={"rate": "1/s"},
            measure={"progress": {"regex": LINES.progress_regex}},
        )
        live.submit(job)
        found = live.wait_for(lambda all_: all_["job"]["met"] is True)["job"]
        assert found["achieved"]["rate_per_second"] >= 1
        assert "progress lines" in live.run("describe", "workload", "job")
        assert "ServerMeasured" not in live.run("get", "events")
        assert "ServerMeasured" in live.run("get", "events", "--all")
        shown = live.run("get", "events", "--kind", "ServerMeasured").splitlines()[1:]
        assert shown
        assert all("ServerMeasured" in line for line in shown)
        meters = [pid for pid in children(live) if "monitor.meter" in command_of(pid)]
        assert len(meters) == 1
        live.kill()
        wait_until(lambda: is_gone(meters[0]))
        live.start()
        live.wait_for(lambda all_: all_["job"]["met"] is True)
        live.run("delete", "job")
        live.wait_for_all()
    finally:
        live.kill()


def children(live: LiveManager) -> list[int]:
    assert live.process is not None
    pid = live.process.pid
    return [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def command_of(pid: int) -> str:
    """Empty of one that has ended meanwhile."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(os.open("MARK", os.O_CREAT | os.O_WRONLY | os.O_APPEND), b"%d\\n" % os.getpid())
        time.sleep(300)
    os._exit(0)
os.wait()
print(7, flush=True)
time.sleep(LASTS)
"""


def daemons(mark: Path) -> list[int]:
    """Process ids of the daemons that a measuring command has left so far."""
    return [int(line) for line in mark.read_text().split()] if mark.exists() else []


@pytest.mark.long
@pytest.mark.parametrize(("lasts", "killed"), [("0.0", False), ("4.0", True)])
def test_what_a_measuring_command_leaves_ends_with_it(
    tmp_path: Path, lasts: str, killed: bool
) -> None:
    mark = tmp_path / "daemons"
    script = DAEMON.replace("MARK", str(mark)).replace("LASTS", lasts)
    live = LiveManager(tmp_path / "state", "--servers", "1", "--policy", "least-loaded")
    live.start()
    try:
        measure = {"command": [sys.executable, "-c", script]}
        live.submit(manifest("job", "sleep", "300", target={"rate": "1/s"}, measure=measure))
        if killed:  # The manager dies while a command and its daemon are at work.
            wait_until(lambda: daemons(mark), what="its daemon")
            live.kill()
        else:
            wait_until(lambda: len(daemons(mark)) >= 3, what="three daemons")
            live.run("delete", "job")
            live.wait_for_all()
        wait_until(lambda: all(map(is_gone, daemons(mark))), what="their end")
        if killed:
            live.start()
            live.run("delete", "job")
            live.wait_for_all()
    finally:
        live.kill()


def test_what_escapes_its_reader_is_found_by_its_mark(tmp_path: Path) -> None:
    mark = tmp_path / "daemons"
    script = DAEMON.replace("MARK", str(mark)).replace("LASTS", "300")
    with session(tmp_path, report_seconds=1.0) as opened:
        measured(opened, "k", "sleep 300", Measure(command=(sys.executable, "-c", script)))
        meter = meter_of(opened)

        def one_escapes() -> bool:
            # A command that takes too long is ended by its reader, and another begins.
            alive = [pid for pid in daemons(mark) if not is_gone(pid)]
            readers = Path(f"/proc/{meter}/task/{meter}/children").read_text().split()
            if not alive or not readers:
                return False
            with suppress(ProcessLookupError):
                os.kill(int(readers[0]), signal.SIGKILL)
            wait_until(lambda: is_gone(int(readers[0])), what="the reader's end")
            return not is_gone(alive[-1])

        wait_until(one_escapes, what="a daemon without its reader")
        opened.perform(act.StopWorkload("k", 0.0))
        finished(opened, "k")
        wait_until(lambda: all(map(is_gone, daemons(mark))), what="their end")
