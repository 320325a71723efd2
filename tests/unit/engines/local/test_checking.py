"""What is impossible on this machine is known before anything is started."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from wharfinger.engines.local.checking import cannot_run, why_not
from wharfinger.model.workload import Run, Workload, WorkloadType

NOBODY = "nobody"


def asked(*command: str, folder: Path | str = "/", **run: object) -> str:
    made = Run(command, working_directory=str(folder), **run)  # type: ignore[arg-type]
    return why_not(Workload("w", WorkloadType.BATCH, made))


def script(folder: Path, text: str, name: str = "script") -> str:
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    return f"./{name}"


def test_what_can_run_is_not_refused(tmp_path: Path) -> None:
    assert asked("sh", "-c", "exit") == ""
    assert asked("/bin/sh") == ""
    assert asked(script(tmp_path, "#! /bin/sh -e\n"), folder=tmp_path) == ""
    assert asked(script(tmp_path, "#!./script\n", "other"), folder=tmp_path) == ""
    assert asked(script(tmp_path, "echo no first line\n", "bare"), folder=tmp_path) == ""
    assert asked("bare", folder=tmp_path, env={"PATH": "/nowhere:"}) == ""
    assert asked("sh", stop_signal="INT", user="") == ""


def _missing(folder: Path) -> str:
    return asked("./server", folder=folder)


def _folder_as_program(folder: Path) -> str:
    (folder / "bin").mkdir()
    return asked(str(folder / "bin"))


def _plain_file(folder: Path) -> str:
    (folder / "run.py").write_text("print()")
    return asked("./run.py", folder=folder)


def _plain_file_in_path(folder: Path) -> str:
    (folder / "run.py").write_text("print()")
    return asked("run.py", env={"PATH": f"/nowhere:{folder}"})


def _without_interpreter(folder: Path) -> str:
    return asked(script(folder, "#!/no/such/interpreter -x\n"), folder=folder)


def _from_windows(folder: Path) -> str:
    return asked(script(folder, "#!/bin/sh\r\n"), folder=folder)


@pytest.mark.parametrize(
    ("ask", "place", "words"),
    [
        (lambda _: asked("foo-is-nowhere"), "command", "'foo-is-nowhere' is in no directory of"),
        (_missing, "command", "no program './server' in "),
        (lambda _: asked("/no/such/program"), "command", "no program '/no/such/program'; correct"),
        (_folder_as_program, "command", "is a directory"),
        (_plain_file, "command", "chmod +x"),
        (_plain_file_in_path, "command", "chmod +x"),
        (_without_interpreter, "command", "'/no/such/interpreter', is missing"),
        (_from_windows, "command", r"'/bin/sh\r', is missing"),
        (lambda _: asked("true", folder="/no/such"), "workingDir", "'/no/such' does not exist"),
        (lambda _: asked("true", folder="/etc/passwd"), "workingDir", "'/etc/passwd' is a file"),
        (lambda _: asked("true", folder="here"), "workingDir", "not an absolute path"),
        (lambda _: asked("true", user="no-such-user"), "user", "no user 'no-such-user'"),
        (lambda _: asked("true", stop_signal="STOPP"), "stopSignal", "'STOPP' is no signal"),
        (lambda _: asked(), "command", "empty"),
        (lambda _: asked("a\0b"), "command", "NUL"),
    ],
)
def test_what_can_not_run_is_told_with_its_place_and_mend(
    ask: Callable[[Path], str], place: str, words: str, tmp_path: Path
) -> None:
    told = ask(tmp_path)
    assert told.startswith(f"spec.run.{place}: ")
    assert words in told
    assert "\n" not in told


@pytest.mark.root
def test_another_user_is_asked_what_that_user_may(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    open_ = Path("/var/tmp")
    assert asked("true", folder=open_, user=NOBODY) == ""
    assert asked("true", folder=closed, user=NOBODY).startswith(
        "spec.run.workingDir: user 'nobody'"
    )
    program = script(closed, "#!/bin/sh\n").replace(".", str(closed), 1)
    assert "user 'nobody' may not execute" in asked(program, folder=open_, user=NOBODY)


def test_one_who_is_not_root_becomes_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    told = asked("true", user=NOBODY)
    assert told.startswith("spec.run.user: 'nobody'")
    assert "run the manager as root" in told


def test_a_copy_that_is_not_run_tells_of_the_program_only_what_is_certain(tmp_path: Path) -> None:
    def workload(program: str) -> Workload:
        return Workload("w", WorkloadType.BATCH, Run((program,), working_directory=str(tmp_path)))

    gone = cannot_run(workload("/no/such"), "cannot run /no/such: No such file or directory")
    assert "correct the path" in gone
    other = script(tmp_path, "\x7fELF")
    foreign = cannot_run(workload(other), f"cannot run {other}: Exec format error")
    assert "another kind of machine" in foreign
    assert cannot_run(workload("sh"), "cannot run sh: Cannot allocate memory") == ""
    assert cannot_run(workload("sh"), "cannot run the load generator x: No such file") == ""
    assert cannot_run(workload("sh"), "overlay over /: Invalid argument") == ""
