"""The servers' columns hold what was put into them, in the order in which servers joined."""

import pytest

from tests.support.cluster import server
from wharfinger.manager.columns import Columns
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.view import Capabilities


def _view(columns: Columns):
    return columns.view("", Capabilities())


def test_many_servers_keep_their_rows() -> None:
    columns = Columns()
    for i in range(100):
        columns.put(server(f"s{i}", cpus=i))
    view = _view(columns)
    assert list(view.names) == [f"s{i}" for i in range(100)]
    assert view.cpu_capacity.tolist() == [1000 * i for i in range(100)]


def test_a_dropped_row_moves_the_others_up_with_all_that_they_hold() -> None:
    columns = Columns()
    for name in ("a", "b", "c"):
        columns.put(server(name))
    columns.hold([Placement("c", Allocation(500, 7))])
    columns.drop("b")
    view = _view(columns)
    assert list(view.names) == ["a", "c"]
    assert view.cpu_allocated.tolist() == [0, 500]
    assert view.memory_allocated.tolist() == [0, 7]
    assert columns.residents("c") == 1
    columns.put(server("d"))
    assert _view(columns).cpu_allocated.tolist() == [0, 500, 0]


def test_nobody_can_write_through_a_view() -> None:
    columns = Columns()
    columns.put(server("a"))
    with pytest.raises(ValueError, match="read-only"):
        _view(columns).cpu_allocated[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        _view(columns).accepting[0] = 0
