"""The sources of memory, storage and network: what they hold and reach; nothing of them is left."""

import json
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support import wait_until
from tests.support.ibench import children_named, lines_of, program
from wharfinger.cli.main import main
from wharfinger.errors import Unavailable
from wharfinger.host.binaries import ibench_path
from wharfinger.host.processes import identity_of
from wharfinger.ibench.driver import measure_maximum, start
from wharfinger.ibench.sources import SourceSetting, signal_here, source_named

pytestmark = pytest.mark.alone

CPU = min(os.sched_getaffinity(0))
MEBIBYTE = 1 << 20


def setting_of(name: str, tmp_path: Path, *, measured: bool = True) -> SourceSetting:
    """Small, and with an assumed maximum: nothing is measured unless that is asked for."""
    source = source_named(name)
    setting = SourceSetting(
        source,
        (CPU,),
        tmp_path,
        maximum_per_second=50e6 if measured and source.measures_maximum else None,
        report_seconds=0.1,
        footprint=16 * MEBIBYTE,
        quota=16 * MEBIBYTE,
    )
    here = signal_here(setting)
    if not here.there:
        pytest.skip(here.reason)
    return setting


# --- what it holds -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["memory-capacity", "storage-capacity"])
def test_a_footprint_follows_the_intensity_both_ways(name: str, tmp_path: Path):
    with start(setting_of(name, tmp_path)) as source:
        for intensity in (25, 100, 50):
            source.set_intensity(intensity)
            # Memory is given back for a while where others are short of it.
            wanted = intensity * 16 * MEBIBYTE // 100
            wait_until(lambda: source.next_report().footprint_bytes == wanted, what=f"{wanted}")  # noqa: B023
            assert source.reports[-1].achieved == pytest.approx(intensity)
        wait_until(lambda: source.next_report().rate_per_second > 0, what="accesses")
        source.withdraw()
        wait_until(lambda: source.next_report().footprint_bytes == 0, what="nothing is held")


def test_held_memory_is_resident_and_given_back(tmp_path: Path):
    def resident_bytes() -> int:
        status = Path(f"/proc/{pid}/statm").read_text().split()
        return int(status[1]) * resource.getpagesize()

    with start(setting_of("memory-capacity", tmp_path)) as source:
        (pid,) = children_named("wharfinger-ibench")
        resting = resident_bytes()
        source.set_intensity(100)
        wait_until(lambda: resident_bytes() - resting >= 15 * MEBIBYTE, what="it is resident")
        source.withdraw()
        wait_until(lambda: resident_bytes() - resting <= 2 * MEBIBYTE, what="it is given back")
        # Were memory to run out, nobody else would be killed for it.
        assert Path(f"/proc/{pid}/oom_score_adj").read_text() == "1000\n"


def test_held_storage_is_allocated(tmp_path: Path):
    with start(setting_of("storage-capacity", tmp_path)) as source:
        source.set_intensity(50)
        (pid,) = children_named("wharfinger-ibench")
        files = [fd for fd, link in descriptors_of(pid) if str(tmp_path) in link]
        assert [file.stat().st_blocks * 512 // MEBIBYTE for file in files] == [8]
        assert list(tmp_path.iterdir()) == []


def test_accesses_may_have_a_stride():
    argv = ["memory-capacity", "--footprint", 4 * MEBIBYTE, "--stride", 4096, "--intensity", 100]
    with program(*argv, "--report-seconds", 0.1, "--seconds", 60) as child:
        assert child.stdout is not None
        assert any(json.loads(line).get("count", 0) > 0 for line in child.stdout)


def test_a_disk_that_is_full_is_told_in_one_line(tmp_path: Path):
    with start(setting_of("storage-capacity", tmp_path)) as source:
        (pid,) = children_named("wharfinger-ibench")
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (MEBIBYTE, MEBIBYTE))
        words = f"{tmp_path}: cannot allocate 16 MiB: File too large; give a smaller --quota"
        with pytest.raises(Unavailable, match=words):
            source.set_intensity(100)
    assert list(tmp_path.iterdir()) == []


