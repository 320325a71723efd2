"""Each reader on something real: files, processes, servers."""

import contextlib
import http.server
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from tests.support import wait_until
from wharfinger.monitor import counters
from wharfinger.monitor.commands import Command, numbers
from wharfinger.monitor.endpoint import MAX_BYTES, Endpoint
from wharfinger.monitor.patterns import LinePattern, TookTooLong
from wharfinger.monitor.source import ReaderError
from wharfinger.monitor.streams import CHUNK_BYTES, FileStream, LoadStream, OutputStream

T = TypeVar("T")


# --- patterns ---------------------------------------------------------------------------------


def test_the_newest_line_counts():
    assert LinePattern(r"ops=(\d+)").newest(["ops=1", "ops=2", "nothing"]) == {"number": 2.0}


def test_named_groups_are_gathered_from_several_lines():
    pattern = LinePattern(r"rps (?P<throughput>[\d.,]+)|p99 (?P<latency_ms>[\d.]+)")
    lines = ["rps 1", "rps 1,200.5", "p99 2.5"]
    assert pattern.newest(lines) == {"throughput": 1200.5, "latency_ms": 2.5}


def test_a_pattern_that_backtracks_for_ever_is_ended():
    with pytest.raises(TookTooLong):
        LinePattern(r"(a+)+$").newest(["a" * 60 + "!"], limit_seconds=0.05)
    assert LinePattern(r"(\d)").newest(["7"]) == {"number": 7.0}


@pytest.mark.parametrize("text", ["x", "nan", "1e999", ""])
def test_what_is_no_number_is_said(text: str):
    with pytest.raises(ValueError, match=r"."):
        LinePattern(r"n=(.*)").newest([f"n={text}"])


# --- streams ----------------------------------------------------------------------------------


def test_lines_come_once_and_whole(tmp_path: Path):
    path = tmp_path / "progress"
    path.write_text("one\ntwo\rthr")
    stream = FileStream(path)
    assert stream.read() == ["one", "two"]
    with path.open("a") as file:
        file.write("ee\n")
    assert stream.read() == ["three"]
    assert stream.read() == []


def test_a_file_that_was_cut_or_replaced_is_read_from_its_beginning(tmp_path: Path):
    path = tmp_path / "progress"
    path.write_text("first line\n")
    stream = FileStream(path)
    stream.read()
    path.write_text("cut\n")
    assert stream.read() == ["cut"]
    (tmp_path / "new").write_text("another file\n")
    (tmp_path / "new").rename(path)
    assert stream.read() == ["another file"]


def test_of_much_only_the_end_is_read_and_no_half_line(tmp_path: Path):
    path = tmp_path / "progress"
    path.write_text("".join(f"n={number:07}\n" for number in range(20_000)))
    lines = FileStream(path).read()
    assert lines[-1] == "n=0019999"
    assert {len(line) for line in lines} == {9}
    assert len(lines) * 10 <= CHUNK_BYTES


def test_what_is_no_file_blocks_nobody(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "missing"):
        with pytest.raises(OSError, match=r"."):
            FileStream(path).read()


def test_output_is_followed_over_its_segments(tmp_path: Path):
    (tmp_path / "output.00000000000000000000").write_text("one\ntw")
    stream = OutputStream(tmp_path)
    assert stream.read() == ["one"]
    (tmp_path / "output.00000000000000000006").write_text("o\nthree\n")
    assert stream.read() == ["two", "three"]


def test_a_load_generators_next_run_is_found(tmp_path: Path):
    for number in (1, 2):
        (tmp_path / f"k.{number}").mkdir()
        (tmp_path / f"k.{number}" / "output.00000000000000000000").write_text(f"run {number}\n")
    stream = LoadStream(tmp_path / "k.")
    assert stream.read() == ["run 1", "run 2"]
    (tmp_path / "k.10").mkdir()
    (tmp_path / "k.10" / "output.00000000000000000000").write_text("run 10\n")
    assert stream.read() == ["run 10"]
    assert LoadStream(tmp_path / "gone" / "k.").read() == []


