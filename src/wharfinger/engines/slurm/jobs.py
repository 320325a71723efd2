"""What is done for starts at Slurm and in run directories: everything that may take long.

All methods that are named in ``operations`` run on the thread of the slow calls, one at a time.
They keep to this order, so that a crash at any point starts nothing twice and loses nothing: the
note, the run directory, the job (held), its number in the note, its release.
"""

import hashlib
import logging
import os
import shutil
import stat
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from wharfinger.core import events as ev
from wharfinger.engines.slow import Backoff, Operation, SlowCalls
from wharfinger.engines.slurm import script
from wharfinger.engines.slurm.client.base import JobEnd, Node, SlurmClient, SlurmJob
from wharfinger.engines.slurm.ends import RunReading, has_had_node, is_over
from wharfinger.engines.slurm.settings import SlurmSettings
from wharfinger.engines.slurm.start_notes import StartNote, StartNotes
from wharfinger.engines.slurm.user_jobs import UserJobs, is_let_go
from wharfinger.engines.supervised.records import not_alive_grace_seconds, note_not_alive
from wharfinger.errors import (
    EngineFault,
    InvalidInput,
    NotFound,
    OutOfSpace,
    SlurmRefused,
    WharfingerError,
)
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
_SOME, _FEW = 32, 8
"""Jobs in one run of calls that may need one call for each; the same, where they always do."""


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
        profilers: Our jobs that profile, by name.
    """

    took_seconds: float
    jobs: Mapping[str, SlurmJob] | None = None
    nodes: Sequence[Node] | None = None
    readings: Mapping[str, RunReading] = field(default_factory=dict)
    usage: Mapping[str, tuple[float, int]] | None = None
    offers: Mapping[str, ev.WorkloadOffered] | None = None
    profilers: Mapping[str, SlurmJob] = field(default_factory=dict)


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
        self._let_go: set[str] = set()
        self._user_jobs = UserJobs(client, notes, partitions, self._ask_for_release)
        self._listed_at = -1e9
        self._used_at = 0.0
        self._usage_failures = 0
        self._away = False
        self.begin_operation = Operation("begin", self._begin, 1, backoff=_AWAY)
        self.release_operation = Operation("release", self._release, _MANY, backoff=_AWAY)
        self.stop_operation = Operation("stop", self._stop, _MANY, backoff=_AWAY)
        self.kill_operation = Operation("kill", self._kill, _SOME, backoff=_AWAY)
        self.control_operation = Operation(
            "control", self._control, _MANY, give_up_seconds=20.0, backoff=_AWAY
        )
        self.withdraw_operation = Operation("withdraw", self._withdraw, _SOME, backoff=_AWAY)
        self.ends_operation = Operation("ends", self._ends, _MANY, backoff=_AWAY)
        self.settle_operation = Operation("settle", self._settle, _MANY, backoff=_AWAY, closes=True)
        self.note_start_operation = Operation(
            "note start", self._note_start, _MANY, give_up_seconds=60.0, backoff=_AWAY, closes=True
        )
        self.forget_operation = Operation("forget", self._forget, _MANY, backoff=_AWAY, closes=True)
        self.let_go_operation = Operation("let go", self._user_jobs.let_go, 1, backoff=_AWAY)
        self.annotate_operation = Operation(
            "annotate", self._user_jobs.annotate, _FEW, give_up_seconds=60.0, backoff=_AWAY
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
        """The supervisor, where nobody else can write, under a name that tells versions apart."""
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
            _check_ours(self._runs)
            _ = self._supervisor
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
        """What its run directory says; ``None`` = there is none, or it can't be read now."""
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
        except OSError as error:  # As of a file server that was restarted; others are read.
            log.info("%s can't be read now: %s", run_dir, error.strerror)
            return None
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
            self._ask_for_release(order.key)
            results.append(job_id)
        return results

    def _ask_for_release(self, key: str) -> None:
        self._calls.ask(self.release_operation, key, key, internal=True)

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

    def _release(self, keys: Sequence[str]) -> Sequence[bool]:
        """Let each begin; false = Slurm had lost its job before it was ever let go."""
        jobs = self._noted_jobs(keys)
        waiting = [key for key in jobs if _waits(jobs, key)]
        self._let_go.update(waiting)
        if waiting:
            self._client.release([jobs[key].job_id for key in waiting])
        return [key in jobs or key in self._let_go for key in keys]

    # --- stopping -----------------------------------------------------------------------------

    def _stop(self, orders: Sequence[StopOrder]) -> Sequence[bool | WharfingerError]:
        """Stop each, or make sure that it never starts: then the outcome is true."""
        results: list[bool | WharfingerError] = []
        withdrawn: list[int] = []
        asked: list[SlurmJob] = []
        jobs, gone = self._keep_from_starting([order.key for order in orders])
        for order in orders:
            key, run_dir = order.key, self.run_dir(order.key)
            if key not in gone and run_dir is not None:
                try:
                    self._write_stop(order, run_dir)
                except OSError as error:
                    why = f"{run_dir}: cannot write why it is stopped: {error.strerror}"
                    results.append(EngineFault(why, retryable=True))
                    continue
            results.append(key in gone)
            job = jobs.get(key)
            if job is not None and (key in gone or self._is_of_user(key)):
                # Of a user's script we don't know what a signal to it alone would leave behind.
                withdrawn.append(job.job_id)
            elif job is not None:
                asked.append(job)
        if withdrawn:
            self._client.cancel(withdrawn)
        self._signal(asked, "TERM")
        return results

    def _is_of_user(self, key: str) -> bool:
        note = self._notes.get(key)
        return note is not None and note.of_user

    def _keep_from_starting(
        self, keys: Sequence[str]
    ) -> tuple[Mapping[str, SlurmJob], Collection[str]]:
        """The jobs of starts as Slurm has them, and the keys under which nothing will begin.

        A start with a run directory is kept from it by its claim; any other by being held: only
        what still waits after that has not begun.
        """
        jobs = self._noted_jobs(keys)
        gone, unclaimed = set(), []
        for key in keys:
            claimed = self._cancel_claim(key)
            if claimed or (claimed is None and _never_began(jobs.get(key))):
                gone.add(key)
            elif claimed is None and _waits(jobs, key):
                unclaimed.append(key)
        if unclaimed:
            self._hold([jobs[key].job_id for key in unclaimed])
            after = self._noted_jobs(unclaimed)
            jobs = {**jobs, **after}
            gone.update(key for key, job in after.items() if job.held or _never_began(job))
        return jobs, gone

    def _hold(self, job_ids: Sequence[int]) -> None:
        """Hold what waits; Slurm says no of what has begun, and may then have held no other."""
        try:
            self._client.hold(job_ids)
        except SlurmRefused:
            for job_id in job_ids:
                with suppress(SlurmRefused):
                    self._client.hold([job_id])

    def _write_stop(self, order: StopOrder, run_dir: Path) -> None:
        with suppress(NotFound):
            if order.not_alive:
                note_not_alive(run_dir, order.grace_seconds)
            write_stop(run_dir, order.grace_seconds)

    def _signal(self, jobs: Sequence[SlurmJob], name: str) -> None:
        """Tell supervisors; of a job that does not run ``scancel`` would not let go for long."""
        if there := [job.job_id for job in jobs if _runs(job)]:
            self._client.signal(there, name)

    def _cancel_claim(self, key: str) -> bool | None:
        """Whether its claim is taken, so that it never begins; ``None`` = a claim does not tell."""
        run_dir, note = self.run_dir(key), self._notes.get(key)
        if run_dir is None:
            return None
        try:
            return cancel(run_dir)
        except NotFound:
            # Never made, if its job was not handed in; else it was taken away, or is not mounted.
            return True if note is None or note.job_id is None else None

    def _withdraw(self, keys: Sequence[str]) -> Sequence[bool]:
        """Make sure that what has not begun never does; true = so it is."""
        jobs, gone = self._keep_from_starting(keys)
        self._end({key: job for key, job in jobs.items() if key in gone})
        return [key in gone for key in keys]

    def _kill(self, keys: Sequence[str]) -> Sequence[None]:
        self._end(self._noted_jobs(keys))
        return [None] * len(keys)

    def _end(self, jobs: Mapping[str, SlurmJob]) -> None:
        """Cancel ours; what waits of users' is held again, and what runs of theirs goes on."""
        users = [job for key, job in jobs.items() if self._is_of_user(key)]
        ours = [job.job_id for key, job in jobs.items() if not self._is_of_user(key)]
        if ours:
            self._client.cancel(ours)
        if waiting := [job for job in users if job.state.upper() == "PENDING"]:
            self._hold([job.job_id for job in waiting])
            self._user_jobs.give_back(waiting)

    # --- while it runs --------------------------------------------------------------------------

    def _control(self, orders: Sequence[ControlOrder]) -> Sequence[WharfingerError | None]:
        """Tell supervisors what to keep to, and then all of them to look."""
        results: list[WharfingerError | None] = []
        signalled: list[SlurmJob] = []
        jobs = self._noted_jobs([order.key for order in orders])
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
            if order.key in jobs:
                signalled.append(jobs[order.key])
            results.append(None)
        self._signal(signalled, "USR1")
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
            listed = self._client.jobs()
            jobs = self._own_jobs(listed)
            usage = self._usage(jobs, now)
            offers = self._user_jobs.offered(listed)
        except WharfingerError as error:
            if error.retryable and not self._away:
                log.warning("Slurm does not answer; what runs goes on: %s", error)
                self._away = True
            raise
        if self._away:
            log.warning("Slurm answers again")
            self._away = False
        # Scripts that were one too many for this look are read by the next.
        self._listed_at = now if self._user_jobs.all_read else -1e9
        # After the listing: what has ended by then has written its record.
        over = [key for key in watched.running if key not in jobs or not _runs(jobs[key])]
        readings = self._readings((*watched.starting, *over))
        named = ((script.profiler_name(self._identity, job.comment), job) for job in listed)
        profilers = {name: job for name, job in named if name is not None}
        return Look(time.monotonic() - now, jobs, nodes, readings, usage, offers, profilers)

    def _has_exit(self, key: str) -> bool:
        run_dir = self.run_dir(key)
        return run_dir is not None and os.path.lexists(run_dir / "exit")

    def _readings(self, keys: Sequence[str]) -> dict[str, RunReading]:
        readings = {key: self.read(key) for key in keys}
        return {key: reading for key, reading in readings.items() if reading is not None}

    def _own_jobs(self, listed: Iterable[SlurmJob]) -> dict[str, SlurmJob]:
        """Ours by key. What waits and must not start is cancelled.

        It was handed in twice, under a key that is not known, or requeued after its end.
        """
        own: dict[str, SlurmJob] = {}
        strays: list[int] = []
        for job in listed:
            if (key := self._user_jobs.keys.get(job.job_id)) is not None:
                if (note := self._notes.get(key)) is not None and is_let_go(job, note):
                    own[key] = job
                continue
            key = script.key_of(self._identity, job.comment)
            if key is None:
                continue
            note = self._notes.get(key)
            ended = note is not None and note.has_end
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

    def _noted_jobs(self, keys: Iterable[str]) -> dict[str, SlurmJob]:
        """The jobs of starts by key, ended or not, as far as Slurm has them and they are ours.

        A number alone does not tell: a controller that was killed forgets the jobs of its last
        seconds, and gives the same numbers to whoever comes next.
        """
        noted = {
            note.job_id: (key, note)
            for key in keys
            if (note := self._notes.get(key)) is not None and note.job_id is not None
        }
        jobs: dict[str, SlurmJob] = {}
        for job in self._client.jobs() if noted else ():
            key, note = noted.get(job.job_id, ("", None))
            if note is None:
                continue
            own = script.key_of(self._identity, job.comment) == key
            if is_let_go(job, note) if note.of_user else own:
                jobs[key] = job
        return jobs

    def _usage(
        self, jobs: Mapping[str, SlurmJob], now: float
    ) -> Mapping[str, tuple[float, int]] | None:
        period_seconds = 3 * self._settings.poll_seconds * 2 ** min(self._usage_failures, 6)
        if now - self._used_at < period_seconds:
            return None
        self._used_at = now
        keys = {job.job_id: key for key, job in jobs.items() if job.state.upper() == "RUNNING"}
        try:
            used = self._client.usage(list(keys)) if keys else {}
        except WharfingerError:
            # A site that does not measure; what runs is known all the same.
            self._usage_failures += 1
            return None
        self._usage_failures = 0
        return {keys[job_id]: figures for job_id, figures in used.items() if job_id in keys}

    def _ends(self, keys: Sequence[str]) -> Sequence[JobEnd | None]:
        notes = {
            note.job_id: (key, note)
            for key in keys
            if (note := self._notes.get(key)) is not None and note.job_id is not None
        }
        ours = {job.job_id for job in self._noted_jobs(keys).values()}
        reused = {job.job_id for job in self._client.jobs() if job.job_id in notes} - ours
        job_ids = [job_id for job_id in notes if job_id not in reused]
        ends: dict[str, JobEnd] = {}
        for end in self._client.ends(job_ids) if job_ids else ():
            key, note = notes[end.job_id]
            places = {placement.server for placement in note.placements}
            if not end.nodes or not places.isdisjoint(end.nodes):
                ends[key] = end
        return [ends.get(key) for key in keys]

    # --- the notes --------------------------------------------------------------------------------

    def _note_start(self, started: Sequence[ev.WorkloadStarted]) -> Sequence[None]:
        notes = {}
        for report in started:
            note = self._notes.get(report.key)
            if note is not None and not note.has_end:
                notes[report.key] = note.with_reports([report])
        if notes:
            self._notes.put(notes)
        return [None] * len(started)

    def _settle(self, settled: Sequence[tuple[str, StartNote]]) -> Sequence[None]:
        self._notes.put(dict(settled))
        for _, note in settled:
            self._user_jobs.keys.pop(note.job_id or 0, None)
        self._let_go.difference_update(key for key, _ in settled)
        return [None] * len(settled)

    def _forget(self, keys: Sequence[str]) -> Sequence[None]:
        for key in keys:
            if (run_dir := self.run_dir(key)) is not None:
                shutil.rmtree(run_dir, ignore_errors=True)
        self._notes.delete(keys)
        return [None] * len(keys)


def _check_ours(directory: Path) -> None:
    """Raise ``InvalidInput`` for what others may change: what lies there is run as we are."""
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise InvalidInput(f"{directory}: is no directory; remove it")
    if status.st_uid != os.geteuid():
        raise InvalidInput(
            f"{directory}: belongs to user {status.st_uid}, not to this one; remove it, or name "
            "another --shared-dir"
        )
    if status.st_mode & 0o022:
        raise InvalidInput(f"{directory}: others may write there; see what is in it: chmod 700")


def _is_program(path: Path, program: bytes) -> bool:
    try:
        mode = path.lstat().st_mode
        return stat.S_ISREG(mode) and bool(mode & 0o100) and path.read_bytes() == program
    except FileNotFoundError:
        return False


def _waits(jobs: Mapping[str, SlurmJob], key: str) -> bool:
    return key in jobs and jobs[key].state.upper() == "PENDING"


def _never_began(job: SlurmJob | None) -> bool:
    return job is not None and is_over(job) and not has_had_node(job)


def _runs(job: SlurmJob) -> bool:
    return job.state.upper() in {"RUNNING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING"}
