"""Real services with probes under the local engine: ready, loaded, measured, not alive."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.local import finished, is_gone, names, session, start, started
from tests.support.profiling import measured
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.engines.local import LocalEngine
from wharfinger.engines.supervised.run import LocalRun
from wharfinger.errors import NotFound
from wharfinger.model.performance import Quantity, Sample
from wharfinger.model.profile import ProfilingPlan
from wharfinger.model.workload import (
    HttpMeasure,
    Measure,
    Probe,
    Run,
    Target,
    Workload,
    WorkloadType,
)
from wharfinger.testing.harness import Session

SERVICE = """
import http.server, pathlib, sys, time
port, hang, go = int(sys.argv[1]), *map(pathlib.Path, sys.argv[2:])
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        while hang.exists():
            time.sleep(0.1)
        self.send_response(200)
        self.end_headers()
    def log_message(self, *arguments):
        pass
print("ops 7 before it is ready", flush=True)
while not go.exists():
    time.sleep(0.05)
server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
print("accepting connections", flush=True)
server.serve_forever()
"""

LOAD = """
import socket, sys, time
socket.create_connection(("127.0.0.1", int(sys.argv[1])), 60).close()
while True:
    print("ops 120", flush=True)
    time.sleep(0.2)
"""
"""Fails at once where nothing listens, and then does not end by itself."""

OPS = r"ops (\d+)"
TARGET = Target(throughput_per_second=100)


def service(tmp_path: Path, port: int, run: Run, measure: Measure | None = None) -> Workload:
    program = tmp_path / "service.py"
    program.write_text(SERVICE)
    files = (str(tmp_path / "hang"), str(tmp_path / "go"))
    command = (sys.executable, str(program), str(port), *files)
    load = Measure(load_command=(sys.executable, "-c", LOAD, str(port)), load_regex=OPS)
    kind, run = WorkloadType.LATENCY_CRITICAL, replace(run, command=command)
    return Workload("svc", kind, run, TARGET, measure=measure or load)


def probe_of(flag: Path, *, failures: int) -> Probe:
    """Whether it is there; none fails because the machine is busy."""
    command = ("test", "-e", str(flag))
    return Probe(command=command, every_seconds=0.1, timeout_seconds=20.0, failures=failures)


def run_measured(opened: Session, workload: Workload) -> act.MeasureWorkload:
    action = start(opened, workload.name, "")
    started(opened, replace(action, workload=workload))
    asked = act.MeasureWorkload(workload.name, workload)
    opened.perform(asked)
    return asked


def readiness(opened: Session, key: str = "svc") -> list[ev.ReadinessChanged]:
    return [report for report in opened.about(key) if isinstance(report, ev.ReadinessChanged)]


def await_ready(opened: Session, *, ready: bool = True) -> ev.ReadinessChanged:
    opened.wait_until(
        lambda: readiness(opened) and readiness(opened)[-1].ready is ready, f"ready={ready}"
    )
    return readiness(opened)[-1]


def samples(opened: Session) -> list[Sample]:
    measured = (report for report in opened.reports if isinstance(report, ev.ServerMeasured))
    return [sample for report in measured for sample in report.samples if sample.key == "svc"]


def silences(opened: Session) -> list[str]:
    """Why there was no number, oldest first."""
    silent = [sample.silent.get(Quantity.THROUGHPUT) for sample in samples(opened)]
    return [each.reason for each in silent if each is not None]


def reads(sample: Sample) -> bool:
    return Quantity.THROUGHPUT in sample.readings


@contextmanager
def running(tmp_path: Path) -> Iterator[Session]:
    """At the end the service is stopped and forgotten, and its load generator with it."""
    with session(tmp_path, report_seconds=1.0) as opened:
        opened.deadline_seconds = 60.0
        yield opened
        opened.perform(act.StopWorkload("svc", 0.0))
        opened.wait_for_end("svc")
        opened.wait_until(lambda: load_has_ended(opened), "end of the load")
        opened.perform(act.ForgetWorkload("svc"))
        opened.wait_until(lambda: not (tmp_path / "state" / ".loads").exists(), "end of its output")


def load_has_ended(opened: Session) -> bool:
    """Also where there was none."""
    try:
        chunk = opened.engine.read_log("svc", source="load")
    except NotFound:
        return True
    return opened.engine.read_log("svc", chunk.next_offset, source="load").ended


def test_a_service_is_loaded_when_it_is_ready_and_stopped_when_it_answers_no_more(
    tmp_path: Path, port: int
) -> None:
    url = f"http://127.0.0.1:{port}/"
    alive = Probe(http=url, every_seconds=0.2, timeout_seconds=3.0, failures=2)
    probes = Run((), ready=Probe(port=port, every_seconds=0.2), alive=alive)
    with running(tmp_path) as opened:
        asked = run_measured(opened, service(tmp_path, port, probes))
        why = f"port {port}: connection refused"
        assert await_ready(opened, ready=False).reason == why
        opened.wait_until(lambda: f"not ready: {why}" in silences(opened), "no number, and why")
        (tmp_path / "go").touch()
        await_ready(opened)
        opened.wait_until(lambda: any(map(reads, samples(opened))), "a first number")
        # One that came too early would have failed.
        assert names(tmp_path / "state" / ".loads") == {"svc.1"}
        read = opened.engine.read_log
        assert read("svc", source="load").data.startswith(b"ops 120\n")
        assert read("svc", -4, source="load").data
        assert read("svc").data.startswith(b"ops 7 before it is ready\n")
        # The next manager finds out again that it is ready, and then that it is not alive.
        opened.reopen()
        opened.perform(asked)
        await_ready(opened)
        (tmp_path / "hang").touch()
        end = finished(opened, "svc")
        assert end.reason == "not-alive"
        assert end.last_output == "accepting connections"
        told_last = readiness(opened)[-1]
        assert not told_last.ready
        assert told_last.reason.startswith("not alive: ")
        # By the connection's limit or by the probe's, which end at the same moment.
        assert told_last.reason.endswith("no answer within 3 s (2 times in a row)")
        opened.reopen()
        assert opened.ends("svc") == [end]
        opened.wait_until(lambda: load_has_ended(opened), "end of the load")
        assert opened.engine.read_log("svc", source="load").data.startswith(b"ops 120\n")


@pytest.mark.long
def test_one_that_hung_while_there_was_no_manager_is_stopped_by_the_next(
    tmp_path: Path, port: int
) -> None:
    """It was ready once, so it need not become so again before it is taken for dead."""
    url = f"http://127.0.0.1:{port}/"
    answers = Probe(http=url, every_seconds=0.2, timeout_seconds=3.0, failures=2)
    (tmp_path / "go").touch()
    with running(tmp_path) as opened:
        workload = service(tmp_path, port, Run((), ready=answers, alive=answers))
        asked = run_measured(opened, workload)
        await_ready(opened)
        (tmp_path / "hang").touch()
        opened.reopen()
        opened.perform(asked)
        assert finished(opened, "svc").reason == "not-alive"


def test_a_manager_killed_before_it_could_stop_what_is_not_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one does, even where the service answers again."""
    flag = tmp_path / "flag"
    flag.touch()
    there = probe_of(flag, failures=1)
    run = Run(("sleep", "300"), ready=there, alive=there)
    with running(tmp_path) as opened:
        run_measured(opened, Workload("svc", WorkloadType.LATENCY_CRITICAL, run))
        await_ready(opened)
        with monkeypatch.context() as dying:
            dying.setattr(LocalRun, "_request_stop", lambda run, grace_seconds: None)
            flag.unlink()
            noted = tmp_path / "state" / "svc" / "not-alive"
            opened.wait_until(noted.exists, "the note")
        flag.touch()
        opened.reopen()
        assert finished(opened, "svc").reason == "not-alive"


