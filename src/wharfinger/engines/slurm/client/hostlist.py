"""Slurm's short form of many node names, as ``n[1-3,07],login`` or ``rack[1-2]n[1-16]``."""

import itertools
import re
from functools import lru_cache

MAX_NAMES = 100_000
"""More than any cluster has: a list that stands for more is nonsense, and yields nothing."""
_MAX_CHARACTERS = 1 << 20
_OUTER = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_PART = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


@lru_cache(maxsize=4096)
def expand(names: str) -> tuple[str, ...]:
    """The names one by one, in the order of the list; what can't be read is left out.

    >>> expand("n[1-2,07],login")
    ('n1', 'n2', 'n07', 'login')
    """
    if len(names) > _MAX_CHARACTERS or names in {"", "(null)", "None assigned"}:
        return ()
    expanded: list[str] = []
    for match in _OUTER.finditer(names):
        group = _expand_one(match[0].strip())
        if len(expanded) + len(group) > MAX_NAMES:
            return ()
        expanded += group
    return tuple(expanded)


def _expand_one(name: str) -> tuple[str, ...]:
    parts = [
        _expand_ranges(match[1]) if match[1] is not None else (match[2],)
        for match in _PART.finditer(name)
    ]
    count = 1
    for part in parts:
        count *= len(part)
    if not parts or count > MAX_NAMES:
        return ()
    return tuple("".join(words) for words in itertools.product(*parts))


def _expand_ranges(text: str) -> tuple[str, ...]:
    numbers: list[str] = []
    for piece in text.split(","):
        match = _RANGE.fullmatch(piece)
        if match is None:
            continue
        first, last = int(match[1]), int(match[2] or match[1])
        if last - first >= MAX_NAMES or len(numbers) > MAX_NAMES:
            return ()
        width = len(match[1])
        numbers += [f"{number:0{width}d}" for number in range(first, last + 1)]
    return tuple(numbers)
