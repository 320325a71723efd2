"""The jobs that profile copies, at Slurm and on the shared directory: what may take long.

Each has a directory there, with its order and later its answer, and is found again by its comment,
which names it. Nothing is noted: what an earlier engine has left is ended and cleared away.
"""

import logging
import os
import pwd
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from wharfinger.engines.slow import Backoff, Operation
from wharfinger.engines.slurm import own_comments, script
from wharfinger.engines.slurm.client.base import SlurmClient, SlurmJob
from wharfinger.engines.slurm.ends import is_over
from wharfinger.engines.slurm.settings import SlurmSettings, check_ours
from wharfinger.engines.slurm.user_jobs import find_script, is_users
from wharfinger.engines.supervised.copying import (
    CopyAnswer,
    CopyOrder,
    leave,
    limit_seconds,
    place_left,
    read_answer,
    read_plain,
)
from wharfinger.errors import EngineFault, InvalidInput, WharfingerError
from wharfinger.model.allocation import Allocation, Placement

log = logging.getLogger(__name__)

_PROFILER_BYTES = 192 << 20
"""What the profiler itself takes beside the copy, where the node has so much left."""
_SET_UP_SECONDS = 60.0
_CLEAR = ".clear"
_CLEAR_OPTIONS = {"time": "1", "deadline": "now+3minutes"}
"""A node that is away is not waited for."""
_AWAY = Backoff(first_seconds=0.5, factor=1.6, max_seconds=5.0)


@dataclass(frozen=True, slots=True)
class ProfilerReading:
    """What a profiler has left: its answer, or else what was last said where it was started."""

    answer: CopyAnswer | None
    said: str = ""


