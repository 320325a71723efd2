"""Run a copy of a workload so that what it writes is discarded; see docs/sandbox.md.

``native/sandbox`` does it. The profiler asks :func:`describe_support` what this machine allows,
puts the command of :func:`sandboxed` into a ``LaunchSpec``, and calls :func:`read_report` at the
end. At a manager's start :func:`clean_up` removes what a crash has left.
"""

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from wharfinger.errors import EngineFault, InvalidInput
from wharfinger.host.accounts import UserAccount
from wharfinger.host.binaries import supervisor_path

_PROBE_TIMEOUT_SECONDS = 30.0
_MAX_REPORT_BYTES = 4096
_MESSAGE_PREFIX = "wharfinger-sandbox: "


class SandboxKind(StrEnum):
    """How much a sandbox can discard."""

    WHOLE_ROOT = "whole-root"  # as root: overlays over everything that is mounted
    # In a user namespace: overlays over the working directory, home, /tmp and /var/tmp; all else
    # is read-only.
    DIRECTORIES = "directories"
    UNAVAILABLE = "unavailable"  # the running workload must be measured


@dataclass(frozen=True, slots=True)
class SandboxSupport:
    """What this machine allows; ``reason`` says in one line why there is no sandbox."""

    kind: SandboxKind
    reason: str = ""


class SandboxOutcome(StrEnum):
    """Why a sandbox ended."""

    MAIN_ENDED = "main-ended"  # the command, by itself or by a signal
    LOAD_ENDED = "beside-ended"  # the load command; the command was then asked to end, too
    CAP = "cap"  # killed because it had written more than its cap
    FAULT = "fault"  # it could not be set up, or a command could not be run: see ``reason``
    KILLED = "killed"  # all of it, from outside, before the command had ended


@dataclass(frozen=True, slots=True)
class SandboxReport:
    """How a sandbox ended; written when everything of it is removed.

    Attributes:
        exit_code: The command's; minus the signal's number when a signal ended it; ``None`` when
            the sandbox ended first. Likewise ``load_exit_code``.
        set_up_seconds: From the start to the command's exec.
        ran_seconds: From there to the command's end; 0 when the sandbox ended first.
        used_bytes: The most that the upper layers held.
        reason: A fault's, in one line; else empty.
    """

    outcome: SandboxOutcome
    exit_code: int | None
    load_exit_code: int | None
    set_up_seconds: float
    ran_seconds: float
    used_bytes: int
    reason: str


def sandbox_path() -> Path:
    """The program, ``native/sandbox``."""
    return supervisor_path().with_name("wharfinger-sandbox")


def describe_support(upper_base: Path) -> SandboxSupport:
    """What kind of sandbox is possible on this directory's file system, found by a trial."""
    try:
        trial = _call(f"--upper-base={_absolute('upper_base', upper_base)}", "--probe")
    except EngineFault as fault:
        return SandboxSupport(SandboxKind.UNAVAILABLE, str(fault))
    if trial.returncode == 0:
        return SandboxSupport(SandboxKind(trial.stdout.strip()))
    return SandboxSupport(SandboxKind.UNAVAILABLE, _reason(trial))


def sandboxed(
    command: Sequence[str],
    *,
    working_directory: Path,
    upper_base: Path,
    cap_bytes: int,
    report: Path | None = None,
    load_command: Sequence[str] | None = None,
    load_output: Path | None = None,
    load_cgroup_procs: Sequence[Path] = (),
    account: UserAccount | None = None,
) -> tuple[str, ...]:
    """The command that runs ``command`` in a sandbox, for a ``LaunchSpec``; else ``InvalidInput``.

    Its exit status, or the signal that ends it, is the command's; except 125 when the sandbox could
    not be set up, 126 and 127 when the command could not be run. The report then has the reason.

    Args:
        command: Program and arguments of the workload.
        working_directory: Where it runs.
        upper_base: An existing directory of ours, on the file system of the working directory so
            that writes cost what they cost outside.
        cap_bytes: How much it may write before it is killed; also the limit of each file.
        report: The file for :func:`read_report`.
        load_command: A load generator, started in the same namespaces once the command listens.
        load_output: A file outside for its output; default: with the command's.
        load_cgroup_procs: Files that it enters, so that its CPU time is not the command's.
        account: Whom both run as; ``None`` = our user. Another one takes root.
    """
    _check(command, cap_bytes, load_command, load_output is not None or bool(load_cgroup_procs))
    words = [
        str(sandbox_path()),
        f"--upper-base={_absolute('upper_base', upper_base)}",
        f"--working-directory={_absolute('working_directory', working_directory)}",
        f"--cap-bytes={cap_bytes}",
    ]
    if report is not None:
        words.append(f"--report={_absolute('report', report)}")
    if load_output is not None:
        words.append(f"--beside-output={_absolute('load_output', load_output)}")
    words += [f"--beside-cgroup={_absolute('load_cgroup_procs', p)}" for p in load_cgroup_procs]
    if account is not None:
        words.append(f"--user={':'.join(map(str, account.ids))}")
    words += [f"--beside={word}" for word in load_command or ()]
    return (*words, "--", *command)


