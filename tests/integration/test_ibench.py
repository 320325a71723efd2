"""Real sources of interference: they press as asked, let go at once, and leave nothing."""

import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from tests.support import wait_until
from tests.support.ibench import children_named, lines_of, program
from tests.support.supervised import Run
from wharfinger.errors import InvalidInput, Unavailable
from wharfinger.host.binaries import ibench_path
from wharfinger.host.processes import identity_of, marker_of, open_pidfd
from wharfinger.ibench.driver import RunningSource, measure_maximum, start, start_supervised
from wharfinger.ibench.sources import SourceSetting, signal_here, source_named
from wharfinger.ibench.validation import QUICK, Bench, ValidationEffort

pytestmark = pytest.mark.alone

CPU = min(os.sched_getaffinity(0))
INTEGER = SourceSetting(source_named("integer"), (CPU,), report_seconds=0.2)
SMALL_FILE_BYTES = 8 << 20


@pytest.fixture
def storage(tmp_path: Path) -> SourceSetting:
    """A source on the tests' own file system, with an assumed maximum: nothing is measured."""
    setting = SourceSetting(
        source_named("storage-bandwidth"), (), tmp_path, SMALL_FILE_BYTES, 50e6, 0.2
    )
    here = signal_here(setting)
    if not here.there:
        pytest.skip(f"{tmp_path}: {here.reason}")
    return setting


# --- pressure ------------------------------------------------------------------------------


def settles(source: RunningSource, intensity: float, least: float, most: float) -> None:
    """It achieves what is asked for, within bounds, in the mean since then.

    Others may have the CPU for a while; what a turn took too much then, the next ones make good.
    """
    source.set_intensity(intensity)
    begun = len(source.reports)

    def is_within() -> bool:
        source.next_report()
        reports = source.reports[begun:]
        used = sum(report.achieved * report.period_seconds for report in reports)
        return least <= used / sum(report.period_seconds for report in reports) <= most

    wait_until(is_within, what=f"{least} to {most} at intensity {intensity}")


def test_integer_work_takes_the_share_that_was_asked_for():
    with start(INTEGER) as source:
        settles(source, 5, 1, 10)
        settles(source, 30, 10.5, 40)


def test_integer_work_counts_what_it_does():
    with start(INTEGER) as source:
        source.set_intensity(50)
        source.next_report()

        def is_counted() -> bool:
            # A source that is halted as it writes a report takes the numbers at several times.
            first, second = source.reports[-1], source.next_report()
            counted = second.count - first.count
            told = second.rate_per_second * second.period_seconds
            return counted > 0 and counted == pytest.approx(told, rel=0.01)

        wait_until(is_counted, what="what is counted is what is told")
    # No machine does a million operations in a nanosecond, or one in a microsecond.
    first, second = source.reports[-2:]
    cpu_seconds = second.cpu_seconds - first.cpu_seconds
    assert 1e6 < (second.count - first.count) / cpu_seconds < 1e15


def test_a_withdrawn_source_rests():
    with start(INTEGER) as source:
        source.set_intensity(100)
        source.next_report()
        source.withdraw()
        source.read()
        before, _, after = (source.next_report() for _ in range(3))
    assert after.count == before.count
    assert after.achieved == 0
    assert after.cpu_seconds - before.cpu_seconds < 0.2 * (after.time_seconds - before.time_seconds)


def test_a_neighbour_on_the_same_cpu_is_slowed():
    with start(INTEGER) as source, start(INTEGER) as neighbour:

        def kept_share() -> float:
            """Of its performance alone; windows side by side, as others use the CPU too."""
            rates = []
            for intensity in (0, 100):
                source.set_intensity(intensity)
                neighbour.set_intensity(100)
                rates.append(neighbour.next_report().rate_per_second)
            return rates[1] / rates[0] if rates[0] > 0 else 1.0

        wait_until(
            lambda: median(kept_share() for _ in range(5)) < 0.9, 60, "the neighbour is slowed"
        )


def test_storage_reaches_a_share_of_its_maximum(storage: SourceSetting):
    with start(storage) as source:
        assert source.next_report().rate_per_second == 0
        source.set_intensity(10)
        # A device that others keep busy may let a period pass without a request done.
        wait_until(lambda: source.next_report().count >= 4 << 20, what="4 MiB of I/O")
    assert max(report.rate_per_second for report in source.reports) < 0.4 * 50e6


