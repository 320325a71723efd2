"""Jobs that users hand in to Slurm, held, with a target in the comment: offered to the core.

Runs on the thread of the slow calls. A job whose comment is not for us is never touched; one whose
comment can't be read gets one line in it, and stays as its user left it.
"""

import hashlib
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.engines.slurm.client.base import SlurmClient, SlurmJob
from wharfinger.engines.slurm.comments import JobProgram, addressed, annotated, workload_of
from wharfinger.engines.slurm.script import mebibytes, whole_cpus
from wharfinger.engines.slurm.start_notes import StartNote, StartNotes
from wharfinger.errors import InvalidInput, SlurmRefused
from wharfinger.model.allocation import Placement
from wharfinger.model.view import Resize, WorkloadLimits
from wharfinger.model.workload import Workload

log = logging.getLogger(__name__)

_LIMITS = WorkloadLimits(resize=Resize.NONE, suspend=False, max_servers=1)
"""Of a script that knows nothing of us."""
_HANDLE = "job "


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
        self.keys = {
            note.job_id: key
            for key, note in notes.items().items()
            if note.of_user and note.job_id is not None and not note.has_end
        }

    def offered(self, jobs: Iterable[SlurmJob]) -> dict[str, ev.WorkloadOffered]:
        """What is offered now, by handle; each job is read once, and again if its user changes it.

        Raises ``SlurmUnavailable``.
        """
        former, self._read = self._read, {}
        offers: dict[str, ev.WorkloadOffered] = {}
        for job in jobs:
            is_waiting = job.state.upper() == "PENDING" and job.held
            if not is_waiting or job.job_id in self.keys or not addressed(job.comment):
                continue
            stated = (annotated(job.comment, ""), job.cpus, job.memory_bytes, job.node_count)
            known = former.get(job.job_id)
            offer = known[1] if known and known[0] == stated else self._offer_of(job)
            self._read[job.job_id] = stated, offer
            if offer is not None:
                offers[offer.handle] = offer
        return offers

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
        text = self._client.script(job.job_id)
        digest = hashlib.blake2s(text.encode(errors="surrogateescape"), digest_size=8).hexdigest()
        program = JobProgram(
            script=f"slurm-script-{digest}",
            working_directory="/",
            cpus=job.cpus,
            memory_bytes=job.memory_bytes,
            time_limit_seconds=job.time_limit_seconds,
        )
        workload = workload_of(f"slurm-{job.job_id}", job.comment, program)
        return replace(workload, owner=job.user)

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
            allocation = order.placement.allocation
            cpus = whole_cpus(allocation)
            fields = {"ReqNodeList": order.placement.server}
            if cpus < held[job_id].cpus:
                fields["NumCPUs"] = str(cpus)
            try:
                self._client.update(job_id, fields)
            except SlurmRefused as error:
                raise InvalidInput(str(error)) from error
            memory_bytes = mebibytes(allocation) << 20
            note = StartNote(
                order.workload.name,
                (order.placement,),
                cpus,
                memory_bytes,
                job_id,
                of_user=True,
                user=held[job_id].user,
            )
            self._notes.put({order.key: note})
        self.keys[job_id] = order.key
        self._release(order.key)
        return job_id

    def give_back(self, job_ids: Sequence[int]) -> None:
        """Let jobs that are held be again as their users left them."""
        for job_id in job_ids:
            self._client.update(job_id, {"ReqNodeList": ""})


def is_let_go(job: SlurmJob, note: StartNote) -> bool:
    """Whether it is the user's job that was let go, and not another that has got its number."""
    return addressed(job.comment) and note.user in {"", job.user}
