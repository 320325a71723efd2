"""A manifest as the reader understood it: scalars, lists and mappings with their lines.

What a scalar means is the core schema of YAML 1.2 (chapter 10.3), and nothing else. PyYAML's own
resolver speaks YAML 1.1, where ``no`` is false, ``1:30`` is ninety and ``2024-01-01`` is a date.
"""

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from wharfinger.errors import InvalidInput
from wharfinger.model.units import quoted

ScalarValue: TypeAlias = str | int | float | bool | None

PREFIX = "tag:yaml.org,2002:"
CORE_TAGS = frozenset(PREFIX + name for name in ("str", "int", "float", "bool", "null"))

_WORDS: dict[str, ScalarValue] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
}

_NUMBER_STARTS = frozenset("0123456789+-.")
_MAX_NUMBER = 128  # characters; Python refuses to read integers without a bound, and so do we

_DECIMAL = re.compile(r"[-+]?[0-9]+")
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")


def resolve(text: str) -> ScalarValue:
    """The value of a plain scalar without a tag. Numbers over 128 characters are text.

    >>> resolve("no"), resolve("0o17"), resolve("1:30"), resolve("True")
    ('no', 15, '1:30', True)
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_STARTS or len(text) > _MAX_NUMBER:
        return text
    if _DECIMAL.fullmatch(text):
        return int(text)
    if _BASED.fullmatch(text):
        return int(text, 0)
    return float(text) if _FLOAT.fullmatch(text) else text


def resolve_tagged(tag: str, text: str) -> ScalarValue:
    """The value of a scalar under one of ``CORE_TAGS``; ``ValueError`` for another kind's text."""
    name = tag.removeprefix(PREFIX)
    if name == "str":
        return text
    value = resolve(text)
    if name == "float" and type(value) is int:
        value = float(value)  # 128 digits are within a float's range
    if {"int": int, "float": float, "bool": bool, "null": type(None)}[name] is not type(value):
        raise ValueError(f"is not of the kind that its tag !!{name} says")
    return value


@dataclass(slots=True)
class Scalar:
    """One value; ``text`` is as it was written, without quotes."""

    line: int
    value: ScalarValue
    text: str
    size: int = 1
    height: int = 0


@dataclass(slots=True)
class Sequence:
    """A list; ``size`` counts it and its nodes, ``height`` levels below, aliases written out."""

    line: int
    items: "list[Node]"
    size: int = 1
    height: int = 0


@dataclass(slots=True)
class TreeEntry:
    """The line of a mapping's key, and its value."""

    line: int
    node: "Node"


@dataclass(slots=True)
class Mapping:
    """A mapping; its keys are text and stand once. ``size`` and ``height`` as in ``Sequence``."""

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


def scalar_text(node: Node) -> str:
    """A scalar as the units' functions read it; numbers in decimal."""
    if not isinstance(node, Scalar):
        raise InvalidInput(f"{describe(node)} is given; write one value")
    value = node.value
    if value is None:
        raise InvalidInput("is empty; write a value or remove the line")
    if isinstance(value, str):
        return value
    if type(value) is int:
        return str(value)
    return repr(value) if type(value) is float and abs(value) < float("inf") else node.text


def string(node: Node, what: str = "") -> str:
    """A scalar that is text; what YAML takes for something else needs quotes."""
    what = what or (quoted(node.text) if isinstance(node, Scalar) else "the value")
    if isinstance(node, Scalar) and isinstance(node.value, str):
        if "\0" in node.value:
            raise InvalidInput(f"{what} has a NUL character in it; remove it")
        return node.value
    if isinstance(node, Scalar) and node.value is not None:
        raise InvalidInput(f"{what} is {describe(node)} to YAML; put it in quotes")
    raise InvalidInput(f"{what} must be text, this is {describe(node)}; write text in quotes")


class Several(InvalidInput):
    """What is wrong in several parts of one value: line, part such as ``[0]``, message."""

    def __init__(self, parts: "list[tuple[int, str, str]]") -> None:
        self.parts = parts
        super().__init__("; ".join(message for _, _, message in parts))


Read: TypeAlias = Callable[[Node, str], object]
"""The value of a node, or ``InvalidInput``; relative paths start from the directory."""


def each(
    read: Read,
    directory: str,
    nodes: Iterable[tuple[int, str, Node]],
    wrong: Iterable[tuple[int, str, str]] = (),
) -> tuple[object, ...]:
    """The values of nodes, which are given with line and place such as ``[0]``.

    Raises ``Several`` with all that is wrong in them, after what was ``wrong`` before.
    """
    values, problems = [], list(wrong)
    for line, place, node in nodes:
        try:
            values.append(read(node, directory))
        except InvalidInput as error:
            problems.append((line, place, str(error)))
    if problems:
        raise Several(problems)
    return tuple(values)


def read_items(read: Read, node: Sequence, directory: str) -> tuple[object, ...]:
    """The values of a list's items, as in ``each``."""
    places = ((item.line, f"[{index}]", item) for index, item in enumerate(node.items))
    return each(read, directory, places)