# --- endpoints --------------------------------------------------------------------------------


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers by the path; ``/slow`` waits until the test is over."""

    released = threading.Event()

    def do_GET(self) -> None:
        if self.path == "/slow":
            self.released.wait(60)
        if self.path.startswith("/to/"):
            self.send_response(302)
            self.send_header(
                "Location",
                {"/to/self": "/to/self", "/to/ok": "/ok"}.get(
                    self.path, "http://localhost.invalid/"
                ),
            )
            self.end_headers()
            return
        self.send_response(200 if self.path != "/broken" else 500)
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(b"1" * (MAX_BYTES + 2) if self.path == "/large" else b"42\n")

    def log_message(self, *arguments: object) -> None:
        """Nothing."""


@pytest.fixture
def server() -> Iterator[str]:
    Handler.released.clear()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{serving.server_port}"
        Handler.released.set()
        serving.shutdown()
        thread.join()


def await_answer(take: Callable[[], T | None]) -> T:
    answers: list[T] = []

    def look() -> bool:
        answer = take()
        answers.extend([] if answer is None else [answer])
        return bool(answers)

    wait_until(look)
    return answers[0]


@pytest.mark.parametrize("path", ["/ok", "/to/ok"])
def test_an_answer_comes_with_the_time_when_it_was_asked(server: str, path: str):
    endpoint = Endpoint(server + path, limit_seconds=60.0)
    before = time.monotonic()
    asked_at, text = await_answer(endpoint.take)
    assert text == "42\n"
    assert before <= asked_at <= time.monotonic()
    endpoint.close()


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/broken", "status 500"),
        ("/large", "larger than"),
        ("/to/self", "more than 3 times"),
        ("/to/elsewhere", "another host"),
        ("/slow", "no answer within 0.2 s"),
    ],
)
def test_what_is_no_answer_says_why(server: str, path: str, why: str):
    endpoint = Endpoint(server + path, limit_seconds=0.2 if path == "/slow" else 60.0)
    with pytest.raises(ReaderError, match=why):
        await_answer(endpoint.take)
    endpoint.close()


def test_nobody_there_says_so():
    with pytest.raises(ReaderError, match="refused"):
        await_answer(Endpoint("http://127.0.0.1:1/", limit_seconds=60.0).take)


# --- commands ---------------------------------------------------------------------------------

ENV = {"PATH": os.environ["PATH"]}


def test_a_commands_number_is_read():
    command = Command(("sh", "-c", "echo 1,234.5"), ENV, "/", limit_seconds=60.0)
    assert await_answer(command.take)[1] == {"number": 1234.5}
    command.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run programs as others")
def test_a_command_runs_as_its_workloads_user():
    script = "echo $(id -u)000$(id -g)000$(id -G | tr -d ' ')"
    user = (65534, 65533, 65533, 7)
    command = Command(("sh", "-c", script), ENV, "/", limit_seconds=60.0, user=user)
    printed = await_answer(command.take)[1]
    assert printed == {"number": float("6553400065533000655337")}
    command.close()


def test_a_late_command_is_killed_with_what_it_started(tmp_path: Path):
    mark = tmp_path / "pid"
    script = f"sleep 300 & echo $! > {mark}; wait"
    command = Command(("sh", "-c", script), ENV, "/")
    with pytest.raises(ReaderError, match=r"longer than 0 s"):
        await_lateness(command, mark)
    pid = int(mark.read_text())
    wait_until(lambda: not is_alive(pid))


def await_lateness(command: Command, mark: Path) -> None:
    """Its time is over as soon as it has said so there."""
    assert command.take() is None
    wait_until(lambda: mark.exists() and mark.read_text(), what="it has begun")
    command._limit_seconds = 0.0
    await_answer(command.take)


DAEMON = """
import os, pathlib, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))
        time.sleep(300)
    os._exit(0)
os.wait()
while not os.path.exists(sys.argv[1]) or not pathlib.Path(sys.argv[1]).read_text():
    time.sleep(0.01)
print(7, flush=True)
time.sleep(float(sys.argv[2]))
"""
"""Leaves a daemon, which has a session of its own and no parent."""


@pytest.mark.parametrize("lasts", ["0", "300"])
def test_a_daemon_ends_with_the_run_that_started_it(tmp_path: Path, lasts: str):
    mark = tmp_path / "pid"
    program = (sys.executable, "-c", DAEMON, str(mark), lasts)
    command = Command(program, ENV, "/", limit_seconds=60.0)
    if lasts == "0":
        assert await_answer(command.take)[1] == {"number": 7.0}
    else:
        with pytest.raises(ReaderError, match="longer than"):
            await_lateness(command, mark)
    assert not is_alive(int(mark.read_text()))
    command.close()


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (("no-such-program",), "No such file"),
        (("sh", "-c", "exit 3"), "status 3"),
        (("sh", "-c", "exit 127"), "status 127"),
        (("sh", "-c", "kill -9 $$"), "signal 9"),
        (("echo", "hello"), "no number"),
    ],
)
def test_a_command_without_a_number_says_why(command: tuple[str, ...], why: str):
    run = Command(command, ENV, "/", limit_seconds=60.0)
    with pytest.raises(ReaderError, match=why):
        await_answer(run.take)
    run.close()


def test_numbers_have_names_or_none():
    assert numbers("throughput: 5\nother 7\n") == {"throughput": 5.0}


# --- CPU time and counters --------------------------------------------------------------------


def burn() -> int:
    """Start a child that computes until it is killed."""
    return os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, "-c", "while True: pass"])


def test_cpu_time_of_a_tree_grows_while_it_computes():
    pid = burn()
    try:
        wait_until(lambda: (counters.cpu_seconds("", os.getpid()) or 0.0) > 0.2)
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


@pytest.mark.parametrize(
    ("text", "seconds"), [("usage_usec 1500000\nuser_usec 1\n", 1.5), ("2500000000\n", 2.5)]
)
def test_cpu_time_of_either_version_of_cgroups(tmp_path: Path, text: str, seconds: float):
    (tmp_path / "file").write_text(text)
    assert counters.cpu_seconds(str(tmp_path / "file"), 0) == seconds


def test_nothing_to_read_is_not_zero():
    assert counters.cpu_seconds("/no/such/file", 0) is None


def test_counters_of_the_kernel_count_a_real_program():
    pid = burn()
    try:
        counted = counters.open_counters([counters.TASK_CLOCK], "", os.getpid())
    except counters.NoCounters as error:
        pytest.skip(str(error))
    else:
        wait_until(lambda: counted.read()[0] > 1e7)
        counted.close()
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


def test_hardware_without_counters_says_so():
    events = [counters.INSTRUCTIONS, counters.BRANCHES]
    pid = burn()
    try:
        counted = counters.open_counters(events, "", os.getpid())
    except counters.NoCounters as error:
        assert "no counters" in str(error)
    else:
        wait_until(lambda: counted.read()[0] > 1e6)
        counted.close()
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
