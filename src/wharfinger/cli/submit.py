"""``wharfinger submit`` and ``apply``: hand in manifests, and wait for what they begin if asked.

``submit`` makes new workloads and runs ended ones again; ``apply`` also changes those that are
there, or exchanges them, so that all are as their files say.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wharfinger.cli import format as fmt
from wharfinger.cli.decisions import decisions_text
from wharfinger.cli.main import NOT_AS_EXPECTED, OK, complain
from wharfinger.cli.options import add_common, add_option, add_wait, connect
from wharfinger.cli.outlook import outlook_text
from wharfinger.cli.output import Record, column, indented, show, table
from wharfinger.cli.tables import columns
from wharfinger.cli.waiting import Judge, wait_for
from wharfinger.errors import Conflict, InvalidInput

if TYPE_CHECKING:
    from wharfinger.cli.client import Client, Query

MAX_FILE_BYTES = 4 * 1024**2
"""The API takes no larger request."""
_OUTCOMES = {
    "created": "created",
    "unchanged": "unchanged",
    "updated": "updated",
    "replaced": "replaced: run {run} begins",
    "runs-again": "run {run} begins",
    "runs-again-after-its-end": "run {run} begins when it has stopped",
}
_WOULD = {
    "created": "would be created",
    "unchanged": "exists as it is: unchanged",
    "updated": "would be updated",
    "replaced": "would be replaced, by run {run}",
    "runs-again": "would run again, as run {run}",
    "runs-again-after-its-end": "would run again when it has stopped, as run {run}",
}

_UNPROFILED = ("not profiled", "a cold start")
"""In the messages of decisions about profiling by which it is not profiled first."""
_KNOWN = ("measured", "same-program")
"""On what an outlook may rest that is not profiled again."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of either command."""
    words = "manifests, YAML or JSON, many to a file; - is standard input; repeatable"
    parser.add_argument("-f", "--file", action="append", required=True, metavar="FILE", help=words)
    words = "show what would be decided now, on each alone; change nothing"
    add_option(parser, "--dry-run", words)
    if parser.prog.endswith("submit"):
        add_option(parser, "--once", "leave those that have ended as they are: no new runs")
    add_wait(parser, "wait for their end, of new runs if there are; 3 when one does not complete")
    add_common(parser)


def run(arguments: argparse.Namespace) -> int:
    """Hand in, and print what became of each."""
    documents = [(source_of(file), read_document(file)) for file in arguments.file]
    client = connect(arguments)
    client.wait_for_manager()
    submitter = Submitter(client, apply=arguments.command == "apply", once=_once(arguments))
    if arguments.dry_run:
        previews = [one for file in documents for one in submitter.send(*file, dry_run=True)]
        warn(previews)
        show(previews, arguments.output, lambda: previews_text(previews))
        return OK
    if len(documents) > 1:
        _check_all(submitter, documents)
    submitted = [one for file in documents for one in submitter.send(*file)]
    warn(submitted)
    if arguments.wait:
        return _wait(client, submitted, arguments)
    lines = [f"workload/{one['name']} {outcome(one)}" for one in submitted]
    show(submitted, arguments.output, lambda: "\n".join(lines))
    return OK


def _once(arguments: argparse.Namespace) -> bool:
    return arguments.command == "submit" and bool(arguments.once)


def outcome(submitted: Record, words: dict[str, str] = _OUTCOMES) -> str:
    """What became of a workload."""
    return words[submitted["outcome"]].format(run=submitted["run"])


def warn(submitted: Sequence[Record]) -> None:
    """Print what the manager warns of."""
    for one in submitted:
        for warning in one["warnings"]:
            complain(f"warning: {one['name']}: {warning}")


class Submitter:
    """How manifests are handed in.

    Args:
        client: Of the manager.
        apply: Workloads that are there become as the manifests say.
        once: Ended ones do not run again.
    """

    def __init__(self, client: "Client", *, apply: bool = False, once: bool = False) -> None:
        self._client, self._apply, self._once = client, apply, once

    def send(self, source: str, document: bytes, *, dry_run: bool = False) -> list[Record]:
        """What became of each workload of a document, or, for a dry run, what would."""
        directory = self._directory(source, document)
        query: Query = {"dry_run": dry_run, "source": source, "working_directory": directory}
        query = query if self._apply else {**query, "once": self._once}
        method = "PUT" if self._apply else "POST"
        submitted: list[Record] = self._client.send(method, "workloads", query=query, body=document)
        return submitted

    def _directory(self, source: str, document: bytes) -> str:
        """What ``workingDir`` is relative to: on another machine there is no directory of ours."""
        if not self._client.address.remote:
            return str(Path.cwd())
        for name in relative_directories(document):
            complain(
                f"warning: {source}: spec.run.workingDir: {name!r} is taken from / on the "
                "manager's machine; write an absolute path of that machine"
            )
        return "/"