def read_report(path: Path) -> SandboxReport | None:
    """How a sandbox ended; ``None`` while it runs, or when it was killed before it could report.

    ``EngineFault``: the file can't be read, or is no sandbox's report.
    """
    try:
        with path.open(errors="replace") as file:
            text = file.read(_MAX_REPORT_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise EngineFault(f"{path}: {error.strerror}") from error
    try:
        return _parse(text)
    except (KeyError, ValueError) as error:
        raise EngineFault(f"{path}: not a sandbox's report: {error}") from error


def clean_up(upper_base: Path) -> int:
    """Remove what killed sandboxes have left in ``upper_base``; how many were removed.

    Running ones are spared. ``EngineFault``: something can't be read or removed.
    """
    call = _call(f"--clean-up={_absolute('upper_base', upper_base)}", timeout_seconds=None)
    if call.returncode != 0:
        raise EngineFault(_reason(call), retryable=True)
    return int(call.stdout.split()[1])


def _check(
    command: Sequence[str], cap_bytes: int, load: Sequence[str] | None, has_load_options: bool
) -> None:
    if not command or not command[0]:
        raise InvalidInput("command: empty; name a program")
    if load is not None and (not load or not load[0]):
        raise InvalidInput("load_command: empty; name a program, or leave it out")
    if load is None and has_load_options:
        raise InvalidInput("load_output, load_cgroup_procs: there is no load_command; give one")
    if cap_bytes <= 0:
        raise InvalidInput(f"cap_bytes: {cap_bytes}; give a positive number")


def _absolute(name: str, path: Path) -> Path:
    if not path.is_absolute():
        raise InvalidInput(f"{name}: {path}: not an absolute path; begin it with '/'")
    return path


def _call(
    *arguments: str, timeout_seconds: float | None = _PROBE_TIMEOUT_SECONDS
) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            [os.fspath(sandbox_path()), *arguments],
            capture_output=True,
            check=False,
            cwd="/",
            errors="replace",
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=timeout_seconds,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineFault(f"cannot run {sandbox_path()}: {error}") from error


def _reason(call: subprocess.CompletedProcess[str]) -> str:
    lines = call.stderr.strip().splitlines()
    if not lines:
        return f"{sandbox_path()} ended with {call.returncode}"
    return lines[-1].removeprefix(_MESSAGE_PREFIX)


def _parse(text: str) -> SandboxReport:
    if not text.endswith("\nend\n"):
        raise ValueError("it has no end")
    fields = dict(re.findall(r"^(\w+) (.*)$", text, re.MULTILINE))
    return SandboxReport(
        outcome=SandboxOutcome(fields["outcome"]),
        exit_code=_exit_code(fields["main"]),
        load_exit_code=_exit_code(fields["beside"]),
        set_up_seconds=int(fields["set_up_ms"]) / 1000,
        ran_seconds=int(fields["ran_us"]) / 1e6,
        used_bytes=int(fields["used_bytes"]),
        reason=fields["reason"],
    )


def _exit_code(text: str) -> int | None:
    if text == "none":
        return None
    how, _, number = text.partition(" ")
    return -int(number) if how == "signaled" else int(number)
