"""Read the values of options; each raises ``argparse.ArgumentTypeError``, as argparse wants."""

import argparse
import re
from collections.abc import Callable
from functools import partial
from math import inf, nan, nextafter

from wharfinger.errors import InvalidInput

OUTPUTS = ("table", "wide", "json", "yaml")
TEMPLATE = "jsonpath="
"""What an output format begins with that is a template of ``jsonpath``."""


def output_format(text: str) -> str:
    """One of ``OUTPUTS``, ``name``, or ``jsonpath=TEMPLATE``."""
    if text in (*OUTPUTS, "name"):
        return text
    if not text.startswith(TEMPLATE):
        there_are = f"{', '.join(OUTPUTS)}, name, {TEMPLATE}TEMPLATE"
        raise argparse.ArgumentTypeError(f"{text!r} is not a format; there are {there_are}")
    from wharfinger.cli.jsonpath import parse  # noqa: PLC0415 - few calls want it

    try:
        parse(text.removeprefix(TEMPLATE))
    except InvalidInput as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def server_label(text: str) -> tuple[str, str, str]:
    """``[SERVER:]LABEL=VALUE``: the server, empty = all of them; the label; its value."""
    # As a manifest requires it; imported where a label is given.
    from wharfinger.manifest.kinds import LABEL_KEYS, LABEL_MEND, MAX_NAME  # noqa: PLC0415

    stated, is_given, value = text.partition("=")
    server, _, label = stated.rpartition(":")
    if not is_given or not value:
        raise argparse.ArgumentTypeError(f"{text!r} is no label; write e.g. gpu=a100")
    if re.fullmatch(LABEL_KEYS, label) is None or max(len(label), len(value)) > MAX_NAME:
        mend = f"{LABEL_MEND}, at most {MAX_NAME} characters"
        raise argparse.ArgumentTypeError(f"{text!r} is no label: {mend}")
    return server, label, value


def seconds(text: str, *, allow_zero: bool = True) -> float:
    """A duration such as ``30s`` or ``5m``; a bare number is seconds."""
    # Imported where a duration is given: most calls give none.
    from wharfinger.model.units import parse_duration_seconds  # noqa: PLC0415

    bare = text.replace(".", "", 1).isdecimal() and text.isascii()
    try:
        return parse_duration_seconds(f"{text}s" if bare else text, allow_zero=allow_zero)
    except InvalidInput as error:
        raise argparse.ArgumentTypeError(str(error)) from None


seconds_above_zero = partial(seconds, allow_zero=False)
"""The same, where no time at all has no meaning."""


def number(
    minimum: float, maximum: float, words: str, convert: Callable[[str], float] = float
) -> Callable[[str], float]:
    """A reader of numbers within these bounds, which are put in words for a user."""

    def read(text: str) -> float:
        try:
            value = convert(text)
        except ValueError:
            value = nan
        if not minimum <= value <= maximum:
            raise argparse.ArgumentTypeError(f"{text!r}: write {words}")
        return value

    return read


def whole(minimum: int, maximum: int = 10**9 - 1) -> Callable[[str], float]:
    """A reader of whole numbers within these bounds."""
    words = f"a whole number from {minimum} to {maximum}"
    return number(minimum, maximum, words, _digits)


def _digits(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 12 else -1


def _fraction(text: str) -> float:
    return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)


share = number(nextafter(0, 1), nextafter(inf, 0), "a share above 0, such as 10%", _fraction)
probability = number(0.5, nextafter(1, 0), "a probability from 0.5 to below 1", _fraction)
"""That a target can ask for."""


def cpu_numbers(text: str) -> tuple[int, ...]:
    """CPUs in the kernel's list format, ascending.

    >>> cpu_numbers("2-3,0")
    (0, 2, 3)
    """
    from wharfinger.host.topology import parse_cpus  # noqa: PLC0415 - help needs none of it

    cpus: frozenset[int] = frozenset()
    if re.fullmatch(r"[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?)*", text):
        cpus = parse_cpus(text)
    if not cpus:
        raise argparse.ArgumentTypeError(f"{text!r}; give numbers and ranges, such as 0,2-3")
    return tuple(sorted(cpus))
