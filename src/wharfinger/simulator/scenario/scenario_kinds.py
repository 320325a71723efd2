"""The kinds of value that a scenario's fields take, beside those of the manifest."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any

from wharfinger.errors import InvalidInput
from wharfinger.manifest import kinds
from wharfinger.manifest.fields import CPU, DURATION, MEMORY
from wharfinger.manifest.kinds import Json, Kind, Place
from wharfinger.manifest.tree import Mapping as MappingNode
from wharfinger.manifest.tree import Node, Scalar, Sequence, describe
from wharfinger.model import units
from wharfinger.model.units import quoted
from wharfinger.model.workload import WorkloadType
from wharfinger.simulator.scenario.distributions import constant
from wharfinger.simulator.scenario.scenario_types import MemoryLoad, PhysicsTruth, Share
from wharfinger.simulator.truth.physics.pools import Pool
from wharfinger.simulator.truth.physics.regimes import DEFAULT, REGIMES

_MAX_TEXT = 256


class TruthWord(StrEnum):
    """A ground truth that one word says."""

    UNDISTURBED = "undisturbed"
    PHYSICS = "physics"


TRUTHS = {TruthWord.UNDISTURBED: None, TruthWord.PHYSICS: PhysicsTruth()}


def _read_text(node: Node, _place: Place) -> object:
    if isinstance(node, Scalar) and isinstance(node.value, str) and node.value.strip():
        if len(node.value) > _MAX_TEXT or not node.value.isprintable():
            raise InvalidInput(f"{quoted(node.value)} is not a name; write at most 256 characters")
        return node.value
    shown = quoted(node.text) if isinstance(node, Scalar) else describe(node)
    raise InvalidInput(f"{shown} is not text; write text, in quotes if need be")


def one_or_list(kind: Kind, says: str) -> Kind:
    """One value, or a list of several of which one is drawn; kept as a tuple."""

    def read(node: Node, place: Place) -> object:
        if not isinstance(node, Sequence):
            return (kind.read(node, place),)
        if not node.items:
            raise InvalidInput("is an empty list; write at least one value")
        return tuple(kind.read(item, place) for item in node.items)

    def write(values: Any) -> Json:
        written: list[Json] = [kind.write(value) for value in values]
        return written[0] if len(written) == 1 else written

    one: Json = dict(kind.schema)
    schema: dict[str, Json] = {"anyOf": [one, {"type": "array", "items": one, "minItems": 1}]}
    return Kind(says, read, write, schema)


def mapped(kind: Kind, make: Callable[[Any], object]) -> Kind:
    """A kind whose values become something else; for short forms, which are never written."""

    def read(node: Node, place: Place) -> object:
        return make(kind.read(node, place))

    return replace(kind, read=read)


def _read_types(node: Node, place: Place) -> object:
    if not isinstance(node, MappingNode):
        raise InvalidInput(f"must be a mapping, this is {describe(node)}; write e.g. {{BE: batch}}")
    return {name: TYPE.read(entry.node, place) for name, entry in node.entries.items()}


def _write_types(types: Mapping[str, WorkloadType]) -> Json:
    return {name: str(type_) for name, type_ in types.items()}


TEXT = Kind("text", _read_text, str, {"type": "string", "maxLength": _MAX_TEXT})
TEXTS = one_or_list(TEXT, "text, or a list of it")
TYPE = kinds.choice(WorkloadType, "batch")
TYPES = Kind(
    "type by text, e.g. `{BE: best-effort}`",
    _read_types,
    _write_types,
    {"type": "object", "additionalProperties": dict(TYPE.schema)},
)
CPUS = one_or_list(CPU, "CPUs, e.g. `2`, or a list such as `[1, 2, 4]`")
MEMORIES = one_or_list(MEMORY, "bytes, e.g. `2Gi`, or a list such as `[1Gi, 4Gi]`")
TIME = kinds.quantity(
    "duration, e.g. `10m` or `0s`",
    lambda text: units.parse_duration_seconds(text, allow_zero=True),
    units.format_duration,
    units.DURATION_PATTERN,
    "10m",
    "0s",
)
FRACTION = kinds.quantity(
    "fraction, e.g. `20%`",
    units.parse_fraction,
    units.format_fraction,
    units.FRACTION_PATTERN,
    "20%",
    number={"type": "number", "minimum": 0, "maximum": 1},
)
BYTES = kinds.quantity(
    "bytes, e.g. `1Mi`",
    units.parse_bytes,
    units.format_bytes,
    units.BYTES_PATTERN,
    "1Mi",
    number={"type": "integer", "minimum": 1, "maximum": units.MAX_BYTES},
)
COUNT = kinds.number("whole number, e.g. `500`", 1, 10_000_000, 500, integer=True)
NUMBER = kinds.number("number, e.g. `1.5`", 1e-6, 1e6, 1.5)
LOAD = kinds.number("number, e.g. `0.8`", 0.001, 1000, 0.8)
SIGMA = kinds.number("number, e.g. `0.8`", 0, 10, 0.8)
FACTOR = kinds.number("number, e.g. `10`", 1, 1000, 10)
CONSTANT: Kind = mapped(DURATION, constant)
"""A duration instead of a distribution: always that."""
TRUTH_WORD = mapped(kinds.choice(TruthWord, "undisturbed"), lambda word: TRUTHS[word])
REGIME = kinds.words(list(REGIMES), DEFAULT)
POOL = kinds.choice(Pool, "mixes")
MEMORY_LOADS = one_or_list(
    kinds.choice(MemoryLoad, "medium"), "`low`, `medium` or `high`, or a list of them"
)
EXACT = mapped(kinds.constant("exact"), lambda _text: None)
ONE_SHARE: Kind = mapped(FRACTION, lambda share: Share(share, share))
"""A share instead of two ends."""
