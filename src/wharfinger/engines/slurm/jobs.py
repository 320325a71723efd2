"""What is done for starts at Slurm and in run directories: everything that may take long.

All methods that are named in ``operations`` run on the thread of the slow calls, one at a time.
They keep to this order, so that a crash at any point starts nothing twice and loses nothing: the
note, the run directory, the job (held), its number in the note, its release.
"""

import hashlib
import logging
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from wharfinger.core import events as ev
from wharfinger.engines.slow import Backoff, Operation, SlowCalls
from wharfinger.engines.slurm import script
from wharfinger.engines.slurm.client.base import JobEnd, Node, SlurmClient, SlurmJob
from wharfinger.engines.slurm.ends import RunReading, is_over
from wharfinger.engines.slurm.settings import SlurmSettings
from wharfinger.engines.slurm.start_notes import StartNote, StartNotes
from wharfinger.engines.slurm.user_jobs import UserJobs
from wharfinger.engines.supervised.records import not_alive_grace_seconds, note_not_alive
from wharfinger.errors import EngineFault, NotFound, OutOfSpace, WharfingerError
from wharfinger.files.atomic import sync_directory
from wharfinger.host.accounts import other_account
from wharfinger.host.binaries import supervisor_path
from wharfinger.host.environment import environment
from wharfinger.host.processes import marker_of
from wharfinger.host.reports import last_line
from wharfinger.host.run_control import write_pace, write_stop, write_suspended
from wharfinger.host.run_dir import (
    Claim,
    RunRecord,
    open_run_dir,
    read_run,
    read_text,
    write_synced,
)
from wharfinger.host.supervisor import (
    LaunchSpec,
    cancel,
    signal_named,
)
from wharfinger.model.allocation import Placement
from wharfinger.model.workload import Workload

log = logging.getLogger(__name__)

LOG_CAP_BYTES = 8 << 20
"""Of each workload's output, what is kept."""
_AWAY = Backoff(first_seconds=0.5, factor=1.6, max_seconds=5.0)
_GONE = RunReading(RunRecord(Claim.NONE, None, None, None), unshared=True)
_MANY = 256
"""Jobs in one call."""


@dataclass(frozen=True, slots=True)
class StartOrder:
    """A start that was asked for."""

    key: str
    workload: Workload
    placement: Placement


@dataclass(frozen=True, slots=True)
class StopOrder:
    """A stop that was asked for; ``not_alive``: because its liveness probe fails."""

    key: str
    grace_seconds: float
    not_alive: bool = False


@dataclass(frozen=True, slots=True)
class ControlOrder:
    """A running start is to be suspended or resumed, or to keep to another allocation."""

    key: str
    suspended: bool | None = None
    placement: Placement | None = None


