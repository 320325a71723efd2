"""The same records out of text, for a Slurm that was built without JSON.

A user's words (a job's name, its comment) may hold any character, and a forged record. So each
call has random separators of its own, which no user can know.
"""

import re
import secrets
from collections.abc import Iterator, Mapping

from wharfinger.engines.slurm.client import scalars
from wharfinger.engines.slurm.client.records import RawJob, RawNode

NODES_COMMAND = ("scontrol", "--all", "-o", "show", "nodes")
FIGURES_COMMAND = (
    *("squeue", "--all", "--states=all", "--noheader"),
    "--Format=JobID:24,RestartCnt:24,exit_code:24,tres-alloc:250",
)
"""What ``squeue --format`` has no letter for; nothing in it was written by a user."""
_LETTERS = {
    "A": "job_id",
    "j": "name",
    "u": "user_name",
    "P": "partition",
    "T": "job_state",
    "r": "state_reason",
    "k": "comment",
    "F": "array_job_id",
    "K": "array_task_string",
    "N": "nodes",
    "n": "required_nodes",
    "D": "node_count",
    "C": "cpus",
    "Q": "priority",
    "f": "features",
    "a": "account",
    "q": "qos",
    "W": "licenses",
    "v": "resv_name",
    "E": "dependency",
    "V": "submit_time",
    "S": "start_time",
    "e": "end_time",
    "l": "time_limit",
    "Z": "current_working_directory",
}
_NODE_WORDS = {
    "NodeName": "name",
    "CPUTot": "cpus",
    "CPUAlloc": "alloc_cpus",
    "RealMemory": "real_memory",
    "AllocMem": "alloc_memory",
    "AvailableFeatures": "features",
    "ActiveFeatures": "active_features",
    "Partitions": "partitions",
    "Arch": "architecture",
    "Weight": "weight",
    "Sockets": "sockets",
    "CoresPerSocket": "cores",
    "ThreadsPerCore": "threads",
    "BootTime": "boot_time",
    "NodeAddr": "address",
}
_NOTHING = frozenset({"", "(null)", "N/A", "Unknown", "None assigned"})
_SENTENCES = {
    "Nodes required for job are": "Resources",
    "job requeued in held state": "JobHeldUser",
    "job requeued in special exit state": "JobHeldUser",
}
_REASON = re.compile(r" Reason=(.*)")
_BY = re.compile(r" \[[^\[\]@]*@[^\[\]@]*\]")
_STATE = re.compile(r"([A-Z_]+)(\*?)")


def new_mark() -> str:
    """What separates records and fields in the answer to one call."""
    return secrets.token_hex(12)


def jobs_command(mark: str) -> list[str]:
    """What prints every job in one record between such marks."""
    letters = f"{mark};".join(f"%{letter}" for letter in _LETTERS)
    return ["squeue", "--all", "--states=all", "--noheader", f"--format={mark}:{letters}"]


def jobs_of_text(answer: bytes, mark: str, figures: bytes) -> Iterator[RawJob]:
    """The jobs of both answers; a record without all its fields is left out."""
    counted = _figures_of(figures)
    for record in answer.decode("utf-8", "replace").split(f"{mark}:")[1:]:
        values = record.removesuffix("\n").split(f"{mark};")
        if len(values) == len(_LETTERS):
            yield _job(dict(zip(_LETTERS.values(), values, strict=True)), counted)


def _figures_of(answer: bytes) -> dict[str, list[str]]:
    lines = (line.split() for line in answer.decode("utf-8", "replace").splitlines())
    return {words[0]: words[1:] for words in lines if len(words) == 4}


def _job(told: Mapping[str, str], counted: Mapping[str, list[str]]) -> RawJob:
    fields: dict[str, int | str | None] = {
        name: None if value in _NOTHING else value for name, value in told.items()
    }
    fields["job_id"] = scalars.number(told["job_id"])
    tasks = told["array_task_string"]
    if tasks in _NOTHING:
        fields["array_job_id"] = None
    elif tasks.isdecimal():
        fields["array_task_id"], fields["array_task_string"] = tasks, None
    fields["state_reason"] = _one_word(told["state_reason"])
    limit = scalars.duration(told["time_limit"])
    fields["time_limit"] = None if limit is None else round(limit / 60)
    if (figures := counted.get(told["job_id"])) is not None:
        restarts, status, resources = figures
        fields["restart_cnt"], fields["tres_alloc_str"] = restarts, resources
        fields["exit_code"] = scalars.number(status)  # As the kernel's wait status.
    return RawJob(**fields)


def _one_word(reason: str) -> str:
    """As JSON has it; the text puts some in a sentence."""
    sentences = (word for words, word in _SENTENCES.items() if reason.startswith(words))
    word = reason.partition(",")[0]
    return next(sentences, "" if " " in word else word)


def nodes_of_text(answer: bytes) -> Iterator[RawNode]:
    """The nodes of ``NODES_COMMAND``, one in a line; what is no such line is left out."""
    for line in answer.decode("utf-8", "replace").splitlines():
        if not line.startswith("NodeName="):
            continue
        reason = _REASON.search(line)
        pairs = [word.partition("=") for word in line[: reason and reason.start()].split()]
        words = {name: value for name, _, value in reversed(pairs) if value not in _NOTHING}
        yield RawNode(
            state=_states(words.get("State", "")),
            reason=_BY.sub("", reason[1]).partition(" Comment=")[0] if reason else None,
            **{field: words.get(name) for name, field in _NODE_WORDS.items()},
        )


def _states(words: str) -> list[str]:
    matches = [match for word in words.split("+") if (match := _STATE.match(word))]
    silent = any(match[2] for match in matches)
    return [match[1] for match in matches] + ["NOT_RESPONDING"] * silent
