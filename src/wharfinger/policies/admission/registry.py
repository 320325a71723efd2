"""Every admission by name. A new one is a file beside this one and a line here."""

from collections.abc import Callable

from wharfinger.errors import InvalidInput
from wharfinger.policies.admission.admission import Admission
from wharfinger.policies.admission.fifo import Fifo

ADMISSIONS: dict[str, Callable[[], Admission]] = {Fifo.name: Fifo}


def make_admission(name: str) -> Admission:
    """The admission of that name.

    Raises:
        InvalidInput: There is none.
    """
    if name not in ADMISSIONS:
        raise InvalidInput(
            f"--admission: {name!r} is not an admission; there are {', '.join(ADMISSIONS)}"
        )
    return ADMISSIONS[name]()
