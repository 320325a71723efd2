"""What neighbors really take of one another, in the place of a contention model.

For accounts of what a better model could gain (``informed``): a policy that is given this knows of
each server by how much its residents would slow a newcomer, and it them.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wharfinger.contention.kept import Standing, residents_loss
from wharfinger.core.seams.contention import (
    Assessment,
    ContentionTable,
    LogEstimates,
    Resident,
    ResidentsLoss,
)
from wharfinger.model.view import Request, View
from wharfinger.simulator.oracle.demand import Knowledge, lost
from wharfinger.simulator.scenario.setup import Setup
from wharfinger.simulator.truth.ground_truth import TrueResident

_ROUNDING = 1e-9
"""Of logarithms: who keeps exactly what it must is kept."""
Server = tuple[str, list[tuple[Resident, TrueResident]]]


class TrueContention:
    """The model, of jobs that are given what they can use on a server, in their longest phase."""

    name = "true-contention"
    settings: Any = None

    def __init__(self, setup: Setup) -> None:
        self._knowledge = Knowledge(setup)

    def table(self) -> "TrueTable":
        """An empty one."""
        return TrueTable(self._knowledge)


class TrueTable(ContentionTable):
    """The residents of each server that has some."""

    of_unclassified = True

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge
        self._servers: dict[int, Server] = {}

    def put(self, row: int, platform: str | None, residents: Sequence[Resident]) -> bool:
        """Whether they changed."""
        before = self._servers.pop(row, None)
        if platform is not None and residents:
            there = [(each, self.true(each.name, platform)) for each in residents]
            self._servers[row] = platform, [(each, one) for each, one in there if one is not None]
        return before != self._servers.get(row)

    def drop(self, row: int) -> None:
        """Remove a server's row; later ones move up."""
        kept = {at: server for at, server in self._servers.items() if at != row}
        self._servers = {at - (at > row): server for at, server in kept.items()}

    def assess(self, request: Request, view: View, confidence: float) -> Assessment:
        """By the rates of all residents of each server, without and with the newcomer."""
        return TrueAssessment(self, self._servers, request, view)

    def true(self, name: str, platform: str) -> TrueResident | None:
        """A job as the ground truth sees it; ``None`` = there is none of this name."""
        wants = self._knowledge.wants(name)
        if wants is None:
            return None
        most = min(wants.job.cpu_millicpus, self._knowledge.cpu_millicpus[platform])
        return self._knowledge.resident(wants, float(most))

    def rates(self, platform: str, group: Sequence[TrueResident]) -> list[float] | None:
        """Of each; ``None`` = memory does not hold them."""
        truth = self._knowledge.truth
        return truth.rates(platform, group) if truth.fits(platform, group) else None


class TrueAssessment(Assessment):
    """A newcomer on each server that has residents."""

    informed = True

    def __init__(
        self, table: TrueTable, servers: dict[int, Server], request: Request, view: View
    ) -> None:
        super().__init__(len(view.names))
        self._table, self._name = table, request.workload.name
        self._there = {row: server for row, server in servers.items() if row < len(view.names)}

    @property
    def suffered(self) -> LogEstimates:
        """True, so without a variance."""
        return LogEstimates(self._effects[0], np.zeros(self._servers))

    @property
    def incompatible(self) -> NDArray[np.bool_] | None:
        """Where memory does not hold all."""
        return self._effects[1]

    def residents_loss(self) -> ResidentsLoss:
        """By what each is slowed now, and with the newcomer."""
        margin, variance, drop, rows = self._effects[2].T
        given = margin, variance, drop, np.zeros(len(rows)), rows.astype(np.int64)
        return residents_loss(*given, self._servers)

    @property
    def headroom(self) -> NDArray[np.float64] | None:
        """Of the resident with the least left; below 0 where memory does not hold all."""
        margin, _, drop, rows = self._effects[2].T
        left = np.full(self._servers, np.inf)
        np.minimum.at(left, rows.astype(np.int64), margin - drop + _ROUNDING)
        return np.where(self._effects[1], -1.0, -np.expm1(-left))

    @cached_property
    def _effects(self) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64]]:
        """(S,) of the newcomer; (S,) where it can't be; (N, 4) of residents, for their loss."""
        suffered, apart = np.zeros(self._servers), np.zeros(self._servers, dtype=np.bool_)
        losses: list[tuple[float, float, float, float]] = []
        for row, (platform, residents) in self._there.items():
            own = self._table.true(self._name, platform)
            group = [one for _, one in residents]
            before = self._table.rates(platform, group)
            if own is None or before is None:
                continue
            alone, after = (self._table.rates(platform, who) for who in ([own], [*group, own]))
            if alone is None or after is None:
                apart[row] = True
                continue
            suffered[row] = lost(alone[0], after[-1])
            for (each, one), was, now in zip(residents, before, after, strict=False):
                by_itself = self._table.rates(platform, [one])
                if each.best_effort or by_itself is None:
                    continue
                standing = Standing.of(each)
                margin = standing.alone - lost(by_itself[0], was) - standing.kept
                losses.append((margin, standing.variance, lost(was, now), row))
        return suffered, apart, np.array(losses).reshape(-1, 4)
