"""Which manager a call means, and what is said of one that can't be reached."""

import contextlib
import http.client
import json
import os
import socket
import ssl
import subprocess
import threading
from argparse import Namespace
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.support.served import Served
from tests.unit.cli.test_main import call
from wharfinger.cli.addresses import LocalAddress, RemoteAddress
from wharfinger.cli.client import Client
from wharfinger.cli.contexts import find_manager, read_contexts
from wharfinger.cli.submit import relative_directories
from wharfinger.errors import InvalidInput, NotFound

TOKEN = "0123456789abcdef"
VARIABLES = (
    "WHARFINGER_SERVER", "WHARFINGER_CONTEXT", "WHARFINGER_STATE", "WHARFINGER_TOKEN",
    "WHARFINGER_TOKEN_FILE",
)  # fmt: skip
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    state = tmp_path_factory.mktemp("remote") / "state"
    environment = {**os.environ, "WHARFINGER_TOKEN": TOKEN}
    served = Served(state, "--listen", "127.0.0.1:0", environment=environment)
    yield served
    assert served.stop()[0] == 0


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No settings of whoever runs the tests."""
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "states"))
    return tmp_path


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    file.chmod(0o600)
    return file


def url_of(served: Served) -> str:
    return f"http://127.0.0.1:{served.port}"


# --- which one is meant ---


def test_an_option_beats_the_environment_which_beats_the_current_context(
    capsys: Capture, home: Path
):
    assert call(capsys, "context", "add", "lab", "--server", "http://lab:1")[0] == 0
    assert call(capsys, "context", "add", "other", "--state", str(home / "other"))[0] == 0
    local = LocalAddress(home / "states" / "wharfinger")
    assert find_manager(Namespace(), {"XDG_CONFIG_HOME": str(home / "config")}) == local
    assert call(capsys, "context", "use", "lab") == (0, "context/lab is used from now on\n", "")
    environment = {"XDG_CONFIG_HOME": str(home / "config")}
    assert find_manager(Namespace(), environment) == RemoteAddress(
        "http://lab:1", "", "$WHARFINGER_TOKEN"
    )
    environment["WHARFINGER_STATE"] = "/from/environment"
    assert find_manager(Namespace(), environment) == LocalAddress(Path("/from/environment"))
    environment["WHARFINGER_CONTEXT"] = "other"
    assert find_manager(Namespace(), environment) == LocalAddress(home / "other")
    environment["WHARFINGER_SERVER"] = "https://from.environment"
    assert str(find_manager(Namespace(), environment)).endswith("https://from.environment")
    given = find_manager(Namespace(state="/given"), environment)
    assert given == LocalAddress(Path("/given"))
    assert find_manager(Namespace(context="local"), environment) == local
    with pytest.raises(InvalidInput, match="--server and --state name two managers"):
        find_manager(Namespace(state="/x", server="http://y:1"), environment)
    with pytest.raises(NotFound, match="no context 'lost'; there are local, lab, other"):
        find_manager(Namespace(context="lost"), environment)


def test_contexts_are_listed_and_removed(capsys: Capture, token_file: Path):
    call(
        capsys, "context", "add", "lab", "--server", "http://lab:1", "--token-file", str(token_file)
    )
    call(capsys, "context", "use", "lab")
    _, out, _ = call(capsys, "context", "list", "-o", "json")
    assert [(one["name"], one["current"]) for one in json.loads(out)] == [
        ("local", False),
        ("lab", True),
    ]
    assert json.loads(out)[1]["token_file"] == str(token_file)
    status, _, err = call(capsys, "context", "add", "lab", "--server", "http://lab:2")
    assert (status, err[:43]) == (1, "wharfinger: context 'lab' is there already;")
    assert call(capsys, "context", "remove", "lab")[0] == 0
    assert read_contexts(os.environ) == ("local", {})
    assert call(capsys, "context", "use", "lab")[0] == 1


def test_a_damaged_file_of_contexts_is_told_and_kept(capsys: Capture, home: Path):
    file = home / "config" / "wharfinger" / "contexts.yaml"
    file.parent.mkdir(parents=True)
    for content in ("[", "a: [", "contexts: {x: 3}", "contexts: {x: {}}", "- a"):
        file.write_text(content)
        status, _, err = call(capsys, "context", "list")
        assert (status, err.count("\n")) == (2, 1), content
        assert f"{file} is not what" in err
        assert file.read_text() == content


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--server", "lab:7777", "get", "queues"], "'lab:7777' is not the URL of a manager"),
        (["get", "queues", "--server", "http://"], "write http://HOST:PORT or https://HOST"),
        (["get", "queues", "--server", "http://a:x"], "is not the URL of a manager"),
        (["get", "queues", "--server", "http://u@a:1"], "is not the URL of a manager"),
        (["get", "queues", "--token-file", "/x"], "--token-file is for --server"),
        (["--server", "http://a:1", "up"], "--server: up works on this machine; leave it out"),
        (["context", "add", "x"], "give --server URL, or else --state DIR"),
        (["context", "list", "x"], "context list takes no NAME"),
        (["context", "use"], "context use needs a NAME"),
    ],
)
def test_a_wrong_address_is_one_line_that_names_the_mend(
    capsys: Capture, argv: list[str], words: str
):
    status, out, err = call(capsys, *argv)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert words in err


# --- speaking to it ---


@pytest.mark.slow
def test_client_commands_work_over_tcp(
    capsys: Capture, served: Served, token_file: Path, monkeypatch: pytest.MonkeyPatch
):
    there = ["--server", url_of(served)]
    with_file = [*there, "--token-file", str(token_file)]
    status, out, _ = call(capsys, "get", "status", "-o", "json", *with_file)
    assert (status, json.loads(out)["state_directory"]) == (0, str(served.state))
    monkeypatch.setenv("WHARFINGER_TOKEN", TOKEN)
    assert call(capsys, *there, "get", "servers", "-o", "json")[0] == 0
    monkeypatch.setenv("WHARFINGER_SERVER", url_of(served))
    assert call(capsys, "get", "events", "--limit", "1")[1].count("\n") == 2
    monkeypatch.delenv("WHARFINGER_TOKEN")
    monkeypatch.setenv("WHARFINGER_TOKEN_FILE", str(token_file))
    assert call(capsys, "explain", "lost")[2] == "wharfinger: no workload 'lost'\n"
    monkeypatch.delenv("WHARFINGER_SERVER")
    call(capsys, "context", "add", "lab", *with_file)
    monkeypatch.delenv("WHARFINGER_TOKEN_FILE")
    assert call(capsys, "get", "queues", "--context", "lab")[0] == 0


def test_a_long_poll_over_tcp_ends_with_the_news(served: Served):
    client = Client(RemoteAddress(url_of(served), TOKEN))
    after = client.get("status")["last_sequence"]
    query = {"after": after - 1, "wait_seconds": 30}
    assert client.get("events", query=query)[0]["sequence"] == after


def test_a_request_that_an_interrupt_left_half_written_is_forgotten(
    served: Served, monkeypatch: pytest.MonkeyPatch
):
    client = Client(RemoteAddress(url_of(served), TOKEN))

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(http.client.HTTPConnection, "endheaders", interrupted)
        client.get("status")
    client.close()
    assert client.get("status")["version"]


def test_a_wrong_token_is_told_with_its_place(
    capsys: Capture, served: Served, monkeypatch: pytest.MonkeyPatch
):
    url = url_of(served)
    status, _, err = call(capsys, "get", "queues", "--server", url)
    assert (status, err.partition(";")[0]) == (
        2,
        f"wharfinger: the manager at {url} asks for a token",
    )
    monkeypatch.setenv("WHARFINGER_TOKEN", "f" * 16)
    status, _, err = call(capsys, "get", "queues", "--server", url)
    assert status == 2
    assert f"the manager at {url} refuses the token of $WHARFINGER_TOKEN" in err
    monkeypatch.setenv("WHARFINGER_TOKEN", "short")
    assert "the token has 5 characters" in call(capsys, "get", "queues", "--server", url)[2]


class Foreign(BaseHTTPRequestHandler):
    """Something else that speaks HTTP."""

    def do_GET(self) -> None:
        self.send_response(404 if "queues" in self.path else 200)
        self.end_headers()
        self.wfile.write(b"<html>")

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def foreign() -> Iterator[int]:
    with HTTPServer(("127.0.0.1", 0), Foreign) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_what_is_no_manager_is_told(capsys: Capture, foreign: int):
    for kind, number in (("queues", 404), ("servers", 200)):
        status, _, err = call(capsys, "get", kind, "--server", f"http://127.0.0.1:{foreign}")
        assert (status, err.count("\n")) == (1, 1)
        assert f"answered with status {number}, and not as a manager does" in err
    _, _, err = call(capsys, "get", "queues", "--server", f"https://127.0.0.1:{foreign}")
    assert "does not speak TLS; write http://" in err


def test_what_does_not_speak_http_is_told(capsys: Capture):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def greet() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"SSH-2.0-OpenSSH\r\n\r\n")

        thread = threading.Thread(target=greet)
        thread.start()
        port = listener.getsockname()[1]
        _, _, err = call(capsys, "get", "queues", "--server", f"http://127.0.0.1:{port}")
        thread.join()
    assert "does not answer as a manager does" in err


def test_what_can_not_be_reached_is_told(capsys: Capture):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    status, _, err = call(capsys, "get", "queues", "--server", f"http://127.0.0.1:{port}")
    assert status == 1
    assert f"nothing listens at http://127.0.0.1:{port}; start a manager there" in err
    _, _, err = call(capsys, "get", "queues", "--server", "http://no-such-host.invalid:1")
    assert err.startswith("wharfinger: --server: http://no-such-host.invalid:1: ")
    assert err.endswith("name a host that is known here\n")


def test_relative_directories_of_manifests_for_elsewhere_are_found():
    document = b"""
