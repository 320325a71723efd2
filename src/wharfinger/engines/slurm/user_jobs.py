"""Jobs that users hand in to Slurm, held, with a target in the comment: offered to the core.

Runs on the thread of the slow calls. A job whose comment is not for us is never touched; one whose
comment can't be read gets one line in it, and stays as its user left it.
"""

import hashlib
import logging
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.engines.slurm.client.base import SlurmClient, SlurmJob
from wharfinger.engines.slurm.comments import JobProgram, addressed, annotated, workload_of
from wharfinger.engines.slurm.script import mebibytes, whole_cpus
from wharfinger.engines.slurm.servers import feature_label
from wharfinger.engines.slurm.start_notes import StartNote, StartNotes
from wharfinger.errors import InvalidInput, SlurmRefused
from wharfinger.model.allocation import Placement
from wharfinger.model.requirements import Requirement
from wharfinger.model.view import Resize, WorkloadLimits
from wharfinger.model.workload import Workload

log = logging.getLogger(__name__)

_LIMITS = WorkloadLimits(resize=Resize.NONE, suspend=False, max_servers=1)
"""Of a script that knows nothing of us."""
_HANDLE = "job "
_NAME, _SCRIPT = "slurm-", "slurm-script-"
"""Before the number in a workload's name, and before the digest of its script in its command."""
MAX_READ = 32
"""Scripts that one look reads, each by a call."""
_FEATURE = re.compile(r"[A-Za-z0-9_.:=+-]+")


@dataclass(frozen=True, slots=True)
class LetGoOrder:
    """A start of a job that its user holds."""

    key: str
    handle: str
    workload: Workload
    placement: Placement


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
        self._refused = False
        self.all_read = False
        self._began = False
        # The CPUs that jobs state which we have changed, by number.
        self._stated_cpus = {
            note.user_job_id: note.user_cpus
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
        left = MAX_READ if self._began else sys.maxsize
        listed = list(jobs)
        there = {job.job_id for job in listed}
        self._stated_cpus = {n: cpus for n, cpus in self._stated_cpus.items() if n in there}
        for changed in listed:
            is_waiting = changed.state.upper() == "PENDING" and changed.held
            if not is_waiting or changed.job_id in self.keys or not addressed(changed.comment):
                continue
            job = self._as_stated(changed)
            known, stated = self._read.get(job.job_id), _statement(job)
            if known is None or known[0] != stated:
                left -= 1
                if left >= 0:
                    known = stated, self._offer_of(job)
            if known is not None:
                read[job.job_id] = known
        self._read, self._began, self.all_read = read, True, left >= 0
        return {offer.handle: offer for _, offer in read.values() if offer is not None}

    def _as_stated(self, job: SlurmJob) -> SlurmJob:
        """A job as its user left it, where we have changed it and not yet given it back."""
        cpus = self._stated_cpus.get(job.job_id)
        return job if cpus is None else replace(job, cpus=cpus, required_nodes=())

    def _offer_of(self, job: SlurmJob) -> ev.WorkloadOffered | None:
        try:
            return ev.WorkloadOffered(self._workload_of(job), f"{_HANDLE}{job.job_id}", _LIMITS)
        except (InvalidInput, SlurmRefused) as error:
            self._say(job, f"not taken: {error}")
            return None

    def _workload_of(self, job: SlurmJob) -> Workload:
        if job.array_id is not None or job.array_tasks:
            raise InvalidInput("arrays are not placed; hand in single jobs")
        if job.node_count > 1:
            raise InvalidInput(f"{job.node_count} nodes; only jobs of one node are placed")
        if job.partition not in self._partitions:
            used = ", ".join(self._partitions)
            raise InvalidInput(f"partition {job.partition!r} is not placed; use {used}")
        if job.required_nodes:
            nodes = ",".join(job.required_nodes)[:60]
            raise InvalidInput(f"it states its nodes ({nodes}); leave out --nodelist")
        if job.reservation:
            raise InvalidInput(f"it states a reservation ({job.reservation[:60]}); leave that out")
        requires = _required_by(job.features)
        directory = job.working_directory
        program = JobProgram(
            script=_script_name(self._client.script(job.job_id)),
            working_directory=directory if directory.startswith("/") else "/",
            cpus=job.cpus,
            memory_bytes=job.memory_bytes,
            time_limit_seconds=job.time_limit_seconds,
        )
        workload = workload_of(f"{_NAME}{job.job_id}", job.comment, program)
        return replace(workload, owner=job.user, requires=(*workload.requires, *requires))

    def annotate(self, asked: Sequence[act.AnnotateWorkload]) -> Sequence[None]:
        """Write into comments what is decided; nothing where there is no such job."""
        texts = {annotation.handle: annotation.text for annotation in asked}
        for job in self._client.jobs():
            text = texts.get(f"{_HANDLE}{job.job_id}")
            if text is not None and addressed(job.comment):
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

    def let_go(self, orders: Sequence[LetGoOrder]) -> Sequence[int]:
        """Place held jobs on their nodes; their release follows.

        ``InvalidInput``: it is not held any more, or Slurm does not let us change it.
        """
        return [self._let_go(order) for order in orders]

    def _let_go(self, order: LetGoOrder) -> int:
        note = self._notes.get(order.key)
        job_id = int(order.handle.removeprefix(_HANDLE))
        if note is None or note.job_id is None:
            held = {j.job_id: j for j in self._client.jobs() if j.held and j.state == "PENDING"}
            if job_id not in held:
                raise InvalidInput(f"job {job_id} is not held any more: its user took it back")
            note = self._bind(order, held[job_id])
            self._notes.put({order.key: replace(note, job_id=job_id)})
        self.keys[job_id] = order.key
        self._release(order.key)
        return job_id

    def _bind(self, order: LetGoOrder, job: SlurmJob) -> StartNote:
        """Place a held job; what its user states is noted before it is changed."""
        allocation, was_changed = order.placement.allocation, job.job_id in self._stated_cpus
        stated_cpus = self._as_stated(job).cpus
        cpus = whole_cpus(allocation)
        note = StartNote(
            order.workload.name,
            (order.placement,),
            cpus,
            mebibytes(allocation) << 20,
            of_user=True,
            user=job.user,
            user_job_id=job.job_id,
            user_cpus=stated_cpus,
        )
        self._notes.put({order.key: note})
        self._stated_cpus[job.job_id] = stated_cpus
        fields = {"ReqNodeList": order.placement.server}
        if (given_cpus := min(cpus, stated_cpus)) != job.cpus:
            fields["NumCPUs"] = str(given_cpus)
        try:
            self._client.update(job.job_id, fields)
        except SlurmRefused as error:
            if not was_changed:
                del self._stated_cpus[job.job_id]
            raise InvalidInput(str(error)) from error
        return note

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
                self._stated_cpus.pop(job.job_id, None)


def is_users(workload: Workload) -> bool:
    """Whether its program is the script of a user's job, which only Slurm has."""
    return any(word.startswith(_SCRIPT) for word in workload.run.command[-1:])


def find_script(client: SlurmClient, workload: Workload) -> tuple[str, str]:
    """The script of a user's job, and whose it is; raises ``InvalidInput`` where it is gone."""
    number = workload.name.removeprefix(_NAME)
    job = next((job for job in client.jobs() if str(job.job_id) == number), None)
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
