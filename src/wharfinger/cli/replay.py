"""``wharfinger replay``: decide a recorded log again, and compare the decisions."""

import argparse
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from wharfinger.cli.main import NOT_AS_EXPECTED, OK
from wharfinger.cli.options import add_option, add_output, refuse
from wharfinger.cli.output import Record, fields, show
from wharfinger.cli.readers import probability

if TYPE_CHECKING:
    from wharfinger.runtime.replay import Replay


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    words = "a file that simulate --record wrote, or the state directory of a stopped manager"
    parser.add_argument("log", metavar="FILE", type=Path, help=words)
    add = partial(add_option, parser)
    words = "that the manager was started with; for a state directory"
    add("--confidence P", f"{words} (default: 0.8)", read=probability)
    about = "programs that the manager knew; for a state directory (default: the site's)"
    add("--known DIR", about, read=Path)
    words = f"{words} (default: act)"
    parser.add_argument("--mode", choices=("act", "recommend", "recommend-cold"), help=words)
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Replay and compare; exit status 3 where the core decides otherwise."""
    result = _replay(arguments)
    same = result.difference is None
    document = {"name": str(arguments.log), "same": same, **asdict(result)}
    show(document, arguments.output, lambda: _text(document))
    return OK if same else NOT_AS_EXPECTED


def _replay(arguments: argparse.Namespace) -> "Replay":
    if not arguments.log.is_dir():
        why = "is for a manager's state directory; a recorded run has its own"
        refuse(arguments, ["--confidence", "--known", "--mode"], why)
        from wharfinger.simulator.run import replay_recording  # noqa: PLC0415

        return replay_recording(arguments.log)
    from wharfinger.runtime.assembly import Options, core_of  # noqa: PLC0415
    from wharfinger.runtime.replay import log_of_state, replay  # noqa: PLC0415

    chosen = {name: getattr(arguments, name) for name in ("confidence", "known", "mode")}
    options = Options(**{name: value for name, value in chosen.items() if value is not None})
    return replay(log_of_state(arguments.log), core_of(options))


def _text(document: Record) -> str:
    keys = ("events", "steps", "decisions", "managers", "workloads")
    counts = fields([(key, f"{document[key]:,}") for key in keys])
    different = document["difference"]
    if different is None:
        return f"{counts}\n\nthe core decides all of it as the log has it"
    where = f"event {different['entry']:,}, {different['time']:.3f} s, of a {different['cause']}"
    lines = [
        f"{where}: the core decides otherwise",
        f"the log has:   {different['logged'] or 'nothing more'}",
        f"decided now:   {different['decided'] or 'nothing more'}",
    ]
    return "\n".join([counts, "", *lines])
