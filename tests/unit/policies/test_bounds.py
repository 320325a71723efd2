"""A question about a move is answered without a look at servers only where none would pay."""

from dataclasses import replace

import numpy as np
import pytest

from tests.unit.policies.test_quasar import known, place, view_of, wants
from wharfinger.core.seams.contention import Assessment
from wharfinger.model.decisions import Place, Prediction, Term
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Curve, Estimate
from wharfinger.model.view import Request
from wharfinger.policies.placement.bounds import may_pay

INTEGER = SharedResource.INTEGER


@pytest.mark.parametrize("seed", range(60))
def test_no_place_that_pays_is_missed(seed: int) -> None:
    draw = np.random.default_rng(seed)
    cpus = draw.integers(1, 9, 5).tolist()
    noisy = known(caused={INTEGER: float(draw.uniform(0, 90))})
    view = view_of(
        *cpus,
        residents={"s0": [noisy], "s1": [noisy]},
        used={f"s{at}": int(draw.integers(0, 1000 * cpu)) for at, cpu in enumerate(cpus)},
    )
    view = replace(view, platform=np.arange(5) % 3, platforms=("usual", "fast", "slow"))
    estimates = (
        Estimate(100.0 * cpu ** draw.uniform(0, 1), draw.uniform(0, 0.3)) for cpu in (1, 2, 4, 8)
    )
    what = replace(
        known(tolerated={INTEGER: float(draw.uniform(10, 100))}),
        platform="usual",
        platforms={"fast": Estimate(1.6, draw.uniform(0, 0.2)), "slow": Estimate(0.7, 0.1)},
        curves={Quantity.RATE: Curve((1000, 2000, 4000, 8000), tuple(estimates))},
    )
    wanted = wants(float(draw.uniform(50, 1500)))
    plain = place(view, wanted, what)
    assert isinstance(plain, Place)
    predicted = plain.decision.predicted

    def least_of(wanted: Prediction) -> dict[str, float]:
        return {"mean": wanted.mean, "low": wanted.low, "rate": wanted.performance[Term.RATE].low}

    for name, least in least_of(predicted).items():
        found = place(view, wanted, what, pays=lambda p, n=name, x=least: least_of(p)[n] >= x)
        assert found == plain


def test_what_can_pay_nowhere_is_told_before_a_look() -> None:
    view, what = view_of(4, 4), known(std=0.1)
    asked = Request(wants(), classification=what, pays=lambda there: there.mean > 4.001)
    assert not may_pay(asked, view, Assessment(2))
    assert may_pay(replace(asked, pays=lambda there: there.mean > 3.999), view, Assessment(2))


def test_of_what_is_not_known_nothing_is_told() -> None:
    asked = Request(wants(), pays=lambda _: False)
    assert may_pay(asked, view_of(4), Assessment(1))
    assert may_pay(replace(asked, classification=known()), view_of(), Assessment(0))
    service = known(quantity=Quantity.THROUGHPUT)
    assert may_pay(replace(asked, classification=service), view_of(4), Assessment(1))
    assert isinstance(place(view_of(4), wants(), None, pays=lambda _: True), Place)
