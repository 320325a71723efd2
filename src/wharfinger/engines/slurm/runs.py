"""The run directories of starts, on the shared directory: made, found and read.

A start on one node has one, ``KEY``; a start on several has one for each, ``KEY/NODE``. Runs on
the thread of the slow calls, but for ``run_dir``.
"""

import hashlib
import logging
import os
import shutil
import stat
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from wharfinger.engines.slurm import script
from wharfinger.engines.slurm.ends import RunReading
from wharfinger.engines.slurm.parts import merged
from wharfinger.engines.slurm.settings import SlurmSettings, check_ours
from wharfinger.engines.slurm.start_notes import StartNotes
from wharfinger.engines.supervised.records import not_alive_grace_seconds
from wharfinger.errors import EngineFault, InvalidInput, NotFound, OutOfSpace
from wharfinger.files.atomic import sync_directory
from wharfinger.host.accounts import other_account
from wharfinger.host.binaries import supervisor_path
from wharfinger.host.environment import environment
from wharfinger.host.processes import marker_of
from wharfinger.host.reports import last_line
from wharfinger.host.run_dir import (
    Claim,
    RunRecord,
    open_run_dir,
    read_run,
    read_text,
    write_synced,
)
from wharfinger.host.supervisor import LaunchSpec, cancel, signal_named
from wharfinger.model.allocation import Placement
from wharfinger.model.workload import Workload

log = logging.getLogger(__name__)

LOG_CAP_BYTES = 8 << 20
"""Of each workload's output, what is kept."""
_UNFINISHED = ".new."
"""Before a key: its directory while it is made, or removed."""
_GONE = RunReading(RunRecord(Claim.NONE, None, None, None), unshared=True)
SERVER_VARIABLE, SERVERS_VARIABLE = "WHARFINGER_SERVER", "WHARFINGER_SERVERS"
"""In the environment of a program on several nodes: its own, and all, joined by commas."""


@dataclass(frozen=True, slots=True)
class StartOrder:
    """A start that was asked for; ``at_most_seconds``: predicted, ``None`` = not known."""

    key: str
    workload: Workload
    placements: tuple[Placement, ...]
    at_most_seconds: float | None = None


