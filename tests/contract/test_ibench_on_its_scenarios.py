"""``ibench`` does no worse than least-loaded on chapter 5's scenarios in ``overcommitted``.

As ``does_no_harm``, of one baseline, all three scenarios together. Where platforms differ it knows
nothing of them; in ``moderate`` it does worse on ``ibench-hadoop`` (docs/policies.md).
"""

import pytest

from tests.contract.does_no_harm import IBENCHS
from tests.support.harm import SURE, Case, fates, shortfall

pytestmark = pytest.mark.long

CASES = [Case(name, "overcommitted", 40) for name in sorted(IBENCHS)]


@pytest.mark.parametrize("key", ["kept", "performance"])
def test_it_is_no_worse_than_least_loaded(key: str) -> None:
    own = [fates(case, "ibench", seed) for case in CASES for seed in case.seeds]
    other = [fates(case, "least-loaded", seed) for case in CASES for seed in case.seeds]
    short = shortfall(own, {"least-loaded": other}, key)
    assert short.probability < SURE, f"{short.mean:.3f} \u00b1 {short.error:.3f} worse in {key}"
