"""Jobs that users hand in to Slurm, held, with a target in the comment: offered to the core.

Runs on the thread of the slow calls. A job whose comment is not for us is never touched; one whose
comment can't be read gets one line in it, and stays as its user left it.
"""

import hashlib
import logging
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import ceil

from msgspec import structs

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.engines.slurm.client.base import SlurmClient, SlurmJob
from wharfinger.engines.slurm.comments import JobProgram, addressed, annotated, workload_of
from wharfinger.engines.slurm.script import whole_cpus
from wharfinger.engines.slurm.servers import feature_label
from wharfinger.engines.slurm.start_notes import StartNote, StartNotes, note_of
from wharfinger.engines.slurm.user_arrays import (
    handle_of,
    has_task,
    is_array,
    limit_of,
    offers_of,
    read_handle,
)
from wharfinger.errors import InvalidInput, OutOfSpace, SlurmRefused, WharfingerError
from wharfinger.model.allocation import Placement
from wharfinger.model.decisions import ReasonCode
from wharfinger.model.requirements import Requirement
from wharfinger.model.view import Resize, WorkloadLimits
from wharfinger.model.workload import Workload

log = logging.getLogger(__name__)

_NAME, _SCRIPT = "slurm-", "slurm-script-"
"""Before the number in a workload's name, and before the digest of its script in its command."""
MAX_READ = 256
"""Scripts that one look reads."""
_FEATURE = re.compile(r"[A-Za-z0-9_.:=+-]+")


@dataclass(frozen=True, slots=True)
class LetGoOrder:
    """A start of a job that its user holds."""

    key: str
    handle: str
    workload: Workload
    placements: tuple[Placement, ...]


