"""Every program of the catalog that is installed runs for real, and says how far it is."""

import os
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from wharfinger.catalog.listing import PROGRAMS, Program, prepare

ORDINARY = {"gzip", "sort-external", "sqlite-insert", "python-json", "python-web-application"}
STEPS = 3
DEADLINE_SECONDS = 240.0
REPORTS = 2


def parameters() -> Iterator[object]:
    for program in PROGRAMS:
        marks = [] if program.name in ORDINARY else [pytest.mark.long]
        yield pytest.param(program, id=program.name, marks=marks)


@contextmanager
def running(command: Sequence[str], directory: Path, log: Path) -> Iterator[subprocess.Popen[str]]:
    with log.open("w") as errors:
        process = subprocess.Popen(
            command,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
        # One that hangs, or a load generator whose service is gone, says nothing forever.
        alarm = threading.Timer(DEADLINE_SECONDS, os.killpg, (process.pid, signal.SIGKILL))
        alarm.start()
        try:
            yield process
        finally:
            alarm.cancel()
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


def matches(process: subprocess.Popen[str], regex: str, count: int) -> list[float]:
    """What the first lines that match say of work done; fewer where the program ends."""
    found: list[float] = []
    assert process.stdout is not None
    for line in process.stdout:
        if match := re.search(regex, line):
            named = match.groupdict()
            found.append(float(named["throughput"] if "throughput" in named else match[1]))
        if len(found) == count:
            break
    return found


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


@pytest.mark.parametrize("program", list(parameters()))
def test_it_runs(program: Program, tmp_path: Path):
    if program.missing():
        pytest.skip(f"not installed: {' '.join(program.missing())}")
    directory, log = tmp_path / "work", tmp_path / "errors"
    prepare(program, directory)
    workload = program.workload(directory, port=free_port())
    measure = workload.measure
    with running(workload.run.command, directory, log) as process:
        if measure.load_command is None:
            counts = matches(process, measure.progress_regex or "", STEPS)
            if not counts and is_stand_in(log):
                pytest.skip(f"not the program of that name: {log.read_text().strip()}")
            assert counts == [1, 2, 3], log.read_text()
        else:
            with running(measure.load_command, directory, tmp_path / "load") as load:
                throughputs = matches(load, measure.load_regex or "", REPORTS)
            assert len(throughputs) == REPORTS, log.read_text()
            assert min(throughputs) > 0


def is_stand_in(log: Path) -> bool:
    """Some machines have another program under the name of one that is not installed."""
    return "not installed" in log.read_text()
