"""``wharfinger submit``: hand in workloads, and wait for them if asked."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wharfinger.cli import format as fmt
from wharfinger.cli import waiting
from wharfinger.cli.explain import decisions_text
from wharfinger.cli.format import show, table
from wharfinger.cli.main import NOT_AS_EXPECTED, OK
from wharfinger.cli.options import add_common, connect, seconds
from wharfinger.cli.tables import columns
from wharfinger.errors import Conflict, InvalidInput

if TYPE_CHECKING:
    from wharfinger.cli.client import Client, Query


MAX_FILE_BYTES = 4 * 1024**2
"""The API takes no larger request."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument(
        "-f",
        "--file",
        action="append",
        required=True,
        metavar="FILE",
        help="manifests, YAML or JSON, many to a file; - is standard input; repeatable",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="show what would be decided, hand in nothing"
    )
    parser.add_argument(
        "--wait", action="store_true", help="wait for their end; 3 when one does not complete"
    )
    parser.add_argument(
        "--timeout", type=seconds, metavar="DURATION", help="with --wait: wait no longer, e.g. 5m"
    )
    add_common(parser)


def run(arguments: argparse.Namespace) -> int:
    """Hand in, and print what became of each."""
    documents = [(_source(file), read_document(file)) for file in arguments.file]
    client = connect(arguments)
    client.wait_for_manager()
    if arguments.dry_run:
        previews = [one for file in documents for one in _send(client, *file, dry_run=True)]
        show(previews, arguments.output, lambda: previews_text(previews))
        return OK
    submissions = _submit(client, documents)
    if arguments.wait:
        return _wait(client, submissions, arguments)
    show(submissions, arguments.output, lambda: _text(submissions))
    return OK


def _source(file: str) -> str:
    return "<stdin>" if file == "-" else file


def read_document(file: str) -> bytes:
    """A manifest file's bytes; ``-`` is standard input.

    Raises:
        InvalidInput: It can't be read, or is larger than the API takes.
    """
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
        raise InvalidInput(
            f"-f: {file}: larger than {fmt.size(MAX_FILE_BYTES)}; split it into several files"
        )
    return content


def _send(client: "Client", source: str, document: bytes, *, dry_run: bool) -> list[dict[str, Any]]:
    import json  # noqa: PLC0415 - http.client, in the client, is far larger and lazy too

    query: Query = {"dry_run": dry_run, "working_directory": str(Path.cwd()), "source": source}
    answer = client.call("POST", "workloads", query=query, body=document)
    submissions: list[dict[str, Any]] = json.loads(answer.body)
    return submissions


def _submit(client: "Client", documents: list[tuple[str, bytes]]) -> list[dict[str, Any]]:
    """All files or none: with several, all are tried before the first is handed in."""
    if len(documents) > 1:
        files: dict[str, str] = {}
        for source, document in documents:
            for one in _send(client, source, document, dry_run=True):
                if one["name"] in files:
                    raise Conflict(
                        f"workload {one['name']!r} stands in {files[one['name']]} and in {source}; "
                        "rename one"
                    )
                files[one["name"]] = source
    return [one for file in documents for one in _send(client, *file, dry_run=False)]


def _text(submissions: list[dict[str, Any]]) -> str:
    return "\n".join(
        f"workload/{one['name']} {'created' if one['created'] else 'unchanged'}"
        for one in submissions
    )


def previews_text(previews: list[dict[str, Any]]) -> str:
    """What would be decided for each, and what is not known yet."""
    return "\n".join(
        f"workload/{one['name']} "
        + ("would be created" if one["created"] else "exists as it is: unchanged")
        + "\n"
        + decisions_text(one["decisions"])
        + _unknown(one["decisions"])
        for one in previews
    )


def _unknown(decisions: list[dict[str, Any]]) -> str:
    """What a dry run can't know: it measures nothing."""
    profiling = [d for d in decisions if d["stage"] == "profiling"]
    if not profiling:
        return ""
    what = "is profiled or classified first" if profiling[0]["accepted"] else "waits to be profiled"
    return (
        "\n  not known yet: how its performance follows CPU, what interference it tolerates and "
        f"causes.\n  It {what}, and may then go elsewhere, with more or less"
    )


def _wait(
    client: "Client", submissions: list[dict[str, Any]], arguments: argparse.Namespace
) -> int:
    names = [one["name"] for one in submissions]
    workloads = waiting.wait_for_end(client, names, arguments.timeout)
    show(
        workloads,
        arguments.output,
        lambda: table(workloads, columns("workloads", arguments.output)),
    )
    bad = [w for w in workloads if w["phase"] != "completed"]
    if not bad:
        return OK
    found = ", ".join(f"{w['name']} is {w['phase']}" for w in bad[:3])
    more = f", and {len(bad) - 3} more" if len(bad) > 3 else ""
    print(f"wharfinger: not completed: {found}{more}", file=sys.stderr)
    return NOT_AS_EXPECTED