class UserJobs:
    """Users' jobs that are offered, and those that were let go.

    Args:
        client: Asks Slurm.
        notes: Of the starts.
        partitions: Whose nodes are the servers.
        release: Asks for the release of a start's job.

    Attributes:
        keys: Keys of those that were let go and have not ended, by the number of their job.
        all_read: Whether all that are held were read; else the next ``offered`` goes on.
    """

    def __init__(
        self,
        client: SlurmClient,
        notes: StartNotes,
        partitions: Sequence[str],
        release: Callable[[str], None],
    ) -> None:
        self._client = client
        self._notes = notes
        self._partitions = partitions
        self._release = release
        self._read: dict[int, tuple[tuple[object, ...], ev.WorkloadOffered | None]] = {}
        # What is decided of tasks that wait, whose comments are all one.
        self._texts: dict[str, str] = {}
        # How many tasks of an array may run at a time, which tasks that are jobs do not tell.
        self._at_once = notes.array_limits()
        self._refused = False
        self.all_read = False
        self._began = False
        # The CPUs that jobs state which we have changed, by handle: each task has its own.
        self._stated_cpus = {
            note.handle or f"job {note.user_job_id}": note.user_cpus
            for note in notes.items().values()
            if note.user_job_id is not None
        }
        self.keys = {
            note.job_id: key
            for key, note in notes.items().items()
            if note.of_user and note.job_id is not None and not note.has_end
        }

    def offered(self, jobs: Iterable[SlurmJob]) -> dict[str, ev.WorkloadOffered]:
        """What is offered now, by handle; each job is read once, and again if its user changes it.

        The first call reads all, for what it leaves out counts as withdrawn; any later one no more
        than ``MAX_READ`` scripts. Raises ``SlurmUnavailable``.
        """
        read: dict[int, tuple[tuple[object, ...], ev.WorkloadOffered | None]] = {}
        unread: list[SlurmJob] = []
        listed = list(jobs)
        there = {job.job_id for job in listed} | {job.array_id for job in listed}
        stated = self._stated_cpus.items()
        self._stated_cpus = {h: cpus for h, cpus in stated if read_handle(h)[0] in there}
        self._take_in_limits(listed, there)
        for changed in listed:
            is_waiting = changed.state.upper() == "PENDING" and changed.held
            if not is_waiting or changed.job_id in self.keys or not addressed(changed.comment):
                continue
            job = self._as_stated(changed)
            known = self._read.get(job.job_id)
            if known is None or known[0] != _statement(job):
                unread.append(job)
            if known is not None:
                read[job.job_id] = known  # Until it is read again.
        most = MAX_READ if self._began else sys.maxsize
        scripts = self._client.scripts([job.job_id for job in unread[:most]]) if unread else {}
        for job in unread[:most]:
            read[job.job_id] = _statement(job), self._offer_of(job, scripts.get(job.job_id))
        self._read, self._began, self.all_read = read, True, len(unread) <= most
        waiting = {job.job_id: job for job in listed}
        offers = {
            offer.handle: offer
            for number, (_, template) in read.items()
            if template is not None
            for offer in offers_of(
                template, waiting[number], self._at_once.get(waiting[number].array_id or 0)
            )
        }
        self._texts = {handle: text for handle, text in self._texts.items() if handle in offers}
        return offers

    def _take_in_limits(self, listed: Sequence[SlurmJob], there: Collection[int | None]) -> None:
        told = {j.array_id: limit_of(j.array_tasks) for j in listed if j.array_id and j.array_tasks}
        limits = (self._at_once | told).items()
        at_once = {n: most for n, most in limits if n in there and most is not None}
        if at_once != self._at_once:
            self._at_once = at_once
            with suppress(OutOfSpace):  # Then it is forgotten with this process.
                self._notes.put_array_limits(at_once)

    def _as_stated(self, job: SlurmJob) -> SlurmJob:
        """A job as its user left it, where we have changed it and not yet given it back.

        What we change gets its nodes with it; of an array that waits we change single tasks.
        """
        cpus = self._stated_cpus.get(handle_of(job)) if job.required_nodes else None
        if cpus is None or is_array(job):
            return job
        return structs.replace(job, cpus=cpus, required_nodes=())

    def _offer_of(self, job: SlurmJob, text: str | None) -> ev.WorkloadOffered | None:
        try:
            # Of a script that knows nothing of us.
            limits = WorkloadLimits(Resize.NONE, suspend=False, max_servers=job.node_count)
            return ev.WorkloadOffered(self._workload_of(job, text), handle_of(job), limits)
        except (InvalidInput, SlurmRefused) as error:
            self._say(job, f"not taken: {error}")
            return None

    def _workload_of(self, job: SlurmJob, text: str | None) -> Workload:
        if job.partition not in self._partitions:
            used = ", ".join(self._partitions)
            raise InvalidInput(f"partition {job.partition!r} is not placed; use {used}")
        if job.required_nodes:
            nodes = ",".join(job.required_nodes)[:60]
            raise InvalidInput(f"it states its nodes ({nodes}); leave out --nodelist")
        if job.reservation:
            raise InvalidInput(f"it states a reservation ({job.reservation[:60]}); leave that out")
        requires = _required_by(job.features)
        if text is None:
            text = self._client.script(job.job_id)  # Or Slurm says why not.
        directory = job.working_directory
        program = JobProgram(
            script=_script_name(text),
            working_directory=directory if directory.startswith("/") else "/",
            cpus=ceil(job.cpus / job.node_count),
            memory_bytes=job.memory_bytes,
            nodes=job.node_count,
            time_limit_seconds=job.time_limit_seconds,
        )
        workload = workload_of(f"{_NAME}{job.job_id}", job.comment, program)
        return replace(workload, owner=job.user, requires=(*workload.requires, *requires))

    def annotate(self, asked: Sequence[act.AnnotateWorkload]) -> Sequence[None]:
        """Write into comments what is decided; nothing where there is no such job."""
        texts = {annotation.handle: annotation.text for annotation in asked}
        waits = {each.handle for each in asked if not each.reason.endswith(f": {ReasonCode.OK}")}
        jobs = self._client.jobs()
        # What is written to all tasks that wait would be written to those that run, too.
        begun = {job.array_id for job in jobs if job.task is not None}
        for job in jobs:
            if not addressed(job.comment):
                continue
            if not is_array(job):
                if (text := texts.get(handle_of(job))) is not None:
                    self._texts.pop(handle_of(job), None)
            else:
                told = [handle for handle in texts if has_task(job, *read_handle(handle))]
                self._texts |= {handle: texts[handle] for handle in told}
                unbegun = (handle for handle in told if handle in waits)
                text = texts.get(next(unbegun, "")) if job.array_id not in begun else None
            if text is not None:
                self._say(job, text)
        return [None] * len(asked)

    def _say(self, job: SlurmJob, text: str) -> None:
        comment = annotated(job.comment, text)
        if comment == job.comment:
            return
        try:
            self._client.update(job.job_id, {"Comment": comment})
        except SlurmRefused as error:
            if not self._refused:
                log.warning("job %d: its comment can't be written: %s", job.job_id, error)
            self._refused = True

    def let_go(self, orders: Sequence[LetGoOrder]) -> Sequence[int | WharfingerError]:
        """Place held jobs on their nodes; their release follows.

        ``InvalidInput``: it is not held any more, or Slurm does not let us change it.
        """
        results: dict[str, int | WharfingerError] = {}
        for order in orders:
            note = self._notes.get(order.key)
            if note is not None and note.job_id is not None:
                results[order.key] = note.job_id
        if unbound := {order.key: order for order in orders if order.key not in results}:
            results |= self._bind(unbound)
        for key, result in results.items():
            if isinstance(result, int):
                self.keys[result] = key
                self._release(key)
        return [results[order.key] for order in orders]

    def _bind(self, asked: Mapping[str, LetGoOrder]) -> Mapping[str, int | WharfingerError]:
        """Place held jobs; what their users state is noted before they are changed.

        Their numbers, or why they are not placed, by the keys of their starts.
        """
        find = _finder(self._client.jobs())
        found = {key: job for key, o in asked.items() if (job := find(o.handle)) is not None}
        notes: dict[str, StartNote] = {}
        changes: dict[str, _Change] = {}
        were_changed = set(self._stated_cpus)
        for key, job in found.items():
            notes[key], changes[key] = self._binding(asked[key], job)
        self._notes.put(notes)
        self._stated_cpus |= {note.handle: note.user_cpus for note in notes.values()}
        errors = self._update(changes)
        for handle in {asked[key].handle for key in errors} - were_changed:
            self._stated_cpus.pop(handle, None)
        bound = {key: job for key, job in found.items() if key not in errors}
        if any(map(is_array, bound.values())):  # Its tasks have got numbers of their own by now.
            find = _finder(self._client.jobs())
            split = {key: find(asked[key].handle) for key in bound}
            bound = {key: job for key, job in split.items() if job and not is_array(job)}
        for key, job in bound.items():  # With its number noted, a later try would not come here.
            if text := self._texts.get(asked[key].handle):
                self._say(job, text)
        self._notes.put({k: replace(notes[k], job_id=job.job_id) for k, job in bound.items()})
        for key in bound:
            self._texts.pop(asked[key].handle, None)
        refused = {
            key: InvalidInput(
                str(errors[key])
                if key in errors
                else f"{order.handle} is not held any more: its user took it back"
            )
            for key, order in asked.items()
            if key not in bound
        }
        return refused | {key: job.job_id for key, job in bound.items()}

    def _binding(self, order: LetGoOrder, job: SlurmJob) -> tuple[StartNote, "_Change"]:
        """What is noted of a job that is placed, and what is changed of it."""
        placements, stated_cpus = order.placements, self._as_stated(job).cpus
        note = replace(
            note_of(order.workload, placements),
            several=False,
            of_user=True,
            handle=order.handle,
            user=job.user,
            user_job_id=job.job_id,
            user_cpus=stated_cpus,
        )
        fields = {"ReqNodeList": ",".join(placement.server for placement in placements)}
        given_cpus = min(sum(whole_cpus(p.allocation) for p in placements), stated_cpus)
        # On fewer nodes than it states Slurm adds what is missing, with their CPUs.
        if given_cpus != job.cpus and len(placements) == job.node_count:
            fields["NumCPUs"] = str(given_cpus)
        task = read_handle(order.handle)[1] if is_array(job) else None
        return note, _Change(job.job_id, task, fields)

    def _update(self, changes: Mapping[str, "_Change"]) -> dict[str, SlurmRefused]:
        """Change jobs; why Slurm refuses, by key."""
        errors: dict[str, SlurmRefused] = {}
        several = {
            change.job_id: change.fields for change in changes.values() if change.task is None
        }
        is_done = False
        with suppress(SlurmRefused):
            if len(several) > 1:
                self._client.update_all(several)
                is_done = True
        for key, change in changes.items():
            if is_done and change.task is None:
                continue
            try:  # Where all at once were refused, it is one of these.
                self._client.update(change.job_id, change.fields, change.task)
            except SlurmRefused as error:
                errors[key] = error
        return errors

    def give_back(self, jobs: Iterable[SlurmJob]) -> None:
        """Let jobs that are held be again as their users left them."""
        for job in jobs:
            fields = {"ReqNodeList": ""}
            if (cpus := self._as_stated(job).cpus) != job.cpus:
                fields["NumCPUs"] = str(cpus)
            try:
                self._client.update(job.job_id, fields)
            except SlurmRefused as error:
                log.warning("job %d can't be left as it was: %s", job.job_id, error)
            else:
                self._stated_cpus.pop(handle_of(job), None)


