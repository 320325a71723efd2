"""Policies for tests of the core that put workloads on several servers, and change on which."""

from dataclasses import replace
from typing import Any

from tests.contract.plugins.preempting import Preempting
from wharfinger.core.seams.contention import ContentionModel
from wharfinger.core.seams.estimation import ProfilingPlanner
from wharfinger.core.seams.policy import Policy
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.decisions import Decision, Place, ReasonCode, Refuse, Stage
from wharfinger.model.view import Request, Resize, View
from wharfinger.policies.placement.common import misfit, refuse
from wharfinger.policies.placement.least_loaded import LeastLoaded
from wharfinger.policies.registry import (
    ADAPTATIONS,
    ADMISSIONS,
    Bundle,
    Part,
    bundle_of,
    make_policy,
    split_spec,
)
from wharfinger.simulator.run import UNDER


class Spreading(LeastLoaded):
    """On as many servers as it may; more, other or fewer ones by load, or by pace.

    Args:
        follows_load: By which of the two.
    """

    def __init__(self, *, follows_load: bool) -> None:
        self.name = "spreading-by-load" if follows_load else "spreading-by-pace"

    def place(self, request: Request, view: View) -> Place | Refuse:
        need = request.reserved(view.capabilities)
        names = _others(request, need, view, ())[: _most(request, view)]
        if not names:
            return refuse(self.name, request, need, view)
        return self._plan(Stage.PLACEMENT, tuple(Placement(name, need) for name in names))

    def resize(
        self, request: Request, placements: tuple[Placement, ...], view: View
    ) -> Place | Refuse | None:
        off, load = request.off_target, request.load
        if off is None and load is None:
            return super().resize(request, placements, view)
        short = load > 0.7 if load is not None else off.normalized < 0.7
        spare = load < 0.3 if load is not None else off.normalized > 1
        need = request.reserved(view.capabilities)
        others = [Placement(name, need) for name in _others(request, need, view, placements)[:1]]
        if spare:
            after = (*map(_halved, placements[1:]), placements[0])[: max(1, len(placements) - 1)]
        elif short:
            after = (*placements, *others)
        else:
            after = (*placements[:1], *others)
        able = view.capabilities.resize is Resize.ANY
        if not able or len(after) > _most(request, view) or after == placements:
            return refuse(self.name, request, need, view)
        return self._plan(Stage.ADAPTATION, after)

    def _plan(self, stage: Stage, placements: tuple[Placement, ...]) -> Place:
        message = f"on {len(placements)} servers"
        decision = Decision(stage, self.name, True, ReasonCode.OK, message)
        return Place(placements, decision)


def _halved(placement: Placement) -> Placement:
    held = placement.allocation
    return replace(placement, allocation=replace(held, cpu_millicpus=held.cpu_millicpus // 2))


def _others(
    request: Request,
    need: Allocation,
    view: View,
    placements: tuple[Placement, ...],
) -> list[str]:
    """Servers with room where it is not."""
    here = {placement.server for placement in placements}
    rows = [
        row for row in range(len(view.names)) if misfit(request, need, view, row) is ReasonCode.OK
    ]
    return [view.names[row] for row in rows if view.names[row] not in here]


def _most(request: Request, view: View) -> int:
    most = view.capabilities.max_servers_per_workload
    return min(most, request.workload.scale.max_servers)


EXTRA = {
    Preempting.name: Bundle(Part(Preempting)),
    "spreading-by-load": Bundle(
        Part(lambda: Spreading(follows_load=True)), adaptation="by-load", needs_measurements=True
    ),
    "spreading-by-pace": Bundle(
        Part(lambda: Spreading(follows_load=False)), needs_measurements=True
    ),
}
SPREADING = tuple(name for name in EXTRA if name.startswith("spreading"))


def policy_named(
    name: str,
    planner: ProfilingPlanner | None = None,
    contention: ContentionModel | None = None,
    **settings,
) -> Policy:
    """One of these, or of wharfinger's own, perhaps under another admission (``x + arq``)."""
    own, _, admission = name.partition(UNDER)
    made = make_policy(own, admission=admission, estimation=planner, extra=EXTRA, defaults=settings)
    return replace(made, contention=contention)


def other_settings(name: str) -> dict[str, Any]:
    """Another value than the usual one for every setting of a policy's parts."""
    own, _, admission = name.partition(UNDER)
    bundle = bundle_of(own, EXTRA)
    named = (
        (split_spec(admission, "")[0] or bundle.admission, ADMISSIONS),
        (bundle.adaptation, ADAPTATIONS),
    )
    others = (registry[part] if isinstance(part, str) else part for part, registry in named)
    parts = (bundle.placement, *others)
    usual = {key: value for part in parts for key, value in part.defaults().items()}
    return {key: _another(value) for key, value in usual.items()}


def _another(value: Any) -> Any:
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case float():
            return value / 2 + 0.125
    return f"{value}-other"
