"""``paragon`` does no worse than least-loaded and random in the regimes other than `moderate`."""

import pytest

from tests.contract.does_no_harm import InOtherRegimes

pytestmark = pytest.mark.long


class TestParagon(InOtherRegimes):
    policy = "paragon"