@dataclass(frozen=True, slots=True)
class _Change:
    """Of a job, or of a task that waits in its array."""

    job_id: int
    task: int | None
    fields: Mapping[str, str]


def _finder(jobs: Sequence[SlurmJob]) -> Callable[[str], SlurmJob | None]:
    """Finds the held job of a handle, or the array that its task waits in."""
    held = [job for job in jobs if job.held and job.state == "PENDING"]
    single = {handle_of(job): job for job in held if not is_array(job)}
    arrays = {job.array_id: job for job in held if is_array(job)}

    def find(handle: str) -> SlurmJob | None:
        number, task = read_handle(handle)
        array = arrays.get(number)
        waits = array is not None and has_task(array, number, task)
        return single.get(handle) or (array if waits else None)

    return find


def is_users(workload: Workload) -> bool:
    """Whether its program is the script of a user's job, which only Slurm has."""
    return any(word.startswith(_SCRIPT) for word in workload.run.command[-1:])


def find_script(client: SlurmClient, workload: Workload) -> tuple[str, str]:
    """The script of a user's job, and whose it is; raises ``InvalidInput`` where it is gone."""
    number = workload.name.removeprefix(_NAME).partition("-")[0]  # Of an array before its task.
    job = next((j for j in client.jobs() if number in {str(j.job_id), str(j.array_id)}), None)
    if job is not None and addressed(job.comment):
        text = client.script(job.job_id)
        if _script_name(text) == workload.run.command[-1]:
            return text, job.user
    raise InvalidInput(f"{workload.name}: the script of its job can't be read any more")


