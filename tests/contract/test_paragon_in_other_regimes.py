"""``paragon`` does no worse than least-loaded and random in the regimes other than `moderate`.

Nor does it under ``arq``. (Under ``quasar`` that decides nearly as the order of arrival: 0113.)
"""

import pytest

from tests.contract.does_no_harm import KEYS, QUEUED_ELSEWHERE, InOtherRegimes, check_arq

pytestmark = pytest.mark.long


class TestParagon(InOtherRegimes):
    policy = "paragon"

    @pytest.mark.parametrize("key", KEYS)
    def test_arq_is_no_worse_on_the_local_clusters(self, key: str) -> None:
        check_arq(QUEUED_ELSEWHERE[self.policy], self.policy, key)
