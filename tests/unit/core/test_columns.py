"""The servers' columns hold what was put into them, in the order in which servers joined."""

from dataclasses import replace

import pytest

from tests.support.cluster import server
from wharfinger.core.tables import ServerTable
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.view import Capabilities, Resize


def _view(columns: ServerTable):
    return columns.view(Capabilities())


def test_many_servers_keep_their_rows() -> None:
    columns = ServerTable()
    for i in range(100):
        columns.put(server(f"s{i}", cpus=i))
    view = _view(columns)
    assert list(view.names) == [f"s{i}" for i in range(100)]
    assert view.cpu_capacity.tolist() == [1000 * i for i in range(100)]


def test_a_dropped_row_moves_the_others_up_with_all_that_they_hold() -> None:
    columns = ServerTable()
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
    columns = ServerTable()
    columns.put(server("a"))
    with pytest.raises(ValueError, match="read-only"):
        _view(columns).cpu_allocated[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        _view(columns).accepting[0] = 0


def test_a_view_is_made_anew_only_for_what_it_does_not_share() -> None:
    columns, able = ServerTable(), Capabilities()
    for name in ("a", "b"):
        columns.put(server(name))
    before = columns.view(able)
    columns.hold([Placement("a", Allocation(500, 7))])
    assert columns.view(able) is before
    assert before.cpu_allocated.tolist() == [500, 0]
    columns.put(server("c"))
    assert columns.view(able).cpu_allocated.tolist() == [500, 0, 0]
    assert columns.view(Capabilities(resize=Resize.NONE)).capabilities.resize is Resize.NONE


def test_the_load_index_follows_all_that_happens_to_a_server() -> None:
    columns = ServerTable()
    for i in range(40):
        columns.put(server(f"s{i}", cpus=2 + i % 3))

    def best() -> list[str]:
        view = _view(columns)
        rows, _ = view.loads.least_loaded(1000, 1, 2)
        assert view.rows == {name: row for row, name in enumerate(view.names)}
        return [view.names[row] for row in rows]

    assert best() == ["s2", "s5"]
    columns.hold([Placement("s2", Allocation(500, 7))])
    assert best() == ["s5", "s8"]
    columns.close("s5")
    columns.put(server("s8", cpus=4, accepting=False))
    assert best() == ["s11", "s14"]
    columns.drop("s11")
    columns.drop("s0")
    assert best() == ["s14", "s17"]
    columns.move_to_end("s8")
    columns.put(server("s8", cpus=64))
    assert best() == ["s8", "s14"]
    columns.exchange("s8", 3)
    assert (columns.row("s8"), columns.name(len(_view(columns).names) - 1)) == (3, "s4")
    assert best() == ["s8", "s14"]


def test_a_server_is_as_unsettled_as_it_was_when_its_row_moves() -> None:
    columns = ServerTable()
    for name in ("a", "b", "c"):
        columns.put(server(name))
    for name in ("c", "a"):
        columns.unsettle(name, unsettled=True)
    assert columns.unsettled() == ["a", "c"]
    columns.move_to_end("a")
    assert columns.unsettled() == ["c", "a"]
    assert _view(columns).unsettled.tolist() == [0, 1, 1]
    columns.exchange("a", 0)
    assert columns.unsettled() == ["a", "c"]
    assert _view(columns).unsettled.tolist() == [1, 1, 0]
    columns.drop("c")
    assert columns.unsettled() == ["a"]


def test_it_counts_what_is_held_by_size() -> None:
    columns = ServerTable()
    columns.put(server("a"))
    held = [Placement("a", Allocation(cpu, 1)) for cpu in (50, 300, 1000, 900)]
    columns.hold(held)
    columns.hold(held[:1], sign=-1)
    counted = columns.view(Capabilities()).held_sizes
    assert counted is not None
    assert counted[:4].tolist() == [0, 1, 2, 0], "up to 0.25, 0.5, 1 and 2 CPUs"


def test_what_a_platform_has_is_shown_where_a_server_promises_more() -> None:
    columns = ServerTable()
    columns.put(server("s0"))
    assert _view(columns).cpu_real is None
    platform = replace(server("s1").platform, cpu_millicpus=3000)
    columns.put(replace(server("s1", cpus=4), platform=platform))
    shown = _view(columns).cpu_real
    assert shown is not None
    assert shown[1] == 3000
    columns.drop("s1")
    assert _view(columns).cpu_real is None