def relative_directories(document: bytes) -> list[str]:
    """The relative working directories in a document, as far as it can be read."""
    import yaml  # noqa: PLC0415 - only for managers elsewhere

    try:
        manifests = list(yaml.load_all(document, Loader=yaml.CBaseLoader))
    except yaml.YAMLError:
        return []  # The manager says what is wrong, and where.
    found = []
    for manifest in manifests:
        try:
            found.append(manifest["spec"]["run"]["workingDir"])
        except (KeyError, TypeError, IndexError):
            continue
    return [name for name in found if isinstance(name, str) and not name.startswith("/")]


def source_of(file: str) -> str:
    """A manifest file's name for messages; ``-`` is standard input."""
    return "<stdin>" if file == "-" else file


def read_document(file: str) -> bytes:
    """A manifest file's bytes; ``InvalidInput`` where it can't be read or is too large."""
    try:
        if file == "-":
            content = sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
        else:
            with Path(file).open("rb") as stream:
                content = stream.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidInput(f"-f: {file}: {reason}; name a file of manifests") from None
    if len(content) > MAX_FILE_BYTES:
        most = fmt.size(MAX_FILE_BYTES)
        raise InvalidInput(f"-f: {file}: larger than {most}; split it into several files")
    return content


def _check_all(submitter: Submitter, documents: list[tuple[str, bytes]]) -> None:
    files: dict[str, str] = {}
    for source, document in documents:
        for one in submitter.send(source, document, dry_run=True):
            name = one["name"]
            if name in files:
                places = f"{files[name]} and in {source}"
                raise Conflict(f"workload {name!r} is defined in {places}; rename one")
            files[name] = source


def previews_text(previews: list[Record]) -> str:
    """What would be decided for each, and what is not known yet."""
    return "\n".join("\n".join(filter(None, _preview(one))) for one in previews)


def _preview(one: Record) -> Iterator[str]:
    outlook = one.get("outlook")
    yield f"workload/{one['name']} {outcome(one, _WOULD)}"
    yield changes_text(one.get("changes") or [])
    yield decisions_text(one["decisions"])
    if outlook is None or outlook["basis"] not in _KNOWN:
        yield _unknown(one["decisions"])
    yield outlook_text(outlook) if outlook else ""


def changes_text(changes: Sequence[Record]) -> str:
    """The fields that would differ; empty = none does."""
    columns = [column("FIELD", "name"), column("FROM", form=_value), column("TO", form=_value)]
    return indented(table(changes, columns)) if changes else ""


def _value(value: object) -> str:
    return fmt.text(value) if isinstance(value, str) else json.dumps(value)


def _unknown(decisions: Sequence[Record]) -> str:
    """What a dry run can't know of what is measured before it runs, which a cold start is not."""
    profiling = [d for d in decisions if d["stage"] == "profiling"]
    if not profiling or any(why in profiling[-1]["message"] for why in _UNPROFILED):
        return ""
    what = "is profiled first" if profiling[0]["accepted"] else "waits to be profiled"
    return (
        "  not measured yet: how its performance follows CPU, what interference it tolerates and "
        f"causes.\n  It {what}, and may then be placed elsewhere, with another allocation"
    )


def ended_since(runs: dict[str, int]) -> Judge:
    """A judge: it has ended, in this run by name, or in a later one."""

    def judge(workload: Record | None) -> bool | None:
        if workload is None:
            return True
        return (workload["ended_at"] and workload["run"] >= runs[workload["name"]]) or None

    return judge


def _wait(client: "Client", submitted: list[Record], arguments: argparse.Namespace) -> int:
    runs = {one["name"]: one["run"] for one in submitted}
    awaited, output = (
        wait_for(client, list(runs), ended_since(runs), arguments.timeout),
        arguments.output,
    )
    workloads = [one.workload for one in awaited if one.workload]
    show(workloads, output, lambda: table(workloads, columns("workloads", output)))
    phases = {one.name: one.workload["phase"] if one.workload else "gone" for one in awaited}
    bad = [f"{name} is {phase}" for name, phase in phases.items() if phase != "completed"]
    if not bad:
        return OK
    more = f", and {len(bad) - 3} more" if len(bad) > 3 else ""
    complain(f"not completed: {', '.join(bad[:3])}{more}")
    return NOT_AS_EXPECTED
