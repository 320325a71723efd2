"""``wharfinger replay``: decide a recorded log again, and see whether the same comes of it."""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wharfinger.cli.format import fields, show
from wharfinger.cli.main import NOT_AS_EXPECTED, OK
from wharfinger.cli.options import add_output
from wharfinger.errors import InvalidInput

if TYPE_CHECKING:
    from wharfinger.runtime.replay import Replay

CONFIDENCE = 0.8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument(
        "log",
        metavar="FILE",
        type=Path,
        help="a file that simulate --record wrote, or the state directory of a manager that does "
        "not run now",
    )
    parser.add_argument(
        "--confidence",
        type=float,
        metavar="P",
        help="that the manager was started with; for a state directory (default: 0.8)",
    )
    parser.add_argument(
        "--known",
        metavar="DIR",
        type=Path,
        help="programs that the manager knew; for a state directory (default: the site's)",
    )
    parser.add_argument(
        "--mode",
        choices=("act", "recommend"),
        help="that the manager was started with; for a state directory (default: act)",
    )
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Replay and compare; exit status 3 where the core decides otherwise."""
    found = _replay(arguments)
    document = {"name": str(arguments.log), "same": found.difference is None, **asdict(found)}
    show(document, arguments.output, lambda: _text(document))
    return OK if found.difference is None else NOT_AS_EXPECTED


def _replay(arguments: argparse.Namespace) -> "Replay":
    from wharfinger.runtime.replay import log_of_state, replay  # noqa: PLC0415 - once it is needed

    if not arguments.log.is_dir():
        for option in ("confidence", "known", "mode"):
            if getattr(arguments, option) is not None:
                raise InvalidInput(
                    f"--{option} is for a manager's state directory; a recorded run says it itself"
                )
        from wharfinger.simulator.run import replay_recording  # noqa: PLC0415 - as above

        return replay_recording(arguments.log)
    from wharfinger.runtime.assembly import Options, core_of  # noqa: PLC0415 - as above

    options = Options(
        confidence=CONFIDENCE if arguments.confidence is None else arguments.confidence,
        known=arguments.known,
        mode=arguments.mode or "act",
    )
    return replay(log_of_state(arguments.log), core_of(options))


def _text(document: dict[str, Any]) -> str:
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
