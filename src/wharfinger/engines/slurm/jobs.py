"""What is done for starts at Slurm and in run directories: everything that may take long.

All methods that are named in ``operations`` run on the thread of the slow calls, one at a time.
They keep to this order, so that a crash at any point starts nothing twice and loses nothing: the
note, the run directory, the job (held), its number in the note, its release.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path

from wharfinger.core import events as ev
from wharfinger.engines.slow import Backoff, Operation, SlowCalls
from wharfinger.engines.slurm import own_comments, script
from wharfinger.engines.slurm.client.base import JobEnd, Node, SlurmClient, SlurmJob
from wharfinger.engines.slurm.ends import RunReading, has_had_node, is_over
from wharfinger.engines.slurm.opening import UsedCluster
from wharfinger.engines.slurm.profiler_jobs import directory_of_all, listed_profilers
from wharfinger.engines.slurm.runs import RunDirectories, StartOrder
from wharfinger.engines.slurm.settings import SlurmSettings
from wharfinger.engines.slurm.start_notes import StartNote, StartNotes, note_of
from wharfinger.engines.slurm.user_jobs import UserJobs, is_let_go
from wharfinger.engines.supervised.records import note_not_alive
from wharfinger.errors import (
    EngineFault,
    NotFound,
    OutOfSpace,
    SlurmRefused,
    WharfingerError,
)
from wharfinger.host.run_control import (
    RENEW_SECONDS,
    renew_suspended,
    write_pace,
    write_stop,
    write_suspended,
)
from wharfinger.model.allocation import Placement

log = logging.getLogger(__name__)

_AWAY = Backoff(first_seconds=0.5, factor=1.6, max_seconds=5.0)
LEAST_LIMIT_SECONDS = 600.0
"""Of a job whose time limit follows a prediction."""
_MANY = 256
"""Jobs in one call."""
_SOME, _FEW = 32, 8
"""Jobs in one run of calls that may need one call for each; the same, where they always do."""


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
    placements: tuple[Placement, ...] = ()


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
        cluster: Whose nodes are the servers.
        watched: What is watched now; called on the thread of the calls.
        calls: The thread.
    """

    def __init__(
        self,
        client: SlurmClient,
        notes: StartNotes,
        settings: SlurmSettings,
        identity: str,
        cluster: UsedCluster,
        watched: Callable[[], WatchedStarts],
        calls: SlowCalls,
    ) -> None:
        self._client = client
        self._notes = notes
        self._settings = settings
        self._identity = identity
        self._users = settings.job_users()
        self._cluster = cluster
        self._watched = watched
        self._calls = calls
        self._doubtful: set[str] = set()
        self._let_go: set[str] = set()
        self._told_strays: set[int] = set()
        self._user_jobs = UserJobs(client, notes, cluster.partitions, self._ask_for_release)
        self.runs = RunDirectories(notes, settings, identity, self._user_jobs.keys.values())
        self._listed_at = -1e9
        self._used_at = 0.0
        self._usage_failures = 0
        self._away = False
        self._suspended: set[str] = set()
        self._renewed_at = 0.0
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
        self.note_lost_operation = Operation(
            "note lost", self._note_lost, 1, give_up_seconds=60.0, backoff=_AWAY, closes=True
        )
        self.forget_operation = Operation("forget", self._forget, _MANY, backoff=_AWAY, closes=True)
        self.let_go_operation = Operation("let go", self._user_jobs.let_go, _SOME, backoff=_AWAY)
        # Each comment takes a call of its own: starts come first.
        self.annotate_operation = Operation(
            "annotate",
            self._user_jobs.annotate,
            _FEW,
            give_up_seconds=60.0,
            backoff=_AWAY,
            yields=True,
        )
        self.look_operation = Operation("look", lambda _: [self.look()], 1, backoff=_AWAY)

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
        key = order.key
        note = self._notes.get(key)
        if note is not None and note.job_id is not None:
            return note.job_id
        try:
            if note is None:
                note = note_of(order.workload, order.placements)
                self._notes.put({key: note})
            else:
                self._doubtful.add(key)  # An engine before us may have come further.
            self.runs.make(order)
        except OutOfSpace as error:
            raise EngineFault(str(error)) from error  # Tried again elsewhere, not here for ever.
        job_id = self._find_job(key) if key in self._doubtful else None
        if job_id is None:
            self._doubtful.add(key)  # Until it is known what came of it.
            job_id = self._submit(order)
        self._notes.put({key: replace(note, job_id=job_id)})
        self._doubtful.discard(key)
        return job_id

    def _submit(self, order: StartOrder) -> int:
        home, servers = self.runs.home(order.key), [p.server for p in order.placements]
        if home is None:
            text = script.plain_script(order.workload)
        elif several := self.runs.of_nodes(order.key):
            cpus = script.cpus_for(order.placements)
            text = script.several_script(home, several, self.runs.supervisor, cpus)
        else:
            text = script.supervised_script(home, self.runs.supervisor)
        partition = self._cluster.partition_of(servers)
        options = script.options_of(
            order.workload,
            order.placements,
            own_comments.comment_of(self._identity, order.key),
            partition,
            self._settings,
            home,
            self._limit_of(order, partition),
        )
        return self._client.submit(text, options)

    def _limit_of(self, order: StartOrder, partition: str) -> float | None:
        """Its time limit by what it is predicted to take; ``None`` = nothing is predicted."""
        factor, predicted = self._settings.time_limit_factor, order.at_most_seconds
        if predicted is None or not factor:
            return None
        seconds = max(factor * predicted, LEAST_LIMIT_SECONDS)
        return min(seconds, self._cluster.most_seconds.get(partition) or inf)

    def _find_job(self, key: str) -> int | None:
        """The job that an earlier try has handed in; the first if there are several."""
        found = [j for j in self._client.jobs() if self._key_of(j) == key and not is_over(j)]
        return min((job.job_id for job in found), default=None)

    def _key_of(self, job: SlurmJob) -> str | None:
        """The key of a job of ours; ``None`` = it is not ours. Others may copy a comment."""
        return own_comments.key_of(self._identity, job.comment) if job.user in self._users else None

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
            key = order.key
            if key not in gone:
                try:
                    for run_dir in self.runs.all_of(key):
                        _write_stop(order, run_dir)
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
            claimed = self.runs.cancel_claims(key)
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

    def _signal(self, jobs: Sequence[SlurmJob], name: str) -> None:
        """Tell supervisors; of a job that does not run ``scancel`` would not let go for long."""
        if there := [job.job_id for job in jobs if _runs(job)]:
            self._client.signal(there, name)

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
            try:
                if note is None or note.job_id is None or not self.runs.all_of(order.key):
                    raise EngineFault("it does not run under a supervisor")
                self._write_control(order)
                if order.placements:
                    self._notes.put({order.key: replace(note, placements=order.placements)})
            except WharfingerError as error:
                results.append(EngineFault(str(error)))
                continue
            if order.key in jobs:
                signalled.append(jobs[order.key])
            results.append(None)
        self._signal(signalled, "USR1")
        return results

    def _write_control(self, order: ControlOrder) -> None:
        if order.suspended is not None:
            for run_dir in self.runs.all_of(order.key):
                write_suspended(run_dir, suspended=order.suspended)
            if order.suspended:
                self._suspended.add(order.key)
            else:
                self._suspended.discard(order.key)
        several = self.runs.of_nodes(order.key)
        for placement in order.placements:
            place = several.get(placement.server) or self.runs.run_dir(order.key)
            if place is not None:
                allocation = placement.allocation
                write_pace(place, allocation.limit_millicpus)

    def _renew_suspensions(self, watched: WatchedStarts, now: float) -> None:
        """Each ends by itself if no engine renews it."""
        if now - self._renewed_at < RENEW_SECONDS:
            return
        self._renewed_at = now
        self._suspended.intersection_update((*watched.starting, *watched.running))
        for key in self._suspended:
            try:
                renewed = [renew_suspended(run_dir) for run_dir in self.runs.all_of(key)]
            except (NotFound, OSError) as error:
                log.info("%s: its suspension is not renewed: %s", key, error)
                continue
            if not all(renewed):  # They were let go on when nobody came for too long.
                self._control([ControlOrder(key, suspended=True)])

    # --- watching -------------------------------------------------------------------------------

    def look(self) -> Look:
        """What has changed, asking Slurm no more often than need be."""
        watched = self._watched()
        now = time.monotonic()
        self._renew_suspensions(watched, now)
        hurried = watched.hurried or any(map(self.runs.has_ended, watched.running))
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
        over = [
            key
            for key in watched.running
            if key not in jobs or not _runs(jobs[key]) or self.runs.has_ended_in_part(key)
        ]
        readings = self._readings((*watched.starting, *over))
        shared = self._settings.shared_dir
        profilers: Mapping[str, SlurmJob] = {}
        if shared is not None:
            directory = directory_of_all(shared, self._identity)
            profilers = listed_profilers(listed, self._identity, directory)
        return Look(time.monotonic() - now, jobs, nodes, readings, usage, offers, profilers)

    def _readings(self, keys: Sequence[str]) -> dict[str, RunReading]:
        readings = {key: self.runs.read(key) for key in keys}
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
            if (key := self._key_of(job)) is None:
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
            self._cancel_strays(strays)
        return own

    def _cancel_strays(self, job_ids: Sequence[int]) -> None:
        is_new = not self._told_strays.issuperset(job_ids)
        self._told_strays = set(job_ids)
        try:
            self._client.cancel(job_ids)
        except SlurmRefused as error:  # They are tried again; what else was seen is told.
            if is_new:
                log.warning("jobs %s, which nothing waits for, stay: %s", job_ids, error)
        else:
            log.warning("cancelled: jobs %s, which nothing waits for", job_ids)

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
            if is_let_go(job, note) if note.of_user else self._key_of(job) == key:
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

    def _note_lost(self, losses: Sequence[tuple[str, tuple[Placement, ...]]]) -> Sequence[None]:
        notes = {}
        for key, lost in losses:
            note = self._notes.get(key)
            if note is not None and not note.has_end:
                notes[key] = note.without(lost)
                self.runs.spread(key, [placement.server for placement in notes[key].placements])
        if notes:
            self._notes.put(notes)
        return [None] * len(losses)

    def _settle(self, settled: Sequence[tuple[str, StartNote]]) -> Sequence[None]:
        self._notes.put(dict(settled))
        for _, note in settled:
            self._user_jobs.keys.pop(note.job_id or 0, None)
        self._let_go.difference_update(key for key, _ in settled)
        return [None] * len(settled)

    def _forget(self, keys: Sequence[str]) -> Sequence[None]:
        for key in keys:
            self.runs.remove(key)
        self._notes.delete(keys)
        return [None] * len(keys)


def _write_stop(order: StopOrder, run_dir: Path) -> None:
    with suppress(NotFound):
        if order.not_alive:
            note_not_alive(run_dir, order.grace_seconds)
        write_stop(run_dir, order.grace_seconds)


def _waits(jobs: Mapping[str, SlurmJob], key: str) -> bool:
    return key in jobs and jobs[key].state.upper() == "PENDING"


def _never_began(job: SlurmJob | None) -> bool:
    return job is not None and is_over(job) and not has_had_node(job)


def _runs(job: SlurmJob) -> bool:
    return job.state.upper() in {"RUNNING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING"}
