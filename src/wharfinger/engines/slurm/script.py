"""The batch script and the options of one start: pure.

With a shared directory the script ends in the supervisor, whose instructions lie in the run
directory; without one it ends in the program itself.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path

from wharfinger.engines.slurm.settings import SlurmSettings
from wharfinger.errors import InvalidInput
from wharfinger.host.accounts import other_account
from wharfinger.host.environment import environment
from wharfinger.host.supervisor import signal_named
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.model.workload import Workload

SPEC_FILE = "spec"
"""In a run directory: what its supervisor is told, until that has read it."""
LOG_FILE = "slurm.log"
"""In a run directory: what Slurm, the script or the supervisor say when nothing was started."""
NOT_SHARED = 75
"""Exit status of a script on a node that does not see the run directory."""

_MEBIBYTE = 1 << 20
_NAME = re.compile(r"[^A-Za-z0-9._-]")
_KILL = 'kill -"$1" "$pid"'
_OF_ALL_NODES = (
    *("NNODES", "JOB_NUM_NODES", "NTASKS", "NPROCS", "NTASKS_PER_NODE"),
    *("JOB_NODELIST", "NODELIST", "TASKS_PER_NODE"),
)
_ENDING_SECONDS = 60.0
"""Beyond its time limit and grace, until Slurm ends a job whose supervisor did not."""


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


def several_script(home: Path, runs: Mapping[str, Path], supervisor: Path, cpus: int) -> str:
    """The script of a start on several nodes: a supervisor on each, as one step of its job.

    Slurm tells signals to the script alone; it passes them on to each supervisor, and to nothing
    below it, by a step on each node.
    """
    place, program = (shlex.quote(str(path)) for path in (home, supervisor))
    cases = "".join(
        f"{shlex.quote(node)}) run={shlex.quote(str(run))};; " for node, run in runs.items()
    )
    choose = f"case $SLURMD_NODENAME in {cases}*) exit 1;; esac"
    begin = (
        f'{choose}; [ -d "$run" ] || exit {NOT_SHARED}; exec 3<"$run/{SPEC_FILE}" || exit 1; '
        f'rm -f "$run/{SPEC_FILE}"; exec {program} "$run"'
    )
    pass_on = f'{choose}; [ -e "$run/exit" ] || {{ read -r _ pid _ <"$run/claim" && {_KILL}; }}'
    nodes, count = " ".join(map(shlex.quote, runs)), len(runs)
    # What it was given at first, of which Slurm may have taken a node away.
    forgotten = " ".join(f"SLURM_{name}" for name in _OF_ALL_NODES)
    return (
        "#!/bin/sh\n"
        "# A workload of wharfinger: its records and output are in its run directories.\n"
        f"[ -d {place} ] || exit {NOT_SHARED}\n"
        f"unset {forgotten}\n"
        "pass_on() {\n"
        f"    for node in {nodes}; do\n"
        f"        srun --overlap --nodes=1 --ntasks=1 --nodelist=$node --cpus-per-task=1 --mem=0 "
        f'--quiet sh -c {shlex.quote(pass_on)} sh "$1" 2>/dev/null &\n'
        "    done\n"
        "}\n"
        "trap 'pass_on TERM' TERM\n"
        "trap 'pass_on USR1' USR1\n"
        f"srun --no-kill --wait=0 --kill-on-bad-exit=0 --quiet --nodes={count} --ntasks={count} "
        f"--ntasks-per-node=1 --nodelist={shlex.quote(','.join(runs))} --cpus-per-task={cpus} "
        f"sh -c {shlex.quote(begin)} &\n"
        "main=$!\n"
        "while wait $main; status=$?; kill -0 $main 2>/dev/null; do :; done\n"
        "exit $status\n"
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


def cpus_for(placements: Sequence[Placement]) -> int:
    """CPUs of its job on each node: Slurm gives out the same on all."""
    return max(whole_cpus(placement.allocation) for placement in placements)


def mebibytes_for(placements: Sequence[Placement]) -> int:
    """Memory of its job on each node."""
    return max(mebibytes(placement.allocation) for placement in placements)


def options_of(
    workload: Workload,
    placements: Sequence[Placement],
    comment: str,
    partition: str,
    settings: SlurmSettings,
    home: Path | None,
    predicted_limit_seconds: float | None = None,
) -> Mapping[str, str]:
    """What ``sbatch`` is told, by its long names.

    ``predicted_limit_seconds`` is its time limit where the workload states none; ``None`` = the
    partition's.
    """
    options = {
        **settings.sbatch,
        "job-name": _NAME.sub("_", workload.name)[:64],
        "comment": comment,
        "partition": partition,
        "nodelist": ",".join(placement.server for placement in placements),
        "nodes": str(len(placements)),
        "ntasks": str(len(placements)),
        "cpus-per-task": str(cpus_for(placements)),
        "mem": f"{mebibytes_for(placements)}M",
        "no-requeue": "",
    }
    if len(placements) > 1:
        # What it loses a node of goes on on the others.
        options |= {"ntasks-per-node": "1", "no-kill": ""}
    if home is not None:
        options |= {"output": str(home / LOG_FILE), "chdir": "/"}
    limit = workload.run.time_limit_seconds
    if limit is not None:
        options["time"] = minutes(limit + workload.run.stop_grace_seconds)
    elif predicted_limit_seconds is not None:
        options["time"] = str(max(1, int(predicted_limit_seconds // 60)))
    return options


def minutes(seconds: float) -> str:
    """A job's time limit where it should have ended after so many seconds."""
    return str(ceil((seconds + _ENDING_SECONDS) / 60))
