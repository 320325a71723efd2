"""What completion suggests, by the parsers and without a manager; and that each shell shows it."""

import os
import pty
import select
import shutil
import stat
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from wharfinger.cli.completion import FILES, SCRIPTS, suggestions
from wharfinger.cli.main import COMMANDS

IN_SHELL = {
    "bash": """
        eval "$(wharfinger completion bash)"
        COMP_WORDS=(wharfinger {words}) COMP_CWORD={at}
        _wharfinger
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """,
    "zsh": """
        compdef() {{ }}
        compadd() {{ shift; print -l -- "$@" }}
        eval "$(wharfinger completion zsh)"
        words=(wharfinger {words}) CURRENT={next}
        _wharfinger
    """,
    "fish": """
        wharfinger completion fish | source
        complete -C "wharfinger {line}"
    """,
}


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WHARFINGER_STATE", str(tmp_path / "state"))
    return tmp_path


def test_commands_options_and_values_are_known_without_a_manager(nowhere: Path):
    assert suggestions([""]) == sorted(COMMANDS)
    assert suggestions(["exp"]) == ["experiment", "explain"]
    assert suggestions(["get", "s"]) == ["servers", "status"]
    assert "--sort-by" in suggestions(["get", "workloads", "--"])
    assert suggestions(["get", "workloads", "-o", "j"]) == ["json", "jsonpath="]
    assert suggestions(["get", "workloads", "--output=y"]) == ["--output=yaml"]
    assert suggestions(["get", "workloads", "--output", "=", "y"]) == ["yaml"]
    assert suggestions(["get", "workloads", "--phase", "mig"]) == ["migrating"]
    assert suggestions(["update", "a", "--adapt", ""]) == ["auto", "off", "recommend"]
    assert suggestions(["classify", "ev"]) == ["evaluate"]
    assert suggestions(["classify", "evaluate", "--sc"]) == ["--scale"]
    assert suggestions(["experiment", "r"]) == ["run"]


def test_names_of_ours_are_known_without_a_manager(nowhere: Path):
    assert "quasar" in suggestions(["up", "--policy", ""])
    assert "oracle" in suggestions(["simulate", "--policy", ""])
    assert "oracle" not in suggestions(["up", "--policy", ""])
    assert "synthetic" in suggestions(["simulate", ""])
    assert "fifo" in suggestions(["simulate", "synthetic", "--admission", "f"])
    assert "paragon-ec2" in " ".join(
        suggestions(["experiment", "run", ""]) + suggestions(["simulate", ""])
    )


def test_files_are_left_to_the_shell(nowhere: Path):
    assert suggestions(["submit", "-f", ""]) == [FILES]
    assert suggestions(["--state", ""]) == [FILES]


@pytest.mark.parametrize("words", [["get", "workloads", ""], ["logs", "w"], ["nothing", ""],
                                   ["describe", "server", ""], ["submit", "x", ""]])  # fmt: skip
def test_nothing_is_suggested_where_nothing_is_known(
    nowhere: Path, capfd: pytest.CaptureFixture[str], words: list[str]
):
    assert suggestions(words) == []
    assert capfd.readouterr() == ("", "")


@pytest.fixture
def on_path(tmp_path: Path) -> dict[str, str]:
    """An environment in which this very program is ``wharfinger``."""
    program = tmp_path / "bin" / "wharfinger"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m wharfinger "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    path = f"{program.parent}:{os.environ['PATH']}"
    home = {"HOME": str(tmp_path), "WHARFINGER_STATE": str(tmp_path / "state")}
    return {**os.environ, "PATH": path, **home}


@pytest.mark.slow
@pytest.mark.parametrize("shell", IN_SHELL)
def test_the_shell_shows_what_is_suggested(shell: str, on_path: dict[str, str]):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    for words, expected in (
        (["get", "s"], {"servers", "status"}),
        (["simulate", "synthetic", "--policy", "ora"], {"oracle"}),
        (["delete", "x", "--al"], {"--all"}),
    ):
        script = IN_SHELL[shell].format(
            words=" ".join(words), line=" ".join(words), at=len(words), next=len(words) + 1
        )
        options = ["-f"] if shell == "zsh" else []
        done = subprocess.run(
            [shell, *options, "-c", script], env=on_path, capture_output=True, text=True,
            timeout=120, check=False,
        )  # fmt: skip
        assert (set(done.stdout.split()), done.stderr) == (expected, "")


def test_tcsh_completes_the_line_on_a_terminal(on_path: dict[str, str], tmp_path: Path):
    if shutil.which("tcsh") is None:
        pytest.skip("tcsh is not installed")
    script = tmp_path / "complete.tcsh"
    script.write_text(SCRIPTS["tcsh"])
    ours, theirs = pty.openpty()
    shell = subprocess.Popen(
        ["tcsh", "-f"],
        env={**on_path, "TERM": "xterm"},
        pass_fds=[theirs],
        preexec_fn=partial(os.login_tty, theirs),  # noqa: PLW1509 - no threads here
    )
    os.close(theirs)

    def read_until(end: bytes) -> None:
        shown = b""
        while end not in shown:
            assert select.select([ours], [], [], 60)[0], shown
            shown += os.read(ours, 4096)

    try:
        os.write(ours, f"set prompt=ready; source {script}; echo don''e\n".encode())
        read_until(b"done\r\nready")
        os.write(ours, b"wharfinger simulate synthetic --policy ora\t")
        read_until(b"--policy oracle")
    finally:
        shell.kill()
        shell.wait()
        os.close(ours)


@pytest.mark.parametrize("shell", SCRIPTS)
def test_every_shell_accepts_its_script(shell: str, on_path: dict[str, str]):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = (
        SCRIPTS[shell] if shell != "zsh" else f"autoload -U compinit; compinit -D\n{SCRIPTS['zsh']}"
    )
    done = subprocess.run(
        [shell, "-f"] if shell in ("zsh", "tcsh") else [shell],
        input=script, env=on_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
