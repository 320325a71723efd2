"""Every policy and admission in the registries keeps what the core relies on."""

from dataclasses import replace
from pathlib import Path

import pytest

from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.decisions import Place, ReasonCode, Refuse
from wharfinger.model.view import Request, View
from wharfinger.policies.placement.least_loaded import LeastLoaded
from wharfinger.policies.registry import ADMISSIONS, POLICIES, make_policy
from wharfinger.testing import check_admission, check_policy


@pytest.mark.slow
@pytest.mark.parametrize("name", POLICIES)
def test_policy(name: str) -> None:
    check_policy(make_policy(name).placement)


ARQS = (
    "arq[higher=empty]",
    "arq[queues=1]",
    "arq[platforms=any,late=first]",
    "arq[higher=empty,ranges=quantile,queues=3,order=shortest]",
    "arq[quality=caused,objective=max,ranges=quantile]",
)
"""With every value of its settings that decides otherwise than the default."""


@pytest.mark.slow
@pytest.mark.parametrize("name", ADMISSIONS)
def test_admission(name: str) -> None:
    check_admission(make_policy("least-loaded", admission=name).admission)


@pytest.mark.parametrize("name", ARQS)
def test_admission_with_settings(name: str) -> None:
    check_admission(make_policy("least-loaded", admission=name).admission, rounds=40)


class Greedy(LeastLoaded):
    """Gives a server more than it has."""

    def place(self, request: Request, view: View) -> Place | Refuse:
        answer = super().place(request, view)
        if not isinstance(answer, Place):
            return answer
        server = answer.placements[0].server
        return replace(answer, placements=(Placement(server, Allocation(10**9, 1)),))


class Forgetful(LeastLoaded):
    """Looks past what failed to start the workload."""

    def place(self, request: Request, view: View) -> Place | Refuse:
        return super().place(Request(request.workload), view)


class Silent(LeastLoaded):
    """Refuses without a word."""

    def place(self, request: Request, view: View) -> Place | Refuse:
        answer = super().place(request, view)
        return replace(answer, decision=replace(answer.decision, message=""))


class Fickle(LeastLoaded):
    """Says that it waits for one server, and would go to any."""

    def place(self, request: Request, view: View) -> Place | Refuse:
        answer = super().place(request, view)
        full = isinstance(answer, Refuse) and answer.decision.reason is ReasonCode.NO_ROOM
        return replace(answer, waits_for=(view.names[0],)) if full else answer


@pytest.mark.parametrize(
    ("policy", "complaint"),
    [
        (Greedy(), "1000000"),
        (Forgetful(), "excluded"),
        (Silent(), "no message"),
        (Fickle(), "room elsewhere"),
    ],
)
def test_what_breaks_a_promise_is_found(policy: LeastLoaded, complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        check_policy(policy)


def test_every_policy_that_claims_to_do_no_harm_is_held_to_it() -> None:
    claiming = {name for name, bundle in POLICIES.items() if bundle.does_no_harm}
    ending = "_does_no_harm.py"
    files = [file.name for file in Path(__file__).parent.glob(f"test_*{ending}")]
    named = {file.removeprefix("test_").removesuffix(ending) for file in files}
    assert {name.replace("_", "-") for name in named} == claiming
