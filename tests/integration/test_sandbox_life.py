"""A sandbox from start to end: status, cap, load, crash, and the ordinary supervisor around it."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import wait_until
from tests.support.sandboxes import MEBIBYTE, Box, boxes, census, signal_of
from tests.support.supervised import Runs
from wharfinger.errors import EngineFault
from wharfinger.host.sandbox import (
    SandboxKind,
    SandboxOutcome,
    clean_up,
    describe_support,
    read_report,
    sandbox_path,
    sandboxed,
)


@pytest.fixture(params=["root", "user"])
def box(request: pytest.FixtureRequest) -> Iterator[Box]:
    yield from boxes(request.param)


@pytest.fixture
def own_box() -> Iterator[Box]:
    """Of whoever runs the tests."""
    yield from boxes("root" if os.geteuid() == 0 else "user")


def children_of(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f"\nPPid:\t{pid}\n" in (entry / "status").read_text():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


# --- status -----------------------------------------------------------------------------------


def test_the_exit_status_passes_through(box: Box):
    assert box.run("sh", "-c", "echo out; echo err >&2; exit 7").returncode == 7
    report = box.report()
    assert (report.outcome, report.exit_code) == (SandboxOutcome.MAIN_ENDED, 7)
    assert report.load_exit_code is None
    assert report.set_up_seconds >= 0


def test_a_signal_that_ends_it_passes_through(box: Box):
    assert signal_of(box.run("sh", "-c", "kill -ABRT $$").returncode) == signal.SIGABRT
    assert box.report().exit_code == -signal.SIGABRT


def test_output_and_environment_pass_through(box: Box):
    done = box.run("sh", "-c", 'echo "$HOME"; pwd; umask; echo err >&2')
    umask = os.umask(0)
    os.umask(umask)
    assert done.stdout.split() == [str(box.home), str(box.work), f"{umask:04o}"]
    assert done.stderr == "err\n"


@pytest.mark.parametrize(
    ("program", "status", "reason"),
    [
        ("wharfinger-no-such", 127, "No such file or directory"),
        ("./text", 126, "Permission denied"),
    ],
)
def test_a_program_that_cannot_be_run_is_told_as_such(
    box: Box, program: str, status: int, reason: str
):
    done = box.run(program)
    assert done.returncode == status
    assert done.stderr == f"wharfinger-sandbox: cannot run {program}: {reason}\n"
    assert box.report().outcome is SandboxOutcome.FAULT
    assert box.report().reason == f"cannot run {program}: {reason}"
    assert box.leftovers() == []


def test_a_sandbox_that_cannot_be_set_up_says_why(box: Box):
    arguments = [*box.prefix, *sandboxed_in(Path("/proc"), box), "--", "true"]
    done = box.finish(box.start(arguments))
    assert done.returncode == 125
    assert done.stderr.count("\n") == 1
    assert "/proc lies in /dev, /proc, /run or /sys" in done.stderr
    assert box.leftovers() == []


def sandboxed_in(working_directory: Path, box: Box) -> list[str]:
    return [
        str(sandbox_path()),
        f"--upper-base={box.base}",
        f"--working-directory={working_directory}",
        "--cap-bytes=1000000",
    ]


def test_a_cap_for_which_there_is_no_room_is_refused(box: Box):
    done = box.run("true", cap_bytes=1 << 60)
    assert done.returncode == 125
    assert "free some or lower the cap" in done.stderr


def test_support_is_found_out_by_a_trial(own_box: Box):
    expected = SandboxKind.WHOLE_ROOT if own_box.whole_root else SandboxKind.DIRECTORIES
    support = describe_support(own_box.base)
    assert (support.kind, support.reason) == (expected, "")
    assert own_box.leftovers() == []


def test_without_support_there_is_an_exact_reason(tmp_path: Path):
    support = describe_support(tmp_path / "missing")
    assert support.kind is SandboxKind.UNAVAILABLE
    assert support.reason == f"--upper-base={tmp_path}/missing: No such file or directory"


# --- the cap ----------------------------------------------------------------------------------

FILL = "while True:\n    n += 1; open(f'fill-{n}', 'wb').write(b'x' * (1 << 20))"
FILL_DELETED = """
import os
files = []
while True:
    file = open('fill', 'wb'); os.unlink('fill'); files.append(file)
    file.write(b'x' * (1 << 20)); file.flush()
"""


@pytest.mark.parametrize("script", ["n = 0\n" + FILL, FILL_DELETED], ids=["files", "deleted"])
def test_who_fills_the_disk_is_killed_at_the_cap(box: Box, script: str):
    before = census(box.home)
    done = box.python(script, cap_bytes=16 * MEBIBYTE)
    assert signal_of(done.returncode) == signal.SIGKILL
    assert "cap 16777216" in done.stderr
    report = box.report()
    assert report.outcome is SandboxOutcome.CAP
    assert report.exit_code is None
    assert report.used_bytes > 16 * MEBIBYTE
    assert census(box.home) == before
    assert box.leftovers() == []


def test_one_file_cannot_pass_the_cap_however_fast_it_is_reserved(box: Box):
    done = box.python(
        f"import os\nos.posix_fallocate(os.open('f', os.O_CREAT | os.O_RDWR), 0, {1 << 40})",
        cap_bytes=16 * MEBIBYTE,
    )
    assert done.returncode != 0
    assert box.leftovers() == []


def test_what_it_wrote_is_reported(box: Box):
    box.python("open('f', 'wb').write(bytes(5 << 20))")
    assert 5 * MEBIBYTE <= box.report().used_bytes < 8 * MEBIBYTE


# --- the load ---------------------------------------------------------------------------------

SERVE = """
import socket
server = socket.create_server(("127.0.0.1", 7001))
while True:
    server.accept()[0].sendall(b"served")
