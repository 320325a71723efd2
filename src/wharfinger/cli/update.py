"""``wharfinger update``: change what a workload must reach or may use, while it runs."""

import argparse
import json
from pathlib import Path

from wharfinger.cli.decisions import decisions_text
from wharfinger.cli.options import add_common, add_option, connect
from wharfinger.cli.outlook import outlook_text
from wharfinger.cli.output import Record, show
from wharfinger.cli.submit import changes_text, read_document, source_of
from wharfinger.errors import InvalidInput

# Option, the field of the manifest that it sets, and what it is.
_FIELDS = (
    ("--cpu CPUS", "resources.cpu", "reserved CPUs, e.g. 500m or 2"),
    ("--memory BYTES", "resources.memory", "limit on memory, e.g. 1Gi"),
    ("--priority N", "priority", "higher goes first"),
    ("--adapt HOW", "adapt", "how it is adjusted as it runs: off, recommend or auto"),
    ("--tolerance SHARE", "tolerance", "how far the target may be missed, e.g. 5%"),
    ("--throughput RATE", "target.throughput", "to sustain, e.g. 40000/s"),
    ("--latency-p99 --p99 DURATION", "target.latency", "bound on its 99th percentile, e.g. 2ms"),
    (
        "--completion-time --within DURATION",
        "target.completionTime",
        "from submission on, e.g. 10m",
    ),
    ("--rate RATE", "target.rate", "work per second, e.g. 1.2e9/s"),
)
_PENDING = ("no-room", "too-large", "not-supported")
"""Reasons for which a changed allocation waits."""
_WITHOUT_EFFECT = "sized-by-target"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("name", metavar="NAME", help="a workload that has not ended")
    add_option(parser, "-f --file FILE", "its whole new manifest; - is stdin")
    for option, _, words in _FIELDS:
        add_option(parser, option, words, read=int if option == "--priority N" else str)
    add_option(parser, "--dry-run", "show what would change and be decided, change nothing")
    add_common(parser)


def run(arguments: argparse.Namespace) -> None:
    """Send the change."""
    patch = _patch(arguments)
    if bool(patch) == bool(arguments.file):
        raise InvalidInput("update: say what to change: either -f FILE or options such as --cpu 2")
    client = connect(arguments)
    path, query = ("workloads", arguments.name), dict[str, str | bool](dry_run=arguments.dry_run)
    if arguments.file:
        directory = "/" if client.address.remote else str(Path.cwd())
        query |= {"working_directory": directory, "source": source_of(arguments.file)}
        document = read_document(arguments.file)
        workload: Record = client.send("PUT", *path, query=query, body=document)
    else:
        body = json.dumps({"spec": patch}).encode()
        kind = "application/merge-patch+json"
        workload = client.send("PATCH", *path, query=query, body=body, content_type=kind)
    if arguments.dry_run:
        show(workload, arguments.output, lambda: _preview_text(workload))
        return
    pending = f", but for now: {workload['message']}" if workload["reason"] in _PENDING else ""
    if workload["reason"] == _WITHOUT_EFFECT and (arguments.cpu or arguments.file):
        pending = f", but {workload['message']}"
    text = f"workload/{workload['name']} updated{pending}"
    show(workload, arguments.output, lambda: text)


def _preview_text(preview: Record) -> str:
    """What would differ, and what would be decided on it."""
    if not preview["changes"]:
        return f"workload/{preview['name']} is so already: unchanged"
    parts = [f"workload/{preview['name']} would be updated", changes_text(preview["changes"])]
    parts.append(decisions_text(preview["decisions"]))
    if preview.get("outlook"):
        parts.append(outlook_text(preview["outlook"]))
    return "\n".join(filter(None, parts))


def _patch(arguments: argparse.Namespace) -> Record:
    patch: Record = {}
    for option, field, _ in _FIELDS:
        value = getattr(arguments, option.split()[0].removeprefix("--").replace("-", "_"))
        if value is None:
            continue
        if field == "target.latency":
            value = {"percentile": 99, "below": value}
        section, _, key = field.rpartition(".")
        target = patch.setdefault(section, {}) if section else patch
        target[key] = value
    return patch