@dataclass(frozen=True, slots=True)
class WatchedStarts:
    """The starts that have not ended, by what they wait for; their job numbers are in the notes.

    ``hurried``: something is about to change, so Slurm is asked at once.
    """

    starting: tuple[str, ...] = ()
    running: tuple[str, ...] = ()
    hurried: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen; ``jobs`` and ``nodes`` are ``None`` where Slurm was not asked.

    Attributes:
        took_seconds: How long it took.
        jobs: Ours by key, of the number that is noted.
        readings: Of the starts whose run directories were read.
        usage: CPU seconds and peak memory in bytes by key; ``None`` = not asked.
        offers: Users' jobs that are offered, by handle; ``None`` = not asked.
    """

    took_seconds: float
    jobs: Mapping[str, SlurmJob] | None = None
    nodes: Sequence[Node] | None = None
    readings: Mapping[str, RunReading] = field(default_factory=dict)
    usage: Mapping[str, tuple[float, int]] | None = None
    offers: Mapping[str, ev.WorkloadOffered] | None = None


class SlurmJobs:
    """The jobs of one engine.

    Args:
        client: Asks Slurm.
        notes: Of the starts.
        settings: What the administrator stated.
        identity: Names this engine's jobs.
        partitions: Whose nodes are the servers.
        partition_of: The partition in which a node is used, by its name.
        watched: What is watched now; called on the thread of the calls.
        calls: The thread.
    """

    def __init__(
        self,
        client: SlurmClient,
        notes: StartNotes,
        settings: SlurmSettings,
        identity: str,
        partitions: Sequence[str],
        partition_of: Callable[[str], str],
        watched: Callable[[], WatchedStarts],
        calls: SlowCalls,
    ) -> None:
        self._client = client
        self._notes = notes
        self._settings = settings
        self._identity = identity
        self._partition_of = partition_of
        self._watched = watched
        self._calls = calls
        self._doubtful: set[str] = set()
        self._user_jobs = UserJobs(client, notes, partitions, self._ask_for_release)
        self._listed_at = -1e9
        self._used_at = 0.0
        self._away = False
        self.begin_operation = Operation("begin", self._begin, 1, backoff=_AWAY)
        self.release_operation = Operation("release", self._release, _MANY, backoff=_AWAY)
        self.stop_operation = Operation("stop", self._stop, _MANY, backoff=_AWAY)
        self.kill_operation = Operation("kill", self._kill, _MANY, backoff=_AWAY)
        self.control_operation = Operation(
            "control", self._control, _MANY, give_up_seconds=20.0, backoff=_AWAY
        )
        self.withdraw_operation = Operation("withdraw", self._withdraw, _MANY, backoff=_AWAY)
        self.ends_operation = Operation("ends", self._ends, _MANY, backoff=_AWAY)
        self.settle_operation = Operation("settle", self._settle, _MANY, backoff=_AWAY, closes=True)
        self.forget_operation = Operation("forget", self._forget, _MANY, backoff=_AWAY, closes=True)
        self.let_go_operation = Operation("let go", self._user_jobs.let_go, 1, backoff=_AWAY)
        self.annotate_operation = Operation(
            "annotate", self._user_jobs.annotate, _MANY, give_up_seconds=60.0, backoff=_AWAY
        )
        self.look_operation = Operation("look", lambda _: [self.look()], 1, backoff=_AWAY)

    # --- the run directories ------------------------------------------------------------------

    @property
    def _runs(self) -> Path | None:
        shared = self._settings.shared_dir
        return None if shared is None else shared / f"runs-{self._identity}"

    def run_dir(self, key: str) -> Path | None:
        """Where a start's records are; ``None`` = there are none, for it has no supervisor."""
        if self._runs is None or key in self._user_jobs.keys.values():
            return None
        return self._runs / key

    @cached_property
    def _supervisor(self) -> Path:
        """The supervisor on the shared directory, under a name that tells versions apart."""
        if self._settings.shared_dir is None:
            raise EngineFault("there is no shared directory")
        program = supervisor_path().read_bytes()
        name = f"wharfinger-supervisor-{hashlib.blake2s(program, digest_size=8).hexdigest()}"
        path = self._settings.shared_dir / name
        if not path.exists():
            part = path.with_name(f".{name}.{os.getpid()}")
            part.write_bytes(program)
            part.chmod(0o755)
            part.replace(path)
        return path

    def prepare(self) -> None:
        """Make what all starts need on the shared directory; raises ``EngineFault``."""
        if self._runs is None:
            return
        try:
            self._runs.mkdir(mode=0o700, exist_ok=True)
            _ = self._supervisor
        except OSError as error:
            raise EngineFault(
                f"--shared-dir {self._settings.shared_dir}: {error.strerror}"
            ) from error

    def _make_run_dir(self, order: StartOrder, run_dir: Path) -> None:
        """The directory with the supervisor's instructions, unless it is there."""
        if run_dir.exists():
            return
        unfinished = run_dir.with_name(f".new.{order.key}")
        allocation = order.placement.allocation
        run = order.workload.run
        spec = LaunchSpec(
            command=run.command,
            env={**environment(order.workload), **marker_of(run_dir)},
            working_directory=Path(run.working_directory),
            stop_grace_seconds=run.stop_grace_seconds,
            log_cap_bytes=LOG_CAP_BYTES,
            cpu_millicpus=None if allocation.best_effort else allocation.cpu_millicpus,
            account=other_account(run.user),
            stop_signal=signal_named(run.stop_signal),
            pass_status=True,
        ).encode()
        try:
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(mode=0o700)
            with open_run_dir(unfinished) as directory:
                write_synced(directory, script.SPEC_FILE, spec)
                os.fsync(directory)
            unfinished.rename(run_dir)
            sync_directory(run_dir.parent)
        except OSError as error:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise OutOfSpace(f"cannot make {run_dir}: {error.strerror}") from error

    def read(self, key: str) -> RunReading | None:
        """What its run directory says; ``None`` = there is no shared directory."""
        run_dir = self.run_dir(key)
        if run_dir is None:
            return None
        try:
            record = read_run(run_dir)
            with open_run_dir(run_dir) as directory:
                stop_asked = read_text(directory, "stop") is not None
                said = (read_text(directory, script.LOG_FILE) or "").strip().split("\n")[-1]
        except NotFound:
            return _GONE
        line = last_line(run_dir) if record.exit is not None else ""
        fault = "".join(c if c.isprintable() else " " for c in said)[:200]
        not_alive = not_alive_grace_seconds(run_dir) is not None
        return RunReading(
            record, stop_asked, line, "" if record.exit else fault, not_alive=not_alive
        )

    # --- starting -----------------------------------------------------------------------------

    def _begin(self, orders: Sequence[StartOrder]) -> Sequence[int | WharfingerError]:
        """Hand in the job of a start, held, once; its release follows by itself."""
        results: list[int | WharfingerError] = []
        for order in orders:
            job_id = self._begin_one(order)
            self._ask_for_release(order.key, job_id)
            results.append(job_id)
        return results

    def _ask_for_release(self, key: str, job_id: int) -> None:
        self._calls.ask(self.release_operation, key, job_id)

    def _begin_one(self, order: StartOrder) -> int:
        key, placement = order.key, order.placement
        note = self._notes.get(key)
        if note is not None and note.job_id is not None:
            return note.job_id
        run_dir = self.run_dir(key)
        try:
            if note is None:
                allocation = placement.allocation
                memory_bytes = script.mebibytes(allocation) << 20
                cpus = script.whole_cpus(allocation)
                note = StartNote(order.workload.name, (placement,), cpus, memory_bytes)
                self._notes.put({key: note})
            else:
                self._doubtful.add(key)  # An engine before us may have come further.
            if run_dir is not None:
                self._make_run_dir(order, run_dir)
        except OutOfSpace as error:
            raise EngineFault(str(error)) from error  # Tried again elsewhere, not here for ever.
        job_id = self._find_job(key) if key in self._doubtful else None
        if job_id is None:
            self._doubtful.add(key)  # Until it is known what came of it.
            job_id = self._submit(order, run_dir)
        self._notes.put({key: replace(note, job_id=job_id)})
        self._doubtful.discard(key)
        return job_id

    def _submit(self, order: StartOrder, run_dir: Path | None) -> int:
        text = (
            script.plain_script(order.workload)
            if run_dir is None
            else script.supervised_script(run_dir, self._supervisor)
        )
        options = script.options_of(
            order.workload,
            order.placement.server,
            order.placement.allocation,
            script.comment_of(self._identity, order.key),
            self._partition_of(order.placement.server),
            self._settings,
            run_dir,
        )
        return self._client.submit(text, options)

    def _find_job(self, key: str) -> int | None:
        """The job that an earlier try has handed in; the first if there are several."""
        wanted = script.comment_of(self._identity, key)
        found = [j for j in self._client.jobs() if j.comment.strip() == wanted and not is_over(j)]
        return min((job.job_id for job in found), default=None)

    def _release(self, job_ids: Sequence[int]) -> Sequence[None]:
        self._client.release(job_ids)
        return [None] * len(job_ids)

    # --- stopping -----------------------------------------------------------------------------

    def _stop(self, orders: Sequence[StopOrder]) -> Sequence[bool | WharfingerError]:
        """Stop each, or make sure that it never starts: then the outcome is true."""
        results: list[bool | WharfingerError] = []
        withdrawn: list[int] = []
        asked: list[int] = []
        jobs = self._own_jobs()
        for order in orders:
            note = self._notes.get(order.key)
            job_id = note.job_id if note is not None else None
            is_withdrawn = (
                self._cancel_claim(order.key)
                if self.run_dir(order.key)
                else _waits(jobs, order.key)
            )
            if not is_withdrawn and (run_dir := self.run_dir(order.key)) is not None:
                try:
                    self._write_stop(order, run_dir)
                except OSError as error:
                    why = f"{run_dir}: cannot write why it is stopped: {error.strerror}"
                    results.append(EngineFault(why, retryable=True))
                    continue
            results.append(is_withdrawn)
            if job_id is not None and note is not None:
                # Of a user's script we don't know what a signal to it alone would leave behind.
                (withdrawn if is_withdrawn or note.of_user else asked).append(job_id)
        if withdrawn:
            self._client.cancel(withdrawn)
        self._signal(asked, "TERM")
        return results

    def _write_stop(self, order: StopOrder, run_dir: Path) -> None:
        with suppress(NotFound):
            if order.not_alive:
                note_not_alive(run_dir, order.grace_seconds)
            write_stop(run_dir, order.grace_seconds)

    def _signal(self, job_ids: Sequence[int], name: str) -> None:
        """Tell supervisors; of a job that does not run ``scancel`` would not let go for long."""
        running = {job.job_id for job in self._client.jobs() if _runs(job)} if job_ids else ()
        if there := [job_id for job_id in job_ids if job_id in running]:
            self._client.signal(there, name)

    def _cancel_claim(self, key: str) -> bool:
        run_dir = self.run_dir(key)
        if run_dir is None:
            return False
        try:
            return cancel(run_dir)
        except NotFound:
            return True  # Its directory was never made.

    def _withdraw(self, keys: Sequence[str]) -> Sequence[bool]:
        """Make sure that what has not begun never does; true = so it is."""
        jobs = self._own_jobs()
        results: list[bool] = []
        job_ids: list[int] = []
        users: list[int] = []
        for key in keys:
            note = self._notes.get(key)
            unclaimed = key not in jobs or _waits(jobs, key)
            gone = self._cancel_claim(key) if self.run_dir(key) else unclaimed
            results.append(gone)
            if gone and note is not None and note.job_id is not None:
                (users if note.of_user else job_ids).append(note.job_id)
        if job_ids:
            self._client.cancel(job_ids)
        if users:
            self._user_jobs.take_back(users)
        return results

    def _kill(self, keys: Sequence[str]) -> Sequence[None]:
        notes = [note for key in keys if (note := self._notes.get(key)) is not None]
        self._client.cancel([n.job_id for n in notes if n.job_id is not None and not n.of_user])
        self._user_jobs.take_back([n.job_id for n in notes if n.job_id is not None and n.of_user])
        return [None] * len(keys)

    # --- while it runs --------------------------------------------------------------------------

    def _control(self, orders: Sequence[ControlOrder]) -> Sequence[WharfingerError | None]:
        """Tell supervisors what to keep to, and then all of them to look."""
        results: list[WharfingerError | None] = []
        job_ids = []
        for order in orders:
            note = self._notes.get(order.key)
            run_dir = self.run_dir(order.key)
            try:
                if note is None or note.job_id is None or run_dir is None:
                    raise EngineFault("it does not run under a supervisor")
                self._write_control(order, run_dir)
                if order.placement is not None:
                    self._notes.put({order.key: replace(note, placements=(order.placement,))})
            except WharfingerError as error:
                results.append(EngineFault(str(error)))
                continue
            job_ids.append(note.job_id)
            results.append(None)
        self._signal(job_ids, "USR1")
        return results

    def _write_control(self, order: ControlOrder, run_dir: Path) -> None:
        if order.suspended is not None:
            write_suspended(run_dir, suspended=order.suspended)
        if order.placement is not None:
            allocation = order.placement.allocation
            write_pace(run_dir, None if allocation.best_effort else allocation.cpu_millicpus)

    # --- watching -------------------------------------------------------------------------------

    def look(self) -> Look:
        """What has changed, asking Slurm no more often than need be."""
        watched = self._watched()
        now = time.monotonic()
        hurried = watched.hurried or any(map(self._has_exit, watched.running))
        if not hurried and now - self._listed_at < self._settings.poll_seconds:
            return Look(time.monotonic() - now, readings=self._readings(watched.starting))
        try:
            nodes = self._client.nodes()
            jobs = self._own_jobs()
            usage = self._usage(jobs, now)
            offers = self._user_jobs.offered(self._client.jobs())
        except WharfingerError as error:
            if error.retryable and not self._away:
                log.warning("Slurm does not answer; what runs goes on: %s", error)
                self._away = True
            raise
        if self._away:
            log.warning("Slurm answers again")
            self._away = False
        self._listed_at = now
        # After the listing: what has ended by then has written its record.
        over = [key for key in watched.running if key not in jobs or not _runs(jobs[key])]
        readings = self._readings((*watched.starting, *over))
        return Look(time.monotonic() - now, jobs, nodes, readings, usage, offers)

    def _has_exit(self, key: str) -> bool:
        run_dir = self.run_dir(key)
        return run_dir is not None and os.path.lexists(run_dir / "exit")

    def _readings(self, keys: Sequence[str]) -> dict[str, RunReading]:
        readings = {key: self.read(key) for key in keys}
        return {key: reading for key, reading in readings.items() if reading is not None}

    def _own_jobs(self) -> dict[str, SlurmJob]:
        """Ours by key. What waits and must not start is cancelled.

        It was handed in twice, under a key that is not known, or requeued after its end.
        """
        own: dict[str, SlurmJob] = {}
        strays: list[int] = []
        for job in self._client.jobs():
            if (key := self._user_jobs.keys.get(job.job_id)) is not None:
                own[key] = job
                continue
            key = script.key_of(self._identity, job.comment)
            if key is None:
                continue
            note = self._notes.get(key)
            ended = note is not None and bool(note.reports)
            if note is not None and note.job_id == job.job_id and not ended:
                own[key] = job
            elif job.state.upper() == "PENDING" and (
                note is None or note.job_id is not None or ended
            ):
                strays.append(job.job_id)
        if strays:
            log.warning("cancelled: jobs %s, which nothing waits for", strays)
            self._client.cancel(strays)
        return own

    def _usage(
        self, jobs: Mapping[str, SlurmJob], now: float
    ) -> Mapping[str, tuple[float, int]] | None:
        if now - self._used_at < 3 * self._settings.poll_seconds:
            return None
        self._used_at = now
        keys = {job.job_id: key for key, job in jobs.items() if job.state.upper() == "RUNNING"}
        try:
            used = self._client.usage(list(keys)) if keys else {}
        except WharfingerError:
            return None  # A site that does not measure; what runs is known all the same.
        return {keys[job_id]: figures for job_id, figures in used.items() if job_id in keys}

    def _ends(self, keys: Sequence[str]) -> Sequence[JobEnd | None]:
        notes = [self._notes.get(key) for key in keys]
        job_ids = [note.job_id for note in notes if note and note.job_id is not None]
        ends = {end.job_id: end for end in self._client.ends(job_ids)} if job_ids else {}
        return [
            ends.get(note.job_id) if note and note.job_id is not None else None for note in notes
        ]

    # --- the notes --------------------------------------------------------------------------------

    def _settle(self, settled: Sequence[tuple[str, StartNote]]) -> Sequence[None]:
        self._notes.put(dict(settled))
        for _, note in settled:
            self._user_jobs.keys.pop(note.job_id or 0, None)
        return [None] * len(settled)

    def _forget(self, keys: Sequence[str]) -> Sequence[None]:
        for key in keys:
            if (run_dir := self.run_dir(key)) is not None:
                shutil.rmtree(run_dir, ignore_errors=True)
        self._notes.delete(keys)
        return [None] * len(keys)


def _waits(jobs: Mapping[str, SlurmJob], key: str) -> bool:
    return key in jobs and jobs[key].state.upper() == "PENDING"


def _runs(job: SlurmJob) -> bool:
    return job.state.upper() in {"RUNNING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING"}
