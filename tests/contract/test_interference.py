"""Every form of the interference model keeps the promises of ``check_interference``."""

import pytest

from wharfinger.interference.registry import FORMS
from wharfinger.testing import check_interference


@pytest.mark.parametrize("name", FORMS)
def test_a_form_keeps_its_promises(name: str):
    check_interference(FORMS[name], measures_singles=name != "bubble-up")
