"""Quasar's answers where interference is known between pairs, beside numbers worked by hand."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.support.cluster import MIB, server, workload
from tests.support.exact_profiles import exact_profiles
from wharfinger.contention.by_pair import ByPair
from wharfinger.core.seams.contention import Resident
from wharfinger.core.seams.verdicts import WaitUntil
from wharfinger.core.tables import ServerTable
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.decisions import Place, Prediction, ReasonCode, Refuse
from wharfinger.model.pairs import PairProfile
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Classification, Curve, Estimate
from wharfinger.model.view import Capabilities, OffTarget, Request, View
from wharfinger.model.workload import Target, Workload
from wharfinger.policies.placement.quasar import Quasar, QuasarSettings
from wharfinger.policies.placement.sizing import SizingSettings

NAMES = ["gentle", "harsh", "large"]
RELATIVE = np.array(
    # beside gentle, harsh, large
    [
        [0.97, 0.8, 0.9],
        [0.9, 0.5, 0.9],
        [0.9, 0.9, 0.0],
    ]
)
PROFILES = exact_profiles("b", NAMES, RELATIVE)
WHOLE = Capabilities(fractional_cpu=False)


def known(name: str, *, doubt: float = 0.0, **platforms: float) -> Classification:
    """100/s with one CPU, and no more with more."""
    curve = Curve((1000,), (Estimate(100.0, doubt),))
    return Classification(
        "hand",
        "1",
        {Quantity.RATE: curve},
        platform="test",
        platforms={name: Estimate(share, 0.0) for name, share in platforms.items()},
        pairs={"": PROFILES[name]},
    )


def wants(rate: float, **others) -> Workload:
    return replace(workload("w"), target=Target(rate_per_second=rate), tolerance=0.05, **others)


def view_of(*residents: Sequence[tuple[str, float]], slots: int = 2) -> View:
    """Servers s0, s1, ...; each resident by its kind and its pace alone."""
    table = ByPair().table()
    columns = ServerTable(table)
    for row, there in enumerate(residents):
        columns.put(server(f"s{row}", slots))
        columns.hold(Placement(f"s{row}", Allocation(1000, MIB)) for _ in there)
        alone = [Prediction(pace, pace, pace, 0.8, alone=pace, alone_std=0.0) for _, pace in there]
        table.put(
            row,
            "test",
            [
                Resident(f"{kind}{row}", uid, known(kind), False, 0.05, alone[uid])
                for uid, (kind, _) in enumerate(there)
            ],
        )
    return columns.view(WHOLE)


def place(
    view: View,
    wanted: Workload,
    what: Classification,
    waited: float = 0.0,
    confidence: float = 0.8,
    **own,
):
    request = Request(wanted, classification=what, waited_seconds=waited)
    settings = QuasarSettings(SizingSettings(confidence), **own)
    return Quasar(settings).place(request, view)


def server_of(answer: Place | Refuse) -> str:
    assert isinstance(answer, Place), answer.decision.message
    return answer.placements[0].server


def numbers(answer: Place | Refuse, name: str) -> dict[str, float]:
    return dict(next(c.numbers for c in answer.decision.candidates if c.server == name))


def test_it_goes_where_both_keep_their_targets():
    # Beside harsh it would come to 0.8, and harsh (alone at 1.0) to 0.9 of what it should.
    view = view_of([("harsh", 1.0)], [("gentle", 1.0)])
    answer = place(view, wants(100.0), known("gentle"))
    assert server_of(answer) == "s1"
    found = numbers(answer, "s1")
    assert found["performance_beside_residents"] == pytest.approx(0.97)
    assert found["worst_resident_predicted_pace"] == pytest.approx(0.97)
    assert answer.decision.predicted.mean == pytest.approx(0.97)
    assert answer.decision.predicted.alone == pytest.approx(1.0)
    harmed = numbers(answer, "s0")["interference_beyond_tolerated"]
    assert harmed == pytest.approx(100 * ((1 - 0.8 / 0.95) + (1 - 0.9 / 0.95)))


def test_of_several_it_goes_where_the_least_performance_is_lost():
    # A target that leaves room everywhere: 0.8 * 0.9 are left with harsh, 0.97 * 0.97 with gentle.
    view = view_of([("harsh", 2.0)], [("gentle", 2.0)], [])
    assert server_of(place(view, wants(50.0), known("gentle"))) == "s2"
    assert (
        server_of(
            place(view_of(*[[("harsh", 2.0)], [("gentle", 2.0)]]), wants(50.0), known("gentle"))
        )
        == "s1"
    )


def test_it_waits_rather_than_cost_a_resident_its_target():
    view = view_of([("gentle", 1.0)])
    answer = place(view, wants(50.0), known("harsh"))
    assert isinstance(answer, WaitUntil)
    assert answer.decision.reason is ReasonCode.INTERFERENCE
    assert "gentle0 would come to 80% of its target" in answer.decision.message


def test_it_does_not_wait_for_the_sake_of_its_own_target():
    """Nothing says that a better place would be free before waiting costs the target, too."""
    assert server_of(place(view_of([("harsh", 2.0)]), wants(100.0), known("harsh"))) == "s0"
    view = view_of([("large", 2.0), ("large", 2.0)], [])
    view = replace(view, platform=np.array([0, 1]), platforms=("test", "slow"))
    what = known("gentle", slow=0.5)
    assert server_of(place(view, wants(100.0), what)) == "s1"
    assert server_of(place(view, wants(50.0), what)) == "s1"


def test_what_is_borne_grows_with_how_long_it_has_waited():
    """One target is lost, nearly surely: it is borne after a minute, its whole patience."""
    view = view_of([("gentle", 1.0)])
    early = place(view, wants(50.0), known("harsh"), 58.0)
    assert isinstance(early, WaitUntil)
    assert early.time == pytest.approx(2.0, abs=0.5), "it is asked again then, whatever happens"
    answer = place(view, wants(50.0), known("harsh"), 60.0)
    assert server_of(answer) == "s0"
    assert (
        "on every server a workload is slowed beyond what it tolerates" in answer.decision.message
    )
    assert "gentle0 would come to 80% of its target" in answer.decision.message
    assert server_of(place(view, wants(50.0), known("harsh"), patience_seconds=0.0)) == "s0"


def test_nobody_waits_longer_than_its_own_target_bears():
    """A tolerance of 5% of 100 s: a resident's target is borne after 5 s, not 60."""
    view = view_of([("gentle", 1.0)])
    brief = wants(50.0, expected_seconds=100.0)
    assert isinstance(place(view, brief, known("harsh"), 4.8), WaitUntil)
    assert server_of(place(view, brief, known("harsh"), 5.0)) == "s0"


