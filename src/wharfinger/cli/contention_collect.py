"""``wharfinger contention collect``: measure sets of neighbors on this machine."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from wharfinger.cli.main import OK
from wharfinger.cli.options import allowed_cpus
from wharfinger.cli.output import Record, column, show, table
from wharfinger.cli.progress import Progress, ended_in_order
from wharfinger.errors import InvalidInput, Unavailable
from wharfinger.files.atomic import check_output
from wharfinger.manifest.loading import load_manifests

# Not imported at run time: help needs none of it.
if TYPE_CHECKING:
    from wharfinger.profiler.collecting import Collected

FAILED = 1


def run(arguments: argparse.Namespace) -> int:
    """Measure what the file lacks, and print what was done."""
    from wharfinger.profiler.collecting import plan_of  # noqa: PLC0415
    from wharfinger.profiler.set_sampling import collect  # noqa: PLC0415
    from wharfinger.profiling.steps import RunFailed  # noqa: PLC0415

    path, out = Path(arguments.plan), check_output("--out", arguments.out)
    try:
        text = path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror}; name a file of manifests") from None
    workloads = load_manifests(text, source=str(path), working_directory=str(Path.cwd()))
    plan = replace(
        plan_of(workloads, str(path)),
        bubbles=tuple(sorted(set(arguments.bubbles or ()))),
        cpus=allowed_cpus("--cpus", arguments.cpus),
        batch_cpus=allowed_cpus("--batch-cpus", arguments.batch_cpus),
        seconds=arguments.seconds,
        degree=int(arguments.degree),
        qos=arguments.qos,
        enough=arguments.enough,
        most=None if arguments.sets is None else int(arguments.sets),
        platform=arguments.platform or "",
        load_class=getattr(arguments, "class") or "",
        seed=int(arguments.seed),
    )
    with ended_in_order(), Progress() as progress:
        try:
            done = collect(plan, out, arguments.time_limit, progress.tell)
        except RunFailed as error:
            raise Unavailable(str(error)) from None
    document = _document(done)
    show(document, arguments.output, lambda: _text(document, arguments.out))
    return FAILED if done.failed else OK


def _document(done: "Collected") -> Record:
    return {
        "services": [
            {
                "ls": name,
                "known": done.known[name],
                "measured": measured,
                "worth_of_next": done.worth[name],
            }
            for name, measured in done.measured.items()
        ],
        "failed": [
            {"ls": service, "batch": batch, "reason": reason}
            for service, batch, reason in done.failed
        ],
    }


def _text(document: Record, path: str) -> str:
    columns = [
        column("LS"),
        column("KNOWN"),
        column("MEASURED"),
        column("WORTH OF NEXT", "worth_of_next", lambda worth: f"{100 * worth:.1f}%"),
    ]
    lines = [table(document["services"], columns, "")]
    lines += [
        f"not measured: {each['ls']} beside {each['batch']}: {each['reason']}"
        for each in document["failed"]
    ]
    return "\n".join([*lines, f"in {path}; then: wharfinger contention fit {path}"])
