"""``spec.requires``: what a workload requires of servers' labels; and such labels, in scenarios.

A label has one value, a list of which it may have any, or either with ``!`` before each value: then
it may have none of them. YAML takes a bare ``!`` for a tag, so that ``"!value"`` needs quotes.
"""

from collections.abc import Iterable
from typing import cast

from wharfinger.errors import InvalidInput
from wharfinger.manifest import kinds
from wharfinger.manifest.kinds import Json, Kind
from wharfinger.manifest.tree import Node, Scalar, Sequence, describe, read_items, string
from wharfinger.model.requirements import Requirement, Requires
from wharfinger.model.units import quoted

NOT = "!"
MAX_VALUES = 64
_EXAMPLE = '{gpu: [a100, h100], spot: "!yes"}'
_VALUE: Json = {
    "type": "string",
    "pattern": r"^!?[^!\u0000][^\u0000]*$",
    "maxLength": kinds.MAX_NAME + len(NOT),
}


def _read_value(node: Node, _: str) -> str:
    value = string(node)
    bare = value.removeprefix(NOT)
    if not bare or bare.startswith(NOT):
        raise InvalidInput(f'{quoted(value)} names no value; write e.g. a100, or "!a100"')
    if len(bare) > kinds.MAX_NAME:
        raise InvalidInput(f"{quoted(bare)} is too long; at most {kinds.MAX_NAME} characters")
    return value


def _read_values(node: Node, directory: str) -> tuple[str, ...]:
    if isinstance(node, Scalar):
        return (_read_value(node, directory),)
    if not isinstance(node, Sequence):
        raise InvalidInput(f"must be a value or a list, this is {describe(node)}")
    if not node.items:
        raise InvalidInput("is an empty list, which no server meets; write a value")
    if len(node.items) > MAX_VALUES:
        raise InvalidInput(f"{len(node.items)} values are too many; at most {MAX_VALUES}")
    values = cast("tuple[str, ...]", read_items(_read_value, node, directory))
    if len({value.startswith(NOT) for value in values}) > 1:
        raise InvalidInput("has values with and without !; write ! before all of them or none")
    return values


_MAPPING = kinds.mapping(
    "a value, or a list, by label",
    _EXAMPLE,
    _read_values,
    {
        "additionalProperties": {
            "anyOf": [
                _VALUE,
                {"type": "array", "items": _VALUE, "minItems": 1, "maxItems": MAX_VALUES},
            ]
        },
        "maxProperties": 64,
    },
    keys=kinds.LABEL_KEYS,
    key_mend=kinds.LABEL_MEND,
    max_key=kinds.MAX_NAME,
)


def requires_of(stated: Iterable[tuple[str, tuple[str, ...]]]) -> Requires:
    """Labels with their values, each with ``!`` where it is excluded, in an order of their own.

    So what is the same is equal, however it was written.

    >>> [str(one) for one in requires_of([("spot", ("!yes",)), ("gpu", ("h100", "a100"))])]
    ['gpu=a100|h100', 'spot=!yes']
    """
    return tuple(
        Requirement(
            label,
            tuple(sorted({value.removeprefix(NOT) for value in values})),
            excluded=values[0].startswith(NOT),
        )
        for label, values in sorted(stated)
    )


def _read(node: Node, directory: str) -> object:
    stated = cast("dict[str, tuple[str, ...]]", _MAPPING.read(node, directory))
    return requires_of(stated.items())


def _write(requires: Requires) -> Json:
    return {one.label: _written(one) for one in requires}


def _written(requirement: Requirement) -> Json:
    values = [f"{NOT * requirement.excluded}{value}" for value in requirement.values]
    return values[0] if len(values) == 1 else [*values]


def _read_label(node: Node, directory: str) -> str:
    value = _read_value(node, directory)
    if value.startswith(NOT):
        raise InvalidInput(f"{quoted(value)} excludes a value; write the one that it has")
    return value


LABELS = kinds.mapping(
    "a value by label",
    "{gpu: a100}",
    _read_label,
    {"additionalProperties": _VALUE, "maxProperties": 64},
    keys=kinds.LABEL_KEYS,
    key_mend=kinds.LABEL_MEND,
    max_key=kinds.MAX_NAME,
)
REQUIRES = Kind(_MAPPING.says, _read, _write, _MAPPING.schema)
