"""How noise is treated where a policy is held to doing no harm."""

import numpy as np
import pytest

from tests.support.harm import Fates, shortfall


def runs(*kept: float) -> list[Fates]:
    return [Fates(np.array(kept), np.array(kept), ())]


def test_harm_is_told_from_chance() -> None:
    own, better = runs(0.0, 0.0, 1.0, 0.0), runs(0.0, 1.0, 1.0, 0.0)
    few = shortfall(own, {"least-loaded": better, "random": runs(0, 0, 0, 0)}, "kept")
    assert (few.under, few.mean) == ("least-loaded", 0.25)
    assert few.error == pytest.approx(0.25)
    assert 0.8 < few.probability < 0.85
    many = shortfall(own * 50, {"least-loaded": better * 50}, "kept")
    assert many.probability > 0.999


def test_one_point_is_allowed() -> None:
    own, better = runs(0.5, 0.5), runs(0.51, 0.51)
    assert shortfall(own, {"random": better}, "performance").probability == 0.0
    assert shortfall(own, {"random": runs(0.6, 0.6)}, "performance").probability == 1.0
    assert shortfall(runs(), {"random": runs()}, "kept").probability == 0.0
