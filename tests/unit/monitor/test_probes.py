"""What probes conclude from their attempts, by a clock of the test's own."""

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import wait_until
from wharfinger.model.workload import HttpMeasure, Measure, Probe, Run, Workload, WorkloadType
from wharfinger.monitor.probes import (
    LOOK_SECONDS,
    REASON_SECONDS,
    Health,
    HealthNews,
    HealthWord,
)
from wharfinger.monitor.spec import WatchSpec, spec_of

READY, UNREADY, NOT_ALIVE = HealthWord.READY, HealthWord.UNREADY, HealthWord.NOT_ALIVE


class Probed:
    """A health whose clock goes on by the probe's period between two attempts."""

    def __init__(self, run_dir: Path, **probes: Probe) -> None:
        self.now = 0.0
        self.spec = WatchSpec("k", str(run_dir), env={"PATH": "/usr/bin:/bin"}, **probes)
        self.health = Health(self.spec, lambda: self.now)

    def attempts(self, count: int = 1) -> list[HealthNews]:
        """Let so many attempts of each probe come to their end; what was told."""
        news: list[HealthNews] = []
        probers = [p for p in (self.health._ready, self.health._alive) if p]
        for _ in range(count):
            done: set[int] = set()

            def all_done(done: set[int] = done) -> bool:
                before = [prober.due for prober in probers]
                news.extend(self.health.look())
                done.update(
                    number
                    for number, prober in enumerate(probers)
                    if prober._attempt is None and prober.due != before[number]
                )
                self.now += LOOK_SECONDS
                return len(done) == len(probers) or not self.health._probers()

            wait_until(all_done)
            self.now = max([self.now, *(prober.due for prober in probers)])
        return news


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def port_of(server: socket.socket) -> int:
    return int(server.getsockname()[1])


def test_it_is_ready_at_the_first_success_and_unready_after_failures_in_a_row(
    tmp_path: Path, listening: socket.socket
) -> None:
    port = port_of(listening)
    probed = Probed(tmp_path, ready=Probe(port=port, timeout_seconds=600.0, failures=2))
    assert probed.health.why_not_ready == "not probed yet"
    assert probed.attempts(2) == [HealthNews(READY)]
    listening.close()
    assert probed.attempts() == []
    assert not probed.health.why_not_ready
    why = f"port {port}: connection refused"
    assert probed.attempts(3) == [HealthNews(UNREADY, why)]
    assert probed.health.why_not_ready == why


def test_a_new_meter_takes_no_single_failure_of_a_ready_service_for_news(
    tmp_path: Path, listening: socket.socket
) -> None:
    ready = Probe(port=port_of(listening), timeout_seconds=600.0, failures=3)
    assert Probed(tmp_path, ready=ready).attempts() == [HealthNews(READY)]
    listening.close()
    again = Probed(tmp_path, ready=ready)
    assert again.attempts(2) == []
    assert [each.word for each in again.attempts()] == [UNREADY]


def test_another_reason_is_told_only_now_and_then(tmp_path: Path) -> None:
    flag = tmp_path / "status"
    flag.write_text("3")
    command = ("sh", "-c", f"exit $(cat {flag})")
    probed = Probed(tmp_path, ready=Probe(command=command, timeout_seconds=600.0))
    assert probed.attempts() == [HealthNews(UNREADY, "sh ended with status 3")]
    flag.write_text("4")
    assert probed.attempts() == []
    probed.now += REASON_SECONDS
    assert probed.attempts() == [HealthNews(UNREADY, "sh ended with status 4")]
    probed.health.close()