@pytest.mark.long
def test_what_is_suspended_is_not_taken_for_dead(tmp_path: Path, port: int) -> None:
    answers = Probe(http=f"http://127.0.0.1:{port}/", every_seconds=0.1, timeout_seconds=1.0)
    (tmp_path / "go").touch()
    workload = service(tmp_path, port, Run((), ready=answers, alive=answers), Measure())
    with running(tmp_path) as opened:
        run_measured(opened, workload)
        await_ready(opened)
        opened.perform(act.SuspendWorkload("svc"))
        opened.forget_reports()
        opened.wait_until(lambda: len(samples(opened)) >= 4, "four samples, seconds apart")
        assert not opened.ends("svc")
        assert not readiness(opened)
        opened.perform(act.ResumeWorkload("svc"))
        (tmp_path / "hang").touch()
        assert finished(opened, "svc").reason == "not-alive"


def test_what_is_being_stopped_is_stopped_and_not_dead(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    there = probe_of(flag, failures=1)
    script = f"trap 'rm {flag}; sleep 2; exit 0' TERM; : > {flag}; while :; do sleep 0.1; done"
    run = Run(("/bin/sh", "-c", script), ready=there, alive=there)
    with running(tmp_path) as opened:
        run_measured(opened, Workload("svc", WorkloadType.LATENCY_CRITICAL, run))
        await_ready(opened)
        opened.perform(act.StopWorkload("svc", 60.0))
        assert finished(opened, "svc").reason == "stopped"
        assert readiness(opened)[-1].ready


def test_a_line_is_searched_from_the_start_and_stays_found(tmp_path: Path) -> None:
    """Also by a meter and a manager that come after much other output."""
    said = Probe(line="accepting .* forever", every_seconds=0.2)
    script = "echo accepting x forever; head -c 200000 /dev/zero | tr '\\0' '\\n'; exec sleep 300"
    run = Run(("/bin/sh", "-c", script), ready=said)
    with running(tmp_path) as opened:
        asked = run_measured(opened, Workload("svc", WorkloadType.LATENCY_CRITICAL, run))
        await_ready(opened)
        for number in range(2):
            opened.reopen()
            opened.perform(asked)
            await_ready(opened)
            if number == 0:
                # As after a rotation that dropped it.
                for output in (tmp_path / "state" / "svc").glob("output.*"):
                    output.unlink()


@pytest.mark.long
def test_an_unready_service_is_told_and_not_measured(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    probe = probe_of(flag, failures=2)
    script = "while :; do echo ops 5; sleep 0.1; done"
    run = Run(("/bin/sh", "-c", script), ready=probe)
    lines = Measure(OPS)
    flag.touch()
    target = Target(throughput_per_second=1)
    workload = Workload("svc", WorkloadType.LATENCY_CRITICAL, run, target, measure=lines)
    with running(tmp_path) as opened:
        run_measured(opened, workload)
        opened.wait_until(lambda: any(map(reads, samples(opened))), "a first number")
        flag.unlink()
        assert await_ready(opened, ready=False).reason == "test ended with status 1"
        opened.forget_reports()
        opened.wait_until(lambda: samples(opened), "a sample")
        assert not any(map(reads, samples(opened)))
        silent = samples(opened)[-1].silent[Quantity.THROUGHPUT].reason
        assert silent == "not ready: test ended with status 1"


@pytest.mark.long
def test_a_meter_that_is_killed_is_replaced_and_says_nothing_twice(
    tmp_path: Path, port: int
) -> None:
    probes = Run((), ready=Probe(port=port, every_seconds=0.1, timeout_seconds=20.0))
    (tmp_path / "go").touch()
    with running(tmp_path) as opened:
        run_measured(opened, service(tmp_path, port, probes))
        await_ready(opened)
        opened.forget_reports()
        engine = opened.engine
        assert isinstance(engine, LocalEngine)
        meter = engine._measuring._client.pid
        assert meter is not None
        os.kill(meter, signal.SIGKILL)
        opened.wait_until(lambda: is_gone(meter) and any(map(reads, samples(opened))), "a number")
        assert not readiness(opened)


@pytest.mark.long
def test_a_load_generator_waits_for_the_url_that_is_measured(tmp_path: Path, port: int) -> None:
    """Without a probe of its own nothing is told of readiness."""
    workload = service(tmp_path, port, Run(()))
    url = f"http://127.0.0.1:{port}/"
    both = replace(workload.measure, http=HttpMeasure(url))
    with running(tmp_path) as opened:
        run_measured(opened, replace(workload, measure=both))
        opened.wait_until(lambda: samples(opened), "a sample of it while it is not ready")
        (tmp_path / "go").touch()
        opened.wait_until(lambda: any(map(reads, samples(opened))), "a first number")
        assert names(tmp_path / "state" / ".loads") == {"svc.1"}
        assert not readiness(opened)


SILENT_ONCE = """
import pathlib, sys, time
mark = pathlib.Path(sys.argv[1])
first = not mark.exists()
mark.touch()
print("no number" if first else "ops 120", flush=True)
time.sleep(300)
"""


@pytest.mark.long
def test_a_silent_load_generator_is_started_again(tmp_path: Path) -> None:
    command = (sys.executable, "-c", SILENT_ONCE, str(tmp_path / "mark"))
    load = Measure(load_command=command, load_regex=OPS)
    run = Run(("sleep", "300"))
    workload = Workload("svc", WorkloadType.LATENCY_CRITICAL, run, TARGET, measure=load)
    with running(tmp_path) as opened:
        run_measured(opened, workload)
        opened.wait_until(lambda: any(map(reads, samples(opened))), "a number of its second run")
        read = opened.engine.read_log
        chunk = read("svc", source="load")
        assert chunk.data == b"no number\n"
        assert read("svc", chunk.next_offset, source="load").data == b"ops 120\n"


@pytest.mark.parametrize("who", ["load", "own"])
def test_output_in_lumps_is_told(tmp_path: Path, who: str) -> None:
    script = "import time\nprint('x' * 8192, end='', flush=True); time.sleep(300)"
    busy = (sys.executable, "-c", script)
    load = Measure(load_command=busy, load_regex=OPS) if who == "load" else Measure(OPS)
    run = Run(("sleep", "300") if who == "load" else busy)
    workload = Workload("svc", WorkloadType.LATENCY_CRITICAL, run, TARGET, measure=load)
    with running(tmp_path) as opened:
        run_measured(opened, workload)

        def told() -> bool:
            return any("stdbuf -oL" in reason for reason in silences(opened))

        opened.wait_until(told, "the hint")


WARMING = """
import http.server, sys, time
ready_at = time.monotonic() + 2
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if time.monotonic() > ready_at else 503)
        self.end_headers()
    def log_message(self, *arguments):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""

SAYS_IT = """import threading
threading.Timer(2.5, lambda: print("ready", flush=True)).start()
"""

STRICT_LOAD = """
import sys, time, urllib.request
while True:
    began = time.monotonic()
    for _ in range(20):
        urllib.request.urlopen("http://127.0.0.1:" + sys.argv[1]).read()
    print("ops", round(20 / (time.monotonic() - began)), flush=True)
"""
"""Fails at the first answer that is an error."""


@pytest.mark.long
@pytest.mark.parametrize("way", ["http", "line"])
def test_a_copy_is_loaded_when_it_is_ready(tmp_path: Path, port: int, way: str) -> None:
    script = WARMING
    probe = Probe(http=f"http://127.0.0.1:{port}/", every_seconds=0.2)
    if way == "line":
        script = WARMING.replace("http.server.Threading", SAYS_IT + "http.server.Threading")
        probe = Probe(line="^ready$", every_seconds=0.2)
    run = Run((sys.executable, "-c", script, str(port)), ready=probe)
    load = Measure(load_command=(sys.executable, "-c", STRICT_LOAD, str(port)), load_regex=OPS)
    workload = Workload("svc", WorkloadType.LATENCY_CRITICAL, run, TARGET, measure=load)
    with session(tmp_path, servers=f"a={min(os.sched_getaffinity(0))}") as opened:
        if not opened.engine.capabilities.profiles:
            pytest.skip("no sandbox here")
        plan = ProfilingPlan("a", (1000,), 256 << 20, (), 3.0)
        found = measured(opened, act.ProfileWorkload("svc", workload, plan))
        assert found.performance[Quantity.THROUGHPUT][1000].value > 1
        assert found.runs == 1


@pytest.mark.long
def test_a_copy_that_never_gets_ready_says_so(tmp_path: Path) -> None:
    said = Run(("sleep", "300"), ready=Probe(line="never said"))
    workload = Workload("svc", WorkloadType.LATENCY_CRITICAL, said, TARGET, measure=Measure(OPS))
    with session(tmp_path, servers=f"a={min(os.sched_getaffinity(0))}") as opened:
        if not opened.engine.capabilities.profiles:
            pytest.skip("no sandbox here")
        opened.deadline_seconds = 150.0
        plan = ProfilingPlan("a", (1000,), 256 << 20, (), 3.0)
        opened.perform(act.ProfileWorkload("svc", workload, plan))
        failed = opened.wait_for(ev.ProfilingFailed, "svc")
        assert "not ready within 30 s: no line of its output matches 'never said'" in failed.reason


def test_ends_tell_the_last_line_and_the_peak_of_memory(tmp_path: Path) -> None:
    hold = "x=$(head -c 30000000 /dev/zero | tr '\\0' x)"
    script = f"{hold}; echo one; printf 'no such\\ttable\\n\\n'; exit 4"
    with running(tmp_path) as opened:
        started(opened, start(opened, "k", script))
        end = finished(opened, "k")
        assert (end.exit_code, end.last_output) == (4, "no such table")
        limited = opened.engine.capabilities.memory_limit
        assert end.memory_peak_bytes is None or end.memory_peak_bytes > 20_000_000
        assert end.memory_peak_bytes is not None or not limited


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run programs as others")
@pytest.mark.parametrize("where", ["live", "copy"])
def test_commands_that_probe_and_measure_run_as_the_workloads_user(
    tmp_path: Path, where: str
) -> None:
    command = ("sh", "-c", '[ "$(id -un)" = nobody ] && [ "$HOME" != /root ]')
    probe = Probe(command=command, timeout_seconds=20.0)
    run = Run(("sleep", "300"), ready=probe, user="nobody")
    measure = Measure(command=("id", "-u"))
    target = Target(rate_per_second=1)
    workload = Workload("svc", WorkloadType.BATCH, run, target, measure=measure)
    if where == "copy":
        with session(tmp_path, servers=f"a={min(os.sched_getaffinity(0))}") as opened:
            if not opened.engine.capabilities.profiles:
                pytest.skip("no sandbox here")
            plan = ProfilingPlan("a", (1000,), 256 << 20, (), 3.0)
            found = measured(opened, act.ProfileWorkload("svc", workload, plan))
        assert found.performance[Quantity.RATE][1000].value == pytest.approx(65534)
        return
    with running(tmp_path) as opened:
        run_measured(opened, workload)
        await_ready(opened)
        opened.wait_until(
            lambda: any(Quantity.RATE in sample.readings for sample in samples(opened)), "a number"
        )
        last = [sample for sample in samples(opened) if Quantity.RATE in sample.readings][-1]
        assert last.readings[Quantity.RATE].value == pytest.approx(65534)