"""
ASK = """
import socket
print(socket.create_connection(("127.0.0.1", 7001)).recv(9).decode())
raise SystemExit(5)
"""


def test_the_load_runs_beside_the_service_once_it_listens(box: Box):
    output = box.out / "load"
    done = box.python(SERVE, load_command=(box.interpreter, "-c", ASK), load_output=output)
    assert signal_of(done.returncode) == signal.SIGTERM
    report = box.report()
    assert (report.outcome, report.load_exit_code) == (SandboxOutcome.LOAD_ENDED, 5)
    assert report.exit_code == -signal.SIGTERM
    assert output.read_text() == "served\n"
    assert done.stdout == ""


def test_the_load_ends_with_a_service_that_ends_first(box: Box):
    script = SERVE.replace("while True:", "if True:") + "raise SystemExit(4)"
    ask = ASK.replace("raise SystemExit(5)", "import signal; signal.pause()")
    done = box.python(script, load_command=(box.interpreter, "-c", ask))
    assert done.returncode == 4
    assert box.report().outcome is SandboxOutcome.MAIN_ENDED
    assert box.report().load_exit_code is None


def test_a_load_that_cannot_be_run_is_told_as_such(box: Box):
    done = box.python(SERVE, load_command=("wharfinger-no-such",))
    assert done.returncode == 127
    why = "cannot run the load generator wharfinger-no-such: No such file or directory"
    assert box.report().reason == why
    assert box.leftovers() == []


# --- the end by force -------------------------------------------------------------------------

STAY = "import os, signal\nopen('here', 'w').close()\nprint('up', flush=True)\nsignal.pause()"


def started(box: Box) -> subprocess.Popen[str]:
    process = box.start(box.command(box.interpreter, "-c", STAY))
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process


def test_a_killed_keeper_leaves_files_only_and_they_are_found(box: Box):
    process = started(box)
    tree = children_of(process.pid)
    tree += [pid for init in tree for pid in children_of(init)]
    assert len(tree) == 2
    assert clean_up(box.base) == 0, "a living one must be spared"
    process.kill()
    process.communicate()
    wait_until(lambda: all(map(is_gone, tree)), what="processes gone")
    assert len(box.leftovers()) == 1
    assert clean_up(box.base) == 1
    assert box.leftovers() == []
    assert not (box.work / "here").exists()


def test_a_killed_init_leaves_nothing(box: Box):
    process = started(box)
    [init] = children_of(process.pid)
    os.kill(init, signal.SIGKILL)
    done = box.finish(process)
    assert signal_of(done.returncode) == signal.SIGKILL
    assert box.report().outcome is SandboxOutcome.KILLED
    assert box.leftovers() == []


def test_an_interrupt_from_the_terminal_leaves_nothing(box: Box):
    process = started(box)
    process.send_signal(signal.SIGINT)
    assert signal_of(box.finish(process).returncode) == signal.SIGINT
    assert box.leftovers() == []


def test_what_resists_is_told(tmp_path: Path):
    with pytest.raises(EngineFault, match="missing: No such file or directory"):
        clean_up(tmp_path / "missing")


# --- under the supervisor ---------------------------------------------------------------------


def supervised(box: Box, *command: str) -> tuple[str, ...]:
    return sandboxed(
        command,
        working_directory=box.work,
        upper_base=box.base,
        cap_bytes=64 * MEBIBYTE,
        report=box.report_path,
    )


def test_under_the_supervisor_it_is_a_workload_like_any_other(own_box: Box, runs: Runs):
    run = runs.new()
    run.launch(
        *supervised(own_box, "sh", "-c", "echo hello; exit 9"), working_directory=own_box.work
    )
    record = run.end()
    assert (record.exit_code, record.signal) == (9, None)
    assert run.output() == b"hello\n"
    assert own_box.leftovers() == []


def test_a_stop_reaches_the_program_inside(own_box: Box, runs: Runs):
    run = runs.new()
    script = """
import signal, sys
def end(number, frame):
    print("asked")
    sys.exit(6)
signal.signal(signal.SIGTERM, end)
print("up", flush=True)
signal.pause()
"""
    command = supervised(own_box, own_box.interpreter, "-c", script)
    run.launch(*command, working_directory=own_box.work)
    wait_until(lambda: run.output() == b"up\n")
    run.stop(30)
    assert run.end().exit_code == 6
    assert run.output() == b"up\nasked\n"
    assert own_box.leftovers() == []


def test_a_killed_supervisor_takes_all_with_it(own_box: Box, runs: Runs):
    run = runs.new()
    supervisor = run.launch(
        *supervised(own_box, "sh", "-c", "echo up; exec sleep 1000"), working_directory=own_box.work
    )
    wait_until(lambda: run.output() == b"up\n")
    [keeper] = children_of(supervisor.pid)
    [init] = children_of(keeper)
    inside = children_of(init)
    os.kill(supervisor.pid, signal.SIGKILL)
    wait_until(lambda: all(map(is_gone, [keeper, init, *inside])), what="processes gone")
    assert clean_up(own_box.base) == 1
    assert own_box.leftovers() == []
    assert read_report(own_box.report_path) is None