def test_the_maximum_is_measured_and_told(storage: SourceSetting):
    measured = measure_maximum(storage)
    assert measured.maximum_per_second is not None
    assert measured.maximum_per_second > 1e5
    assert measure_maximum(INTEGER) == INTEGER


def test_every_cpu_is_worked_on():
    cpus = tuple(sorted(os.sched_getaffinity(0)))[:2]
    lines = lines_of(
        "integer", "--cpus", ",".join(map(str, cpus)), "--intensity", 5, "--seconds", 0.3
    )
    assert lines[0]["workers"] == len(cpus)
    assert lines[-1]["count"] > 0  # type: ignore[operator] # a number


def test_a_ramp_climbs_and_ends():
    lines = lines_of("integer", "--cpus", CPU, "--ramp", "0:30:15:0.1")
    steps = [line["intensity"] for line in lines if line["event"] == "intensity"]
    assert steps == [0, 15, 30]


def test_whoever_asks_takes_the_ramp_over():
    # So long that it is not over before it is spoken to, however busy the machine.
    with program("integer", "--cpus", CPU, "--ramp", "0:100:0.2:0.1") as child:
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write("intensity 1.1\n")
        child.stdin.flush()
        events = (json.loads(line) for line in child.stdout)
        asked = next(e for e in events if e["event"] == "intensity" and e["intensity"] == 1.1)
        later = next(e for e in events if e["time_seconds"] > asked["time_seconds"] + 0.5)
    assert later["intensity"] == 1.1


def test_a_line_that_is_not_understood_is_complained_of_and_changes_nothing():
    with program("integer", "--cpus", CPU, "--intensity", "3") as child:
        out, err = child.communicate("louder\nintensity 4x\n" + "x" * 1000 + "\n")
    assert child.returncode == 0
    assert err.count("is not understood; say 'intensity N'") == 3
    assert {json.loads(line).get("intensity", 3) for line in out.splitlines()} == {3}


def test_the_driver_refuses_an_intensity_that_is_none():
    with start(INTEGER) as source, pytest.raises(InvalidInput, match="intensity: 101"):
        source.set_intensity(101)


# --- the end -------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("intensity", [0, 100])
def test_a_signal_ends_it_in_order(number: signal.Signals, intensity: int):
    with program("integer", "--cpus", CPU, "--intensity", intensity) as child:
        assert child.stdout is not None
        child.stdout.readline()
        child.send_signal(number)
        assert child.wait(60) == 0


@pytest.mark.parametrize("intensity", [0, 100])
def test_the_end_of_its_input_ends_it(intensity: int):
    with program("integer", "--cpus", CPU, "--intensity", intensity) as child:
        assert child.stdin is not None and child.stdout is not None
        child.stdout.readline()
        child.stdin.close()
        assert child.wait(60) == 0
        child.stdin = None


def test_a_source_that_was_killed_is_told_of():
    with start(INTEGER) as source:
        (pid,) = children_named("wharfinger-ibench")
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(Unavailable, match="ended with -9"):
            source.next_report()