class RunDirectories:
    """The run directories of one engine.

    Args:
        notes: Of the starts.
        settings: What the administrator stated.
        identity: Names this engine's directory.
        without: Keys of starts that have none: they are users' own jobs.
    """

    def __init__(
        self,
        notes: StartNotes,
        settings: SlurmSettings,
        identity: str,
        without: Collection[str],
    ) -> None:
        self._notes = notes
        self._settings = settings
        self._identity = identity
        self._without = without
        # The nodes of starts on several, by key; replaced as a whole, for two threads read it.
        self._nodes: dict[str, tuple[str, ...]] = {
            key: tuple(placement.server for placement in note.placements)
            for key, note in notes.items().items()
            if note.several
        }

    @property
    def _runs(self) -> Path | None:
        shared = self._settings.shared_dir
        return None if shared is None else shared / f"runs-{self._identity}"

    def home(self, key: str) -> Path | None:
        """What has all of a start; ``None`` = there is nothing, for it has no supervisor."""
        if self._runs is None or key in self._without:
            return None
        return self._runs / key

    def of_nodes(self, key: str) -> Mapping[str, Path]:
        """By node, of a start on several nodes; else empty."""
        home, nodes = self.home(key), self._nodes.get(key, ())
        return {} if home is None else {node: home / node for node in nodes}

    def all_of(self, key: str) -> Sequence[Path]:
        """Of all its nodes that are left."""
        if several := self.of_nodes(key):
            return list(several.values())
        home = self.home(key)
        return [] if home is None else [home]

    def run_dir(self, key: str) -> Path | None:
        """Where a start's records and output are, on several nodes those of the first."""
        return next(iter(self.all_of(key)), None)

    def spread(self, key: str, nodes: Sequence[str]) -> None:
        """Take in on which nodes a start is that is, or was, on several."""
        self._nodes[key] = tuple(nodes)

    def remove(self, key: str) -> None:
        """Remove what a start has left."""
        if (home := self.home(key)) is not None:
            # It loses its name at once: what a crash leaves half-removed is no start any more.
            unfinished = home.with_name(f"{_UNFINISHED}{key}")
            with suppress(OSError):
                shutil.rmtree(unfinished, ignore_errors=True)
                home.rename(unfinished)
            shutil.rmtree(unfinished, ignore_errors=True)
            shutil.rmtree(home, ignore_errors=True)
        self._nodes.pop(key, None)

    def has_ended(self, key: str) -> bool:
        """Whether there is an exit record, on several nodes on each."""
        directories = self.all_of(key)
        return bool(directories) and all(os.path.lexists(d / "exit") for d in directories)

    def has_ended_in_part(self, key: str) -> bool:
        """Whether it is on several nodes and there is an exit record of one."""
        return any(os.path.lexists(d / "exit") for d in self.of_nodes(key).values())

    def cancel_claims(self, key: str) -> bool | None:
        """Whether its claims are taken, so that it never begins; ``None`` = claims do not tell.

        On several nodes: false as soon as it may have begun on one.
        """
        if not (directories := self.all_of(key)):
            return None
        note = self._notes.get(key)
        try:
            cancelled = [cancel(directory) for directory in directories]  # Each, in any case.
            return all(cancelled)
        except NotFound:
            # Never made, if its job was not handed in; else it was taken away, or is not mounted.
            return True if note is None or note.job_id is None else None

    @cached_property
    def supervisor(self) -> Path:
        """The supervisor, where no other user can write, under a name that tells versions apart."""
        if self._runs is None:
            raise EngineFault("there is no shared directory")
        program = supervisor_path().read_bytes()
        name = f".supervisor-{hashlib.blake2s(program, digest_size=8).hexdigest()}"
        path = self._runs / name
        if not _is_program(path, program):
            part = path.with_name(f"{name}.{os.getpid()}")
            with part.open("wb") as file:
                file.write(program)
                os.fchmod(file.fileno(), 0o700)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
            sync_directory(self._runs)
        return path

    def prepare(self) -> None:
        """Make what all starts need on the shared directory.

        ``InvalidInput``: it is not what the starts that are noted have used, or not ours alone.
        """
        self._check_records()
        if self._runs is None:
            return
        try:
            with suppress(FileExistsError):
                self._runs.mkdir(mode=0o700)
            check_ours(self._runs)
            for left in self._runs.glob(f"{_UNFINISHED}*"):
                shutil.rmtree(left, ignore_errors=True)
            _ = self.supervisor
        except OSError as error:
            raise EngineFault(
                f"--shared-dir {self._settings.shared_dir}: {error.strerror}"
            ) from error

    def _check_records(self) -> None:
        """Refuse another shared directory than that which has records of what may still run."""
        shared = self._settings.shared_dir
        noted, now = self._notes.shared_dir(), str(shared or "")
        live = sum(
            note.job_id is not None and not note.has_end and not note.of_user
            for note in self._notes.items().values()
        )
        place = f"--shared-dir {shared}" if shared else "--shared-dir: missing"
        if live and noted is not None and noted != now:
            mend = f"name {noted}" if noted else "leave it out"
            has = f"have their records in {noted}" if noted else "were begun without one"
            raise InvalidInput(f"{place}: {live} starts {has}; {mend} until they have ended")
        if live and shared is not None and self._runs is not None and not self._runs.is_dir():
            raise InvalidInput(
                f"{place}: {self._runs.name} is not there, which has the records of {live} starts; "
                "mount what was there, or make it again if that is lost"
            )
        if noted != now:
            self._notes.put_shared_dir(now)

    def make(self, order: StartOrder) -> None:
        """Make the directories of a start with its supervisors' instructions, unless there.

        Raises ``OutOfSpace``.
        """
        home = self.home(order.key)
        if home is None:
            return
        servers = [placement.server for placement in order.placements]
        if several := len(servers) > 1:
            self.spread(order.key, servers)
        if home.exists():
            return
        unfinished = home.with_name(f"{_UNFINISHED}{order.key}")
        try:
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(mode=0o700)
            for placement in order.placements:
                node = placement.server if several else ""
                more = {SERVER_VARIABLE: node, SERVERS_VARIABLE: ",".join(servers)}
                spec = _spec(order.workload, placement, home / node, more if several else {})
                if node:
                    (unfinished / node).mkdir(mode=0o700)
                with open_run_dir(unfinished / node) as directory:
                    write_synced(directory, script.SPEC_FILE, spec)
                    os.fsync(directory)
            sync_directory(unfinished)
            unfinished.rename(home)
            sync_directory(home.parent)
        except OSError as error:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise OutOfSpace(f"cannot make {home}: {error.strerror}") from error

    def read(self, key: str) -> RunReading | None:
        """What its run directories say; ``None`` = there is none, or one can't be read now."""
        home = self.home(key)
        readings = [_read(directory) for directory in self.all_of(key)]
        whole = [reading for reading in readings if reading is not None]
        if home is None or not whole or len(whole) < len(readings):
            return None
        return merged(whole, _said(home)) if self._nodes.get(key) else whole[0]


def _spec(
    workload: Workload, placement: Placement, run_dir: Path, more: Mapping[str, str]
) -> bytes:
    """What the supervisor on one node is told."""
    allocation, run = placement.allocation, workload.run
    return LaunchSpec(
        command=run.command,
        env={**environment(workload), **more, **marker_of(run_dir)},
        working_directory=Path(run.working_directory),
        stop_grace_seconds=run.stop_grace_seconds,
        log_cap_bytes=LOG_CAP_BYTES,
        cpu_millicpus=allocation.limit_millicpus,
        account=other_account(run.user),
        stop_signal=signal_named(run.stop_signal),
        pass_status=True,
    ).encode()


def _read(run_dir: Path) -> RunReading | None:
    try:
        record = read_run(run_dir)
        with open_run_dir(run_dir) as directory:
            stop_asked = read_text(directory, "stop") is not None
    except NotFound:
        return _GONE
    except OSError as error:  # As of a file server that was restarted; others are read.
        log.info("%s can't be read now: %s", run_dir, error.strerror)
        return None
    line = last_line(run_dir) if record.exit is not None else ""
    fault = "" if record.exit is not None else _said(run_dir)
    not_alive = not_alive_grace_seconds(run_dir) is not None
    return RunReading(record, stop_asked, line, fault, not_alive=not_alive)


def _said(directory: Path) -> str:
    """The last line of what Slurm, the script or a supervisor said there."""
    with suppress(NotFound, OSError), open_run_dir(directory) as opened:
        said = (read_text(opened, script.LOG_FILE) or "").strip().split("\n")[-1]
        return "".join(c if c.isprintable() else " " for c in said)[:200]
    return ""


def _is_program(path: Path, program: bytes) -> bool:
    try:
        mode = path.lstat().st_mode
        return stat.S_ISREG(mode) and bool(mode & 0o100) and path.read_bytes() == program
    except FileNotFoundError:
        return False
