"""``wharfinger profile`` and ``pair`` with real programs: what they tell, refuse and leave."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.support import requires_root, wait_until
from tests.support.disk import slow_disk
from tests.support.live import LiveManager, manifest
from tests.support.local import is_gone
from wharfinger.cli.main import main
from wharfinger.errors import InvalidInput
from wharfinger.host.processes import descendants
from wharfinger.profiler import session
from wharfinger.profiler.program import RunningProcess, check_pid

COUNTER = """
import os, sys
done = 0
while True:
    sum(range(20_000))
    done += 1
    print(f"done={done}", flush=True)
"""
CPU = str(min(os.sched_getaffinity(0)))
COUNTING = ["--measure-regex", r"done=(\d+)", "--", sys.executable, "-c", COUNTER]
HERE = ["profile", "--sources", "integer", "--cpus", CPU]


def called(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    try:
        status = main([*words])
    except SystemExit as left:  # argparse's own.
        status = int(left.code or 0)
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """Its status and one line, with nothing left."""
    before = descendants(os.getpid())
    status, out, err = called(capsys, *words)
    assert out == ""
    assert err.count("\n") == 1
    assert descendants(os.getpid()) <= before
    return status, err


@pytest.mark.parametrize(
    ("words", "status", "line"),
    [
        (["--sources", "core", "--", "sleep", "9"], 2, "neither a source nor a set"),
        (["--", "no-such-program"], 2, "there is no such program"),
        ([], 2, "neither is given"),
        (["--cpus", "4095", "--", "sleep", "9"], 2, "4095 may not be used here"),
        (["--time-limit", "1s", "--", "sleep", "9"], 2, "sources need"),
        (["--measure-regex", "(", "--", "sleep", "9"], 2, "is not a regular expression"),
        (["--measure", "/no/file", "--", "sleep", "9"], 2, "/no/file: No such file"),
        (["--compare", "/no/file", "--", "sleep", "9"], 2, "/no/file: No such file"),
        (["--pid", "4194303"], 2, "no process that runs"),
        (["--calibration", "/no/file", "--", "sleep", "9"], 2, "/no/file: No such file"),
        (["--sibling", "--cpus", CPU, "--", "sleep", "9"], 2, "--sibling: "),
        (["--attach", "web", "--pid", "1"], 2, "several are given"),
        (["--attach", "web", "--state", "/no/state"], 1, "/no/state"),
        (["--sources", "interconnect", "--cpus", CPU, "--", "sleep", "9"], 1, "interconnect: "),
        (["--sources", "storage-bandwidth", "--directory", "/dev/shm", "--", "true"], 1, "signal"),
        (["--sources", "integer", "--", "sh", "-c", "echo not a tty; exit 1"], 1, "no terminal"),
        (["--sources", "integer", "--", "sh", "-c", "echo oh; exit 3"], 1, "ended with 3: oh"),
    ],
)
def test_what_is_wrong_is_one_line(
    capsys: pytest.CaptureFixture[str], words: list[str], status: int, line: str
):
    told, err = refused(capsys, "profile", *words)
    assert told == status
    assert line in err


def test_what_ends_at_once_is_not_measured(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    # On a busy machine even the start of a program takes longer than that.
    monkeypatch.setattr(session, "MIN_RUN_SECONDS", 5.0)
    status, err = refused(capsys, "profile", "--sources", "integer", "--", "true")
    assert (status, "at once; give a command that works for longer" in err) == (1, True)


def test_a_program_that_tells_no_number_is_refused(capsys: pytest.CaptureFixture[str]):
    words = ["--time-limit", "8s", "--measure-regex", "rate=(.*)", "--", "sleep", "60"]
    status, err = refused(capsys, *HERE, *words)
    assert (status, "no number in 2 s" in err) == (1, True)


@requires_root
def test_a_full_disk_has_no_signal(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    with slow_disk(tmp_path, 100 << 20, 8 << 20) as disk:
        with contextlib.suppress(OSError), (disk.folder / "fill").open("wb", 0) as fill:
            while True:
                fill.write(bytes(1 << 20))
        sources = ["--sources", "storage-capacity,storage-bandwidth"]
        status, err = refused(
            capsys, "profile", *sources, "--directory", str(disk.folder), "--", "sleep", "60"
        )
        assert status == 1
        assert err.count("0 MiB are free") == 2
        assert {path.name for path in disk.folder.iterdir()} == {"fill", "lost+found"}


@requires_root
def test_a_limit_below_the_reserve_leaves_memory_alone():
    group = Path("/sys/fs/cgroup/memory") / f"wharfinger-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(300 << 20))
    except OSError as error:
        pytest.skip(f"no limit of our own here: {error}")
    try:
        words = [*HERE[:1], "--sources", "memory-capacity", "--", "sleep", "60"]
        profile = [sys.executable, "-m", "wharfinger", *words]
        entering = f'echo $$ > "{group}/cgroup.procs"; exec "$@"'
        done = subprocess.run(
            ["/bin/sh", "-c", entering, "sh", *profile],
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
        assert "are left of the control group's limit, and a reserve of 1024 MiB" in done.stderr
    finally:
        wait_until(lambda: not read(group / "cgroup.procs"), what="the group is empty")
        group.rmdir()


def test_a_thread_and_another_users_process_are_refused(monkeypatch: pytest.MonkeyPatch):
    go = threading.Event()
    thread = threading.Thread(target=go.wait)
    thread.start()
    with pytest.raises(InvalidInput, match=f"is a thread of process {os.getpid()}"):
        check_pid(thread.native_id or 0)
    go.set()
    thread.join()
    own = os.geteuid()
    with subprocess.Popen(["sleep", "60"]) as process:
        monkeypatch.setattr(os, "geteuid", lambda: own + 1)
        with pytest.raises(InvalidInput, match="belongs to another user"):
            check_pid(process.pid)
        process.kill()


def test_a_process_that_ends_meanwhile_is_told_of(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    take_up = RunningProcess.__init__

    def take_up_and_kill(process: RunningProcess, pid: int) -> None:
        take_up(process, pid)
        threading.Timer(1.0, busy.kill).start()

    monkeypatch.setattr(RunningProcess, "__init__", take_up_and_kill)
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        status, err = refused(
            capsys, "profile", "--sources", "integer", "--time-limit", "30s", "--pid", str(busy.pid)
        )
    assert (status, err) == (1, f"wharfinger: process {busy.pid} has ended\n")


@pytest.mark.long
@pytest.mark.alone
def test_a_busy_program_minds_integer_work_and_causes_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    words = [*HERE, "--time-limit", "20s", "-o", "json"]
    for _ in range(3):  # On a busy machine noise may hide it.
        status, out, _ = called(capsys, *words, *COUNTING)
        assert status == 0
        profile = json.loads(out)
        (row,) = profile["sources"]
        slowed = row["verdict"] == "slowed" and row["tolerated"]["value"] < 60
        if slowed and row["caused"] is not None and row["caused"]["value"] > 20:
            break
    assert row["verdict"] == "slowed"
    assert row["tolerated"]["value"] < 60
    assert row["caused"]["value"] > 20
    assert profile["sentences"][-1].startswith("Spend on more or faster cores")
    before = tmp_path / "before.json"
    before.write_text(out)
    status, out, _ = called(
        capsys, *HERE, "--time-limit", "8s", "--compare", str(before), *COUNTING
    )
    assert status == 0
    assert "Since before" in out


@pytest.mark.long
@pytest.mark.alone
def test_a_sleeper_is_timed_by_whole_runs_and_minds_nothing(capsys: pytest.CaptureFixture[str]):
    # Of a program that computes half would be left; the start of one takes longer beside a source.
    status, out, _ = called(
        capsys,
        *HERE,
        "--time-limit",
        "20s",
        "--tolerance",
        "40%",
        "-o",
        "json",
        "--",
        "sleep",
        "0.2",
    )
    assert status == 0
    (row,) = json.loads(out)["sources"]
    assert row["verdict"] != "slowed"


@pytest.mark.long
def test_a_workload_of_the_manager_is_attached_to(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    manager = LiveManager(tmp_path / "state")
    manager.start()
    try:
        measured = {"progress": {"regex": "done=([0-9]+)"}}
        manager.submit(manifest("counter", sys.executable, "-c", COUNTER, measure=measured))
        manager.wait_for(lambda found: found["counter"]["phase"] == "running")
        where = ["--state", str(manager.state)]
        words = ["profile", "--sources", "integer", "--time-limit", "12s", *where, "-o", "json"]
        status, out, err = called(capsys, *words, "--attach", "counter")
        assert status == 0, err
        told = json.loads(out)
        assert (told["name"], told["baseline"]["quantity"]) == ("counter", "rate_per_second")
        assert told["sources"][0]["caused_by"] in (None, "cpu-share")
        assert manager.workloads()["counter"]["phase"] == "running"
        status, err = refused(capsys, *words, "--attach", "other")
        assert (status, "other" in err) == (1, True)
    finally:
        manager.clear()


def killed(after_seconds: float, caused: str = "probe") -> None:
    """Start one, kill it, and see that nothing of it runs on."""
    mark = f"wharfinger-{os.getpid()}-{time.monotonic_ns()}"
    code = f"# {mark}\n{COUNTER}"
    words = [
        "--time-limit",
        "60s",
        "--caused",
        caused,
        "--measure-regex",
        r"done=(\d+)",
        "--",
        sys.executable,
        "-c",
        code,
    ]
    command = [sys.executable, "-m", "wharfinger", *HERE, *words]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as profiler:
        time.sleep(after_seconds)
        below = descendants(profiler.pid)
        profiler.send_signal(signal.SIGKILL)
    until = time.monotonic() + 60
    # What was begun between the look and the kill is known by its mark alone.
    while left := [pid for pid in below if not is_gone(pid)] + marked(mark):
        assert time.monotonic() < until, [(pid, read(Path(f"/proc/{pid}/stat"))) for pid in left]
        time.sleep(0.05)


def marked(mark: str) -> list[int]:
    commands = Path("/proc").glob("[0-9]*/cmdline")
    return [int(path.parent.name) for path in commands if mark.encode() in read(path)]


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_nothing_outlives_a_profiler_that_is_killed():
    killed(3.0)


@pytest.mark.long
def test_nothing_outlives_a_profiler_that_is_killed_at_random_moments():
    """With probes it is calibrating by then, without one a source is beside the program."""
    drawn = random.Random(19)
    for turn in range(20):
        killed(drawn.uniform(0.1, 2.6), ("probe", "published")[turn % 2])


def test_pairs_are_told_from_profiles(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    paths = []
    for name, tolerated, caused in (("a", 90, 60), ("b", 70, 80), ("c", 20, 5), ("d", 95, 10)):
        row = {"name": "integer", "tolerated": {"value": tolerated}, "caused": {"value": caused}}
        paths.append(tmp_path / f"{name}.json")
        paths[-1].write_text(json.dumps({"name": name, "sources": [row]}))
    files = list(map(str, paths))
    status, out, _ = called(capsys, "pair", *files, "--cpus", "0-1", "-o", "json")
    told = json.loads(out)
    assert status == 0
    assert [server["programs"] for server in told["servers"]] == [["a", "b"], ["c", "d"]]
    assert told["exact"]
    status, err = refused(capsys, "pair", *files, "--servers", "1")
    assert (status, "give 2 or more" in err) == (2, True)


def test_pairs_on_unlike_cores_are_told_from_a_profile_on_each(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    paths = []
    for name, slow in (("a", 0.3), ("b", 0.9)):
        for platform, rate in (("big", 10.0), ("little", 10.0 * slow)):
            row = {"name": "integer", "tolerated": {"value": 90}, "caused": {"value": 10}}
            baseline = {"quantity": "rate_per_second", "value": rate}
            told = {"name": name, "platform": platform, "baseline": baseline, "sources": [row]}
            paths.append(tmp_path / f"{name}-{platform}.json")
            paths[-1].write_text(json.dumps(told))
    files = list(map(str, paths))
    status, out, _ = called(capsys, "pair", *files, "--servers", "big=1,little=1", "-o", "json")
    told = json.loads(out)
    assert status == 0
    placed = {server["programs"][0]: server["name"] for server in told["servers"]}
    assert placed == {"a": "big-1", "b": "little-1"}
    assert told["loss"] == pytest.approx(10)
    status, err = refused(capsys, "pair", *files, "--servers", "huge=1")
    assert (status, "0 programs have profiles on huge" in err) == (2, True)
    status, err = refused(capsys, "pair", *files, "--servers", "big=1,big=1")
    assert (status, "each kind once" in err) == (2, True)
