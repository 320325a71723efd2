"""Tables from measurements in the form of Pitot's files."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.pitot_tables import convert
from wharfinger.errors import InvalidInput
from wharfinger.simulator.scenario.build import build
from wharfinger.simulator.scenario.scenario_files import load_scenario
from wharfinger.simulator.truth.tables import read_tables

PLATFORMS = ["fast:hc-1", "slow:hc-1", "fast:hc-2"]
PROGRAMS = ["lib/a", "lib/b"]


def save(folder: Path, name: str, rows: list[tuple[int, ...]], **names: list[str]) -> None:
    """``rows`` are platform, workload, its co-runners, and the time."""
    columns = [np.array(each) for each in zip(*rows, strict=True)]
    keys = ["i_platform", "i_workload", *(f"i_interference{at}" for at in range(len(columns) - 3))]
    np.savez(folder / name, **dict(zip([*keys, "t"], columns, strict=True)), **names)


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    alone = [(p, w, 1000 * (1 + p + w)) for p in range(3) for w in range(2)]
    save(tmp_path, "data.npz", alone, n_platform=PLATFORMS, n_workload=PROGRAMS)
    pairs = [(0, 0, 1, 2000), (0, 0, 1, 4000), (0, 0, 1, 1000), (1, 0, 1, 9000), (2, 1, 1, 8000)]
    save(tmp_path, "if2.npz", pairs)
    return tmp_path


def test_one_runtime_becomes_tables_that_run(measured: Path) -> None:
    rows = convert(measured, measured / "out", "fast")
    assert rows == {"isolated.csv": 4, "pairs.csv": 2}
    tables = read_tables(measured / "out")
    assert tables.isolated["lib-a", "hc-1"] == 1e6
    assert tables.pairs["hc-1", "lib-a", "lib-b"] == 5e5, "the median of three"
    assert tables.pairs["hc-2", "lib-b", "lib-b"] == 125_000
    setup = build(load_scenario(f"measured:{measured / 'out'}"), 1, workloads=5)
    assert [server.platform.name for server in setup.servers] == ["hc-1", "hc-2"]


def test_sets_of_three_are_groups(measured: Path) -> None:
    save(measured, "if3.npz", [(0, 0, 1, 0, 5000)])
    assert convert(measured, measured / "out", "fast")["groups.csv"] == 1
    groups = read_tables(measured / "out").groups
    assert groups["hc-1", "lib-a", ("lib-a", "lib-b")] == 2e5


def test_what_is_missing_is_named(measured: Path) -> None:
    with pytest.raises(InvalidInput, match="there are fast, slow"):
        convert(measured, measured / "out", "other")
    (measured / "if2.npz").unlink()
    with pytest.raises(InvalidInput, match=r"if2\.npz.*name the folder data"):
        convert(measured, measured / "out", "fast")
