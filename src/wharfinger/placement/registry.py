"""Every policy by name. A new one is a file beside this one and a line here."""

from collections.abc import Callable

from wharfinger.errors import InvalidInput
from wharfinger.placement.base import Policy
from wharfinger.placement.feedback import Feedback
from wharfinger.placement.least_loaded import LeastLoaded
from wharfinger.placement.quasar import Quasar
from wharfinger.placement.round_robin import RoundRobin

POLICIES: dict[str, Callable[[], Policy]] = {
    LeastLoaded.name: LeastLoaded,
    RoundRobin.name: RoundRobin,
    Feedback.name: Feedback,
    Quasar.name: Quasar,
}


def make_policy(name: str) -> Policy:
    """The policy of that name.

    Raises:
        InvalidInput: There is none.
    """
    if name not in POLICIES:
        raise InvalidInput(f"--policy: {name!r} is not a policy; there are {', '.join(POLICIES)}")
    return POLICIES[name]()
