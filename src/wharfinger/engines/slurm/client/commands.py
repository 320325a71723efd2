"""Runs Slurm's commands: with a time limit, an environment of their own, and never by a shell.

What a command complains of becomes one clear line: ``SlurmUnavailable`` where asking again may
help, else ``SlurmRefused``.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence

from wharfinger.errors import SlurmRefused, SlurmUnavailable

DEFAULT_TIMEOUT_SECONDS = 20.0
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/slurm/bin"
_NAMES = ("SLURM_CONF", "SLURM_JWT")
_KEPT = (*_NAMES, "HOME")
_MAX_COMPLAINT = 300
_ALREADY_OVER = re.compile(
    r"invalid job id|already completing|already completed|job is no longer", re.IGNORECASE
)

# What Slurm says, in the order in which it is looked for, and what an operator can do about it.
# A complaint of munge names the controller, too, so munge comes first.
_AWAY = (
    (r"munge|authentication error|auth_g_create", "see that munged runs and keys agree"),
    (r"slurmdbd|accounting storage|persist_conn", "see that slurmdbd runs: sacctmgr ping"),
    (r"standby mode|try again|temporarily|transport endpoint", "it may pass by itself"),
    (
        r"unable to contact|refused|timed out|connect failure|unreachable|no route to|resolve",
        "see that slurmctld runs: scontrol ping",
    ),
    (r"no space left|unable to (save|create).*state", "make room in StateSaveLocation"),
)
_NO = (
    (
        r"incompatible versions|protocol version",
        "use client commands of the controller's version",
    ),
    (
        r"permission denied|not authorized|invalid user id|not permitted",
        "run the manager as SlurmUser, or: sacctmgr modify user NAME set adminlevel=Operator",
    ),
    (r"invalid partition|partition .*not available", "name one of: sinfo -o %R"),
    (r"invalid account|invalid qos", "see: sacctmgr show associations"),
    (
        r"could not establish a configuration source|unable to process configuration|no such file",
        "name the file by SLURM_CONF",
    ),
    (r"unrecognized option|invalid option", "use Slurm 22.05 or newer"),
    (r"serializer|plugin", "install Slurm's JSON serializer (json-c) and data_parser or openapi"),
)


def first_line(complaint: str) -> str:
    r"""The first line that says something, without control characters, not too long.

    >>> first_line("\nsbatch: error: Batch job submission failed: Invalid partition\n")
    'Batch job submission failed: Invalid partition'
    """
    for line in complaint.splitlines():
        said = re.sub(r"^(?:[\w-]+: )?(?:error: |fatal: )?", "", line).strip()
        if said and not said.startswith("If munged is up"):  # a hint, not what happened
            printable = "".join(sign if sign.isprintable() else "?" for sign in said)
            return printable[:_MAX_COMPLAINT]
    return ""


def fault_of(command: str, complaint: str) -> SlurmUnavailable | SlurmRefused:
    """The error that a failed command's complaint stands for."""
    said = first_line(complaint) or "failed without a word"
    for pattern, mend in _AWAY:
        if re.search(pattern, complaint, re.IGNORECASE):
            return SlurmUnavailable(f"{command}: {said}; {mend}")
    for pattern, mend in _NO:
        if re.search(pattern, complaint, re.IGNORECASE):
            return SlurmRefused(f"{command}: {said}; {mend}")
    return SlurmRefused(f"{command}: {said}")


class SlurmCommands:
    """Slurm's commands of one installation, for one cluster.

    Args:
        environment: More for the commands' environment, as ``SLURM_CONF`` and ``PATH``. Of the
            caller's own environment they get no more than what names the cluster.
        timeout_seconds: How long one may take.
    """

    def __init__(
        self,
        environment: Mapping[str, str] | None = None,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    ) -> None:
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        self._environment = {
            "PATH": _PATH,
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "SLURM_TIME_FORMAT": "%s",
            "SLURM_BITSTR_LEN": "0",  # Tasks of an array are all listed.
            **kept,
            **(environment or {}),
        }
        self._timeout_seconds = timeout_seconds

    def run(
        self, *command: str, stdin: bytes = b"", settings: Mapping[str, str] | None = None
    ) -> bytes:
        """What a command prints. ``settings`` are more environment for this call.

        Raises:
            SlurmUnavailable: It got no answer, or none in time.
            SlurmRefused: It is not installed, or Slurm said no.
        """
        done = self._complete(command, stdin, settings or {})
        if done.returncode != 0:
            raise fault_of(command[0], _decoded(done.stderr) or _decoded(done.stdout))
        return done.stdout

    def run_for_those_left(self, *command: str, timeout_seconds: float | None = None) -> None:
        """Run a command about jobs of which some may have ended: that is no failure.

        ``timeout_seconds``: where it is to end sooner than others.
        Raises as ``run`` does, for any other complaint.
        """
        done = self._complete(command, b"", {}, timeout_seconds)
        complaints = [line for line in _decoded(done.stderr).splitlines() if line.strip()]
        others = [line for line in complaints if not _ALREADY_OVER.search(line)]
        if done.returncode != 0 and (others or not complaints):
            raise fault_of(command[0], "\n".join(others))

    def run_for_what_is_known(self, *command: str, timeout_seconds: float | None = None) -> bytes:
        """What a command prints, even where it complains of a part of what it was asked for."""
        done = self._complete(command, b"", {}, timeout_seconds)
        if done.returncode != 0 and not done.stdout:
            complaint = _decoded(done.stderr)
            if complaint.strip() and not _ALREADY_OVER.search(complaint):
                raise fault_of(command[0], complaint)
        return done.stdout

    def check_configuration(self) -> None:
        """``SlurmRefused`` where ``SLURM_CONF`` names no file.

        Slurm's commands would ask the domain name system for a server of it, for half a minute.
        """
        file = self._environment.get("SLURM_CONF", "")
        if file and not os.path.exists(file):  # noqa: PTH110 - also for what Path can't hold
            raise SlurmRefused(f"SLURM_CONF={file}: no such file; name the cluster's slurm.conf")

    def path(self, name: str) -> str:
        """Where a command is; raises ``SlurmRefused`` where there is none."""
        path = self._environment["PATH"]
        program = shutil.which(name, path=path)
        if program is None:
            raise SlurmRefused(
                f"{name}: no such command in {path}; install Slurm's commands on this host "
                "(Debian: apt-get install slurm-client) or name their folder by PATH"
            )
        return program

    def cluster(self) -> dict[str, str]:
        """Of the environment, what names the cluster."""
        return {name: self._environment[name] for name in _NAMES if name in self._environment}

    def _complete(
        self,
        command: Sequence[str],
        stdin: bytes,
        settings: Mapping[str, str],
        timeout_seconds: float | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        name, program = command[0], self.path(command[0])
        timeout_seconds = min(self._timeout_seconds, timeout_seconds or self._timeout_seconds)
        try:
            return subprocess.run(
                [program, *command[1:]],
                input=stdin,
                env={**self._environment, **settings},
                capture_output=True,
                timeout=timeout_seconds,
                check=False,
                cwd="/",
            )
        except subprocess.TimeoutExpired:
            raise SlurmUnavailable(
                f"{name}: no answer within {timeout_seconds:g} s; see that slurmctld and "
                "munged run: scontrol ping; munge -n"
            ) from None
        except (OSError, ValueError) as error:
            # ValueError: a zero byte among the arguments.
            reason = error.strerror if isinstance(error, OSError) else error
            raise SlurmRefused(f"{name}: can't be run: {reason}") from error


def _decoded(output: bytes) -> str:
    return output.decode("utf-8", "replace")
