"""``wharfinger update``: change what a workload must reach or may use, while it runs."""

import argparse
import json
from pathlib import Path
from typing import Any

from wharfinger.cli.format import show
from wharfinger.cli.main import OK
from wharfinger.cli.options import add_common, connect
from wharfinger.cli.submit import read_document
from wharfinger.errors import InvalidInput

# Option, placeholder, the field of the manifest that it sets, and what it is.
_FIELDS = (
    ("--cpu", "CPUS", "resources.cpu", "reserved CPUs, e.g. 500m or 2"),
    ("--memory", "BYTES", "resources.memory", "limit on memory, e.g. 1Gi"),
    ("--priority", "N", "priority", "higher goes first"),
    ("--tolerance", "SHARE", "tolerance", "how far the target may be missed, e.g. 5%%"),
    ("--throughput", "RATE", "target.throughput", "to hold, e.g. 40000/s"),
    ("--latency-p99", "DURATION", "target.latency", "bound on its 99th percentile, e.g. 2ms"),
    ("--completion-time", "DURATION", "target.completionTime", "from submission on, e.g. 10m"),
    ("--rate", "RATE", "target.rate", "work per second, e.g. 1.2e9/s"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("name", metavar="NAME", help="a workload that has not ended")
    parser.add_argument("-f", "--file", metavar="FILE", help="its whole new manifest; - is stdin")
    for option, placeholder, _, words in _FIELDS:
        kind = int if option == "--priority" else str
        parser.add_argument(option, metavar=placeholder, type=kind, help=words)
    add_common(parser)


def run(arguments: argparse.Namespace) -> int:
    """Send the change."""
    patch = _patch(arguments)
    if bool(patch) == bool(arguments.file):
        raise InvalidInput("update: say what to change: either -f FILE or options such as --cpu 2")
    client = connect(arguments)
    if arguments.file:
        source = "<stdin>" if arguments.file == "-" else arguments.file
        answer = client.call(
            "PUT",
            "workloads",
            arguments.name,
            query={"working_directory": str(Path.cwd()), "source": source},
            body=read_document(arguments.file),
        )
    else:
        answer = client.call(
            "PATCH",
            "workloads",
            arguments.name,
            body=json.dumps({"spec": patch}).encode(),
            content_type="application/merge-patch+json",
        )
    workload = json.loads(answer.body)
    show(workload, arguments.output, lambda: _told(workload))
    return OK


def _told(workload: dict[str, Any]) -> str:
    """What the update came to: an allocation may have to wait for room."""
    held = f", but for now: {workload['message']}" if workload["reason"] in _HELD else ""
    return f"workload/{workload['name']} updated{held}"


_HELD = ("no-room", "too-large", "not-supported")


def _patch(arguments: argparse.Namespace) -> dict[str, Any]:
    """The merge patch of the manifest's ``spec``."""
    patch: dict[str, Any] = {}
    for option, _, field, _ in _FIELDS:
        value = getattr(arguments, option.removeprefix("--").replace("-", "_"))
        if value is None:
            continue
        if option == "--latency-p99":
            value = {"percentile": 99, "below": value}
        section, _, key = field.rpartition(".")
        target = patch.setdefault(section, {}) if section else patch
        target[key] = value
    return patch
