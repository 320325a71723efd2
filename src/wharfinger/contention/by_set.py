"""Contention of whole sets: what all neighbors together do to each service, by a fitted model.

By source and by pair neighbors' effects add up. A model of ``interference/`` was fitted to sets of
neighbors that ran together, so it predicts the set that would be there (Pythia 3). Each service is
protected against all others on its server, other services included (Pythia 6).

Models name programs (``model.programs``), and services with a platform. What can't be told is
unsafe: a service whose neighbors are not all known counts as one that is not kept.
"""

from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heappop, heappush
from math import exp, inf, isnan, nan

import numpy as np
from numpy.typing import NDArray

from wharfinger.contention.kept import Standing
from wharfinger.contention.rows import doubled, grown
from wharfinger.core.seams.contention import (
    POINTS,
    Array,
    Assessment,
    ContentionCost,
    ContentionTable,
    LogEstimates,
    Resident,
    ResidentsLoss,
)
from wharfinger.errors import InvalidInput
from wharfinger.interference.measurements import DEFAULT_ERROR, ContentionSetting
from wharfinger.interference.model import InterferenceModel
from wharfinger.interference.registry import DEFAULT_FORM
from wharfinger.model.arrays import normal_below
from wharfinger.model.profile import Estimate, quantile
from wharfinger.model.programs import program_name
from wharfinger.model.view import Request, View
from wharfinger.model.workload import Workload

Names = tuple[str, ...]
"""Of programs, sorted; one may repeat."""
Drop = tuple[float, float]
"""Of the logarithm of performance, and its standard deviation; NaN = unknown."""
_NOTHING: Drop = (0.0, 0.0)
_UNKNOWN: Drop = (nan, nan)
MOST_SETS = 10_000
"""Of services beside sets, beyond four times those that there are now: older ones are forgotten."""


@dataclass(frozen=True, slots=True)
class SetSettings:
    """Settings of the model.

    Attributes:
        model: A file that ``wharfinger contention fit`` has written; a simulation fits one.
        digest: Of that file, as a log states it: a replay refuses another.
        form: What a simulation fits.
        sample_share: The share of all sets of two and three that a simulation measures for it.
    """

    model: str = ""
    digest: str = ""
    form: str = DEFAULT_FORM
    sample_share: float = 0.05


class BySet:
    """The model.

    Args:
        settings: Which model is meant.
        fitted: That model; who assembles a policy gives it (``with_model``).
        name_of: The program that a workload runs.
    """

    name = "by-set"

    def __init__(
        self,
        settings: SetSettings | None = None,
        fitted: InterferenceModel | None = None,
        name_of: Callable[[Workload], str] = program_name,
    ) -> None:
        self.settings = settings or SetSettings()
        self._fitted, self._name_of = fitted, name_of

    def with_model(
        self,
        fitted: InterferenceModel,
        digest: str,
        name_of: Callable[[Workload], str] = program_name,
    ) -> "BySet":
        """The same, knowing what was fitted; raises ``InvalidInput`` if it is not what is meant."""
        if self.settings.digest not in {"", digest}:
            raise InvalidInput(
                f"{self.settings.model}: its digest is {digest}, not {self.settings.digest}: "
                "decisions were made by another model; restore that file"
            )
        return BySet(replace(self.settings, digest=digest), fitted, name_of)

    def table(self) -> ContentionTable:
        """An empty one; without a model it knows nothing."""
        if self._fitted is None:
            return ContentionTable()
        return ResidentSets(SetDrops(self._fitted), self._name_of)


