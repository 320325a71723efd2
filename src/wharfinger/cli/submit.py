"""``wharfinger submit``: submit workloads, and wait for them if asked."""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from wharfinger.cli import format as fmt
from wharfinger.cli.decisions import decisions_text
from wharfinger.cli.main import NOT_AS_EXPECTED, OK, complain
from wharfinger.cli.options import add_common, add_option, add_wait, connect
from wharfinger.cli.output import Record, show, table
from wharfinger.cli.tables import columns
from wharfinger.cli.waiting import wait_for_end
from wharfinger.errors import Conflict, InvalidInput

if TYPE_CHECKING:
    from wharfinger.cli.client import Client, Query

MAX_FILE_BYTES = 4 * 1024**2
"""The API takes no larger request."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    words = "manifests, YAML or JSON, many to a file; - is standard input; repeatable"
    parser.add_argument("-f", "--file", action="append", required=True, metavar="FILE", help=words)
    add_option(parser, "--dry-run", "show what would be decided, submit nothing")
    add_wait(parser, "wait for their end; 3 when one does not complete")
    add_common(parser)


def run(arguments: argparse.Namespace) -> int:
    """Submit, and print what became of each."""
    documents = [(source_of(file), read_document(file)) for file in arguments.file]
    client = connect(arguments)
    client.wait_for_manager()
    if arguments.dry_run:
        previews = [one for file in documents for one in _send(client, *file, dry_run=True)]
        show(previews, arguments.output, lambda: previews_text(previews))
        return OK
    if len(documents) > 1:
        _check_all(client, documents)
    submissions = [one for file in documents for one in _send(client, *file, dry_run=False)]
    if arguments.wait:
        return _wait(client, [one["name"] for one in submissions], arguments)
    outcome = {True: "created", False: "unchanged"}
    lines = [f"workload/{one['name']} {outcome[one['created']]}" for one in submissions]
    show(submissions, arguments.output, lambda: "\n".join(lines))
    return OK


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


def _send(client: "Client", source: str, document: bytes, *, dry_run: bool) -> list[Record]:
    query: Query = {"dry_run": dry_run, "working_directory": str(Path.cwd()), "source": source}
    answer = client.call("POST", "workloads", query=query, body=document)
    submissions: list[Record] = json.loads(answer.body)
    return submissions


def _check_all(client: "Client", documents: list[tuple[str, bytes]]) -> None:
    files: dict[str, str] = {}
    for source, document in documents:
        for one in _send(client, source, document, dry_run=True):
            name = one["name"]
            if name in files:
                places = f"{files[name]} and in {source}"
                raise Conflict(f"workload {name!r} is defined in {places}; rename one")
            files[name] = source


def previews_text(previews: list[Record]) -> str:
    """What would be decided for each, and what is not known yet."""
    outcome = {True: "would be created", False: "exists as it is: unchanged"}
    return "\n".join(
        f"workload/{one['name']} {outcome[one['created']]}\n"
        + decisions_text(one["decisions"])
        + _unknown(one["decisions"])
        for one in previews
    )


def _unknown(decisions: list[Record]) -> str:
    """What a dry run can't know: it measures nothing."""
    profiling = [d for d in decisions if d["stage"] == "profiling"]
    if not profiling:
        return ""
    what = "is profiled or classified first" if profiling[0]["accepted"] else "waits to be profiled"
    return (
        "\n  not known yet: how its performance follows CPU, what interference it tolerates and "
        f"causes.\n  It {what}, and may then be placed elsewhere, with another allocation"
    )


def _wait(client: "Client", names: list[str], arguments: argparse.Namespace) -> int:
    workloads, output = wait_for_end(client, names, arguments.timeout), arguments.output
    show(workloads, output, lambda: table(workloads, columns("workloads", output)))
    bad = [f"{w['name']} is {w['phase']}" for w in workloads if w["phase"] != "completed"]
    if not bad:
        return OK
    more = f", and {len(bad) - 3} more" if len(bad) > 3 else ""
    complain(f"not completed: {', '.join(bad[:3])}{more}")
    return NOT_AS_EXPECTED
