"""A command beside a running program: a step of its job, by ``srun``, on its first node.

``srun`` runs on the manager's host and carries input, output and exit status; on the node the
command gets the program's environment, directory and user.
"""

import contextlib
import os
import signal
from collections.abc import Mapping, Sequence

from wharfinger.errors import EngineFault
from wharfinger.files.atomic import closing_fd
from wharfinger.host.accounts import other_account
from wharfinger.host.environment import environment
from wharfinger.host.execution import CommandExecution
from wharfinger.host.processes import send_signal
from wharfinger.model.workload import Workload


class StepExecution(CommandExecution):
    """A command under way as a step: ``srun`` ends the step when it is asked to end."""

    def kill(self) -> None:
        """End it and all that it has started; ``wait`` tells when that is done."""
        with contextlib.suppress(ProcessLookupError):
            send_signal(self._pidfd, signal.SIGTERM)


def step_options(job_id: int, node: str) -> list[str]:
    """Options of ``srun`` for a step beside those of a job, on one of its nodes."""
    return [
        f"--jobid={job_id}",
        "--overlap",
        "--nodes=1",
        "--ntasks=1",
        f"--nodelist={node}",
        "--cpus-per-task=1",
        "--mem=0",
        "--quiet",
    ]


def command_on_node(workload: Workload, command: Sequence[str]) -> list[str]:
    """What runs there: the command, in the program's directory and as its user.

    Raises ``InvalidInput``: there is no such user.
    """
    account = other_account(workload.run.user)
    become: list[str] = []
    if account is not None:
        groups = ",".join(map(str, account.groups)) or str(account.gid)
        become = ["setpriv", f"--reuid={account.uid}", f"--regid={account.gid}"]
        become += [f"--groups={groups}", "--"]
    begin = 'cd -- "$1" && shift && exec "$@"'
    return ["sh", "-c", begin, "sh", workload.run.working_directory, *become, *command]


def execute_beside(
    srun: tuple[str, Mapping[str, str]],
    step: Sequence[str],
    workload: Workload,
    command: Sequence[str],
    *,
    stdin: bool,
) -> StepExecution:
    """Begin a command as a step; returns at once.

    Args:
        srun: The program, and what it needs in its environment.
        step: Its options.
        workload: Beside whose program.
        command: Program and arguments.
        stdin: Whether its input is a pipe; else it is empty.

    Raises:
        EngineFault: No process.
        InvalidInput: There is no such user as the program's.
    """
    program, own = srun
    arguments = [program, *step, *command_on_node(workload, command)]
    with contextlib.ExitStack() as ours, contextlib.ExitStack() as its:
        try:
            streams = [_pipe(ours, its) for _ in range(2)]
            reading, writing = _input(ours, its) if stdin else (-1, -1)
            empty = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
            pid = os.posix_spawn(
                program,
                arguments,
                {**environment(workload), **own},
                file_actions=[
                    empty if reading < 0 else (os.POSIX_SPAWN_DUP2, reading, 0),
                    *(
                        (os.POSIX_SPAWN_DUP2, its_end, n)
                        for n, (_, its_end) in enumerate(streams, 1)
                    ),
                ],
                setpgroup=0,
            )
            its.close()
            pidfd = os.pidfd_open(pid)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise EngineFault(f"cannot start {program}: {why}") from error
        ours.pop_all()
    (stdout, _), (stderr, _) = streams
    return StepExecution(pidfd, stdout, stderr, -1, writing)


def _pipe(ours: contextlib.ExitStack, its: contextlib.ExitStack) -> tuple[int, int]:
    reading, writing = os.pipe2(os.O_CLOEXEC)
    ours.callback(os.close, reading)
    os.set_blocking(reading, False)
    return reading, its.enter_context(closing_fd(writing))


def _input(ours: contextlib.ExitStack, its: contextlib.ExitStack) -> tuple[int, int]:
    reading, writing = os.pipe2(os.O_CLOEXEC)
    ours.callback(os.close, writing)
    os.set_blocking(writing, False)
    return its.enter_context(closing_fd(reading)), writing
