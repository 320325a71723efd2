"""Copies of frozen dataclasses."""

from dataclasses import dataclass, field, replace

import pytest

from wharfinger.native import replaced


@dataclass(frozen=True, slots=True)
class Record:
    name: str
    number: float = 1.0
    others: dict[str, int] = field(default_factory=dict)


def test_a_copy_is_that_of_the_library_and_the_pattern_stays():
    pattern = Record("a", 2.0, {"b": 1})
    made = replaced(pattern, name="c", number=3.0)
    assert made == replace(pattern, name="c", number=3.0) == Record("c", 3.0, {"b": 1})
    assert pattern == Record("a", 2.0, {"b": 1}) == replaced(pattern)
    assert made.others is pattern.others


def test_an_unknown_field_is_named():
    with pytest.raises(TypeError, match="Record has no colour"):
        replaced(Record("a"), colour=1, name="b")