class ProfilerJobs:
    """The jobs of one engine that profile.

    Args:
        client: Asks Slurm.
        settings: What the administrator stated; with a shared directory.
        identity: Names this engine's jobs.
        token: Tells this engine's from those of an earlier one.
        partition_of: The partition in which all of these nodes are used.
    """

    def __init__(
        self,
        client: SlurmClient,
        settings: SlurmSettings,
        identity: str,
        token: str,
        partition_of: Callable[[Sequence[str]], str],
    ) -> None:
        assert settings.shared_dir is not None
        self._client = client
        self._settings = settings
        self._identity = identity
        self._token = token
        self._partition_of = partition_of
        self._directory = directory_of_all(settings.shared_dir, identity)
        self.begin_operation = Operation("profile", self._begin, 1, backoff=_AWAY)
        self.read_operation = Operation("read profiles", self._read, 64, backoff=_AWAY)
        self.end_operation = Operation("end profiling", self._end, 64, backoff=_AWAY)
        self.leave_operation = Operation(
            "leave profiling", self._leave, 64, give_up_seconds=0.0, closes=True
        )
        self.sweep_operation = Operation("clear profiles", self._sweep, 1, backoff=_AWAY)

    def name(self, key: str, part: int) -> str:
        """Of a plan's part: of its job, and of its directory."""
        return f"{key}.{self._token}.{part}"

    def _begin(self, asked: Sequence[Mapping[str, CopyOrder]]) -> Sequence[None]:
        """Hand in the jobs of a plan, once, by their names, and let them begin."""
        there = self._listed()
        nodes = self._client.nodes()
        free = {node.name: node.memory_bytes - node.memory_allocated_bytes for node in nodes}
        for orders in asked:
            begun = []
            for name, order in orders.items():
                if name not in there:
                    begun.append(self._submit(name, order, free))
                elif there[name].held:
                    begun.append(there[name].job_id)
            if begun:
                self._client.release(begun)
        return [None] * len(asked)

    def _submit(self, name: str, order: CopyOrder, free: Mapping[str, int]) -> int:
        directory = self._directory / name
        order, owner = self._with_script(order)
        account = _account(owner)
        try:
            self._directory.mkdir(mode=0o711, exist_ok=True)
            check_ours(self._directory)
            order.write(directory, account and (account.pw_uid, account.pw_gid))
        except OSError as error:
            raise EngineFault(f"cannot write to {directory}: {error.strerror}") from error
        held, server = order.plan.allocation, order.plan.server
        with_profiler = min(held.memory_bytes + _PROFILER_BYTES, free.get(server, 0))
        allocation = Allocation(held.cpu_millicpus, max(held.memory_bytes, with_profiler))
        seconds = limit_seconds(order.plan) + _SET_UP_SECONDS
        options = script.options_of(
            order.workload,
            (Placement(server, allocation),),
            own_comments.profiler_comment(self._identity, name),
            self._partition_of((server,)),
            self._settings,
            directory,
        )
        text = script.profiler_script(directory, sys.executable)
        more = {"time": script.minutes(seconds), **_run_as(account)}
        return self._client.submit(text, {**options, **more})

    def _with_script(self, order: CopyOrder) -> tuple[CopyOrder, str]:
        """With the script of a user's job, and whose it is; empty = it is no user's.

        Raises ``InvalidInput`` where it would be run with the rights of another.
        """
        if not is_users(order.workload):
            return order, ""
        text, owner = find_script(self._client, order.workload)
        own = _own_name()
        if not owner:
            raise InvalidInput(f"{order.workload.name}: Slurm does not say whose its script is")
        if owner != own and os.geteuid() != 0:
            raise InvalidInput(
                f"{order.workload.name}: the script of user {owner} is not run with the rights of "
                f"{own}; only a manager that is root runs it with its user's"
            )
        return replace(order, script=text), owner

    def _leave(self, asked: Sequence[Collection[str]]) -> Sequence[None]:
        """Let these end by themselves; Slurm is not asked."""
        self._check_directory()
        for name in (name for names in asked for name in names):
            with suppress(OSError):
                leave(self._directory / name)
        return [None] * len(asked)

    def _read(self, asked: Sequence[Collection[str]]) -> Sequence[dict[str, ProfilerReading]]:
        return [{name: self._read_one(self._directory / name) for name in names} for names in asked]

    def _read_one(self, directory: Path) -> ProfilerReading:
        if (answer := read_answer(directory)) is not None:
            return ProfilerReading(answer)
        lines = [""]
        with suppress(OSError):
            lines = read_plain(directory / script.LOG_FILE).decode(errors="replace").split("\n")
        said = next((line for line in reversed(lines) if line.strip()), "")
        return ProfilerReading(None, "".join(c if c.isprintable() else " " for c in said)[:200])

    def _check_directory(self) -> None:
        """Raise ``InvalidInput`` where another user has made the directory of all."""
        with suppress(FileNotFoundError):
            check_ours(self._directory)

    def _listed(self) -> dict[str, SlurmJob]:
        return listed_profilers(self._client.jobs(), self._identity, self._directory)

    def _end(self, asked: Sequence[Collection[str]]) -> Sequence[bool]:
        """End these jobs; true = they are over, and nothing is left of them."""
        listed = self._listed()
        return [self._clear(names, listed) for names in asked]

    def _sweep(self, asked: Sequence[None]) -> Sequence[bool]:
        """The same for those of earlier engines."""
        self._check_directory()
        listed, left = self._listed(), set[str]()
        with suppress(OSError):
            left = {path.name for path in self._directory.iterdir()}
        names = {name.removesuffix(_CLEAR) for name in (*listed, *left)}
        earlier = [name for name in names if f".{self._token}." not in name]
        return [self._clear(earlier, listed)] * len(asked)

    def _clear(self, names: Iterable[str], listed: Mapping[str, SlurmJob]) -> bool:
        fit = list(filter(own_comments.is_file_name, names))
        live = [name for name in fit if name in listed and _lives(listed[name])]
        if live:  # First of all: whatever fails after it, no copy runs on.
            self._client.cancel([listed[name].job_id for name in live])
        self._check_directory()
        over = not live
        for name in fit:
            job, clearing = listed.get(name), listed.get(f"{name}{_CLEAR}")
            directory = self._directory / name
            if name in live:
                continue
            if clearing is not None and _lives(clearing):
                over = False
            elif not clearing and place_left(directory) and (node := _node_of(job, directory)):
                # It was killed before it could clear away what it has on its node.
                if self._have_cleared(name, node):
                    over = False
            else:
                shutil.rmtree(directory, ignore_errors=True)
        with suppress(OSError):
            self._directory.rmdir()  # Others may still be there.
        return over

    def _have_cleared(self, name: str, node: str) -> bool:
        """Hand in a job that clears away; false = it is refused, and the next engine tries again.

        Raises what may succeed later.
        """
        try:
            self._submit_clearing(name, node)
        except WharfingerError as error:
            if error.retryable:
                raise
            log.warning("%s: what its profiling left stays on its node: %s", name, error)
            return False
        return True

    def _submit_clearing(self, name: str, node: str) -> None:
        directory = self._directory / name
        if not (owner := _owner_of(directory)):
            raise InvalidInput(f"{directory}: its user is not known on this host; remove it")
        options = {
            **self._settings.sbatch,
            "job-name": "wharfinger-clear",
            "comment": own_comments.profiler_comment(self._identity, f"{name}{_CLEAR}"),
            "partition": self._partition_of((node,)),
            "nodelist": node,
            "cpus-per-task": "1",
            "mem": f"{_PROFILER_BYTES >> 20}M",
            "output": str(directory / script.LOG_FILE),
            "chdir": "/",
            **_CLEAR_OPTIONS,
            # Never we for a user: it removes what the user's directory names.
            **_run_as(_account(owner)),
        }
        text = script.profiler_script(directory, sys.executable, "--clear")
        self._client.release([self._client.submit(text, options)])