def _script_name(text: str) -> str:
    digest = hashlib.blake2s(text.encode(errors="surrogateescape"), digest_size=8).hexdigest()
    return f"{_SCRIPT}{digest}"


def _statement(job: SlurmJob) -> tuple[object, ...]:
    """What a user can change of a job, and an offer depends on."""
    size = job.cpus, job.memory_bytes, job.node_count
    return annotated(job.comment, ""), *size, job.required_nodes, job.features, job.reservation


def _required_by(features: str) -> list[Requirement]:
    """The labels of nodes that have these features, of ``sbatch --constraint``.

    >>> [str(requirement) for requirement in _required_by("ssd&platform:fast")]
    ['slurm/feature.ssd=yes', 'slurm/feature.platform=fast']
    """
    if not features:
        return []
    names = features.split("&")
    if not all(map(_FEATURE.fullmatch, names)):
        raise InvalidInput(
            f"its features ({features[:60]}) are more than names; join names by '&', or leave out "
            "--constraint"
        )
    labels = map(feature_label, names)
    return [Requirement(label, (value,)) for label, value in labels]


def is_let_go(job: SlurmJob, note: StartNote) -> bool:
    """Whether it is the user's job that was let go, and not another that has got its number."""
    return addressed(job.comment) and note.user in {"", job.user}
