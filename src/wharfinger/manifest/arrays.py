"""Arrays: one document that stands for many workloads, which differ in an index."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from wharfinger.errors import InvalidInput
from wharfinger.manifest.kinds import Kind
from wharfinger.manifest.tree import scalar_text
from wharfinger.model.units import quoted
from wharfinger.model.workload import ArrayMember, Workload

MAX_MEMBERS = 10_000
MAX_INDEX = 1_000_000
INDEX, NAME = "WHARFINGER_ARRAY_INDEX", "WHARFINGER_ARRAY_NAME"
"""What a member's environment says."""

_MAX_TEXT = 4096
_PART = "[0-9]{1,7}(-[0-9]{1,7})?"
_PATTERN = rf"^(?=.*[-,]){_PART}(,{_PART})*(%[1-9][0-9]{{0,4}})?$"
_RANGE = re.compile(_PATTERN, re.ASCII)


@dataclass(frozen=True, slots=True)
class ArrayRange:
    """The short form of an array: its indexes, and how many of them may run at once."""

    indexes: tuple[int, ...]
    at_once: int | None


def members(workload: Workload, array: ArrayRange) -> Iterator[Workload]:
    """The workloads that an array of this name stands for, in the order of its indexes."""
    for index in array.indexes:
        env = {**workload.run.env, INDEX: str(index), NAME: workload.name}
        yield replace(
            workload,
            name=member_name(workload.name, index),
            run=replace(workload.run, env=env),
            array=ArrayMember(workload.name, index, array.at_once),
        )


def member_name(array: str, index: int) -> str:
    """The name of one member.

    >>> member_name("sweep", 7)
    'sweep-7'
    """
    return f"{array}-{index}"


def parse_array(text: str) -> ArrayRange:
    """The indexes that a range and a list name, and how many at once.

    >>> parse_array("1,3,7-9%2")
    ArrayRange(indexes=(1, 3, 7, 8, 9), at_once=2)
    """
    if text.isdecimal() and len(text) < 8:
        mend = f"write 1-{text} for {text} of them, or leave array out"
        raise InvalidInput(f"{quoted(text)} is one index, not an array; {mend}")
    if len(text) > _MAX_TEXT or not _RANGE.fullmatch(text):
        mend = "write e.g. 1-100, 1-100%8 for at most 8 at once, or 1,3,7-9"
        raise InvalidInput(f"{quoted(text)} is not an array's indexes; {mend}")
    parts, _, at_once = text.partition("%")
    indexes: list[int] = []
    for part in parts.split(","):
        first, _, last = part.partition("-")
        low, high = int(first), int(last or first)
        if high < low:
            raise InvalidInput(f"{quoted(part)} goes backwards; write {high}-{low}")
        if high > MAX_INDEX:
            raise InvalidInput(f"index {high} is too large; write at most {MAX_INDEX}")
        if len(indexes) + high - low + 1 > MAX_MEMBERS:
            mend = "write several arrays"
            raise InvalidInput(f"{quoted(text)} has more than {MAX_MEMBERS} members; {mend}")
        indexes += range(low, high + 1)
    if len(set(indexes)) < len(indexes):
        raise InvalidInput(f"{quoted(text)} names an index twice; write each once")
    return ArrayRange(tuple(indexes), int(at_once) if at_once else None)


RANGE = Kind(
    "indexes, e.g. `1-100`, `1-100%8` or `1,3,7-9`",
    lambda node, _: parse_array(scalar_text(node)),
    str,
    {
        "type": "string",
        "pattern": _PATTERN,
        "maxLength": _MAX_TEXT,
        "examples": ["1-100", "1-100%8", "1,3,7-9"],
    },
)
