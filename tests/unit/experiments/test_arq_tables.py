"""ARQ's Figure 2 and the dissertation's Tables 6.2 and 6.3: small runs, and the arithmetic."""

from dataclasses import replace
from math import inf
from pathlib import Path

import numpy as np
import pytest

from tests.support.pictures import shows_data
from tests.support.simulated_runs import fate
from wharfinger.experiments import arq_figure2
from wharfinger.experiments.arq_figure2 import ARQ_FIGURE2, TIMES, BusyEnd, ClassEntry, QueueWatch
from wharfinger.experiments.arq_figures import LOCAL
from wharfinger.experiments.arq_tables import (
    ARQ_TABLE62,
    ARQ_TABLE63,
    HIGH,
    LEAST_DEVIATION,
    LOW,
    PRIORITY,
    STATISTICS,
    kept,
    of_priority,
    priorities,
    shortest,
    stated,
)
from wharfinger.experiments.base import Arguments, Context
from wharfinger.experiments.workspace import Workspace
from wharfinger.simulator.results.outcome import Outcome
from wharfinger.simulator.run import run_in_turn
from wharfinger.simulator.scenario.scenario_files import load_scenario, read_scenario
from wharfinger.simulator.truth.physics.regimes import REGIMES

TABLES = (ARQ_TABLE62, ARQ_TABLE63)


def outcome(**performances: float) -> Outcome:
    """Each took 100 s, so that its performance is its ideal time over 100 s."""
    fates = tuple(fate(name.replace("_", "-"), each) for name, each in performances.items())
    return Outcome("scenario", "policy", "fifo", 0, {}, fates)


# --- tables ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES, ids=lambda each: each.name)
def test_a_small_run_has_every_measure_and_picture(table, tmp_path: Path):
    pytest.importorskip("matplotlib")
    small = replace(table, scenarios=())
    arguments = Arguments(repeats=1, servers=8, workloads=10, regime="moderate")
    result = small.run(Context(run_in_turn, arguments, Workspace(tmp_path), processes=1))
    assert len(result.rows) == len(table.policies) * len(table.measures)
    missing = {row.name for row in result.rows if row.measured is None}
    assert all(name.endswith("/sd") for name in missing), missing
    for draw in result.pictures.values():
        assert shows_data(draw())


def test_deviations_are_ranked_by_ideal_time():
    of_four = outcome(a=0.8, b=0.5, c=0.4, d=1.0)
    assert shortest(5, of_four) == [1.5]
    assert shortest(50, of_four) == [1.5, 1.0]
    assert shortest(100, of_four) == pytest.approx([1.5, 1.0, 0.25, 0.0])
    assert shortest(100, outcome(a=0.0)) == []


def test_the_harmonic_mean_has_a_floor():
    assert STATISTICS["hmean"]([0.0, -0.1]) == pytest.approx(LEAST_DEVIATION)
    assert STATISTICS["hmean"]([0.1, 0.3]) == pytest.approx(0.15)
    assert STATISTICS["mean"]([-0.1, 0.3]) == pytest.approx(0.1)
    assert STATISTICS["sd"]([0.1]) is None


def test_workloads_are_told_apart_by_priority():
    of_three = outcome(high_mix_1=0.8, mix_1=0.5, mix_2=1.0)
    assert of_priority(HIGH, of_three) == pytest.approx([0.25])
    assert of_priority(LOW, of_three) == pytest.approx([1.0, 0.0])
    assert kept(HIGH, of_three) == 1.0
    assert kept(LOW, of_three) == 0.5


def test_scenarios_are_the_shipped_one_but_for_what_they_add():
    shipped = load_scenario(LOCAL)
    told = read_scenario(stated(), source="stated", directory=Path("/"))
    assert replace(told, population=shipped.population) == shipped
    assert [replace(each, expects_duration=None) for each in told.population] == list(
        shipped.population
    )
    ranked = read_scenario(priorities(), source="priorities", directory=Path("/"))
    assert replace(ranked, population=shipped.population) == shipped
    high = [each for each in ranked.population if each.priority == PRIORITY]
    assert len(high) == len(shipped.population) == len(ranked.population) / 2
    assert all(each.name.startswith(f"{HIGH}-") for each in high)
    assert sum(each.share for each in high) / sum(e.share for e in ranked.population) == 0.2


# --- figure 2 -------------------------------------------------------------------------------


def entry(predicted: float | None, placed_after: float, at: int = 9) -> ClassEntry:
    free = np.minimum(TIMES / 100, 1.0)
    return ClassEntry("job", at, 1000.0, 50.0, predicted, free, 1000.0 + placed_after)


def test_waits_are_over_slack_from_its_end_on():
    assert entry(0.1, 50.0).over
    assert entry(0.1, inf).over
    assert not entry(0.1, 49.0).over
    assert not entry(0.1, 0.0).waited


def test_calibration_counts_what_was_predicted():
    entries = [entry(0.1, 0.0), entry(0.1, 60.0), entry(0.9, 60.0), entry(None, 60.0)]
    found = dict(arq_figure2.calibration(entries))
    assert found["unknown/n"] == 1
    assert (found["all/n"], found["all/observed"]) == (3, 2)
    assert found["all/expected"] == pytest.approx(1.1)
    assert found["waiting/n"] == 2
    assert (found["0.05-0.15/n"], found["0.05-0.15/observed"]) == (2, 0.5)
    assert (found["0-0.2/predicted"], found["0.8-1/predicted"]) == pytest.approx((0.1, 0.9))
    assert "0.4-0.6/predicted" not in found


def test_a_server_is_free_when_one_of_its_pools_is():
    ends = [BusyEnd(1010.0, 10.0, 9, 3), BusyEnd(1040.0, 3000.0, 9, 9)]
    entries = [entry(0.1, 70.0), entry(0.1, 60.0, at=2)]
    numbers = arq_figure2.found(QueueWatch(9, entries, ends, [5.0], [10.0, 3000.0])).numbers
    assert numbers["free/highest/seconds-60%/predicted"] == 60
    assert numbers["free/highest/seconds-60%/a-server-freed"] == 40
    assert numbers["free/highest/seconds-60%/placed"] == 70
    assert numbers["busy/pool/by-2700s"] == 0.5
    assert numbers["busy/class/n"] == 1


@pytest.mark.long
def test_a_small_run_has_entries_ends_and_pictures():
    pytest.importorskip("matplotlib")
    seen = arq_figure2.watch(REGIMES["moderate"], 1, workloads=60)
    assert len(seen.ends) == len(seen.of_all) == 60
    assert sorted(each.seconds for each in seen.ends) == pytest.approx(sorted(seen.of_all))
    assert all(0 <= each.to_pool <= seen.highest for each in seen.ends)
    assert any(each.predicted is not None for each in seen.entries)
    findings = arq_figure2.found(seen)
    assert set(findings.numbers) >= {"busy/pool/by-2700s", "wait/all/n", "wait/unknown/n"}
    for picture in ARQ_FIGURE2.pictures:
        panels = findings.drawn[picture.name]
        assert shows_data(picture.draw(panels, picture.title, **picture.options))