def test_two_that_do_not_fit_are_never_put_together():
    view = view_of([("large", 1.0)])
    for patience in (0.0, 3600.0):
        answer = place(view, wants(50.0), known("large"), 1e9, patience_seconds=patience)
        assert isinstance(answer, Refuse)
        assert answer.decision.reason is ReasonCode.DOES_NOT_FIT
        assert numbers(answer, "s0")["unfit_probability"] == 1.0
    best_effort = workload("b", best_effort=True)
    refused = place(view, best_effort, known("large"))
    assert isinstance(refused, Refuse)
    assert refused.decision.reason is ReasonCode.DOES_NOT_FIT
    assert server_of(place(view_of([("large", 1.0)], []), wants(50.0), known("large"))) == "s1"


def test_a_doubt_whether_they_fit_is_a_risk_among_others():
    risky = replace(PROFILES["large"], excluded=(0.0, 0.0, 0.3))
    what = replace(known("gentle"), pairs={"": risky})
    answer = place(view_of([("large", 3.0)], [("gentle", 3.0)]), wants(50.0), what)
    assert server_of(answer) == "s1"
    lost = numbers(answer, "s0")["residents_targets_lost"]
    assert lost - numbers(answer, "s1")["residents_targets_lost"] == pytest.approx(0.3, abs=0.01)
    assert server_of(place(view_of([("large", 3.0)]), wants(50.0), what)) == "s0"


def test_best_effort_work_stays_away_from_those_whom_it_would_cost_their_target():
    wanted = workload("b", best_effort=True)
    assert isinstance(place(view_of([("gentle", 1.0)]), wanted, known("harsh")), Refuse)
    assert server_of(place(view_of([("gentle", 1.2)]), wanted, known("harsh"))) == "s0"


def test_more_cpu_makes_up_for_neighbours_where_it_can():
    curve = Curve((1000, 2000), (Estimate(100.0, 0.0), Estimate(200.0, 0.0)))
    what = replace(known("gentle"), curves={Quantity.RATE: curve})
    answer = place(view_of([("harsh", 1.3)], slots=4), wants(100.0), what)
    assert server_of(answer) == "s0"
    assert answer.placements[0].allocation.cpu_millicpus == 2000
    assert answer.decision.predicted.mean == pytest.approx(2 * 0.8)


def test_what_is_not_known_by_pairs_goes_as_ever():
    view = view_of([("harsh", 1.0)], [])
    what = replace(known("gentle"), pairs={})
    with_pairs = place(view, wants(100.0), what)
    assert with_pairs == place(replace(view, contention=None), wants(100.0), what)
    unrelated = replace(what, pairs={"": PairProfile("other", (9.0,), (9.0,))})
    assert server_of(place(view, wants(100.0), unrelated)) == server_of(with_pairs)


def test_a_resized_workload_s_pace_alone_is_what_it_does_and_its_neighbours_take():
    curve = Curve((500, 1000), (Estimate(50.0, 0.0), Estimate(100.0, 0.0)))
    what = replace(known("gentle"), curves={Quantity.RATE: curve})
    view = view_of([("gentle", 1.0), ("harsh", 1.0)], slots=4)
    view = replace(view, capabilities=Capabilities())
    off = OffTarget(0.6, 20.0, 0.5)
    request = Request(wants(100.0), off_target=off, classification=what)
    plan = Quasar().resize(request, (Placement("s0", Allocation(500, MIB)),), view)
    assert isinstance(plan, Place)
    predicted = plan.decision.predicted
    # Twice the CPU does twice as much beside harsh, who leaves it 0.8.
    assert predicted.alone == pytest.approx(predicted.mean / 0.8)