class SetDrops:
    """Predicted drops of services beside sets, each computed once.

    Few sets of few programs occur on a cluster, and each on many servers.
    """

    def __init__(self, model: InterferenceModel) -> None:
        self._model = model
        self._places = {
            setting: {name: at for at, name in enumerate(service.names)}
            for setting, service in model.services.items()
        }
        self._settings: dict[tuple[str, str], ContentionSetting | None] = {}
        self._drops: dict[tuple[ContentionSetting, Names], Drop] = {}

    def setting(self, program: str, platform: str) -> ContentionSetting | None:
        """That of a service on a platform, or on any; ``None`` = it is not in the model."""
        key = program, platform
        if key not in self._settings:
            fitting = [s for s in self._places if s.service == program]
            here = [s for s in fitting if s.platform == platform]
            anywhere = [s for s in fitting if not s.platform]
            found = here or anywhere
            self._settings[key] = found[0] if len(found) == 1 else None
        return self._settings[key]

    def knows(self, setting: ContentionSetting, program: str) -> bool:
        """Whether a program is among the neighbors of this service that were measured."""
        return program in self._places[setting]

    def names(self, program: str) -> bool:
        """Whether a program is a service, or a neighbor of one."""
        return any(
            program == setting.service or program in places
            for setting, places in self._places.items()
        )

    def forget(self) -> None:
        """Compute drops again when they are asked for."""
        self._drops.clear()

    def drop(self, setting: ContentionSetting, neighbors: Names) -> Drop:
        """Of a service beside a set."""
        if not neighbors:
            return _NOTHING
        known = self._drops.get((setting, neighbors))
        if known is None:
            places = self._places[setting]
            known = _UNKNOWN
            if all(name in places for name in neighbors):
                members = [places[name] for name in neighbors]
                mean, std = self._model.predictors[setting].drop(members)
                known = float(mean), float(std)
            self._drops[setting, neighbors] = known
        return known


class _Groups:
    """Services beside the same neighbors, on however many servers, with what these take."""

    def __init__(self, drops: SetDrops) -> None:
        self._drops = drops
        self._at: dict[tuple[ContentionSetting, Names], int] = {}
        self.keys: list[tuple[ContentionSetting, Names]] = []
        self.now = np.zeros((2, 0))
        self._after: dict[str, tuple[Array, int]] = {}

    def at(self, setting: ContentionSetting, beside: Names) -> int:
        """The number of one."""
        number = self._at.setdefault((setting, beside), len(self.keys))
        if number == len(self.keys):
            self.keys.append((setting, beside))
            self.now = grown(self.now, 2, doubled(self.now.shape[1], len(self.keys)))
            self.now[:, number] = self._drops.drop(setting, beside)
        return number

    def after(self, program: str) -> Array:
        """(2, groups) mean and deviation of the drops with one neighbor more."""
        known, count = self._after.get(program, (np.zeros((2, 0)), 0))
        if count < len(self.keys):
            known = grown(known, 2, doubled(known.shape[1], len(self.keys)))
            for number in range(count, len(self.keys)):
                setting, beside = self.keys[number]
                known[:, number] = self._drops.drop(setting, _with(beside, program))
            self._after[program] = known, len(self.keys)
        return known


@dataclass(frozen=True, slots=True)
class _Service:
    """A resident that is to keep its target, and that the model knows, beside its neighbors."""

    name: str
    setting: ContentionSetting
    beside: Names
    standing: Standing


@dataclass(frozen=True, slots=True)
class _Server:
    """The programs of all residents of a server, and its services."""

    programs: Names
    services: tuple[_Service, ...]


_EMPTY = _Server((), ())


