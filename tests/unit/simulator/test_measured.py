"""Rates are what was measured, and beyond that what the stated rules say."""

from pathlib import Path

import numpy as np
import pytest

from tests.support.measured_tables import ISOLATED, PAIRS, write_tables
from wharfinger.simulator.truth.ground_truth import TrueResident
from wharfinger.simulator.truth.measured import Measured, Rule, log_additive
from wharfinger.simulator.truth.tables import read_tables

SCALE_OUT = """workload,platform,scale,performance
a,fast,2,16
a,fast,8,32
b,fast,1,40
b,fast,2,60
b,fast,4,0
"""


def truth(folder: Path, *, rule: Rule = Rule.PRODUCT, **tables: str) -> Measured:
    return Measured(read_tables(write_tables(folder, **tables)), rule=rule, unit="steps")


def some(*names: str, cpu: float = 1000, servers: int = 1) -> list[TrueResident]:
    return [TrueResident(name, cpu, 1, servers=servers) for name in names]


def test_alone_and_in_pairs_it_is_what_was_measured(tmp_path: Path):
    measured = truth(tmp_path)
    assert measured.rates("fast", some("a")) == [10]
    assert measured.rates("fast", some("a", "b")) == [8, 10]
    assert measured.rates("slow", some("b", "a")) == [15, 3]
    assert measured.rates("fast", some("a", "a")) == [5, 5]
    assert measured.most("slow", "a") == 4
    assert measured.references == ("a", "b", "c")
    assert measured.unit == "steps"
    assert measured.rates("fast", []) == []


def test_several_slow_one_another_by_the_product_of_pairs(tmp_path: Path):
    assert truth(tmp_path).rates("fast", some("a", "a", "b")) == pytest.approx([4, 4, 5])


def test_or_as_the_worst_of_them_does(tmp_path: Path):
    worst = truth(tmp_path, rule=Rule.WORST)
    assert worst.rates("fast", some("a", "a", "b")) == pytest.approx([5, 5, 10])
    assert worst.rates("fast", some("a")) == [10]


def test_a_group_that_was_measured_is_as_measured_in_any_order(tmp_path: Path):
    groups = "platform,workload,beside,performance\nfast,a,b + a,3\nfast,b,a + a,7\n"
    measured = truth(tmp_path, groups=groups)
    assert measured.rates("fast", some("b", "a", "a")) == pytest.approx([7, 3, 3])
    assert measured.rates("fast", some("a", "b")) == [8, 10]


def test_with_less_than_a_cpu_less_is_done_and_disturbed(tmp_path: Path):
    measured = truth(tmp_path)
    assert measured.rates("fast", some("a", cpu=250)) == [2.5]
    assert measured.rates("fast", some("a", cpu=4000)) == [10]
    half = [*some("a"), *some("b", cpu=500)]
    assert measured.rates("fast", half) == pytest.approx([10 * 0.8**0.5, 20 * 0.5 * 0.5])
    idle = [*some("a"), *some("b", cpu=0)]
    assert measured.rates("fast", idle) == [10, 0]


def test_several_servers_do_together_what_was_measured(tmp_path: Path):
    measured = truth(tmp_path, scale_out=SCALE_OUT)

    def total(name: str, servers: int) -> float:
        (one,) = measured.rates("fast", some(name, servers=servers))
        return one * servers

    assert total("a", 2) == pytest.approx(16)
    assert total("a", 4) == pytest.approx((16 * 32) ** 0.5)
    assert total("a", 8) == pytest.approx(32)
    assert total("a", 100) == pytest.approx(32)
    assert total("b", 2) == pytest.approx(30), "relative to one server in the same table"
    assert total("c", 4) == pytest.approx(5), "what was never scaled out gains nothing"
    assert measured.alone("fast", some("a", servers=2)[0]) == pytest.approx(8)


def test_what_does_not_fit(tmp_path: Path):
    measured = truth(tmp_path, scale_out=SCALE_OUT)
    assert not measured.fits("fast", some("b", "c"))
    assert not measured.fits("fast", some("c", "a", "b"))
    assert measured.fits("fast", some("c", "a"))
    assert not measured.fits("slow", some("c"))
    assert not measured.fits("slow", some("a", "c"))
    assert measured.rates("slow", some("a", "c")) == [0, 0]
    assert not measured.fits("fast", some("b", servers=4))
    assert measured.fits("fast", some("b", servers=2))


def test_a_group_that_does_not_fit_nor_does_with_more(tmp_path: Path):
    groups = "platform,workload,beside,performance\nfast,a,a + a,0\n"
    measured = truth(tmp_path, groups=groups)
    assert measured.fits("fast", some("a", "a"))
    assert not measured.fits("fast", some("a", "a", "a"))
    assert not measured.fits("fast", some("a", "b", "a", "a"))


def test_pairs_that_were_not_measured_are_filled_and_counted(tmp_path: Path):
    fewer = PAIRS.replace("fast,a,b,8\n", "").replace("slow,a,b,3\n", "")
    measured = truth(tmp_path, pairs=fewer)
    assert measured.filled_pairs == 2
    rate, other = measured.rates("fast", some("a", "b"))
    assert 0 < rate <= 10
    assert other == 10
    assert measured.fits("fast", some("a", "b"))


def test_an_estimator_may_be_given(tmp_path: Path):
    fewer = PAIRS.replace("fast,a,b,8\n", "")
    tables = read_tables(write_tables(tmp_path, pairs=fewer))
    quarter = Measured(tables, fill=lambda ratios: np.where(np.isnan(ratios), 0.25, ratios))
    assert quarter.rates("fast", some("a", "b")) == [2.5, 10]
    assert quarter.filled_pairs == 1
    assert not quarter.fits("fast", some("b", "c")), "what was seen not to fit stays so"


def test_a_hole_in_the_isolated_table_is_filled_and_counted(tmp_path: Path):
    pairs = "".join(line for line in PAIRS.splitlines(True) if not line.startswith("slow"))
    measured = truth(tmp_path, isolated=ISOLATED.replace("a,slow,4\n", ""), pairs=pairs)
    assert measured.filled_isolated == 1
    assert measured.most("slow", "a") > 0
    assert measured.filled_pairs == 4, "the whole other platform, but for what does not fit there"


def test_effects_are_found_from_a_few_pairs():
    random = np.random.default_rng(3)
    minds, disturbs = random.uniform(-0.5, 0, 12), random.uniform(-0.5, 0, 12)
    whole = np.exp(minds[None, :, None] + disturbs[None, None, :])
    seen = np.where(random.random(whole.shape) < 0.5, whole, np.nan)
    filled = log_additive(seen)
    np.testing.assert_array_equal(filled[~np.isnan(seen)], seen[~np.isnan(seen)])
    error = np.abs(np.log(filled / whole))[np.isnan(seen)]
    assert error.mean() < 0.06 < np.abs(np.log(whole)).std()


def test_answers_do_not_hang_on_earlier_questions_nor_on_who_holds_them(tmp_path: Path):
    measured = truth(tmp_path)
    first = measured.rates("fast", some("a", "b"))
    first[0] = -1
    assert measured.rates("fast", some("a", "b")) == [8, 10]
