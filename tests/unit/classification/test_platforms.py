"""Performance by platform and allocation: what is compared, and what a policy reads of it."""

from dataclasses import replace

import numpy as np
import pytest

from tests.support.cluster import server, workload
from wharfinger.classification.classifier import Classifier
from wharfinger.classification.platforms import platform_column, ratio_at, split_column
from wharfinger.classification.prediction import change_on, slower, slower_over
from wharfinger.classification.utility import Aspect, UtilityMatrix
from wharfinger.core.seams.contention import Assessment
from wharfinger.core.tables import ServerTable
from wharfinger.model.configuration import Configuration, Setting
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import (
    Classification,
    Curve,
    Entry,
    Estimate,
    Measurements,
    SettingEntry,
)
from wharfinger.model.view import Capabilities, Request
from wharfinger.model.workload import Target
from wharfinger.policies.placement.sizing import size

CPUS = (1000, 2000, 4000)
LARGEST = {"big": 4000, "small": 1000, "narrow": 4000}
"""By platform; ``narrow`` gains nothing beyond one CPU, and the others as the program does."""


def rate(level: float, exponent: float, speed: float, platform: str, cpu: int) -> float:
    used = min(cpu, 1000) if platform == "narrow" else cpu
    return level * (used / 1000) ** exponent * (speed if platform != "big" else 1.0)


def trained() -> Classifier:
    rng = np.random.default_rng(0)
    rows, by_cpu = {}, {}
    for n in range(24):
        drawn = np.exp(rng.normal(0, 1.0)), rng.uniform(0.5, 1.0), np.exp(rng.normal(-0.5, 0.3))
        rows[f"p{n}"] = {
            platform_column(platform, cpu): rate(*drawn, platform, cpu)
            for platform, most in LARGEST.items()
            for cpu in CPUS
            if cpu <= most
        }
        by_cpu[f"p{n}"] = {Configuration(cpu).name: rate(*drawn, "big", cpu) for cpu in CPUS}
    matrices = {Aspect.HETEROGENEITY: rows, Aspect.SCALE_UP: by_cpu}
    return Classifier({kind: UtilityMatrix.of(kind, each) for kind, each in matrices.items()})


def classified(speed: float = 0.5, exponent: float = 0.9) -> Classification:
    """Measured with four CPUs and one, and on the small platform with the one that it has."""
    here = {cpu: Entry(rate(7.0, exponent, speed, "big", cpu), 0.03) for cpu in (4000, 1000)}
    there = Entry(rate(7.0, exponent, speed, "small", 1000), 0.03)
    small = SettingEntry(Setting("small", Configuration(1000)), there)
    return trained().classify(
        Measurements({Quantity.RATE: here}, platform="big", further={Quantity.RATE: (small,)})
    )


def test_a_small_platform_is_compared_with_what_it_has():
    """As whole servers it would be slower by its CPUs, too, and again by the curve."""
    found = classified()
    with_one = found.curves[Quantity.RATE].at(1000).mean * found.platforms["small"].mean
    assert with_one == pytest.approx(rate(7.0, 0.9, 0.5, "small", 1000), rel=0.1)
    assert list(found.by_allocation["small"]) == [1000]
    assert "big" not in found.by_allocation


@pytest.mark.parametrize("exponent", [0.6, 0.9])
def test_a_ratio_is_of_the_allocation_that_would_be_given(exponent):
    found = classified(exponent=exponent)
    curve = found.curves[Quantity.RATE]
    for cpu in CPUS:
        predicted = curve.at(cpu).mean * change_on(found, "narrow", cpu).mean
        assert predicted == pytest.approx(rate(7.0, exponent, 0.5, "narrow", cpu), rel=0.15)


def test_one_ratio_stands_for_all_allocations_where_no_more_is_known():
    known = Classification("hand", "1", platform="here", platforms={"there": Estimate(0.5, 0.1)})
    assert change_on(known, "there", 4000) == change_on(known, "there") == Estimate(0.5, 0.1)
    assert change_on(known, "here", 4000) == Estimate(1.0, 0.0)
    assert change_on(known, "strange").std > 0.3
    platforms = ["here", "there", "strange"]
    drop, variance = slower_over(known, platforms, CPUS)
    for at in range(len(CPUS)):
        assert drop[:, at].tolist() == slower(known, platforms)[0].tolist()
        assert variance[:, at].tolist() == slower(known, platforms)[1].tolist()
    by_allocation = {"there": {1000: Estimate(0.5, 0.1), 4000: Estimate(0.2, 0.2)}}
    known = replace(known, by_allocation=by_allocation)
    drop, variance = slower_over(known, platforms, [500, 2000, 9000])
    assert np.exp(-drop[1]) == pytest.approx([0.5, 0.1**0.5, 0.2])
    assert np.sqrt(variance[1]) == pytest.approx([0.1, 0.15, 0.2])
    assert slower(known, platforms, 4000)[0][1] == pytest.approx(-np.log(0.2))
    assert ratio_at(by_allocation["there"], 2000).mean == pytest.approx(0.1**0.5)


@pytest.mark.parametrize("name", ["m1.large", "a@b", "x@m", "x@0m", "x@1.5m", "@"])
def test_a_name_without_an_allocation_is_a_platform(name):
    assert split_column(name) == (name, None)


def test_a_server_gets_what_its_platform_needs_with_that_size():
    """A platform that gains nothing from CPU beyond one does not reach twice its rate with two."""
    curve = Curve(CPUS, (Estimate(100.0, 0.0), Estimate(200.0, 0.0), Estimate(400.0, 0.0)))
    narrow = {1000: Estimate(1.0, 0.0), 2000: Estimate(0.5, 0.0), 4000: Estimate(0.25, 0.0)}
    known = Classification(
        "hand",
        "1",
        {Quantity.RATE: curve},
        platform="big",
        platforms={"narrow": Estimate(1.0, 0.0)},
        by_allocation={"narrow": narrow},
    )
    table = ServerTable()
    for name in ("big", "narrow"):
        there = server(name, 4)
        table.put(replace(there, platform=replace(there.platform, name=name)))
    view = table.view(Capabilities())
    for wanted, reached, cpus in ((100.0, [True, True], [1000, 1000]), (180.0, [True, False], [])):
        asked = replace(workload("w"), target=Target(rate_per_second=wanted))
        found = size(Request(asked, classification=known), view, Assessment(2))
        assert found is not None
        assert found.reached.tolist() == reached
        assert not cpus or found.cpu_millicpus.tolist() == cpus
        pace = found.normalized_on(1).mean
        assert pace == pytest.approx(100.0 / wanted, rel=0.02)
