"""The call: which command is meant, what is wrong with it, and how fast help comes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from wharfinger.cli.client import Client
from wharfinger.cli.main import COMMANDS, build_parser, find_command, main

SLOW_TO_IMPORT = (
    "yaml", "numpy", "msgspec", "asyncio", "ssl", "http", "pydantic", "json", "typing",
    "subprocess", "socket", "email", "urllib", "logging",
)  # fmt: skip


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory without a manager, and nobody waits for one."""
    monkeypatch.setenv("WHARFINGER_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(Client.wait_for_manager, "__defaults__", (0.0,))
    return tmp_path / "state"


def call(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    """Exit status, output and errors of one call."""
    try:
        status = main(argv)
    except SystemExit as end:
        status = int(end.code or 0)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_help_imports_next_to_nothing():
    probe = (
        "import sys, json\n"
        "before = set(sys.modules)\n"
        "from wharfinger.cli.main import main\n"
        "try:\n    main(['--help'])\n"
        "except SystemExit:\n    pass\n"
        "print(json.dumps(sorted({m.partition('.')[0] for m in sys.modules} - before)))\n"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    imported = set(json.loads(done.stdout.splitlines()[-1]))
    assert not imported & set(SLOW_TO_IMPORT) - {"json"}
    assert all(command in done.stdout for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(capsys: pytest.CaptureFixture[str], command: str):
    status, out, err = call(capsys, command, "--help")
    assert (status, err) == (0, "")
    assert out.startswith(f"usage: wharfinger {command}")


def test_the_command_is_found_behind_its_options():
    assert find_command(["--state", "get", "submit", "-f", "x"]) == "submit"
    assert find_command(["--state=x", "get"]) == "get"
    assert find_command(["--help"]) is None


def test_the_state_directory_may_be_given_before_or_after_the_command():
    for argv in (["--state", "x", "get", "queues"], ["get", "queues", "--state", "x"]):
        assert build_parser(["get"]).parse_args(argv).state == "x"


def test_a_token_may_be_given_before_the_command_as_its_server_may():
    argv = ["--server", "http://x:1", "--token-file", "t", "get", "queues"]
    parsed = build_parser(["get"]).parse_args(argv)
    assert (parsed.server, parsed.token_file) == ("http://x:1", "t")
    assert find_command(argv) == "get"


def test_options_may_stand_between_names():
    parse = build_parser(COMMANDS).parse_args
    assert parse(["get", "events", "--follow", "a"]).names == ["a"]
    assert parse(["get", "-o", "json", "workloads", "a", "--phase", "ended", "b"]).names == [
        "a",
        "b",
    ]
    assert parse(["delete", "--wait", "a", "b"]).names == ["a", "b"]
    assert parse(["logs", "--tail", "3", "a", "-f"]).name == "a"


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], "COMMAND"),
        (["gett"], "invalid choice: 'gett'"),
        (["get"], "get: the following arguments are required: KIND"),
        (["get", "ships"], "'ships' is not a kind; there are workloads, servers"),
        (["get", "workloads", "-o", "xml"], "'xml' is not a format; there are table, wide"),
        (
            ["get", "workloads", "--phase", "x"],
            "'x' is no phase; give one of ended, live, ",
        ),
        (["ibench", "run", "nosuch"], "nosuch"),
        (["ibench", "peer", "--listen", "x"], "--listen: 'x'; give [HOST]:PORT"),
        (["get", "servers", "--phase", "ended"], "--phase is for workloads, not for servers"),
        (["get", "workloads", "--limit", "3"], "--limit is for events, not for workloads"),
        (["get", "servers", "--all"], "--all is for events, not for servers"),
        (["get", "queues", "--kind", "x"], "--kind is for events, not for queues"),
        (["get", "events", "--limit", "0"], "'0': write a whole number from 1 to 10000"),
        (["get", "status", "x"], "status takes no names"),
        (["describe", "queue", "x"], "'queue' is not a kind; there are workloads, servers"),
        (["get", "workloads", "-l", "a=b=c"], "'a=b=c' is not a selector of labels; write e.g."),
        (
            ["get", "workloads", "-o", "jsonpath={.a"],
            "'{.a' is not a template; write e.g. {.phase}",
        ),
        (["get", "workloads", "-o", "jsonpath={a b}"], "{a b} is not a path; write e.g. {.phase}"),
        (["get", "status", "-w"], "--watch is for lists, not for status"),
        (["logs", "a", "-p", "-f"], "--follow is not for a start that has ended"),
        (["completion"], "SHELL is missing; there are bash, zsh, fish"),
        (["submit"], "-f/--file"),
        (["submit", "-f", "/no/such"], "-f: /no/such: No such file or directory; name a file"),
        (["submit", "-f", "/"], "-f: /: Is a directory"),
        (["submit", "-f", "a\0b"], "null byte"),
        (["submit", "-f", "/dev/zero"], "larger than 4Mi; split it"),
        (["submit", "-f", "-", "--wait", "--timeout", "soon"], "'soon' is not a duration"),
        (["logs", "a", "--tail", "-1"], "--tail"),
        (["update", "a"], "either -f FILE or options"),
        (["update", "a", "-f", "x", "--cpu", "2"], "either -f FILE or options"),
        (["update", "a", "--priority", "high"], "invalid int value: 'high'"),
        (["delete"], "name workloads, or give --all"),
        (["delete", "a", "--all"], "name workloads, or give --all"),
        (["delete", "a", "--phase", "ended"], "name workloads, or give --all"),
        (["run"], "run: name the program and its arguments after --"),
        (["run", "--"], "run: name the program and its arguments after --"),
        (["exec"], "exec: the following arguments are required: NAME"),
        (["exec", "a", "--"], "exec: name the program and its arguments after --"),
        (["run", "ls", "-l"], "unrecognized arguments: -l"),
        (["stop"], "stop: name workloads, or give labels with -l KEY=VALUE"),
        (["wait", "a", "-l", "b=c"], "wait: name workloads, or give labels"),
        (["wait", "a", "--for", "luck"], "invalid choice: 'luck'"),
        (["delete", "a", "-l", "b=c"], "name workloads, or give --all"),
        (["cordon"], "SERVER"),
        (["history", "--limit", "0"], "'0': write a whole number from 1 to 10000"),
        (["up", "--log", "loud"], "invalid choice: 'loud'"),
        (["completion", "csh"], "invalid choice: 'csh'"),
        (["up", "--listen", "7777"], "--listen: '7777' is not HOST:PORT"),
        (["up", "--listen", "127.0.0.1:0"], "--listen needs a token"),
        (["up", "--policy", "best"], "--policy: 'best' is not a policy; there are quasar"),
        (
            ["simulate", "synthetic", "--policy", "true-size+quasar"],
            "is no word before a policy's name; there are true-platforms, true-scores, ",
        ),
        (
            ["simulate", "synthetic", "--compare", "stated+best"],
            "--compare: 'best' is not a policy",
        ),
        (
            ["simulate", "synthetic", "--policy", "stated+quasar[best=1]"],
            "'best' is not a setting; near it are",
        ),
        (["up", "--admission", "vip"], "--admission: 'vip' is not an admission"),
        (["up", "--admission", "arq[queues=0]"], "setting queues=0: give a number from 1 to 100"),
        (["up", "--engine", "steam"], "--engine: 'steam' is not an engine; there are local"),
        (["up", "--state", "/dev/null/x"], "--state: /dev/null/x: Not a directory"),
        (["get", "queues", "\x1b[2J", "--what"], "unrecognized arguments"),
    ],
)
def test_a_wrong_call_is_one_line_that_names_the_mend(
    nowhere: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    argv: list[str],
    words: str,
):
    monkeypatch.delenv("WHARFINGER_TOKEN", raising=False)
    status, out, err = call(capsys, *argv)
    assert (status, out) == (2, "")
    assert err.startswith("wharfinger: ")
    assert err.count("\n") == 1
    assert words in err


