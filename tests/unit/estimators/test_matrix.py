"""Matrices: what is refused, and that a change makes another one."""

import numpy as np
import pytest

from wharfinger.errors import InvalidInput, NotFound
from wharfinger.estimators.matrix import Matrix, Transform

NAN = float("nan")


@pytest.mark.parametrize(
    ("rows", "columns", "words"),
    [
        ({"a": [1.0, 0.0]}, ["x", "y"], "row 'a', column 'y': 0 has no logarithm"),
        ({"a": [1.0, -2.5]}, ["x", "y"], "row 'a', column 'y': -2.5 has no logarithm"),
        ({"a": [float("inf")]}, ["x"], "row 'a', column 'x': inf is not finite"),
        ({"a": [1.0, 1.0]}, ["x", "x"], "column 'x' appears twice"),
        ({}, ["x"], "the matrix has no row"),
        ({"a": []}, [], "the matrix has no column"),
    ],
)
def test_what_is_refused(rows, columns, words):
    with pytest.raises(InvalidInput, match=words):
        Matrix.of(rows, columns)


def test_names_and_values_must_fit():
    with pytest.raises(InvalidInput, match=r"\(2, 1\) values has 1 row names"):
        Matrix(("a",), ("x",), ("a",), np.ones((2, 1)))


def test_without_logarithms_zero_and_below_are_values():
    m = Matrix.of({"a": [0.0, -1.0]}, ["x", "y"], transform=Transform.IDENTITY)
    assert m.transformed.tolist() == [[0.0, -1.0]]


def test_a_change_makes_another_matrix():
    m = Matrix.of({"a": [1.0, NAN], "b": [2.0, 3.0]}, ["x", "y"])
    other = m.with_column("z", {"b": 9.0}).with_entry("a", "y", 5.0)
    np.testing.assert_array_equal(other.values, [[1.0, 5.0, NAN], [2.0, 3.0, 9.0]])
    np.testing.assert_array_equal(m.values, [[1.0, NAN], [2.0, 3.0]])
    with pytest.raises(ValueError, match="read-only"):
        m.values[0, 0] = 7.0


def test_a_callers_array_is_not_the_matrixs():
    values = np.ones((1, 1))
    m = Matrix(("a",), ("x",), ("a",), values)
    values[0, 0] = 9.0
    assert m.row("a").tolist() == [1.0]


def test_an_unknown_name_is_named():
    m = Matrix.of({"a": [1.0]}, ["x"])
    with pytest.raises(NotFound, match="no column 'y'"):
        m.with_entry("a", "y", 1.0)
    with pytest.raises(NotFound, match="no row 'b'"):
        m.row("b")
