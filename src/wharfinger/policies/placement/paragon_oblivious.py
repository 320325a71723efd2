"""Paragon with one eye closed: the baselines of its comparison (Paragon, TOCS 5 and 6.1)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wharfinger.classification.prediction import slower
from wharfinger.core.seams.estimation import ProfilingNeeds
from wharfinger.model.allocation import Allocation
from wharfinger.model.decisions import CANDIDATES_KEPT, Place, Refuse
from wharfinger.model.view import Request, View
from wharfinger.policies.placement.common import ByReservation, candidates, plan, refuse
from wharfinger.policies.placement.paragon import (
    Paragon,
    ParagonSettings,
    PlacementQuestion,
    SelectionRule,
    places_of,
    with_room,
)
from wharfinger.policies.placement.random_choice import in_random_order


@dataclass(frozen=True, slots=True)
class HeterogeneityObliviousSettings:
    """Settings of the policy that knows no platforms.

    Attributes:
        confidence: With which no workload is slowed beyond what it tolerates; 0.5 = as published.
        seed: Of the order in which platforms are tried, drawn for each workload.
    """

    confidence: float = 0.8
    seed: int = 0


class HeterogeneityOblivious(Paragon):
    """Neighbors that suit it, on a platform drawn among those where there are some (NH)."""

    name = "heterogeneity-oblivious"

    def __init__(self, settings: HeterogeneityObliviousSettings | None = None) -> None:
        own = settings or HeterogeneityObliviousSettings()
        paragon = ParagonSettings(
            SelectionRule.PUBLISHED, own.confidence, seed=own.seed, idle_share=0.0, sources=2
        )
        super().__init__(paragon)
        self.settings = own

    def _platforms(self, asked: PlacementQuestion) -> tuple[NDArray[np.intp], list[list[int]]]:
        """In an order drawn for the workload."""
        count, name = len(asked.view.platforms), asked.request.workload.name
        order = list(in_random_order(count, self._settings.seed, name, "platforms"))
        at = np.zeros(count, dtype=np.intp)
        at[order] = np.arange(count)
        return at, [[platform] for platform in order]


class InterferenceOblivious(ByReservation):
    """The best platform with room, and there the least loaded server (NI)."""

    name = "interference-oblivious"
    profiling = ProfilingNeeds(stated=True, sources=0)

    def place(self, request: Request, view: View) -> Place | Refuse:
        """Rank servers with room by platform, then by load."""
        need = request.reserved(view.capabilities)
        rows = with_room(request, need, view)
        if not rows.size:
            return refuse(self.name, request, need, view)
        drop = np.zeros(len(view.platforms))
        if request.classification is not None:
            drop, _ = slower(request.classification, view.platforms)
        at = places_of(drop)[0].take(view.platform[rows])
        load = _load(need, view)[rows]
        order = np.lexsort((rows, load, at))[:CANDIDATES_KEPT]
        # Places come first, and loads are at most 1.
        scores = (at[order] + load[order] / 2).tolist()
        ranked = candidates(view, rows[order].tolist(), scores)
        message = f"{ranked[0].server} is the least loaded of its best platform with room"
        return plan(self.name, request, need, view, ranked, message)


def _load(need: Allocation, view: View) -> NDArray[np.float64]:
    taken = view.cpu_allocated + need.cpu_millicpus
    return np.asarray(taken / np.maximum(view.cpu_capacity, 1))
