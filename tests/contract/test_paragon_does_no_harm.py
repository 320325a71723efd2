"""``paragon`` does no worse than least-loaded and random, and no worse under ``arq``."""

import pytest

from tests.contract.does_no_harm import DoesNoHarm

pytestmark = pytest.mark.long


class TestParagon(DoesNoHarm):
    policy = "paragon"
