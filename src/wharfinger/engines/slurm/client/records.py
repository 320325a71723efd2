"""Jobs and nodes out of the JSON of ``squeue``, ``sinfo`` and ``scontrol``.

Of a job's hundred fields only those named here are made into objects. A record without an id or a
name is left out; any other field may be missing, null or of another type.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from io import BytesIO
from typing import Any, BinaryIO, Generic, TypeVar

import msgspec

from wharfinger.engines.slurm.client import scalars
from wharfinger.engines.slurm.client.base import Node, SlurmJob
from wharfinger.engines.slurm.client.commands import first_line
from wharfinger.engines.slurm.client.hostlist import expand
from wharfinger.engines.slurm.client.versions import states_of
from wharfinger.errors import SlurmUnavailable

HELD_REASONS = frozenset({"JobHeldUser", "JobHeldAdmin", "JobHoldMaxRequeue"})
BASE_STATES = frozenset(
    (
        *("PENDING", "RUNNING", "SUSPENDED", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT"),
        *("NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY"),
    )
)
# 22.05 tells one word, and a flag in place of the state that it stands beside. A job that is
# COMPLETING has ended, but not how: it counts as running until that is known.
_BASE_OF_FLAG = {
    "CONFIGURING": "RUNNING",
    "REQUEUED": "PENDING",
    "REQUEUE_HOLD": "PENDING",
    "REQUEUE_FED": "PENDING",
    "SPECIAL_EXIT": "PENDING",
    "RESV_DEL_HOLD": "PENDING",
    "RESIZING": "RUNNING",
    "SIGNALING": "RUNNING",
    "STAGE_OUT": "RUNNING",
    "STOPPED": "RUNNING",
    "COMPLETING": "RUNNING",
    "POWER_UP_NODE": "RUNNING",
}


# Not objects of any kind: the garbage collector would look through a hundred thousand of them.
Number = scalars.Wrapped | int | float | str | bool | None


class RawJob(msgspec.Struct, gc=False):
    """The fields of a job that are read."""

    job_id: Any = None
    name: Any = None
    user_name: Any = None
    user_id: Any = None
    partition: Any = None
    job_state: Any = None
    state_reason: Any = None
    comment: Any = None
    hold: Any = None
    array_job_id: Number = None
    array_task_id: Number = None
    array_task_string: Any = None
    nodes: Any = None
    required_nodes: Any = None
    node_count: Number = None
    cpus: Number = None
    memory_per_node: Number = None
    memory_per_cpu: Number = None
    tres_alloc_str: Any = None
    tres_req_str: Any = None
    priority: Number = None
    features: Any = None
    account: Any = None
    qos: Any = None
    licenses: Any = None
    resv_name: Any = None
    dependency: Any = None
    submit_time: Number = None
    start_time: Number = None
    end_time: Number = None
    time_limit: Number = None
    restart_cnt: Any = None
    exit_code: scalars.WrappedStatus | int | float | str | bool | None = None
    current_working_directory: Any = None


class RawNode(msgspec.Struct, gc=False):
    """The fields of a node that are read."""

    name: Any = None
    state: Any = None
    state_flags: Any = None
    reason: Any = None
    cpus: Number = None
    alloc_cpus: Any = None
    real_memory: Any = None
    alloc_memory: Any = None
    features: Any = None
    active_features: Any = None
    partitions: Any = None
    architecture: Any = None
    weight: Any = None
    sockets: Any = None
    cores: Any = None
    threads: Any = None
    boot_time: Number = None
    address: Any = None


Raw = TypeVar("Raw", bound=RawJob | RawNode)
Value = TypeVar("Value", bound=SlurmJob | Node)


class _Rest(msgspec.Struct):
    """What stands around the list."""

    errors: Any = None


_JOBS, _NODES = msgspec.json.Decoder(list[RawJob]), msgspec.json.Decoder(list[RawNode])
_REST, _PARTS = msgspec.json.Decoder(_Rest), msgspec.json.Decoder(dict[str, msgspec.Raw])
_DAMAGED = (ValueError, RecursionError)
_PIECE_BYTES = 4 << 20
# As Slurm's serializer prints it; a line end within a text is escaped.
_NEXT, _LIST_END = b"\n    },\n    {", b"\n  ]"


def decode_jobs(answer: BinaryIO) -> Iterator[RawJob]:
    """The jobs of an answer; ``SlurmUnavailable`` where it is none."""
    return _decode(answer, "jobs", RawJob, _JOBS)


def decode_nodes(answer: BinaryIO) -> Iterator[RawNode]:
    """The nodes of an answer; ``SlurmUnavailable`` where it is none."""
    return _decode(answer, "nodes", RawNode, _NODES)


def _decode(
    answer: BinaryIO, key: str, kind: type[Raw], decoder: "msgspec.json.Decoder[list[Raw]]"
) -> Iterator[Raw]:
    try:
        yield from _decode_in_pieces(answer, key, decoder)
    except (msgspec.MsgspecError, *_DAMAGED):
        answer.seek(0)  # What was told already is told again.
        yield from _decode_whole(answer.read(), key, kind, decoder)


def _decode_whole(
    answer: bytes, key: str, kind: type[Raw], decoder: "msgspec.json.Decoder[list[Raw]]"
) -> list[Raw]:
    """Of an answer that is well formed, but not in lines; else with leniency."""
    try:
        whole = _PARTS.decode(answer)
        records = decoder.decode(whole[key])
        errors = msgspec.json.decode(whole.get("errors", b"null"))
    except (msgspec.MsgspecError, KeyError, *_DAMAGED):
        return _decode_leniently(answer, key, kind)
    _check_errors(errors)
    return records


def _decode_in_pieces(
    answer: BinaryIO, key: str, decoder: "msgspec.json.Decoder[list[Raw]]"
) -> Iterator[Raw]:
    """The records of a list, a few megabytes at a time; ``ValueError`` where it looks otherwise.

    The answer of a large cluster is a hundred megabytes.
    """
    begin, text = f'\n  "{key}": ['.encode(), b""
    while (at := text.find(begin)) < 0:
        text += _more(answer)
    head, text = text[: at + len(begin)], text[at + len(begin) :]
    # Behind the last record of a piece: to search all of it would take as long as to decode it.
    while (end := text.find(_LIST_END, cut := max(0, text.rfind(_NEXT)))) < 0:
        if cut:
            yield from decoder.decode(b"".join((b"[", text[: cut + len(b"\n    }")], b"]")))
            text = text[cut + len(b"\n    },") :]
        text += _more(answer)
    yield from decoder.decode(b"".join((b"[", text[:end], b"]")))
    _check_errors(_REST.decode(head + text[end:] + answer.read()).errors)


def _more(answer: BinaryIO) -> bytes:
    more = answer.read(_PIECE_BYTES)
    if not more:
        raise ValueError("the list does not begin, or does not end")
    return more


def _check_errors(errors: Any) -> None:
    """22.05 answers without jobs, and as if all were well, where there is no controller."""
    if errors:
        told = errors[0] if isinstance(errors, list) else errors
        words = told if isinstance(told, dict) else {}
        said = scalars.text(words.get("description")) or scalars.text(words.get("error"))
        raise SlurmUnavailable(
            f"Slurm answers with an error: {first_line(said) or 'it does not say which'}; "
            "see that slurmctld runs: scontrol ping"
        )


def _decode_leniently(answer: bytes, key: str, kind: type[Raw]) -> list[Raw]:
    """For what the quick way refuses: bytes that are no UTF-8, values of unheard-of types."""
    try:
        whole = json.loads(answer.decode("utf-8", "replace"))
    except _DAMAGED as error:
        raise SlurmUnavailable(
            f"Slurm's answer about {key} is no JSON ({_brief(error)}); it may have been cut off"
        ) from error
    records = whole.get(key) if isinstance(whole, dict) else None
    _check_errors(whole.get("errors") if isinstance(whole, dict) else None)
    if not isinstance(records, list):
        raise SlurmUnavailable(f"Slurm's answer has no list of {key}; see what squeue --json says")
    names = kind.__struct_fields__
    return [
        kind(**{name: record.get(name) for name in names})
        for record in records
        if isinstance(record, dict)
    ]


def _brief(error: Exception) -> str:
    return str(error)[:100] or type(error).__name__


def job_of(raw: RawJob) -> SlurmJob | None:
    """The job; ``None`` where the record tells no id."""
    job_id = scalars.number(raw.job_id)
    if not job_id:
        return None
    state, flags = _state(tuple(states_of(raw.job_state)))
    text, number = scalars.text, scalars.number
    reason, priority = text(raw.state_reason), number(raw.priority)
    array_id = number(raw.array_job_id) or None
    node_count, cpus = max(1, number(raw.node_count) or 1), max(1, number(raw.cpus) or 1)
    ended = state not in {"PENDING", "RUNNING", "SUSPENDED"}
    code, signal = scalars.exit_status(raw.exit_code) if ended else (None, None)
    limit, user_id = number(raw.time_limit), number(raw.user_id)
    return SlurmJob(
        job_id=job_id,
        name=text(raw.name),
        user=text(raw.user_name) or ("" if user_id is None else str(user_id)),
        partition=text(raw.partition),
        state=state,
        state_reason="" if reason == "None" else reason,
        flags=flags,
        comment=text(raw.comment),
        held=state == "PENDING" and (raw.hold is True or priority == 0 or reason in HELD_REASONS),
        array_id=array_id,
        task_id=number(raw.array_task_id) if array_id else None,
        array_tasks=text(raw.array_task_string),
        nodes=expand(text(raw.nodes)),
        required_nodes=expand(text(raw.required_nodes)),
        node_count=node_count,
        cpus=cpus,
        memory_bytes=_memory(raw, node_count, cpus),
        priority=priority or 0,
        features=text(raw.features),
        account=text(raw.account),
        qos=text(raw.qos),
        licenses=text(raw.licenses),
        reservation=text(raw.resv_name),
        dependency=text(raw.dependency),
        submit_time=scalars.time(raw.submit_time),
        start_time=scalars.time(raw.start_time),
        end_time=scalars.time(raw.end_time) if ended else None,
        time_limit_seconds=None if limit is None else limit * 60.0,
        restarts=number(raw.restart_cnt) or 0,
        exit_code=code,
        signal=signal,
        working_directory=text(raw.current_working_directory),
    )


@lru_cache(maxsize=512)
def _state(words: tuple[str, ...]) -> tuple[str, frozenset[str]]:
    base = next((word for word in words if word in BASE_STATES), "")
    flags = frozenset(scalars.text(word) for word in words if word != base)
    if not base:
        base = next((_BASE_OF_FLAG[word] for word in words if word in _BASE_OF_FLAG), "UNKNOWN")
    return base, flags


def _memory(raw: RawJob, node_count: int, cpus: int) -> int | None:
    per_node = scalars.number(raw.memory_per_node)
    if per_node:
        return per_node * scalars.MIB
    per_cpu = scalars.number(raw.memory_per_cpu)
    if per_cpu:
        return per_cpu * scalars.MIB * cpus // node_count
    total = scalars.tracked(raw.tres_alloc_str, "mem") or scalars.tracked(raw.tres_req_str, "mem")
    return None if total is None else total // node_count


def node_of(raw: RawNode) -> Node | None:
    """The node; ``None`` where the record tells no name."""
    name = scalars.text(raw.name)
    if not name:
        return None
    text, number = scalars.text, scalars.number
    states = [*states_of(raw.state), *states_of(raw.state_flags)]
    return Node(
        name=name,
        states=frozenset(scalars.text(word).lower() for word in states),
        reason=text(raw.reason),
        cpus=number(raw.cpus) or 0,
        cpus_allocated=number(raw.alloc_cpus) or 0,
        memory_bytes=(number(raw.real_memory) or 0) * scalars.MIB,
        memory_allocated_bytes=(number(raw.alloc_memory) or 0) * scalars.MIB,
        features=scalars.words(raw.active_features) or scalars.words(raw.features),
        partitions=scalars.words(raw.partitions),
        architecture=text(raw.architecture),
        weight=_or(number(raw.weight), 1),
        sockets=_or(number(raw.sockets), 1),
        cores_per_socket=_or(number(raw.cores), 1),
        threads_per_core=_or(number(raw.threads), 1),
        boot_time=scalars.time(raw.boot_time),
        address=text(raw.address),
    )


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


class Poll(Generic[Raw, Value]):
    """The values of one kind of answer, where only what changed since the last is made anew.

    Most polls differ from the one before in nothing, or in a few records of thousands. ``field``
    is what tells one record from another.
    """

    def __init__(
        self,
        decode: Callable[[BinaryIO], Iterable[Raw]],
        make: Callable[[Raw], Value | None],
        field: str,
    ) -> None:
        self._decode = decode
        self._make = make
        self._field = field
        self._answer: tuple[int, ...] | None = None
        self._made: dict[Any, tuple[Raw, Value]] = {}
        self._values: tuple[Value, ...] = ()

    def fold(self, answer: BinaryIO | bytes) -> tuple[Value, ...]:
        """Every value, ordered by its key; the very same object if nothing changed.

        Raises ``SlurmUnavailable`` where the answer is none; then nothing was folded.
        """
        if isinstance(answer, bytes):
            answer = BytesIO(answer)
        # Keyed by the process's own secret: nobody can write two answers that look alike.
        mark = tuple(map(hash, iter(lambda: answer.read(_PIECE_BYTES), b"")))
        if mark == self._answer:
            return self._values
        answer.seek(0)
        values = self.take(self._decode(answer))
        self._answer = mark
        return values

    def take(self, records: Iterable[Raw]) -> tuple[Value, ...]:
        """As ``fold``, of what is decoded already."""
        former = self._made
        made: dict[Any, tuple[Raw, Value]] = {}
        for raw in records:
            key = getattr(raw, self._field)
            before = former.get(key) if type(key) in {int, str} else None
            value = before[1] if before and before[0] == raw else self._make(raw)
            if value is not None:
                made[getattr(value, self._field)] = (raw, value)
        values = tuple(made[key][1] for key in sorted(made))
        if len(values) != len(self._values) or any(
            new is not old for new, old in zip(values, self._values, strict=True)
        ):
            self._values = values
        self._answer, self._made = None, made
        return self._values