spec: {run: {workingDir: data}}
---
spec: {run: {workingDir: /srv}}
---
spec: {run: [x]}
---
7
"""
    assert relative_directories(document) == ["data"]
    assert relative_directories(b"a: [") == []


# --- through a proxy that does TLS ---


def relayed(listener: socket.socket, context: ssl.SSLContext, port: int) -> None:
    """Connections to the listener, decrypted, to the port; until the listener is closed."""

    def copy(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(65536):
                target.sendall(piece)
            target.shutdown(socket.SHUT_WR)

    def serve(raw: socket.socket) -> None:
        with (
            contextlib.suppress(OSError),
            context.wrap_socket(raw, server_side=True) as client,
            socket.create_connection(("127.0.0.1", port)) as manager,
        ):
            back = threading.Thread(target=copy, args=(manager, client))
            back.start()
            copy(client, manager)
            back.join()

    with contextlib.suppress(OSError):
        while True:
            threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


@pytest.mark.slow
def test_https_trusts_what_this_machine_trusts(
    capsys: Capture, served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    files = ["-out", str(certificate), "-keyout", str(key)]
    subprocess.run([*command, *files], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    monkeypatch.setenv("WHARFINGER_TOKEN", TOKEN)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        relay = (listener, context, served.port)
        threading.Thread(target=relayed, args=relay, daemon=True).start()
        url = f"https://localhost:{listener.getsockname()[1]}"
        status, _, err = call(capsys, "get", "status", "--server", url)
        assert (status, err.count("\n")) == (1, 1)
        assert "this machine does not trust it" in err
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        status, out, err = call(capsys, "get", "status", "-o", "json", "--server", url)
        assert (status, err) == (0, "")
        assert json.loads(out)["name"] == "wharfinger"
