"""Targets in the comments of users' jobs, and what is written back beside them.

A user holds a job and states its target in the comment, which Slurm keeps and shows::

    sbatch --hold --comment 'wharfinger: {target: {completionTime: 20m}}' job.sh

What follows the word is the manifest's ``spec`` in YAML's flow form, without what the job itself
says: its program, its CPUs and memory. What the manager has to say is appended as a YAML comment
(``# wharfinger: placed on n3 with 2 CPUs``), so that the target can still be read.

A comment is data that anybody may have written: of any length, with any character in it.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from wharfinger.errors import InvalidInput, InvalidManifest
from wharfinger.manifest.loading import load_manifests
from wharfinger.manifest.problems import Problems
from wharfinger.manifest.reader import DocumentLimits, read_documents
from wharfinger.manifest.tree import Mapping as MappingNode
from wharfinger.manifest.tree import Node, Scalar
from wharfinger.model.units import format_bytes
from wharfinger.model.workload import Workload

WORD = "wharfinger:"
LIMITS = DocumentLimits(max_bytes=16 * 1024, max_depth=8, max_nodes=1_000, max_aliases=0)
"""Of the part after the word."""
MAX_NOTE = 400
"""Characters of what is written back."""
EXAMPLE = "wharfinger: {target: {completionTime: 20m}}"
_OWN = {
    "run": "the job's script is the program",
    "resources": "the job's CPUs and memory are what it states",
    "schedule": "sbatch --begin says when",
    "after": "sbatch --dependency says after what",
    "array": "sbatch --array makes one",
    "ttlAfterFinished": "Slurm's accounting keeps what has ended",
}
"""Parts of a manifest's ``spec`` that a job says itself."""
_MARK = "# wharfinger: "
_NOTE = re.compile(rf"\s+{_MARK}.*$", re.DOTALL)
_LINE = re.compile(r"^comment:\d+: ")


@dataclass(frozen=True, slots=True)
class JobProgram:
    """What a job itself says.

    Attributes:
        script: Path of its batch script, where copies of it can be run.
        working_directory: Absolute.
        cpus: On each of its nodes, as stated.
        memory_bytes: On each of its nodes; ``None`` = not stated.
        nodes: How many.
        user: Who handed it in; empty = the manager's own.
        restartable: Slurm may requeue it.
    """

    script: str
    working_directory: str
    cpus: int
    memory_bytes: int | None = None
    nodes: int = 1
    user: str = ""
    restartable: bool = False
    time_limit_seconds: float | None = None


def addressed(comment: str) -> bool:
    """Whether a job's comment is for the manager; no other job is ever touched."""
    return comment.lstrip()[: len(WORD)].lower() == WORD


def workload_of(name: str, comment: str, program: JobProgram) -> Workload:
    """The workload that a job is, by its comment.

    Raises:
        InvalidInput: The comment can't be read; one line with place, value and mend.
    """
    spec = _spec(comment)
    for part in spec:
        if part in _OWN:
            raise InvalidInput(f"comment: {part}: {_OWN[part]}; take it out")
    if not spec.get("target"):
        raise InvalidInput(f"comment: target: is missing; write e.g. {EXAMPLE}")
    run: dict[str, object] = {
        "command": ["/bin/sh", program.script],
        "workingDir": program.working_directory,
        "restartable": program.restartable,
    }
    if program.user:
        run["user"] = program.user
    if program.time_limit_seconds:
        run["timeLimit"] = f"{program.time_limit_seconds:g}s"
    resources = {"cpu": str(program.cpus)}
    if program.memory_bytes:
        resources["memory"] = str(program.memory_bytes)
    if program.nodes > 1:
        spec = {"scale": {"maxServers": program.nodes}} | spec
    manifest = {
        "apiVersion": "wharfinger.dev/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": name},
        "spec": {"type": "batch", **spec, "run": run, "resources": resources},
    }
    try:
        (workload,) = load_manifests(
            json.dumps(manifest), source="comment", working_directory=program.working_directory
        )
    except InvalidManifest as error:
        raise InvalidInput(_one_line(error.problems)) from None
    return workload


def _spec(comment: str) -> dict[str, object]:
    text = comment.strip()[len(WORD) :]
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > LIMITS.max_bytes:
        most = format_bytes(LIMITS.max_bytes)
        raise InvalidInput(f"comment: is {format_bytes(size)} long; write at most {most}")
    problems = Problems("comment")
    roots = list(read_documents(text, problems, LIMITS))
    if problems.count:
        try:
            problems.raise_if_any()
        except InvalidManifest as error:
            raise InvalidInput(_one_line(error.problems)) from None
    if len(roots) != 1 or not isinstance(roots[0], MappingNode):
        raise InvalidInput(f"comment: names no target after {WORD!r}; write e.g. {EXAMPLE}")
    return {key: _plain(entry.node) for key, entry in roots[0].entries.items()}


def _plain(node: Node) -> object:
    if isinstance(node, MappingNode):
        return {key: _plain(entry.node) for key, entry in node.entries.items()}
    if isinstance(node, Scalar):
        return node.value
    return [_plain(item) for item in node.items]


def _one_line(problems: Mapping[int, str] | list[str] | tuple[str, ...]) -> str:
    lines = [_LINE.sub("comment: ", str(line)).replace("spec.", "", 1) for line in problems]
    more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
    return " ".join(f"{lines[0]}{more}".split())


def annotated(comment: str, note: str) -> str:
    """The comment with what the manager says, in place of what it said before.

    >>> annotated("wharfinger: {target: {rate: 9/s}} # wharfinger: waits", "placed on n3")
    'wharfinger: {target: {rate: 9/s}} # wharfinger: placed on n3'
    """
    line = " ".join("".join(c if c.isprintable() else " " for c in note).split())
    if len(line) > MAX_NOTE:
        line = f"{line[: MAX_NOTE - 3]}..."
    bare = _NOTE.sub("", comment.rstrip())
    return f"{bare} {_MARK}{line}" if line else bare


def note_in(comment: str) -> str:
    """What the manager has written into a comment; empty = nothing."""
    found = _NOTE.search(comment)
    return found.group().strip().removeprefix(_MARK) if found and addressed(comment) else ""
