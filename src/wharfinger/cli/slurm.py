"""``wharfinger slurm submit``: hand a job with a target to Slurm, for a manager to place.

It writes the comment, holds the job and leaves the rest to ``sbatch``; a manager with
``--engine slurm`` picks it up. It needs no manager itself.
"""

import argparse
import json
import re
import shlex
import shutil
import subprocess
import sys
from functools import partial

from wharfinger.cli.main import FAILED, OK, add_parser, complain
from wharfinger.cli.options import add_option
from wharfinger.errors import InvalidInput, Unavailable

_FIELDS = (
    ("--within DURATION", ("target", "completionTime"), "to complete within this time, e.g. 20m"),
    ("--rate RATE", ("target", "rate"), "work per second, as --measure-regex reads it, e.g. 90/s"),
    ("--tolerance SHARE", ("tolerance",), "how far the target may be missed, e.g. 5%"),
    ("--measure-regex REGEX", ("measure", "progress", "regex"), "its progress, as it prints it"),
    ("--total WORK", ("measure", "progress", "total"), "progress at which it is complete"),
    ("--profile MODE", ("profile", "mode"), "copy or none (default: copy)"),
)
"""Option, the field of the manifest's ``spec`` that it sets, and what it is."""
_WRITTEN = ("--comment", "--hold", "-H")
"""Options of ``sbatch`` that are written here."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The actions, each with its options."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    submit = add_parser(actions, "submit", "hand a job with a target to Slurm, held for a manager")
    submit.passes_on = "words"  # type: ignore[attr-defined] # of our own parser class
    words = "options of sbatch, the batch script and its arguments, after --"
    submit.add_argument("words", metavar="SBATCH-ARGUMENT", nargs="*", help=words)
    add = partial(add_option, submit)
    for option, field, about in _FIELDS:
        add(option, about, read=float if field[-1] == "total" else str)
    add("--dry-run", "print the call of sbatch, and hand in nothing")


def run(arguments: argparse.Namespace) -> int:
    """Hand it in; prints what ``sbatch`` prints."""
    from wharfinger.engines.slurm.comments import JobProgram, workload_of  # noqa: PLC0415 - NumPy

    for word in arguments.words:
        if word.partition("=")[0] in _WRITTEN:
            raise InvalidInput(f"{word}: is written here; take it out")
    comment = comment_of(arguments)
    # What a manager would refuse is refused here, where its user sees it.
    workload_of("job", comment, JobProgram("/job", "/", cpus=1))
    command = ["sbatch", "--hold", f"--comment={comment}", *arguments.words]
    if arguments.dry_run:
        print(shlex.join(command))
        return OK
    if shutil.which("sbatch") is None:
        raise Unavailable("sbatch: no such command in PATH; install Slurm's client commands")
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False, text=True)
    if done.returncode:
        complain(f"sbatch has refused the job, with exit status {done.returncode}")
        return FAILED
    sys.stdout.write(done.stdout)
    return OK


def comment_of(arguments: argparse.Namespace) -> str:
    """The comment that states what the options say, as one line of YAML's flow form."""
    spec: dict[str, object] = {}
    for option, field, _ in _FIELDS:
        value = getattr(arguments, option.split()[0][2:].replace("-", "_"))
        if value is None:
            continue
        section = spec
        for part in field[:-1]:
            section = section.setdefault(part, {})  # type: ignore[assignment]
        section[field[-1]] = value
    return f"wharfinger: {_flow(spec)}"


def _flow(value: object) -> str:
    """JSON is YAML; keys need no quotes, and neither do plain words."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(each)}" for key, each in value.items()) + "}"
    plain = isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9./%]*", value)
    return str(value) if plain else json.dumps(value)