class ResidentSets(ContentionTable):
    """The residents of each server by their programs, and a row for each service.

    A service's row is free when it leaves; its ``server`` is then -1.
    """

    of_unclassified = True

    def __init__(self, drops: SetDrops, name_of: Callable[[Workload], str]) -> None:
        self.drops = drops
        self.groups = _Groups(drops)
        self.server = np.zeros(0, dtype=np.intp)
        self.group = np.zeros(0, dtype=np.intp)
        self.standing = np.zeros((2, 0))
        self.names: list[str] = []
        self._name_of = name_of
        self._servers: list[_Server] = []
        self._rows_of: list[list[int]] = []
        self._free: list[int] = []

    def put(self, row: int, platform: str | None, residents: Sequence[Resident]) -> bool:
        """Whether they changed."""
        while row >= len(self._servers):
            self._servers.append(_EMPTY)
            self._rows_of.append([])
        before = self._servers[row]
        server = self._server(platform, residents)
        if server != before:
            self._clear(row)
            self._servers[row] = server
            self._seat(row, server.services)
            if len(self.groups.keys) > MOST_SETS + 4 * len(self.names):
                self._forget_sets()
        return server != before

    def _forget_sets(self) -> None:
        """Keep those that there are: what runs on a cluster changes in the course of months."""
        former = self.groups.keys
        self.drops.forget()
        self.groups = _Groups(self.drops)
        for seat in np.flatnonzero(self.server >= 0).tolist():
            self.group[seat] = self.groups.at(*former[self.group[seat]])

    def _server(self, platform: str | None, residents: Sequence[Resident]) -> _Server:
        named = [(self.program(each), each) for each in residents if each.workload is not None]
        if platform is None or not named:
            return _EMPTY
        programs = tuple(sorted(program for program, _ in named))
        services = []
        for program, each in named:
            setting = self.drops.setting(program, platform)
            if setting is not None and not each.best_effort and each.tolerance < 1:
                beside = _without(programs, program)
                services.append(_Service(each.name, setting, beside, Standing.of(each)))
        return _Server(programs, tuple(services))

    def _seat(self, row: int, services: Sequence[_Service]) -> None:
        for service in services:
            if not self._free:
                size = doubled(len(self.names), len(self.names) + 1)
                self._free = list(range(len(self.names), size))
                self.names += [""] * (size - len(self.names))
                self.server = grown(self.server, size, fill=-1)
                self.group = grown(self.group, size)
                self.standing = grown(self.standing, 2, size)
            seat, standing = heappop(self._free), service.standing
            self.names[seat], self.server[seat] = service.name, row
            self.group[seat] = self.groups.at(service.setting, service.beside)
            self.standing[:, seat] = standing.alone - standing.kept, standing.variance
            self._rows_of[row].append(seat)

    def _clear(self, row: int) -> None:
        for seat in self._rows_of[row]:
            self.server[seat] = -1
            heappush(self._free, seat)
        self._rows_of[row] = []

    def program(self, each: Resident) -> str:
        """What it runs."""
        assert each.workload is not None
        return self._name_of(each.workload)

    def drop(self, row: int) -> None:
        """Remove a server's row; later ones move up."""
        if row < len(self._servers):
            self._clear(row)
            del self._servers[row], self._rows_of[row]
            self.server[self.server > row] -= 1

    def programs_on(self, row: int) -> Names:
        """Of all residents of a server."""
        return self._servers[row].programs if row < len(self._servers) else ()

    def seats_of(self, row: int) -> Sequence[int]:
        """Rows of a server's services."""
        return self._rows_of[row] if row < len(self._rows_of) else ()

    def assess(self, request: Request, view: View, confidence: float) -> Assessment:
        """By the sets that would be there."""
        return SetAssessment(self, self._name_of(request.workload), view, confidence)

    def slowdown_of(self, row: int, name: str) -> Estimate | None:
        """Of a service that the model knows, beside all its neighbors."""
        for seat in self.seats_of(row):
            if self.names[seat] == name:
                mean, std = self.groups.now[:, self.group[seat]].tolist()
                return None if isnan(mean) else Estimate(exp(-mean), std)
        return None


