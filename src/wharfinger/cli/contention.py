"""``wharfinger contention``: what several neighbors take together; needs no manager.

Here are the options; what each action does is in ``contention_fit``, ``contention_predict``,
``contention_evaluate``, ``contention_plan`` and ``contention_collect``, which are imported by the
call that needs them.
"""

import argparse
import importlib
import os
from functools import partial

from wharfinger.cli.main import add_parser
from wharfinger.cli.options import add_option, add_output
from wharfinger.cli.readers import (
    cpu_numbers,
    number,
    probability,
    seconds_above_zero,
    share,
    whole,
)

MEASUREMENTS = (
    "measured sets: ls, batch (neighbors joined by +, or bubble:8Mi), performance relative to "
    "alone or contention; optionally platform, class, error"
)
DEFAULT_MODEL = "box-cox"
qos = number(0.01, 1, "a share of the performance alone from 1% to 100%", lambda text: (
    float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
))  # fmt: skip
sample = number(1e-6, 1, "a share above 0 and up to 1, such as 5%", lambda text: (
    float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
))  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The actions, each with its options."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, add_options, words in (
        ("fit", _add_fit, "learn from measured sets of neighbors, and write the model to a file"),
        ("predict", _add_predict, "say what a service keeps of its performance beside neighbors"),
        ("evaluate", _add_evaluate, "how well models predict sets that were held out"),
        ("plan", _add_plan, "which sets to measure next, and what they are worth"),
        ("collect", _add_collect, "measure services beside their neighbors, on this machine"),
    ):
        action = add_parser(actions, name, words)
        add_options(action)
        add_output(action)


def _add_fit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("measurements", metavar="MEASUREMENTS.csv", help=MEASUREMENTS)
    add = partial(add_option, parser)
    add("--model NAME", "which to fit", DEFAULT_MODEL)
    add("--sample SHARE", "learn from a random share of the sets of each degree", read=sample)
    add("--seed N", "of the sample", "0", whole(0))
    add("--out FILE", "where to", "contention.json")


def _add_predict(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a file that `contention fit` wrote")
    add = partial(add_option, parser)
    parser.add_argument("--ls", metavar="NAME", required=True, help="the service")
    words = "neighbors joined by +, a name as often as it runs; may be repeated"
    parser.add_argument("--batch", metavar="NAMES", required=True, action="append", help=words)
    add("--platform NAME", "of the service, where it was measured on several")
    add("--class NAME", "of load or input, where several were measured")
    add("--qos SHARE", "of the performance alone, which must be kept", "95%", qos)


def _add_evaluate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("measurements", metavar="MEASUREMENTS.csv", help=MEASUREMENTS)
    add = partial(add_option, parser)
    add("--model NAME[,NAME]", "which to compare (default: all)", read=_names)
    add("--sample SHARE", "of the sets of each degree, to learn from", "5%", sample)
    add("--repeats N", "how often to draw the sample", "50", whole(1, 10_000))
    words = "with which a set must be safe to be allowed"
    add("--confidence P", words, "95%", probability)
    words = "how the sample is chosen (default: random)"
    parser.add_argument(
        "--sampling", choices=["random", "information"], default="random", help=words
    )
    add("--seed N", "repeats a run exactly", "0", whole(0))


def _add_plan(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("measurements", metavar="MEASUREMENTS.csv", help=MEASUREMENTS)
    add = partial(add_option, parser)
    add("--count N", "how many sets", "10", whole(1, 1000))
    add("--degree N", "the highest number of neighbors in a set", "3", whole(2, 6))
    add("--qos SHARE", "of the performance alone: decisions near it count most", "95%", qos)
    add("--enough SHARE", "stop at sets that are worth less", read=share)
    add("--seed N", "of the candidates, where there are very many", "0", whole(0))


def _add_collect(parser: argparse.ArgumentParser) -> None:
    words = "manifests: services are latency-critical and have a measure section, others neighbors"
    parser.add_argument("plan", metavar="PLAN.yaml", help=words)
    add = partial(add_option, parser)
    add("--out FILE", "where results go; what it has is not measured again", "measurements.csv")
    add("--cpus LIST", "CPUs of the service (default: all that may be used)", read=cpu_numbers)
    words = "CPUs of neighbors and bubbles (default: all that may be used)"
    add("--batch-cpus LIST", words, read=cpu_numbers)
    add("--bubbles BYTES[,BYTES]", "sizes of bubbles, such as 1Mi,8Mi (default: none)", read=_sizes)
    words = "how long the performance is looked at, beside a set and alone"
    add("--seconds DURATION", words, "2s", seconds_above_zero)
    add("--degree N", "the highest number of neighbors in a set", "3", whole(1, 6))
    add("--qos SHARE", "of the performance alone: decisions near it count most", "95%", qos)
    add("--enough SHARE", "stop at sets that are worth less", "1%", share)
    add("--sets N", "measure no more than so many", read=whole(1, 100_000))
    add("--time-limit DURATION", "begin no other set after it", "1h", seconds_above_zero)
    add("--platform NAME", "of this machine, in the results")
    add("--class NAME", "of load or input, in the results")
    add("--seed N", "of the candidates, where there are very many", "0", whole(0))


def _sizes(text: str) -> list[int]:
    from wharfinger.errors import InvalidInput  # noqa: PLC0415 - help needs none of it
    from wharfinger.model.units import parse_bytes  # noqa: PLC0415

    try:
        return [parse_bytes(size, minimum=4096) for size in text.split(",")]
    except InvalidInput as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _names(text: str) -> list[str]:
    return list(dict.fromkeys(text.split(",")))


def run(arguments: argparse.Namespace) -> int | None:
    """Act."""
    # Before NumPy is imported: one thread adds up in one order, and is faster at these sizes.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    module = importlib.import_module(f"wharfinger.cli.contention_{arguments.action}")
    status: int | None = module.run(arguments)
    return status
