"""The sockets: who may connect, where they lie, and what becomes of those who may not."""

import fcntl
import gc
import http.client
import json
import os
import socket
import stat
import termios
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.support import wait_until
from tests.support.api import manifest
from tests.support.served import Served
from wharfinger.cli.client import Client
from wharfinger.errors import Conflict, InvalidInput
from wharfinger.service.listening import (
    MAX_PATH_BYTES,
    connect,
    find_token,
    listen_tcp,
    listen_unix,
    parse_listen,
)
from wharfinger.service.protocol import MAX_TCP_CONNECTIONS, peer_uid

TOKEN = "0123456789abcdef"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One for all who only ask."""
    state = tmp_path_factory.mktemp("served") / "state"
    served = Served(state, "--listen", "127.0.0.1:0", environment=with_token(TOKEN))
    yield served
    status, errors = served.stop()
    assert status == 0, errors
    assert "Traceback" not in errors


def with_token(token: str) -> dict[str, str]:
    return {**os.environ, "WHARFINGER_TOKEN": token}


# --- the Unix socket ---


@pytest.mark.slow
def test_the_socket_is_for_its_owner_alone(served: Served):
    mode = (served.state / "socket").stat().st_mode
    assert stat.S_ISSOCK(mode)
    assert stat.S_IMODE(mode) == 0o600
    assert stat.S_IMODE(served.state.stat().st_mode) == 0o700


def test_the_kernel_says_whose_process_is_at_the_other_end():
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        assert peer_uid(ours) == os.geteuid()


@pytest.mark.root
def test_another_users_process_is_shown_the_door(served: Served):
    # Open the doors that would keep it out before the manager is asked, and no others: the
    # directory is reached through a descriptor, whatever lies above it.
    served.state.chmod(0o711)
    (served.state / "socket").chmod(0o666)
    directory = os.open(served.state, os.O_PATH | os.O_DIRECTORY)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
            os.write(writer, _ask(Path(f"/proc/self/fd/{directory}/socket")))
        finally:
            os._exit(0)
    os.close(writer)
    os.close(directory)
    os.waitpid(child, 0)
    with os.fdopen(reader, "rb") as answer:
        assert answer.read() == b"closed without a word"
    (served.state / "socket").chmod(0o600)
    served.state.chmod(0o700)
    assert Client(served.state).get("status")["name"] == "wharfinger"


def _ask(path: Path) -> bytes:
    try:
        with connect(path, 60.0) as connection:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            return connection.recv(100) or b"closed without a word"
    except (BrokenPipeError, ConnectionResetError):
        return b"closed without a word"
    except OSError as error:
        return repr(error).encode()


def test_a_path_longer_than_the_kernel_takes_works_on_both_sides(tmp_path: Path):
    state = tmp_path / ("d" * 100) / ("e" * 100)
    state.mkdir(parents=True)
    assert len(os.fsencode(state / "socket")) > MAX_PATH_BYTES
    gc.collect()  # Else what earlier tests left may be closed meanwhile.
    before = len(list(Path("/proc/self/fd").iterdir()))
    listener = listen_unix(state / "socket")
    listener.setblocking(True)
    with listener, connect(state / "socket", 60.0) as client:
        accepted, _ = listener.accept()
        with accepted:
            client.sendall(b"hello")
            assert accepted.recv(5) == b"hello"
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.slow
def test_a_manager_on_a_long_path_serves(tmp_path: Path):
    state = tmp_path / ("d" * 100) / ("e" * 100)
    served = Served(state)
    try:
        assert Client(state).get("status")["state_directory"] == str(state)
    finally:
        served.stop()
    assert not (state / "socket").exists()


def test_a_dead_managers_socket_is_removed(tmp_path: Path):
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    listen_unix(path).close()


def test_what_is_no_socket_is_left_alone(tmp_path: Path):
    path = tmp_path / "socket"
    path.write_text("mine")
    with pytest.raises(Conflict, match="is no socket"):
        listen_unix(path)
    assert path.read_text() == "mine"


# --- TCP ---


def ask(served: Served, path: str = "/v1/status", **headers: str) -> tuple[int, dict[str, object]]:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
    try:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_tcp_is_open_to_whoever_has_the_token(served: Served, scheme: str):
    status, body = ask(served, Authorization=f"{scheme} {TOKEN}")
    assert (status, body["name"]) == (200, "wharfinger")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": f"Bearer {TOKEN[:-1]}"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": "Bearer "},
    ],
)
def test_tcp_is_closed_to_everyone_else(served: Served, headers: dict[str, str]):
    for path in ("/v1/status", "/healthz", "/metrics", "/openapi.json", "/docs", "/nothing"):
        status, body = ask(served, path, **headers)
        assert (status, body["error"]["code"]) == (401, "unauthorized")  # type: ignore[index]


def test_whoever_lacks_the_token_keeps_nobody_out(served: Served):
    with ExitStack() as stack:
        for _ in range(MAX_TCP_CONNECTIONS + 20):
            address = ("127.0.0.1", served.port)
            stack.enter_context(socket.create_connection(address, timeout=60))
        assert ask(served, Authorization=f"Bearer {TOKEN}")[0] == 200


def test_who_has_the_token_stays_connected_while_others_come(served: Served):
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
    with closing(connection), ExitStack() as stack:
        for wave in range(2):
            connection.request("GET", "/healthz", headers={"Authorization": f"Bearer {TOKEN}"})
            first = connection.sock
            assert connection.getresponse().read() == b"ok\n"
            if wave:
                break
            for _ in range(MAX_TCP_CONNECTIONS + 20):
                address = ("127.0.0.1", served.port)
                stack.enter_context(socket.create_connection(address, timeout=60))
            assert ask(served, Authorization=f"Bearer {TOKEN}")[0] == 200
        assert connection.sock is first


def test_the_unix_socket_needs_no_token(served: Served):
    assert Client(served.state).get("status")["version"]


def test_what_is_not_http_is_refused_in_the_apis_form(served: Served):
    with connect(served.state / "socket", 60.0) as connection:
        connection.sendall(b"\x16\x03\x01 not http\r\n\r\n")
        answer = b""
        while piece := connection.recv(4096):
            answer += piece
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "invalid-input"


def test_an_endless_head_is_cut_off(served: Served):
    with connect(served.state / "socket", 60.0) as connection:
        try:
            connection.sendall(b"GET / HTTP/1.1\r\n" + b"X: " + b"a" * 10_000_000)
            answer = connection.recv(4096)
        except (BrokenPipeError, ConnectionResetError):
            answer = b"HTTP/1.1 400 "
    assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 431 ")) or not answer


@pytest.mark.parametrize("given", ["", "7777", ":7777", "host:", "host:99999", "::1:7777", "a:b"])
def test_a_wrong_address_is_refused_with_the_mend(given: str):
    with pytest.raises(InvalidInput, match=r"--listen: .*write"):
        parse_listen(given)


def test_addresses_of_both_families_are_read():
    assert parse_listen("127.0.0.1:0") == ("127.0.0.1", 0)
    assert parse_listen("[::1]:7777") == ("::1", 7777)


def test_an_address_that_is_taken_is_a_conflict():
    with listen_tcp("127.0.0.1", 0) as taken, pytest.raises(Conflict, match="name another"):
        listen_tcp("127.0.0.1", taken.getsockname()[1])


# --- the token ---


def test_the_token_comes_from_a_file_or_the_environment(tmp_path: Path):
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    file.chmod(0o600)
    assert find_token(file, {}) == TOKEN
    assert find_token(None, {"WHARFINGER_TOKEN": TOKEN}) == TOKEN


@pytest.mark.parametrize(
    ("token", "words"),
    [
        ("", "use --token-file FILE or WHARFINGER_TOKEN"),
        ("short", "5 characters, at least 16"),
        ("ü" * 20, "ASCII"),
        ("a b " * 8, "ASCII without spaces"),
    ],
)
def test_a_token_that_protects_nothing_is_refused(token: str, words: str):
    with pytest.raises(InvalidInput, match=words):
        find_token(None, {"WHARFINGER_TOKEN": token})


def test_a_token_that_others_can_read_is_refused(tmp_path: Path):
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(0o644)
    with pytest.raises(InvalidInput, match="chmod 600"):
        find_token(file, {})
    with pytest.raises(InvalidInput, match="No such file"):
        find_token(tmp_path / "none", {})


# --- its life ---


@pytest.mark.long
def test_a_silent_tcp_client_does_not_keep_the_manager_from_ending(tmp_path: Path):
    served = Served(tmp_path, "--listen", "127.0.0.1:0", environment=with_token(TOKEN))
    with socket.create_connection(("127.0.0.1", served.port)), connect(tmp_path / "socket", 60.0):
        assert served.stop() == (0, "")
    assert not (tmp_path / "socket").exists()


@pytest.mark.long
def test_a_manager_stops_on_request(tmp_path: Path):
    served = Served(tmp_path)
    Client(tmp_path).call("POST", "workloads", body=json.dumps(manifest("w")).encode())
    answer = Client(tmp_path).call("POST", "stop")
    said = json.loads(answer.body)
    assert (answer.status, said["pid"], said["workloads"]) == (202, served.process.pid, [])
    assert served.process.wait(timeout=60) == 0
    assert served.stop() == (0, "")
    assert not (tmp_path / "socket").exists()


@pytest.mark.long
def test_a_manager_stops_its_workloads_first_if_asked(tmp_path: Path):
    served = Served(tmp_path)
    for name in ("v", "w"):
        Client(tmp_path).call("POST", "workloads", body=json.dumps(manifest(name)).encode())
    answer = Client(tmp_path).call("POST", "stop", body=b'{"workloads": true}',
                                   content_type="application/json")  # fmt: skip
    assert json.loads(answer.body)["workloads"] == ["v", "w"]
    assert served.process.wait(timeout=60) == 0
    assert served.stop() == (0, "")
    again = Served(tmp_path)
    try:
        assert [w["phase"] for w in Client(tmp_path).get("workloads")] == ["revoked", "revoked"]
    finally:
        again.stop()


@pytest.mark.long
def test_a_long_poll_ends_with_the_manager(tmp_path: Path):
    served = Served(tmp_path)
    after = Client(tmp_path).get("status")["last_sequence"]
    with connect(tmp_path / "socket", 120.0) as connection:
        request = f"GET /v1/events?after={after}&wait_seconds=30 HTTP/1.1\r\nHost: x\r\n\r\n"
        connection.sendall(request.encode())
        wait_until(lambda: _is_read(connection), what="the request is read")
        assert served.stop() == (0, "")
        assert connection.recv(4096).endswith(b"[]")


def _is_read(connection: socket.socket) -> bool:
    """Whether the peer has taken everything that was sent (SIOCOUTQ)."""
    left = bytearray(4)
    fcntl.ioctl(connection, termios.TIOCOUTQ, left)
    return not any(left)