class SetAssessment(Assessment):
    """A newcomer's program on each server; each service keeps its target with the confidence."""

    def __init__(self, table: ResidentSets, program: str, view: View, confidence: float) -> None:
        super().__init__(len(view.names))
        self._table, self._program, self._view = table, program, view
        self._confidence, self._z = confidence, quantile(confidence)
        self._settings = [table.drops.setting(program, name) for name in view.platforms]
        self.informed = table.drops.names(program)

    @cached_property
    def suffered(self) -> LogEstimates:
        """0 where the newcomer is no service that the model knows, or a neighbor is unknown."""
        mean, std = np.zeros((2, self._servers))
        if any(setting is not None for setting in self._settings):
            for row, platform in enumerate(self._view.platform.tolist()):
                setting, programs = self._settings[platform], self._table.programs_on(row)
                if setting is not None and programs:
                    mean[row], std[row] = self._table.drops.drop(setting, programs)
        return LogEstimates(np.nan_to_num(mean), np.nan_to_num(std) ** 2)

    @cached_property
    def _services(self) -> "_Services":
        """What each service would have left."""
        table = self._table
        seats = np.flatnonzero((table.server >= 0) & (table.server < self._servers))
        group = table.group[seats]
        return _Services(
            seats,
            table.server[seats],
            *table.standing[:, seats],
            *table.groups.now[:, group],
            *table.groups.after(self._program)[:, group],
        )

    @cached_property
    def headroom(self) -> Array:
        """(S,) of the service with the least; minus infinity where one's neighbor is unknown."""
        services, least = self._services, np.full(self._servers, inf)
        np.minimum.at(least, services.row, services.left(self._z, after=True))
        return np.asarray(-np.expm1(-least))

    def residents_loss(self) -> ResidentsLoss:
        """Of all services: what is unknown counts as lost."""
        services = self._services
        before, after = services.probability(after=False), services.probability(after=True)
        return ResidentsLoss(
            self._by_server(np.maximum(before - after, 0.0)),
            self._by_server(np.nan_to_num(services.further)),
        )

    def cost(
        self, able: NDArray[np.bool_], performance: Callable[[], LogEstimates] | None
    ) -> ContentionCost:
        """Targets lost with the confidence; as waste the performance lost."""
        services = self._services
        before = np.minimum(services.left(self._z, after=False), 0.0)
        short = before - np.minimum(services.left(self._z, after=True), 0.0)
        lost = POINTS * self._by_server(-np.expm1(-np.maximum(short, 0.0)))
        further = self._by_server(np.nan_to_num(services.further)) + self.suffered.mean
        return ContentionCost(lost, lost, np.asarray(-np.expm1(-np.maximum(further, 0.0))))

    def _by_server(self, of_services: Array) -> Array:
        return np.asarray(np.bincount(self._services.row, of_services, self._servers), np.float64)

    def numbers(self, row: int) -> dict[str, float]:
        """Of the service that is least sure, with its interval; and how many there are."""
        there = np.flatnonzero(self._services.row == row)
        numbers = {"services": float(len(there))}
        if self._settings[int(self._view.platform[row])] is not None:
            numbers["performance_beside_residents"] = exp(-float(self.suffered.mean[row]))
        if len(there):
            services = self._services
            probability = services.probability(after=True)[there]
            worst = there[np.argmin(probability)]
            mean = float(services.margin[worst] - services.after[worst])
            half = self._z * float(services.std(after=True)[worst])
            numbers["service_kept_probability"] = float(probability.min())
            if not isnan(mean):
                numbers["service_performance_over_least"] = exp(mean)
                numbers["service_performance_over_least_low"] = exp(mean - half)
                numbers["service_headroom"] = float(self.headroom[row])
        return numbers

    def worst(self, row: int) -> str:
        """The service that is least sure, and the neighbor that costs it most alone."""
        there = np.flatnonzero(self._services.row == row)
        if not len(there):
            return "its own target would be missed there"
        table, probability = self._table, self._services.probability(after=True)[there]
        seat = self._services.seat[there[np.argmin(probability)]]
        setting, beside = table.groups.keys[table.group[seat]]
        neighbors = dict.fromkeys(_with(beside, self._program))
        name = table.names[seat]
        for neighbor in neighbors:
            if not table.drops.knows(setting, neighbor):
                return f"what {neighbor} does to {name} is unknown"
        most = max(neighbors, key=lambda neighbor: table.drops.drop(setting, (neighbor,))[0])
        return (
            f"{name} would keep its target with {probability.min():.0%}, less than "
            f"{self._confidence:.0%}; {most} costs it most"
        )


@dataclass(frozen=True)
class _Services:
    """Of all N services, (N,) logarithms; NaN = unknown.

    Attributes:
        seat: In the table.
        row: Of each one's server.
        margin: Performance alone over what it must keep; with its ``variance``.
        before: What its neighbors take; ``after`` = the newcomer among them.
    """

    seat: NDArray[np.intp]
    row: NDArray[np.intp]
    margin: Array
    variance: Array
    before: Array
    before_std: Array
    after: Array
    after_std: Array

    @property
    def further(self) -> Array:
        """What the newcomer takes of each."""
        return np.maximum(self.after - self.before, 0.0)

    def std(self, *, after: bool) -> Array:
        """Of the logarithm of performance."""
        own = self.after_std if after else self.before_std
        return np.asarray(np.sqrt(self.variance + own**2 + DEFAULT_ERROR**2))

    def left(self, z: float, *, after: bool) -> Array:
        """What may still be lost, by so many deviations; minus infinity where it is unknown."""
        drop = self.after if after else self.before
        left = self.margin - drop - z * self.std(after=after)
        return np.where(np.isnan(left), -inf, left)

    def probability(self, *, after: bool) -> Array:
        """That each keeps its target; 0 where it is unknown."""
        left = self.margin - (self.after if after else self.before)
        kept = normal_below(np.clip(left / self.std(after=after), -40, 40))
        return np.nan_to_num(kept)


def _with(programs: Names, program: str) -> Names:
    more = list(programs)
    insort(more, program)
    return tuple(more)


def _without(programs: Names, program: str) -> Names:
    at = programs.index(program)
    return programs[:at] + programs[at + 1 :]
