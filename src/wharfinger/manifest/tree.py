"""A manifest as the reader understood it: scalars, lists and mappings with their lines."""

from dataclasses import dataclass
from typing import TypeAlias

from wharfinger.manifest.core_schema import ScalarValue


@dataclass(slots=True)
class Scalar:
    """One value.

    Attributes:
        line: Where it begins, counted from 1.
        value: Its meaning under YAML 1.2's core schema.
        text: As it was written, without quotes.
    """

    line: int
    value: ScalarValue
    text: str
    size: int = 1
    height: int = 0


@dataclass(slots=True)
class Sequence:
    """A list.

    Attributes:
        line: Where it begins.
        items: In order.
        size: Nodes in it and itself, aliases written out.
        height: Levels below it, aliases written out.
    """

    line: int
    items: "list[Node]"
    size: int = 1
    height: int = 0


@dataclass(slots=True)
class TreeEntry:
    """One key of a mapping: the line of the key, and its value."""

    line: int
    node: "Node"


@dataclass(slots=True)
class Mapping:
    """A mapping; its keys are text and stand once.

    Attributes:
        line: Where it begins.
        entries: By key, in order.
        size: Nodes in it and itself, aliases written out.
        height: Levels below it, aliases written out.
    """

    line: int
    entries: dict[str, TreeEntry]
    size: int = 1
    height: int = 0


Node: TypeAlias = Scalar | Sequence | Mapping


def describe(node: Node) -> str:
    """What a node is, in a user's words, for "... is expected, this is ..."."""
    if isinstance(node, Mapping):
        return "a mapping"
    if isinstance(node, Sequence):
        return "a list"
    match node.value:
        case None:
            return "empty"
        case bool():
            return "true or false"
        case str():
            return "text"
        case _:
            return "a number"
