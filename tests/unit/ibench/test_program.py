"""``wharfinger-ibench`` is told what is wrong with a call in one line; nothing is done."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from wharfinger.host.binaries import ibench_path


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], "0 sources are named; name one"),
        (["integer", "integer"], "2 sources are named"),
        (["cpu"], "SOURCE: 'cpu'; name one of: integer, floating-point, vector, l1-ins"),
        (["integer", "--intensity", "101"], "--intensity: '101'; give a number from 0 to 100"),
        (["integer", "--intensity", "-1"], "--intensity: '-1'"),
        (["integer", "--intensity", "nan"], "--intensity: 'nan'"),
        (["integer", "--intensity", "0x10"], "--intensity: '0x10'"),
        (["integer", "--intensity", ""], "--intensity: ''"),
        (["integer", "--intensity"], "--intensity: no value"),
        (["integer", "--loud"], "--loud: no such option"),
        (["integer", "--seconds", "0"], "--seconds: '0'"),
        (["integer", "--seconds", "1e300"], "--seconds: '1e300'"),
        (["integer", "--report-seconds", "0.001"], "--report-seconds: '0.001'"),
        (["integer", "--cpus", ""], "--cpus: ''; give ascending numbers"),
        (["integer", "--cpus", "0,0"], "--cpus: '0,0'"),
        (["integer", "--cpus", "0-"], "--cpus: '0-'"),
        (["integer", "--cpus", "0 1"], "--cpus: '0 1'"),
        (["integer", "--cpus", "99999999999999999999"], "--cpus: '99999999999999999999'"),
        (["integer", "--cpus", "8191"], "CPU 8191 may not be used"),
        (["integer", "--ramp", "0:100:10"], "--ramp: '0:100:10'; give FROM:TO:STEP:SECONDS"),
        (["integer", "--ramp", "0:100:0:1"], "--ramp"),
        (["integer", "--ramp", "100:0:10:1"], "--ramp"),
        (["integer", "--ramp", "0:120:10:1"], "--ramp"),
        (["integer", "--ramp", "0:100:10:1:2"], "--ramp"),
        (["l2-cache", "--footprint", "100"], "--footprint: '100'; give a number from 4096"),
        (["l2-cache", "--footprint", "4k"], "--footprint: '4k'"),
        (["last-level-cache", "--footprint", "3e9"], "3000000000; no cache has more than"),
        (["storage-bandwidth", "--file-bytes", "5"], "--file-bytes: '5'; give a number from"),
        (["storage-bandwidth", "--maximum", "0"], "--maximum: '0'"),
        (["integer", "--sweep", "0.001"], "--sweep: '0.001'; give a number from 0.004"),
        (["memory-capacity", "--footprint", "1000"], "--footprint: '1000'; give a number from"),
        (["memory-capacity", "--stride", "0"], "--stride: '0'"),
        (["storage-capacity", "--quota", "1e3"], "--quota: '1e3'"),
        (["network-bandwidth", "--peer", "here"], "--peer: 'here'; give HOST:PORT, such as"),
        (["network-bandwidth", "--peer", ":7000"], "--peer: ':7000'"),
        (["network-bandwidth", "--peer", "::1:7000"], "--peer: '::1:7000'"),
        (["network-bandwidth", "--peer", "[::1:7000"], "--peer: '[::1:7000'"),
        (["network-bandwidth", "--peer", "[]:7000"], "--peer: '[]:7000'"),
        (["network-bandwidth", "--peer", 'a"b:7000'], "--peer: 'a\"b:7000'"),
        (["network-bandwidth", "--peer", "here:0"], "--peer: 'here:0'"),
        (["network-bandwidth", "--peer", "here:65536"], "--peer: 'here:65536'"),
        (["network-bandwidth", "--peer", "here:7k"], "--peer: 'here:7k'"),
        (["peer", "--listen", "7000"], "--listen: '7000'; give [HOST]:PORT, such as :7000"),
    ],
)
def test_a_wrong_call_gets_one_line(argv: list[str], words: str):
    done = subprocess.run(
        [ibench_path(), *argv], stdin=subprocess.DEVNULL, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("wharfinger-ibench: ")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_messages_need_two_cpus():
    cpu = str(min(os.sched_getaffinity(0)))
    done = subprocess.run(
        [ibench_path(), "interconnect", "--cpus", cpu],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (3, "")
    assert "no signal here: messages go between cores and only one CPU" in done.stderr


def test_memory_is_no_device():
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    if ["/dev/shm", "tmpfs"] not in [mount[1:3] for mount in mounts]:
        pytest.skip("no tmpfs at /dev/shm")
    done = subprocess.run(
        [ibench_path(), "storage-bandwidth", "--directory", "/dev/shm"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 3
    assert "no signal here: tmpfs" in done.stderr


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["storage-capacity", "--quota", "1e14"], "twice the quota of 95367431 MiB is wanted"),
        (["storage-capacity", "--directory", "/nonexist"], "No such file or directory"),
        (
            ["network-bandwidth", "--peer", "127.0.0.1:1"],
            "peer 127.0.0.1 port 1: Connection refused; start 'wharfinger ibench peer' there",
        ),
        (["network-bandwidth", "--peer", "[1::2::3]:7000"], "'1::2::3': "),
        (["memory-bandwidth", "--footprint", "9e14"], "858306884 MiB are wanted; "),
    ],
)
def test_a_source_that_cannot_press_says_why(argv: list[str], words: str, tmp_path: Path):
    command = [ibench_path(), "--directory", tmp_path, *argv]
    told = subprocess.run([*command, "--probe"], capture_output=True, text=True, check=True)
    signal = json.loads(told.stdout)
    assert signal["signal"] is False
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (3, "")
    if "memory:" in signal["reason"]:
        pytest.skip(f"{tmp_path}: {signal['reason']}")
    assert words in signal["reason"]
    assert done.stderr.startswith(f"wharfinger-ibench: {argv[0]}: no signal here: ")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
