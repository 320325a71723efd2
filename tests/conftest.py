"""What holds for every test: hypothesis profiles, the root marker, no leftover processes."""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase

# Examples for each tier of scripts/test. Only the long one tries others each time, so that chance
# fails nobody's change, and prints the blob that repeats a failure. Deadlines are off: the
# machines that run this are shared.
COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("few", COMMON, max_examples=10, derandomize=True, database=None)
settings.register_profile("usual", COMMON, max_examples=20, derandomize=True, database=None)
settings.register_profile(
    "many",
    COMMON,
    max_examples=60,
    print_blob=True,
    database=DirectoryBasedExampleDatabase(".cache/hypothesis"),
)
settings.load_profile("usual")

GRACE_SECONDS = 20.0
"""For what was told to end; a busy machine takes its time, and nothing else waits so long."""
MARK = "WHARFINGER_TEST"


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("root") and os.geteuid() != 0:
        pytest.skip("needs root")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell ``scripts/test`` which tests failed, one on a line; a crash of a worker is no test's."""
    path = os.environ.get("WHARFINGER_FAILED_TESTS")
    if path is None:
        return
    reports = [*terminalreporter.getreports("failed"), *terminalreporter.getreports("error")]
    with Path(path).open("a") as failed:
        for report in reports:
            crashed = "crashed while running" in report.longreprtext
            failed.write(f"{'crashed: ' * crashed}{report.nodeid}\n")


@pytest.fixture(autouse=True)
def leaves_no_processes(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails a test that leaves processes behind, daemons included, and ends them.

    Everything that the test starts inherits a mark in its environment. A process that was
    given a clean environment is found only while it is a child of the test process.
    """
    mark = f"{os.getpid()}:{time.monotonic_ns()}"
    before = _pids()
    os.environ[MARK] = mark
    try:
        yield
    finally:
        del os.environ[MARK]
    left = _wait_for_end(before, mark)
    if left:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        names = "; ".join(f"{pid} {name}" for pid, name in left.items())
        pytest.fail(f"{request.node.name} left processes behind: {names}")


def _wait_for_end(before: set[int], mark: str) -> dict[int, str]:
    deadline = time.monotonic() + GRACE_SECONDS
    while (left := _left_over(before, mark)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return left


def _left_over(before: set[int], mark: str) -> dict[int, str]:
    return {pid: _command(pid) for pid in _pids() - before if _runs_for(pid, mark)}


def _pids() -> set[int]:
    return {int(name) for name in os.listdir("/proc") if name.isdigit()}  # noqa: PTH208 - fast


def _runs_for(pid: int, mark: str) -> bool:
    try:
        # After the command's name, which may hold spaces: state, parent.
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
        if state in "ZX":
            return False
        if int(parent) == os.getpid():
            return True
        return f"{MARK}={mark}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return False  # it ended meanwhile, or is another user's


def _command(pid: int) -> str:
    try:
        return (
            Path(f"/proc/{pid}/cmdline")
            .read_bytes()
            .replace(b"\0", b" ")
            .decode(errors="replace")
            .strip()
        )
    except OSError:
        return "(ended)"
