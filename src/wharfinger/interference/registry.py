"""Every form by name. A new one is a file beside this one, and a line here."""

from wharfinger.errors import InvalidInput
from wharfinger.interference.baselines import (
    MULTI_BUBBLE_UP,
    PRODUCT,
    WORST,
    BubbleUp,
    ScaledProduct,
)
from wharfinger.interference.boxcox import BoxCox
from wharfinger.interference.form import Form
from wharfinger.interference.pythia import PythiaRegression

_ALL: tuple[Form, ...] = (
    BubbleUp(),
    MULTI_BUBBLE_UP,
    PRODUCT,
    WORST,
    ScaledProduct(),
    PythiaRegression(),
    BoxCox(),
)
FORMS = {form.name: form for form in _ALL}
DEFAULT_FORM = "box-cox"


def make_form(name: str) -> Form:
    """The form of that name.

    Raises:
        InvalidInput: There is none.
    """
    if name not in FORMS:
        raise InvalidInput(f"unknown model {name!r}; there are {', '.join(FORMS)}")
    return FORMS[name]