def directory_of_all(shared_dir: Path, identity: str) -> Path:
    """Where the profiler jobs of one engine have their directories."""
    return shared_dir / f"profiles-{identity}"


def listed_profilers(
    jobs: Iterable[SlurmJob], identity: str, directory: Path
) -> dict[str, SlurmJob]:
    """By name, those that we have handed in: run by us, or by the user who has its directory.

    A comment tells nothing by itself, for every user can write one like ours.
    """
    listed: dict[str, SlurmJob] = {}
    for job in jobs:
        name = own_comments.profiler_name(identity, job.comment)
        # Whoever copies a name comes after the job that has it.
        if name is None or name in listed or not job.user:
            continue
        if job.user in (_own_name(), _owner_of(directory / name.removesuffix(_CLEAR))):
            listed[name] = job
    return listed


def _own_name() -> str:
    return pwd.getpwuid(os.geteuid()).pw_name


def _node_of(job: SlurmJob | None, directory: Path) -> str:
    """Where a job ran, which Slurm may have forgotten; empty = that is not known.

    Its user may have written anything into the directory.
    """
    if job is not None:
        return next(iter(job.nodes), "")
    node = CopyOrder.server_of(directory)
    return node if own_comments.is_file_name(node) else ""


def _owner_of(directory: Path) -> str:
    """Its user, by the file system; empty = it is not there, or that user is not known here."""
    try:
        return pwd.getpwuid(directory.lstat().st_uid).pw_name
    except (OSError, KeyError):
        return ""


def _run_as(account: pwd.struct_passwd | None) -> dict[str, str]:
    """Options for a job that is to be run by its user, who sees nothing of our environment.

    Without a group it would have ours; its further groups are those that Slurm finds for the user.
    """
    if account is None:
        return {}
    return {"uid": account.pw_name, "gid": str(account.pw_gid), "export": "NONE"}


def _account(owner: str) -> pwd.struct_passwd | None:
    """Of another user than our own, or ``None``; raises ``InvalidInput``."""
    if owner in {"", _own_name()}:
        return None
    try:
        return pwd.getpwnam(owner)
    except KeyError:
        raise InvalidInput(f"user {owner} is not known on this host") from None


def _lives(job: SlurmJob) -> bool:
    return not is_over(job) or "COMPLETING" in job.flags