@pytest.mark.parametrize(
    "argv",
    [
        ["get", "workloads"], ["get", "status", "-o", "json"], ["explain", "a"], ["logs", "a"],
        ["describe", "server", "a"], ["top"], ["delete", "a"], ["update", "a", "--cpu", "2"],
        ["wait", "a"], ["stop", "a"], ["drain", "a"], ["history"], ["down"],
    ],
)  # fmt: skip
def test_without_a_manager_a_client_says_how_to_start_one(
    nowhere: Path, capsys: pytest.CaptureFixture[str], argv: list[str]
):
    status, out, err = call(capsys, *argv)
    assert (status, out) == (1, "")
    assert err == f"wharfinger: no manager runs on {nowhere}; start one with: wharfinger up\n"


def test_the_mend_names_another_state_directory(
    nowhere: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    other = tmp_path / "other"
    _, _, err = call(capsys, "get", "queues", "--state", str(other))
    assert err.endswith(f"start one with: wharfinger up --state {other}\n")


def test_a_submission_without_a_manager_gives_up_in_the_end(
    nowhere: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    file = tmp_path / "x.yaml"
    file.write_text("{}")
    status, _, err = call(capsys, "submit", "-f", str(file))
    assert status == 1
    assert "no manager runs on" in err


def test_the_version_is_said_in_every_form(capsys: pytest.CaptureFixture[str]):
    _, plain, _ = call(capsys, "--version")
    _, table, _ = call(capsys, "version")
    _, as_json, _ = call(capsys, "version", "-o", "json")
    _, as_yaml, _ = call(capsys, "version", "-o", "yaml")
    assert plain == table
    found = json.loads(as_json)
    assert plain == f"wharfinger {found['version']}\n"
    assert f'version: "{found["version"]}"' in as_yaml


def test_the_schema_is_a_json_schema(capsys: pytest.CaptureFixture[str]):
    status, out, _ = call(capsys, "schema")
    schema = json.loads(out)
    assert status == 0
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert "metadata" in out


def test_output_that_nobody_reads_is_no_fault():
    command = f"{sys.executable} -m wharfinger schema | head -c 1"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, check=False
    )
    assert done.stderr == b""


def test_a_fault_of_our_own_is_one_line_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    def broken(*_: object) -> int:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("wharfinger.cli.version.run", broken)
    monkeypatch.delenv("WHARFINGER_DEBUG", raising=False)
    status, _, err = call(capsys, "version")
    assert status == 1
    assert err.startswith("wharfinger: a fault of wharfinger itself")
    assert "oops" in err
    assert err.count("\n") == 1