# --- what it reaches -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["memory-bandwidth", "network-bandwidth"])
def test_a_rate_is_a_share_of_its_maximum(name: str, tmp_path: Path):
    with start(setting_of(name, tmp_path)) as source:
        assert source.next_report().rate_per_second == 0
        source.set_intensity(20)
        wait_until(lambda: source.next_report().rate_per_second > 1e6, what="work")
        assert source.reports[-1].rate_per_second < 40e6


@pytest.mark.slow
@pytest.mark.parametrize("name", ["memory-bandwidth", "network-bandwidth"])
def test_a_maximum_is_measured(name: str, tmp_path: Path):
    measured = measure_maximum(setting_of(name, tmp_path, measured=False))
    assert measured.maximum_per_second is not None
    assert measured.maximum_per_second > 1e6


def test_a_sweep_tells_all_of_it_at_once():
    lines = lines_of("integer", "--cpus", CPU, "--sweep", 0.4)
    assert [line["event"] for line in lines] == ["ready", "intensity", "report"]
    assert lines[-1]["intensity"] == 50
    # Others may have the CPU for a part of it, and what took too long be made good too late.
    assert 1 < lines[-1]["achieved"] < 90  # type: ignore[operator] # a number


# --- the peer ------------------------------------------------------------------------------


@contextmanager
def peer(address: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    with program("peer", "--listen", address) as child:
        assert child.stdout is not None
        line = child.stdout.readline()
        if not line:
            pytest.skip(f"{address}: no such address here")
        yield child, json.loads(line)["port"]


def accepts(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=5).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize(("listen", "host"), [("[::1]:0", "::1"), ("127.0.0.1:0", "127.0.0.1")])
def test_requests_go_to_a_peer_that_goes_away(listen: str, host: str, tmp_path: Path):
    with peer(listen) as (child, port):
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        setting = SourceSetting(
            source_named("network-bandwidth"),
            maximum_per_second=50e6,
            report_seconds=0.1,
            peer=address,
        )
        with start(setting) as source:
            source.set_intensity(20)
            wait_until(lambda: source.next_report().count > MEBIBYTE, what="requests")
            child.kill()
            with pytest.raises(Unavailable, match=r"the peer is gone: .*; start it again"):
                while True:
                    source.next_report()
        wait_until(lambda: not accepts(host, port), what="nobody listens")


def test_a_port_in_use_is_told_in_one_line():
    with peer("127.0.0.1:0") as (_, port):
        done = subprocess.run(
            [ibench_path(), "peer", "--listen", f"127.0.0.1:{port}"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    words = f"--listen: port {port}: Address already in use; give another, or 0 for any\n"
    assert done.stderr == f"wharfinger-ibench: {words}"


def test_the_peer_ends_with_its_input():
    with peer("127.0.0.1:0") as (child, port):
        assert child.stdin is not None
        assert accepts("127.0.0.1", port)
        child.stdin.close()
        assert child.wait(60) == 0
        child.stdin = None
    assert not accepts("127.0.0.1", port)


# --- the end -------------------------------------------------------------------------------

NAMES = ["memory-capacity", "memory-bandwidth", "storage-capacity", "network-bandwidth"]


def descriptors_of(pid: int) -> list[tuple[Path, str]]:
    """Of a process that is alive, which may close some meanwhile."""
    found = []
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found.append((path, str(path.readlink())))
    return found


def listening_ports(pid: int) -> list[int]:
    """Of a process that is alive; its own loopback peer's."""
    inodes = {link for _, link in descriptors_of(pid)}
    rows = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
    ]
    return [
        int(row[1].rpartition(":")[2], 16)
        for row in rows
        if row[3] == "0A" and f"socket:[{row[9]}]" in inodes
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_killed_source_leaves_nothing(name: str, tmp_path: Path):
    with start(setting_of(name, tmp_path)) as source:
        source.set_intensity(50)
        (pid,) = children_named("wharfinger-ibench")
        identity = identity_of(pid)
        assert identity is not None
        ports = listening_ports(pid)
        assert bool(ports) == (name == "network-bandwidth")
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not identity.is_alive(), what="the source's end")
    assert list(tmp_path.iterdir()) == []
    assert not any(accepts("127.0.0.1", port) or accepts("::1", port) for port in ports)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("number", [signal.SIGTERM, None])
def test_a_signal_or_the_end_of_its_input_ends_it(
    name: str, number: signal.Signals | None, tmp_path: Path
):
    with start(setting_of(name, tmp_path)) as source:
        source.set_intensity(100)
        (pid,) = children_named("wharfinger-ibench")
        if number is not None:
            os.kill(pid, number)
            list(source.reports_to_end())  # Raises unless it ends in order.
    assert not Path(f"/proc/{pid}").exists()
    assert list(tmp_path.iterdir()) == []


# --- the command line ----------------------------------------------------------------------


@pytest.fixture
def wharfinger(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def run(*argv: str) -> tuple[int, str, str]:
        status = main(["ibench", *argv])
        said = capsys.readouterr()
        return status, said.out, said.err

    return run


Wharfinger = Callable[..., tuple[int, str, str]]


def test_a_ramp_is_told_step_by_step(wharfinger: Wharfinger):
    wanted = [(0, 0), (50, 4 * MEBIBYTE), (100, 8 * MEBIBYTE)]
    for seconds in ("0.1", "1", "10"):  # On a busy machine a step may be over before it is there.
        argv = ["run", "memory-capacity", "--footprint", "8Mi", "--ramp", f"0:100:50:{seconds}"]
        status, out, err = wharfinger(*argv, "-o", "json")
        assert (status, err) == (0, "")
        steps = json.loads(out)["steps"]
        told = [(step["intensity"], step["footprint_bytes"]) for step in steps]
        if told == wanted:
            break
    assert told == wanted


def test_a_sweep_is_told_as_a_whole(wharfinger: Wharfinger):
    argv = ["run", "integer", "--sweep", "10ms", "--cpus", str(CPU), "-o", "json"]
    status, out, err = wharfinger(*argv)
    assert (status, err) == (0, "")
    result = json.loads(out)
    assert result["intensity"] is None
    assert [step["intensity"] for step in result["steps"]] == [50]


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["run", "integer", "--ramp", "0:1"], "--ramp: '0:1'; give FROM:TO:STEP:SECONDS"),
        (["run", "integer", "--sweep", "1ms"], "--sweep: '0.001'; give a number from 0.004"),
        (["run", "integer", "--sweep", "1s", "--ramp", "0:1:1:1"], "--ramp and --sweep: give one"),
        (["run", "integer", "--sweep", "1s", "--seconds", "1"], "--seconds says nothing beside"),
        (["run", "integer", "--intensity", "1", "--quota", "1Gi"], "--quota: integer does not"),
        (["list", "--ramp", "0:1:1:1"], "--ramp is for ibench run"),
        (["list", "--listen", ":0"], "--listen is for ibench peer"),
        (["peer", "--peer", "a:1"], "--peer is for the sources"),
        (["peer", "integer"], "SOURCE: 'integer'; ibench peer takes none"),
    ],
)
def test_a_wrong_call_gets_one_line(argv: list[str], words: str, wharfinger: Wharfinger):
    status, out, err = wharfinger(*argv)
    assert (status, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


def test_the_command_becomes_the_peer():
    command = [sys.executable, "-m", "wharfinger", "ibench", "peer", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        assert (told["event"], told["host"]) == ("listening", "127.0.0.1")
        assert Path(f"/proc/{process.pid}/exe").resolve() == ibench_path()
        process.stdin.close()
        assert process.wait(30) == 0