DRIVER = """
import sys, time
from pathlib import Path
from wharfinger.ibench.driver import start
from wharfinger.ibench.sources import SourceSetting, source_named
name, cpu, directory = sys.argv[1:]
setting = SourceSetting(source_named(name), (int(cpu),), Path(directory), 8 << 20, 50e6)
with start(setting) as source:
    source.set_intensity(20)
    print("at work", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("name", ["integer", "storage-bandwidth"])
def test_nothing_outlives_a_driver_that_is_killed(name: str, storage: SourceSetting):
    argv = [sys.executable, "-c", DRIVER, name, str(CPU), str(storage.directory)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        assert driver.stdout.readline() == "at work\n"
        (pid,) = children_named("wharfinger-ibench", driver.pid)
        identity = identity_of(pid)
        assert identity is not None
        assert list(storage.directory.iterdir()) == []
        driver.kill()
    wait_until(lambda: not identity.is_alive(), what="the source's end")
    assert list(storage.directory.iterdir()) == []


def test_a_killed_source_leaves_no_file(storage: SourceSetting):
    with start(storage) as source:
        source.set_intensity(10)
        (pid,) = children_named("wharfinger-ibench")
        deleted = [str(fd.readlink()) for fd in Path(f"/proc/{pid}/fd").iterdir()]
        assert any(str(storage.directory) in name for name in deleted)
        identity = identity_of(pid)
        assert identity is not None
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not identity.is_alive(), what="the source's end")
        assert list(storage.directory.iterdir()) == []


# --- under a supervisor --------------------------------------------------------------------


def test_a_supervised_source_obeys_and_ends(run: Run):
    with start_supervised(INTEGER, run.run_dir, env=marker_of(run.run_dir)) as source:
        settles(source, 20, 0, 30)
        source.withdraw()
    record = run.record().exit
    assert record is not None and record.exit_code == 0
    assert not list(run.run_dir.glob("ibench-*"))


def test_a_supervised_source_that_cannot_start_says_why(run: Run):
    setting = SourceSetting(source_named("integer"), (8000,))
    with pytest.raises(InvalidInput, match="CPU 8000 may not be used"):
        start_supervised(setting, run.run_dir, env=marker_of(run.run_dir))


def test_a_supervised_source_ends_when_its_driver_is_killed(run: Run):
    driver = DRIVER.replace("import start", "import start_supervised").replace(
        "start(setting)",
        f"start_supervised(setting, Path({str(run.run_dir)!r}), env={marker_of(run.run_dir)!r})",
    )
    argv = [sys.executable, "-c", driver, "integer", str(CPU), "/"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "at work\n"
        supervisor = run.record().supervisor
        assert supervisor is not None
        pidfd = open_pidfd(supervisor)
        assert pidfd is not None
        child.kill()
    ready, _, _ = select.select([pidfd], [], [], 60)
    os.close(pidfd)
    assert ready, "the supervisor did not end"
    record = run.record().exit
    assert record is not None and record.exit_code == 0


# --- the command line ----------------------------------------------------------------------


def wharfinger(*argv: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "wharfinger", "ibench", *argv]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_list_says_where_there_is_no_signal(tmp_path: Path):
    done = wharfinger("list", "--directory", str(tmp_path / "missing"), "-o", "json")
    assert done.returncode == 0, done.stderr
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    assert rows["integer"]["signal"] is True
    assert rows["storage-bandwidth"]["signal"] is False
    assert rows["storage-bandwidth"]["reason"] == "No such file or directory"


def test_a_run_says_what_it_achieved():
    done = wharfinger(
        "run", "integer", "--intensity", "10", "--seconds", "0.5s", "--cpus", str(CPU), "-o", "json"
    )
    assert (done.returncode, done.stderr) == (0, "")
    result = json.loads(done.stdout)
    assert next(iter(result)) == "name"
    # A turn in which others have the CPU may take too much, and half a second not make it good.
    assert 1 <= result["achieved"] <= 40
    assert 0.2 <= result["seconds"] < 20
    assert (
        "achieved:" in wharfinger("run", "integer", "--intensity", "0", "--seconds", "0.1").stdout
    )


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["run"], "0 sources are named; run takes one"),
        (["run", "integer"], "--intensity: not given"),
        (["run", "integer", "--intensity", "200"], "'200': write a number from 0 to 100"),
        (["run", "integer", "--intensity", "1", "--cpus", "a"], "--cpus: 'a'; give numbers"),
        (["run", "integer", "--intensity", "1", "--cpus", "8000"], "CPU 8000 may not be used"),
        (["run", "integer", "--intensity", "1", "--seconds", "0"], "'0s' is no time"),
        (["run", "integer", "--intensity", "1", "--maximum", "5"], "--maximum: integer has no max"),
        (
            ["run", "integer", "--intensity", "1", "--directory", "/"],
            "--directory: integer does no",
        ),
        (
            ["run", "storage-bandwidth", "--intensity", "1", "--directory", "/nonexist"],
            "--directory: '/nonexist' is no directory; name one that exists",
        ),
        (["validate", "--directory", "/nonexist"], "--directory: '/nonexist' is no directory"),
        (["validate", "--maximum", "5"], "--maximum is for ibench run; leave it out"),
        (["list", "--seconds", "5"], "--seconds is for ibench run"),
        (["validate", "--seconds", "5"], "--seconds is for ibench run"),
        (["list", "--quick"], "--quick is for ibench validate"),
        (["run", "integer", "--intensity", "1", "--report", "x"], "--report is for ibench val"),
        (["validate", "cpu"], "'cpu'; name one of"),
        (["validate", "integer", "--report", __file__], "is no directory to write in; name"),
        (["list", "cpu"], "'cpu'; name one of"),
    ],
)
def test_a_wrong_call_gets_one_line(argv: list[str], words: str):
    done = wharfinger(*argv)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="there is no tmpfs")
def test_a_run_without_a_signal_fails_with_the_reason():
    argv = ["run", "storage-bandwidth", "--intensity", "1", "--directory", "/dev/shm"]
    done = wharfinger(*argv)
    assert done.returncode == 1
    assert "no signal here: " in done.stderr
    assert done.stderr.count("\n") == 1


def test_sources_are_tried_alone_beside_their_like_and_in_pairs(tmp_path: Path):
    effort = ValidationEffort(300.0, 0.03, 2, 0.03, 1, True, 16 << 20, 0, 1, 0.1)
    names = ("integer", "storage-capacity", "network-bandwidth")
    bench = Bench(effort, lambda words: None)
    with ExitStack() as stack:
        for name in names:
            setting = SourceSetting(source_named(name), (CPU,), tmp_path)
            bench.validate(replace(setting, quota=16 << 20), stack)
        reasons = {name: each.reason for name, each in bench.found.items()}
        if any(reasons.values()):
            pytest.skip(str(reasons))
        pairs, across = bench.independence(), bench.independence_across([CPU])
    for name, each in bench.found.items():
        assert [point.intensity for point in each.points] == [float(x) for x in range(0, 101, 10)]
        assert all(point.counted is not None for point in each.points)
        assert len(each.kept) == (0 if name == "storage-capacity" else 2)
    # One that holds keeps nothing from its like, so there is no pair with itself.
    assert {name: set(row) for name, row in pairs.items()} == {
        name: set(names) - ({name} if name == "storage-capacity" else set()) for name in names
    }
    assert {name: set(row) for name, row in across.items()} == {name: set(names) for name in names}


def test_a_source_without_a_signal_is_told_with_the_reason():
    bench = Bench(QUICK, lambda words: None)
    with ExitStack() as stack:
        found = bench.validate(SourceSetting(source_named("interconnect"), (CPU,)), stack)
    assert "only one CPU" in found.reason
    assert (found.points, found.line, bench.independence()) == ((), None, {})
    assert bench.independence_across([CPU]) == {}


def test_pictures_need_matplotlib(tmp_path: Path):
    (tmp_path / "matplotlib.py").write_text("raise ImportError")
    argv = [
        sys.executable,
        "-m",
        "wharfinger",
        "ibench",
        "validate",
        "integer",
        "--report",
        str(tmp_path / "pictures"),
    ]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(argv, capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "pictures need matplotlib; install it with" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.long
def test_validation_is_one_document(tmp_path: Path):
    report = tmp_path / "report"
    argv = ["validate", "integer", "storage-capacity", "--quick", "-o", "json"]
    done = wharfinger(*argv, "--report", str(report))
    document = json.loads(done.stdout)
    assert {"sources", "independence", "victims", "machine"} <= document.keys()
    by_name = {row["name"]: row for row in document["sources"]}
    assert list(by_name) == ["integer", "storage-capacity"]
    row = by_name["integer"]
    assert list(row) == [
        "name", "available", "reason", "points", "slope", "r_squared", "max_deviation_points",
        "kept_share", "confinement",
    ]  # fmt: skip
    assert [point["intensity"] for point in row["points"]] == list(range(0, 101, 10))
    assert row["points"][0]["achieved"] < 1
    assert row["kept_share"]["low"] <= row["kept_share"]["value"] <= row["kept_share"]["high"]
    for at, one in document["independence"].items():
        assert at in by_name and set(one) <= set(by_name)
    assert document["machine"]["quick"] is True
    assert document["victims"] == []  # Of all sources at once only.
    drawn = {path.name for path in report.iterdir()}
    assert {"linearity.png", "linearity.svg"} <= drawn


# --- the kernel ----------------------------------------------------------------------------


def test_integer_work_stays_out_of_the_caches(tmp_path: Path):
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        pytest.skip("valgrind is not installed")
    command = [
        valgrind, "--tool=cachegrind", "--cache-sim=yes", f"--cachegrind-out-file={tmp_path}/out",
        str(ibench_path()), "integer", "--cpus", str(CPU), "--intensity", "100", "--seconds", "2",
    ]  # fmt: skip
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None and child.stderr is not None
        # Its input stays open, so it ends by its time.
        lines, simulated = child.stdout.read().splitlines(), child.stderr.read()
    operations = json.loads(lines[-1])["count"]
    found = re.search(r"D1  misses:\s+([\d,]+)", simulated)
    assert found is not None, simulated
    # Start-up misses a few thousand times; the loop itself, however long, hardly ever.
    assert int(found[1].replace(",", "")) < 20_000 + operations / 1000
