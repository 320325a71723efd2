"""Kinds of values of a scenario's fields, in addition to those of the manifest."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from wharfinger.errors import InvalidInput
from wharfinger.manifest import kinds
from wharfinger.manifest.kinds import CPU, MEMORY, Json, Kind, choice, number, quantity
from wharfinger.manifest.tree import Node, Scalar, Sequence, describe, read_items
from wharfinger.model import units
from wharfinger.model.units import quoted
from wharfinger.model.workload import WorkloadType

_MAX_TEXT = 256


def _read_text(node: Node, _: str) -> object:
    if isinstance(node, Scalar) and isinstance(node.value, str) and node.value.strip():
        if len(node.value) > _MAX_TEXT or not node.value.isprintable():
            raise InvalidInput(f"{quoted(node.value)} is not a name; write at most 256 characters")
        return node.value
    shown = quoted(node.text) if isinstance(node, Scalar) else describe(node)
    raise InvalidInput(f"{shown} is not text; write text, in quotes if need be")


def one_or_list(kind: Kind, says: str) -> Kind:
    """One value, or a list from which one is drawn; kept as a tuple."""

    def read(node: Node, directory: str) -> object:
        if not isinstance(node, Sequence):
            return (kind.read(node, directory),)
        if not node.items:
            raise InvalidInput("is an empty list; write at least one value")
        return read_items(kind.read, node, directory)

    def write(values: Any) -> Json:
        written: list[Json] = [kind.write(value) for value in values]
        return written[0] if len(written) == 1 else written

    one: Json = dict(kind.schema)
    schema: dict[str, Json] = {"anyOf": [one, {"type": "array", "items": one, "minItems": 1}]}
    return Kind(says, read, write, schema)


def mapped(kind: Kind, make: Callable[[Any], object]) -> Kind:
    """A kind whose values become something else; for short forms, which are only read."""
    return replace(kind, read=lambda node, directory: make(kind.read(node, directory)))


TEXT = Kind(
    "text", _read_text, str, {"type": "string", "maxLength": _MAX_TEXT, "examples": ["text"]}
)
TEXTS = one_or_list(TEXT, "text, or a list of it")
TYPE = choice(WorkloadType, "batch")
CPUS = one_or_list(CPU, "CPUs, e.g. `2`, or a list such as `[1, 2, 4]`")
MEMORIES = one_or_list(MEMORY, "bytes, e.g. `2Gi`, or a list such as `[1Gi, 4Gi]`")
FRACTION = quantity(
    "fraction",
    units.parse_fraction,
    units.format_fraction,
    units.FRACTION_PATTERN,
    "20%",
    bare={"type": "number", "minimum": 0, "maximum": 1},
)
COUNT = number(1, 10_000_000, 500, noun=kinds.WHOLE)
NUMBER = number(1e-6, 1e6, 1.5)
SIGMA = number(0, 10, 0.8)
