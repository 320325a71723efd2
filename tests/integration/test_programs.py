"""Every program does its work, says so in lines that ``measure`` reads, and leaves nothing."""

import http.client
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from wharfinger.catalog.programs.http_service import render

LINE = re.compile(r"throughput=(?P<throughput>[0-9.]+) latency_ms=(?P<latency_ms>[0-9.]+)")


def program(name: str, *options: str, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", f"wharfinger.catalog.programs.{name}", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
    )


@contextmanager
def service(name: str, *options: str) -> Iterator[int]:
    process = program(name, *options)
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline().rpartition(":")[2])
    finally:
        process.terminate()
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")


BATCH = [
    *(("compress", "--algorithm", name) for name in ("zlib", "bz2", "lzma", "gzip", "xz", "zstd")),
    *(
        ("digest", "--algorithm", name)
        for name in ("sha256", "sha512", "blake2b", "md5", "pbkdf2", "scrypt", "stream")
    ),
    *(("sorting", "--where", name) for name in ("external", "memory")),
    *(("database", "--work", name) for name in ("insert", "query")),
    *(
        ("numeric", "--kernel", name)
        for name in ("matmul", "fft", "svd", "stencil", "copy", "montecarlo", "sortnp")
    ),
    *(
        ("text", "--kind", name)
        for name in ("regex", "json", "words", "template", "diff", "primes")
    ),
]


@pytest.mark.parametrize("command", BATCH, ids=lambda command: f"{command[0]}-{command[2]}")
def test_a_batch_program_says_how_far_it_is(command: tuple[str, ...], tmp_path: Path) -> None:
    if command[2] in ("gzip", "xz", "zstd") and not shutil.which(command[2]):
        pytest.skip(f"this machine has no {command[2]}")
    env = {"TMPDIR": str(tmp_path), "PATH": "/usr/bin:/bin"}
    process = program(*command, "--total", "3", env=env)
    output, errors = process.communicate(timeout=240)
    assert (output.split(), errors) == (["done=1", "done=2", "done=3"], "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["sorting", "database"])
def test_a_program_that_is_stopped_leaves_no_files(name: str, tmp_path: Path) -> None:
    process = program(name, "--directory", str(tmp_path))
    assert process.stdout is not None
    assert process.stdout.readline() == "done=1\n"
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []


def test_documents_come_as_they_are_asked_for() -> None:
    with service("http_service", "--rows", "5") as port:
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        client.request("GET", "/document/7")
        answer = client.getresponse()
        assert answer.read() == render(7, 5)
        for method, path, status in (
            ("HEAD", "/document/7", 200),
            ("GET", "/document/x", 404),
            ("POST", "/document/7", 405),
        ):
            client.request(method, path)
            answer = client.getresponse()
            assert (answer.status, answer.read()) == (status, b"")
            client.close()
        client.request("GET", "/metrics")
        assert "http_requests_total 2\n" in client.getresponse().read().decode()
        client.close()


def test_keys_are_kept_for_any_client_of_the_protocol() -> None:
    with (
        service("keyvalue_service", "--fill", "2", "--value-bytes", "2000") as port,
        socket.create_connection(("127.0.0.1", port), 60) as client,
    ):
        client.sendall(b"SET a b\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\nDBSIZE\r\nQUIT\r\n")
        answer = b""
        while piece := client.recv(4096):
            answer += piece
        assert answer == b"+OK\r\n$1\r\nb\r\n:3\r\n+OK\r\n"


def reports(*options: str) -> list[tuple[float, float]]:
    process = program("load", "--seconds", "2", "--window", "1", *options)
    output, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (0, "")
    found = [LINE.search(line) for line in output.splitlines()]
    return [(float(match[1]), float(match[2])) for match in found if match]


ATTEMPTS = 6
"""A machine that stands still for half a second now and then leaves out a report, or its rate."""


@pytest.mark.alone
def test_an_open_loop_holds_its_rate_and_a_closed_one_finds_the_limit() -> None:
    seen = []
    with service("http_service", "--rows", "50") as port:
        for _ in range(ATTEMPTS):
            opened = reports("--port", str(port), "--rate", "50")
            closed = reports("--port", str(port))
            seen.append((opened, closed))
            if (
                len(opened) == len(closed) == 2
                and opened[-1][0] == pytest.approx(50, rel=0.2)
                and closed[-1][0] > 2 * opened[-1][0]
            ):
                return
    pytest.fail(f"open and closed loops: {seen}")


@pytest.mark.alone
def test_a_service_that_stalls_is_charged_for_all_that_came_meanwhile() -> None:
    process = program("http_service", "--rows", "5")
    assert process.stdout is not None
    port = process.stdout.readline().rpartition(":")[2].strip()
    load = program("load", "--port", port, "--rate", "100", "--seconds", "4", "--percentile", "50")
    assert load.stdout is not None
    load.stdout.readline()
    process.send_signal(signal.SIGSTOP)
    load.stdout.readline()
    load.stdout.readline()
    process.send_signal(signal.SIGCONT)
    output, _ = load.communicate(timeout=120)
    process.terminate()
    process.communicate(timeout=60)
    match = LINE.search(output.splitlines()[-1])
    # A generator that waits for answers would count a few slow requests among hundreds.
    assert match is not None
    assert float(match["latency_ms"]) > 200


@pytest.mark.alone
def test_redis_speakers_are_driven_with_reads_and_writes() -> None:
    with service("keyvalue_service", "--fill", "100", "--value-bytes", "4096") as port:
        options = ("--write-every", "4", "--value-bytes", "4096")
        found = reports("--port", str(port), "--protocol", "redis", *options)
    assert found[-1][0] > 0


@pytest.mark.parametrize(
    "options", [("--port", "x"), ("--port", "1", "--step", "5"), ("--port", "1", "--step", "5:9")]
)
def test_a_wrong_call_is_said_in_one_line(options: tuple[str, ...]) -> None:
    process = program("load", *options)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert errors.splitlines()[-1].startswith("load: error: ")