def test_liveness_begins_when_it_is_ready_and_is_told_after_failures_in_a_row(
    tmp_path: Path,
) -> None:
    ready, alive = tmp_path / "r", tmp_path / "a"
    probes = {
        "ready": Probe(command=("test", "-e", str(ready)), timeout_seconds=600.0),
        "alive": Probe(command=("test", "-e", str(alive)), timeout_seconds=600.0, failures=2),
    }
    probed = Probed(tmp_path, **probes)
    news = [each.word for _ in range(4) for each in probed.health.look()]
    assert NOT_ALIVE not in news
    ready.touch()
    wait_until(lambda: probed_is_ready(probed))
    told = probed.attempts(4)
    dead = [each.reason for each in told if each.word is NOT_ALIVE]
    assert dead[0] == "test ended with status 1 (2 times in a row)"
    # Another manager's does not wait for it to become ready.
    ready.unlink()
    again = Probed(tmp_path, **probes)
    assert any(each.word is NOT_ALIVE for each in again.attempts(3))
    for each in (probed, again):
        each.health.close()


def probed_is_ready(probed: Probed) -> bool:
    probed.health.look()
    probed.now += 0.1
    return not probed.health.why_not_ready


def test_what_is_late_has_failed_and_is_ended(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    command = ("sh", "-c", f"echo $$ > {mark}; exec sleep 300")
    probed = Probed(tmp_path, ready=Probe(command=command, timeout_seconds=2.0))
    assert probed.health.look() == []
    wait_until(lambda: mark.exists() and mark.read_text())
    probed.now += 2.0
    assert probed.health.look() == [HealthNews(UNREADY, "no answer within 2 s")]
    pid = int(mark.read_text())
    wait_until(lambda: not Path(f"/proc/{pid}").exists())


def test_a_program_that_is_not_there_says_so(tmp_path: Path) -> None:
    probed = Probed(tmp_path, ready=Probe(command=("no-such-program",), timeout_seconds=600.0))
    (news,) = probed.attempts()
    assert news.reason == "cannot run no-such-program: No such file or directory"


def test_a_suspended_program_is_left_alone(tmp_path: Path) -> None:
    probed = Probed(tmp_path, alive=Probe(command=("false",), failures=1, timeout_seconds=600.0))
    probed.health.pause(paused=True)
    assert probed.health.due == float("inf")
    assert probed.health.look() == []
    probed.health.pause(paused=False)
    assert [each.word for each in probed.attempts()] == [NOT_ALIVE]


def test_lines_are_searched_from_the_start_in_all_segments(tmp_path: Path) -> None:
    (tmp_path / "output.00000000000000000000").write_text("server ready\n" + "x\n" * 100_000)
    probed = Probed(tmp_path, ready=Probe(line="^server (ready|up)$"))
    assert probed.attempts() == [HealthNews(READY)]
    assert probed.health.due == float("inf")


def test_a_line_that_does_not_come_says_which(tmp_path: Path) -> None:
    probed = Probed(tmp_path, ready=Probe(line="ready"))
    assert probed.attempts() == [HealthNews(UNREADY, "no line of its output matches 'ready' yet")]
    (tmp_path / "output.00000000000000000000").write_text("read")
    assert probed.attempts() == []
    with (tmp_path / "output.00000000000000000000").open("a") as output:
        output.write("y\n")
    assert probed.attempts() == [HealthNews(READY)]


@pytest.mark.slow
def test_a_pattern_that_backtracks_for_ever_says_so(tmp_path: Path) -> None:
    (tmp_path / "output.00000000000000000000").write_text("a" * 60 + "!\n")
    (news,) = Probed(tmp_path, ready=Probe(line="(a+)+$")).attempts()
    assert "took longer than 0.5 s" in news.reason


def test_the_spec_says_what_is_probed_and_what_must_be_reached() -> None:
    ready = Probe(port=6379, failures=2)
    load = Measure(load_command=("load",), load_regex="(1)", http=HttpMeasure("http://h:81/x"))
    kind = WorkloadType.LATENCY_CRITICAL
    where = WatchSpec("k", "/", load_runs="/x.")
    stated = spec_of(where, Workload("w", kind, Run((sys.executable,), ready=ready), measure=load))
    assert (stated.ready, stated.reach, stated.runs_commands) == (ready, "", False)
    assert WatchSpec.from_json(stated.to_json()) == stated
    unstated = spec_of(where, Workload("w", kind, Run((sys.executable,)), measure=load))
    assert (unstated.ready, unstated.reach) == (None, "http://h:81/x")
