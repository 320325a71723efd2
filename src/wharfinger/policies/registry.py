"""Every policy by name. A new one is a file beside this one and a line here."""

from collections.abc import Callable
from dataclasses import dataclass

from wharfinger.contention.combined import Combined
from wharfinger.core.seams.contention import ContentionModel
from wharfinger.errors import InvalidInput
from wharfinger.policies.placement.autoscale import Autoscale
from wharfinger.policies.placement.common import Policy
from wharfinger.policies.placement.feedback import Feedback
from wharfinger.policies.placement.least_loaded import LeastLoaded
from wharfinger.policies.placement.quasar import CONFIDENCE, Quasar, QuasarSettings
from wharfinger.policies.placement.random_choice import RandomChoice
from wharfinger.policies.placement.reservation import Reservation
from wharfinger.policies.placement.round_robin import RoundRobin
from wharfinger.policies.placement.sparrow import Sparrow


@dataclass(frozen=True, slots=True)
class PolicyOptions:
    """What policies may be told.

    Attributes:
        confidence: With which a target must be reached.
        seed: Of policies that draw.
    """

    confidence: float = CONFIDENCE
    seed: int = 0


POLICIES: dict[str, Callable[[PolicyOptions], Policy]] = {
    Quasar.name: lambda options: Quasar(QuasarSettings.sure(options.confidence)),
    LeastLoaded.name: lambda _: LeastLoaded(),
    RoundRobin.name: lambda _: RoundRobin(),
    Feedback.name: lambda _: Feedback(),
    Autoscale.name: lambda _: Autoscale(),
    RandomChoice.name: lambda options: RandomChoice(options.seed),
    Reservation.name: lambda _: Reservation(),
    Sparrow.name: lambda options: Sparrow(options.seed),
}


CONTENTION: dict[str, Callable[[], ContentionModel]] = {Quasar.name: Combined}
"""Of the policies that ask how residents slow one another."""


def contention_of(name: str) -> ContentionModel | None:
    """The contention model that a policy of that name asks; ``None`` = it asks none."""
    return CONTENTION[name]() if name in CONTENTION else None


def make_policy(name: str, options: PolicyOptions | None = None) -> Policy:
    """The policy of that name.

    Raises:
        InvalidInput: There is none.
    """
    if name not in POLICIES:
        raise InvalidInput(f"--policy: {name!r} is not a policy; there are {', '.join(POLICIES)}")
    return POLICIES[name](options or PolicyOptions())
