"""The batch script and the options of one start: pure.

With a shared directory the script ends in the supervisor, whose instructions lie in the run
directory; without one it ends in the program itself.
"""

import re
import shlex
from collections.abc import Mapping
from math import ceil
from pathlib import Path

from wharfinger.engines.slurm.settings import SlurmSettings
from wharfinger.errors import InvalidInput
from wharfinger.host.accounts import other_account
from wharfinger.host.environment import environment
from wharfinger.host.supervisor import signal_named
from wharfinger.model.allocation import Allocation
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.model.workload import Workload

SPEC_FILE = "spec"
"""In a run directory: what its supervisor is told, until that has read it."""
LOG_FILE = "slurm.log"
"""In a run directory: what Slurm, the script or the supervisor say when nothing was started."""
NOT_SHARED = 75
"""Exit status of a script on a node that does not see the run directory."""

_COMMENT = re.compile(r"wharfinger-(run|profile) ([0-9a-f]{12}) (\S{1,300})")
_MEBIBYTE = 1 << 20
_NAME = re.compile(r"[^A-Za-z0-9._-]")
_ENDING_SECONDS = 60.0
"""Beyond its time limit and grace, until Slurm ends a job whose supervisor did not."""


def comment_of(identity: str, key: str) -> str:
    """A job's comment, by which it is found again.

    >>> comment_of("0123456789ab", "k.1")
    'wharfinger-run 0123456789ab k.1'
    """
    return f"wharfinger-run {identity} {key}"


def key_of(identity: str, comment: str) -> str | None:
    """The key of a job of ours by its comment; ``None`` = it is not ours.

    >>> key_of("0123456789ab", "wharfinger-run 0123456789ab k.1")
    'k.1'
    >>> key_of("0123456789ab", "wharfinger: {}")
    """
    return _named(identity, comment, "run")


def profiler_comment(identity: str, name: str) -> str:
    """The comment of a job that profiles; it is no start.

    >>> profiler_name("0123456789ab", profiler_comment("0123456789ab", "k.0"))
    'k.0'
    >>> key_of("0123456789ab", profiler_comment("0123456789ab", "k.0"))
    """
    return f"wharfinger-profile {identity} {name}"


def profiler_name(identity: str, comment: str) -> str | None:
    """The name of a job of ours that profiles, by its comment; ``None`` = it is none."""
    return _named(identity, comment, "profile")


def _named(identity: str, comment: str, kind: str) -> str | None:
    match = _COMMENT.fullmatch(comment.strip())
    return match[3] if match and match.group(1, 2) == (kind, identity) else None


def profiler_script(directory: Path, python: str, *words: str) -> str:
    """The script of a job that profiles, as ordered in the directory."""
    module = "wharfinger.engines.local.profiling.node"
    place = shlex.quote(str(directory))
    return (
        "#!/bin/sh\n"
        "# A copy of a workload of wharfinger is measured.\n"
        f"[ -d {place} ] || exit {NOT_SHARED}\n"
        f"exec {shlex.join([python, '-P', '-m', module, *words])} {place}\n"
    )


def why_not_run(workload: Workload, *, shared: bool) -> str:
    """Why it can't be a job, for certain; ``shared``: there is a shared directory."""
    run = workload.run
    if not run.command or not run.command[0]:
        return "spec.run.command: empty; name a program"
    texts = (*run.command, run.working_directory, *run.env.values())
    if any("\0" in text for text in texts):
        return "spec.run: holds a NUL character; no program can be given one"
    if not run.working_directory.startswith("/"):
        shown = repr(run.working_directory)
        return f"spec.run.workingDir: {shown} is not an absolute path; begin it with '/'"
    try:
        account = other_account(run.user)
        signal_named(run.stop_signal)
    except InvalidInput as error:
        return str(error)
    if account is not None and not shared:
        return (
            f"spec.run.user: {run.user!r} is not the manager's own user, as whom all jobs run "
            "without --shared-dir; leave it out, or start the manager with --shared-dir"
        )
    return ""


def supervised_script(run_dir: Path, supervisor: Path) -> str:
    """The script of a start with a shared directory.

    The specification is unlinked once it is open: it may hold secrets.
    """
    place, spec, program = (shlex.quote(str(p)) for p in (run_dir, run_dir / SPEC_FILE, supervisor))
    return (
        "#!/bin/sh\n"
        "# A workload of wharfinger: its records and output are in its run directory.\n"
        f"[ -d {place} ] || exit {NOT_SHARED}\n"
        f"exec 3<{spec} || exit 1\n"
        f"rm -f {spec}\n"
        f"exec {program} {place}\n"
    )


def plain_script(workload: Workload) -> str:
    """The script of a start without a shared directory.

    Raises ``InvalidInput``: there is no such user as it is to run as.
    """
    lines = ["#!/bin/sh", "# A workload of wharfinger."]
    for name, value in environment(workload).items():
        if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            lines.append(f"export {name}={shlex.quote(value)}")
    lines.append(f"cd {shlex.quote(workload.run.working_directory)} || exit {NOT_SHARED}")
    lines.append(f"exec {shlex.join(workload.run.command)}")
    return "\n".join(lines) + "\n"


def whole_cpus(allocation: Allocation) -> int:
    """The CPUs of its job: Slurm gives out no parts.

    >>> [whole_cpus(Allocation(cpu, 1)) for cpu in (0, 250, 1000, 1001)]
    [1, 1, 1, 2]
    """
    return max(1, ceil(allocation.cpu_millicpus / MILLICPUS_PER_CPU))


def mebibytes(allocation: Allocation) -> int:
    """The memory of its job in the unit of ``sbatch --mem``, of which 0 would mean all."""
    return max(1, ceil(allocation.memory_bytes / _MEBIBYTE))


def options_of(
    workload: Workload,
    server: str,
    allocation: Allocation,
    comment: str,
    partition: str,
    settings: SlurmSettings,
    run_dir: Path | None,
) -> Mapping[str, str]:
    """What ``sbatch`` is told, by its long names."""
    options = {
        **settings.sbatch,
        "job-name": _NAME.sub("_", workload.name)[:64],
        "comment": comment,
        "partition": partition,
        "nodelist": server,
        "nodes": "1",
        "ntasks": "1",
        "cpus-per-task": str(whole_cpus(allocation)),
        "mem": f"{mebibytes(allocation)}M",
        "no-requeue": "",
    }
    if run_dir is not None:
        options |= {"output": str(run_dir / LOG_FILE), "chdir": "/"}
    limit = workload.run.time_limit_seconds
    if limit is not None:
        options["time"] = minutes(limit + workload.run.stop_grace_seconds)
    return options


def minutes(seconds: float) -> str:
    """A job's time limit where it should have ended after so many seconds."""
    return str(ceil((seconds + _ENDING_SECONDS) / 60))
