"""Holds provisionings to what the core relies on.

def test_my_provisioning():
check_provisioning(MyProvisioning())
"""

from dataclasses import replace
from random import Random

from wharfinger.core.seams.provisioning import (
    Order,
    ProvisioningPolicy,
    ProvisioningView,
    Release,
)
from wharfinger.testing.harness import Expecting
from wharfinger.testing.policy import PLATFORMS, copied, is_same, questions


def check_provisioning(provisioning: ProvisioningPolicy, *, rounds: int = 200) -> None:
    """Hold a provisioning to what the core relies on.

    * It releases only servers that were acquired, each once, and orders only with a platform.
    * Each order and release has its reason; the record says the same as the verdict.
    * When it has ordered all that it wants, it wants no more.
    * It wants to be asked again only later than now.
    * The same question has the same answer, and asking changes nothing.

    Args:
        provisioning: Is asked.
        rounds: How many clusters are made up.

    Raises:
        AssertionError: The first promise that is not kept, with the seed of its question.
    """
    for question in questions(rounds):
        random = Random(question.seed)
        expect = Expecting(f"{question}: {provisioning.name}")
        names = list(question.view.names)
        acquired = random.sample(names, random.randrange(len(names) + 1))
        view = ProvisioningView(
            copied(question.view),
            {"guaranteed": random.choice((0, 1, 20)), "best-effort": random.choice((0, 3))},
            {platform: random.choice((0, 1)) for platform in PLATFORMS},
            {name: random.uniform(0, 1000) for name in acquired},
            {platform: 1060.0 for platform in PLATFORMS if random.random() < 0.2},
            1000.0,
        )
        _check(provisioning, view, expect)
        expect(is_same(view.cluster, question.view), "it has changed the cluster")


def _check(provisioning: ProvisioningPolicy, view: ProvisioningView, expect: Expecting) -> None:
    wanted = provisioning.provision(view)
    expect(provisioning.provision(view) == wanted, "answers otherwise, asked again")
    released = [each.server for each in wanted if isinstance(each, Release)]
    expect(set(released) <= view.acquired.keys(), "releases what was not acquired")
    expect(len(set(released)) == len(released), f"releases {released}, some twice")
    for each in wanted:
        decision = each.decision
        expect(decision.decided_by == provisioning.name, f"{decision.decided_by!r}")
        expect(decision.accepted and bool(decision.message), f"{decision}")
    due = provisioning.wake_at(view)
    expect(due is None or due > view.now, f"wakes at {due}, now is {view.now}")
    _check_ends(provisioning, view, expect)


def _check_ends(
    provisioning: ProvisioningPolicy, view: ProvisioningView, expect: Expecting
) -> None:
    """What it wants is ordered and released, again and again."""
    for _ in range(100):
        wanted = provisioning.provision(view)
        if not wanted:
            return
        ordered, acquired = dict(view.ordered), dict(view.acquired)
        for each in wanted:
            if isinstance(each, Order):
                expect(bool(each.platform), "an order without a platform")
                ordered[each.platform] = ordered.get(each.platform, 0) + 1
            else:
                del acquired[each.server]
        view = replace(view, ordered=ordered, acquired=acquired)
    expect(False, "it never has what it wants")
