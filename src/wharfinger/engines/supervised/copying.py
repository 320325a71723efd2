"""Copies of workloads for profiling: which may be made, and how one is ordered from another host.

An order and its answer are files of one directory, which both hosts see: the engine writes the
order and starts the profiler there, which takes it away, runs the plan and writes the answer.
"""

import math
import os
import shutil
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.core.codec import decode_event, encode_event
from wharfinger.errors import InvalidInput, StoreDamaged
from wharfinger.files.atomic import write_whole
from wharfinger.host.keys import check_key
from wharfinger.model.profile import ProfilingPlan
from wharfinger.model.workload import ProfileMode, Workload

LIMIT_SECONDS = 90.0
"""For all that is not measuring: copies set up and cleared away, a device's maximum measured."""
_MAX_BYTES = 1 << 22
_ORDER, _SERVER, _ANSWER, _PLACE, _LEFT = "order", "server", "answer", "place", "left"

CopyAnswer = ev.ProfilingFinished | ev.ProfilingFailed


def limit_seconds(plan: ProfilingPlan) -> float:
    """After these a plan's profiler is killed."""
    return 2 * plan.limit_seconds + LIMIT_SECONDS


def why_not_copied(workload: Workload) -> str:
    """Why it is not; empty = it may be."""
    if workload.profile.mode is not ProfileMode.COPY:
        return f"its manifest says profile.mode: {workload.profile.mode.value}, so it is not copied"
    return ""


def why_not_profiled(action: act.ProfileWorkload) -> str:
    """Why a plan is not run; empty = it may be."""
    plan = action.plan
    if refusal := why_not_copied(action.workload):
        return refusal
    try:
        check_key(action.key)
    except InvalidInput as error:
        return str(error)
    if not plan.cpu_millicpus or min(plan.cpu_millicpus) <= 0 or plan.memory_bytes <= 0:
        return "the plan has an allocation of nothing"
    if not 0 < plan.seconds < math.inf or not 0 < plan.tolerance < 1:
        return f"the plan has {plan.seconds} s and a tolerance of {plan.tolerance}"
    return ""


@dataclass(frozen=True, slots=True)
class CopyOrder:
    """One plan to be run where it is read: on the one server that is there.

    Attributes:
        cpus: How many it may use of those CPUs that it finds.
        script: The program itself, in place of the workload's command; empty = that is run.
    """

    key: str
    workload: Workload
    plan: ProfilingPlan
    cpus: int
    script: str = ""

    def write(self, directory: Path, account: tuple[int, int] | None = None) -> None:
        """Replace the directory by one with the order in it, which may hold secrets.

        It is ours alone, or the account's (of a user and a group) who alone is to run it: what an
        earlier try has given to a user is removed, and never written into.
        """
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(mode=0o700)
        write_whole(directory / _SERVER, self.plan.server.encode())
        write_whole(directory / _ORDER, msgspec.json.encode(self))
        if account is not None:
            os.chown(directory / _ORDER, *account, follow_symlinks=False)
            os.chown(directory, *account, follow_symlinks=False)

    @classmethod
    def take(cls, directory: Path) -> "CopyOrder":
        """The order, which is taken away; raises ``OSError`` and ``msgspec.MsgspecError``."""
        path = directory / _ORDER
        text = path.read_bytes()
        path.unlink()
        return msgspec.json.decode(text, type=cls)

    @staticmethod
    def server_of(directory: Path) -> str:
        """Where an order was to be run, also after it was taken; empty = that is not known."""
        try:
            return read_plain(directory / _SERVER).decode(errors="replace")
        except OSError:
            return ""


def write_answer(directory: Path, answer: CopyAnswer) -> None:
    """Leave the answer for who gave the order."""
    kind, payload = encode_event(answer)
    write_whole(directory / _ANSWER, msgspec.json.encode([kind, payload.decode()]))


def read_answer(directory: Path) -> CopyAnswer | None:
    """The answer; ``None`` = there is none yet, or none that can be read."""
    try:
        kind, payload = msgspec.json.decode(read_plain(directory / _ANSWER), type=tuple[str, str])
        answer = decode_event(kind, payload.encode())
    except (OSError, msgspec.MsgspecError, StoreDamaged):
        return None
    return answer if isinstance(answer, CopyAnswer) else None


def leave(directory: Path) -> None:
    """Tell the profiler that its answer is no longer wanted.

    The directory may be another user's: no link in it is followed, and nothing in it is changed.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with suppress(FileExistsError):
        os.close(os.open(directory / _LEFT, flags, 0o600))


def is_left(directory: Path) -> bool:
    """Whether the answer is no longer wanted, or the directory is gone."""
    return (directory / _LEFT).exists() or not directory.exists()


def note_place(directory: Path, place: Path) -> None:
    """Note where on its own host a profiler works, before it begins there."""
    write_whole(directory / _PLACE, bytes(place))


def forget_place(directory: Path) -> None:
    """Note that nothing is left there."""
    (directory / _PLACE).unlink(missing_ok=True)


def place_left(directory: Path) -> Path | None:
    """Where a profiler worked that has not cleared away; ``None`` = nothing is left."""
    try:
        return Path(os.fsdecode(read_plain(directory / _PLACE)))
    except OSError:
        return None


def read_plain(path: Path) -> bytes:
    """What a file begins with: of a directory that may be another user's, who may put anything in.

    Raises ``OSError``, also for what is no regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor has no path
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is no regular file")
        return file.read(_MAX_BYTES)
