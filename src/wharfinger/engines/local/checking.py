"""What makes a program impossible on this machine, known before it is started.

For certain only: what may still come (a file that another program makes, say) is no reason to
refuse, but neither is it expected of a program's own file and of its working directory.
"""

import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path

from wharfinger.errors import InvalidInput
from wharfinger.host.accounts import UserAccount, may_execute, other_account
from wharfinger.host.environment import environment
from wharfinger.host.supervisor import signal_named
from wharfinger.model.ends import CANNOT_RUN
from wharfinger.model.workload import Workload

_COMMAND, _DIRECTORY = "spec.run.command", "spec.run.workingDir"
_HIDDEN = ("/dev", "/proc", "/run", "/sys")
_MENDS = {
    os.strerror(errno.ENOENT): "; the loader that it was built for is missing: see 'ldd', 'file'",
    os.strerror(errno.ENOEXEC): "; it was built for another kind of machine: see 'file'",
    os.strerror(errno.EACCES): "; change its rights, or run.user",
    os.strerror(errno.E2BIG): "; shorten its arguments and run.env",
    os.strerror(errno.ELIBBAD): "; it is damaged: install it again",
}
_FIRST_LINE_BYTES = 256
"""The kernel reads no more of a script's first line."""


def why_not(workload: Workload) -> str:
    """Why it can't run here, with value, place and mend in one line; empty = it may."""
    run = workload.run
    if not run.command or not run.command[0]:
        return f"{_COMMAND}: empty; name a program"
    if "\0" in f"{run.command[0]}{run.working_directory}":
        return f"{_COMMAND}: holds a NUL character; no program can be given one"
    try:
        account = other_account(run.user)
        signal_named(run.stop_signal)
    except InvalidInput as error:
        return str(error)
    directory = Path(run.working_directory)
    if problem := _problem_of_directory(directory, account):
        return f"{_DIRECTORY}: {problem}"
    path = environment(workload)["PATH"]
    if problem := _problem_of_program(run.command[0], path, directory, account):
        return f"{_COMMAND}: {problem}"
    return ""


def cannot_run(workload: Workload, said: str) -> str:
    """Why the program can't run at all, from what the sandbox said of a copy; empty = it may.

    Not every failure of a copy is the program's: what lies in ``_HIDDEN`` is not seen inside.
    """
    program = workload.run.command[0]
    if not said.startswith(f"cannot run {program}: "):
        return ""
    if why := why_not(workload):
        return f"{CANNOT_RUN}{why}"
    path, directory = environment(workload)["PATH"], Path(workload.run.working_directory)
    found = next(filter(Path.exists, _candidates(program, path, directory)), None)
    if found is None or any(found.resolve().is_relative_to(place) for place in _HIDDEN):
        return ""
    why = said.removeprefix(f"cannot run {program}: ")
    mend = _MENDS.get(why, "")
    return f"{CANNOT_RUN}{_COMMAND}: {str(found)!r}: {why}{mend}" if mend else ""


def _problem_of_directory(directory: Path, account: UserAccount | None) -> str:
    shown = repr(str(directory))
    if not directory.is_absolute():
        return f"{shown} is not an absolute path; begin it with '/'"
    try:
        if not directory.is_dir():
            what = "is a file" if directory.exists() else "does not exist"
            return f"{shown} {what}; name a directory, or make it"
        if may_execute(directory, account):
            return ""
    except OSError as error:
        return f"{shown}: {error.strerror}; name another directory"
    return f"{_who(account)} may not enter {shown}; name another directory, or change its rights"


def _problem_of_program(
    program: str, path: str, directory: Path, account: UserAccount | None
) -> str:
    problems = []
    for file in _candidates(program, path, directory):
        problem = _problem_of_file(file, directory, account)
        if problem == "":
            return ""
        problems.append(problem)
    if told := [problem for problem in problems if problem is not None]:
        return told[0]
    if "/" in program:
        inside = "" if program.startswith("/") else f" in {str(directory)!r}"
        return f"there is no program {program!r}{inside}; correct the path, or install it"
    return (
        f"no such program: {program!r} is in no directory of its PATH ({path}); install it, "
        "write its whole path, or give run.env a PATH"
    )


def _candidates(program: str, path: str, directory: Path) -> Iterator[Path]:
    if "/" in program:
        yield directory / program
        return
    for folder in path.split(":"):
        yield directory / folder / program


def _problem_of_file(file: Path, directory: Path, account: UserAccount | None) -> str | None:
    """Why it can't be executed; empty = it can; ``None`` = it is not there."""
    shown = repr(str(file))
    try:
        if not file.exists():
            return None
        if file.is_dir():
            return f"{shown} is a directory; name a program"
        if not may_execute(file, account):
            return (
                f"{_who(account)} may not execute {shown}; "
                "make it executable (chmod +x), or put its interpreter before it"
            )
    except OSError as error:
        return f"{shown}: {error.strerror}; name another program"
    interpreter = _interpreter(file)
    if not interpreter or (directory / interpreter).exists():
        return ""
    return (
        f"{shown}: the interpreter that its first line names, {interpreter!r}, is missing; "
        "install it, or correct the line"
    )


def _interpreter(file: Path) -> str:
    """What a script's first line names; empty where it is no script, or unreadable."""
    try:
        with file.open("rb") as opened:
            line = opened.read(_FIRST_LINE_BYTES).split(b"\n")[0]
    except OSError:
        return ""
    if not line.startswith(b"#!"):
        return ""
    # As the kernel does: a carriage return is part of the name.
    return os.fsdecode(re.split(rb"[ \t\0]", line[2:].strip(b" \t"), maxsplit=1)[0])


def _who(account: UserAccount | None) -> str:
    return "the manager's user" if account is None else f"user {account.name!r}"
