"""The kinds of things that ``get`` and ``describe`` show, and their short names."""

import argparse
from collections.abc import Callable, Sequence

KINDS = ("workloads", "servers", "platforms", "queues", "events", "status")
_SHORT = {"wl": "workloads", "srv": "servers", "ev": "events"}


def singular(kind: str) -> str:
    """As in ``workload/web``."""
    return kind if kind == "status" else kind.removesuffix("s")


def find_kind(text: str, kinds: Sequence[str] = KINDS) -> str | None:
    """The kind of this name, in the singular, the plural, or short; ``None`` = there is none.

    >>> find_kind("wl"), find_kind("server"), find_kind("ships")
    ('workloads', 'servers', None)
    """
    named = _SHORT.get(text, text)
    return next((kind for kind in kinds if named in (kind, singular(kind))), None)


def kind_of(kinds: Sequence[str] = KINDS) -> Callable[[str], str]:
    """A reader of these kinds, for argparse."""

    def read(text: str) -> str:
        if kind := find_kind(text, kinds):
            return kind
        there_are = ", ".join(kinds)
        raise argparse.ArgumentTypeError(f"{text!r} is not a kind; there are {there_are}")

    return read
