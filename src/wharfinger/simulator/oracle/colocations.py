"""The residents of each server, as the ground truth sees them, and the effect of one more.

Part of ``greedy``. Residents are read from the manager's records, so that starting ones count;
their work is added up from true rates.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from wharfinger.core.state import WorkloadRecord
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.simulator.cluster.runs import share_out
from wharfinger.simulator.oracle.demand import Knowledge, Wants, lost
from wharfinger.simulator.truth.ground_truth import TrueResident, busy_cpus

ResidentsOf = Callable[[str], Sequence[WorkloadRecord]]  # of a server, by its name
SAFE = 1.001  # times what is needed is asked for: sums are only so exact
Placed = tuple[str, tuple[Placement, ...]]  # the key of a record, and what it holds
Speed = tuple[float, float]  # a rate, and the CPUs that it keeps busy where all is asked
_MOST_KEPT = 500_000


@dataclass(slots=True, eq=False)
class Member:
    """A resident of a server, or a newcomer.

    Attributes:
        number: Stands for ``resident``.
        part: Of all that it does, what it is to do here.
        level: Its value, over all phases, over that of the phase that is looked at.
        alone: Its value there without co-runners.
        done: Work, here, as far as it is added up.
    """

    wants: Wants
    key: str
    record: WorkloadRecord | None
    placements: tuple[Placement, ...]
    best_effort: bool
    resident: TrueResident
    number: int
    part: float
    level: float
    alone: float
    done: float = 0.0

    def needed(self, now: float, value: float, since: float) -> float:
        """Value here from now on with which its target is kept; infinite = it is lost.

        ``value`` is its value since ``since``, up to which its work is added up.
        """
        if self.best_effort or self.record is None:
            return 0.0
        done = self.done + value * self.ran(since, now)
        passed = now - self.record.submitted_at
        return SAFE * self.part * self.wants.needed(done / self.part, passed)

    def ran(self, since: float, now: float) -> float:
        """Seconds in which it ran."""
        began = self.record.started_at if self.record is not None else None
        return 0.0 if began is None else max(0.0, now - max(since, began))

    @property
    def gone_at(self) -> float | None:
        """When it ended; ``None`` = it has not, or is to be started again."""
        record = self.record
        return record.ended_at if record is not None and record.key == self.key else None


@dataclass(slots=True, eq=False)
class ServerMembers:
    """The residents of one server; ``since`` = when what they have done was added up last."""

    platform: str
    placed: tuple[Placed, ...] = ()
    members: list[Member] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class NewcomerEffect:
    """A newcomer among the residents of a server.

    Attributes:
        victims: Residents that would miss targets that they would keep without it.
        lost: Of the logarithm of the residents' performance, their sum.
    """

    value: float
    victims: tuple[str, ...]
    lost: float

    @property
    def missed(self) -> int:
        """Targets that are missed for it."""
        return len(self.victims)


class Colocations:
    """The residents of all servers; ``parts`` = what those on several are to do on each."""

    def __init__(self, knowledge: Knowledge, residents: ResidentsOf) -> None:
        self._knowledge, self._residents = knowledge, residents
        self._servers: dict[str, ServerMembers] = {}
        self._numbers: dict[TrueResident, int] = {}
        self._numbered: list[TrueResident] = []
        self._rates: dict[tuple[str, tuple[int, ...]], dict[int, Speed] | None] = {}
        self.parts: dict[tuple[str, str], float] = {}
        self._carried: dict[tuple[str, str], float] = {}

    def newcomer(
        self, wants: Wants, platform: str, allocation: Allocation, servers: int = 1
    ) -> Member:
        """A workload that may come to a server of that platform."""
        return self._member(wants, platform, allocation, servers)

    def effect(
        self, newcomer: Member, server: str, platform: str, now: float
    ) -> NewcomerEffect | None:
        """What would come of it; ``None`` = memory is not enough for all.

        Where it is there already, it takes its own place.
        """
        here = self._members_now(server, platform, now)
        others = [member for member in here.members if member.wants is not newcomer.wants]
        values = self._values(platform, [*others, newcomer])
        if values is None:
            return None
        after_of = dict(zip(map(id, others), values, strict=False))
        victims, less = [], 0.0
        for member, before in zip(here.members, here.values, strict=True):
            after = after_of.get(id(member), before)
            if after >= before:
                continue
            if not member.best_effort:
                less += lost(before, after)
            needed = member.needed(now, before, here.since)
            if after < needed <= before:
                victims.append(member.wants.job.name)
        return NewcomerEffect(values[-1], tuple(victims), less)

    def present(self, wants: Wants, servers: Mapping[str, str], now: float) -> tuple[float, float]:
        """Of a workload that runs on these servers, each with its platform: value now, work done.

        From then on what is done counts for all that is to be placed anew, too.
        """
        value = done = 0.0
        for server, platform in servers.items():
            here = self._members_now(server, platform, now)
            _add(here.members, here.values, here.since, now)
            here.since = now
            for member, does in zip(here.members, here.values, strict=True):
                if member.wants is wants:
                    value, done = value + does, done + member.done
        return value, done

    def move_on(self, name: str, done: float, parts: Mapping[str, float]) -> None:
        """It will do these parts of what is to be done on these servers."""
        for server, part in parts.items():
            self.parts[name, server] = part
            self._carried[name, server] = done * part

    def _members_now(self, server: str, platform: str, now: float) -> ServerMembers:
        records = self._residents(server)
        placed = tuple([(record.key, record.planned or record.placements) for record in records])
        here = self._servers.get(server)
        if here is None or here.platform != platform:
            here = self._servers[server] = ServerMembers(platform, since=now)
        if here.placed != placed:
            self._catch_up(here, server, records, now)
            here.placed = placed
        return here

    def _catch_up(
        self, here: ServerMembers, server: str, records: Sequence[WorkloadRecord], now: float
    ) -> None:
        """New residents count from the last look at the server on, others until they ended.

        So do those that hold something else now.
        """
        before = {member.key: member for member in here.members}
        joined: list[Member | None] = []
        for each in records:
            member = before.pop(each.key, None)
            if member is None or member.placements != (each.planned or each.placements):
                member = self._joined(each, server, here.platform, member)
            joined.append(member)
        left = list(before.values())
        members = [*filter(None, joined), *left]
        values = self._settled(here.platform, members)
        since = here.since
        for member in sorted(left, key=lambda member: member.gone_at or here.since):
            ended = min(now, max(since, member.gone_at or since))
            _add(members, values, since, ended)
            members = [each for each in members if each is not member]
            values, since = self._settled(here.platform, members), ended
        _add(members, values, since, now)
        here.members, here.values, here.since = members, values, now

    def _joined(
        self, record: WorkloadRecord, server: str, platform: str, before: Member | None
    ) -> Member | None:
        wants, placements = self._knowledge.wants(record.name), record.planned or record.placements
        at = [placement for placement in placements if placement.server == server]
        if wants is None or not at:
            return None
        servers = len(placements)
        member = self._member(wants, platform, at[0].allocation, servers)
        member.record, member.key, member.placements = record, record.key, placements
        done = before.done if before is not None else 0.0
        member.done = self._carried.pop((record.name, server), done)
        if servers > 1:
            member.part = self.parts.get((record.name, server), 1 / servers)
        return member

    def _member(self, wants: Wants, platform: str, allocation: Allocation, servers: int) -> Member:
        best_effort = allocation.best_effort
        job, knowledge = wants.job, self._knowledge
        most = min(job.cpu_millicpus, knowledge.cpu_millicpus[platform])
        given = most if best_effort else min(allocation.cpu_millicpus, job.cpu_millicpus)
        resident = knowledge.resident(wants, float(given), servers)
        alone = knowledge.alone(wants, platform, given, servers)
        level = 1.0
        if job.phases:
            main = knowledge.truth.alone(platform, resident)
            level = alone / main if main > 0 else 1.0
        number = self._number(resident)
        return Member(wants, "", None, (), best_effort, resident, number, 1.0, level, alone)

    def _settled(self, platform: str, members: Sequence[Member]) -> list[float]:
        values = self._values(platform, members)
        return [0.0] * len(members) if values is None else values

    def _values(self, platform: str, members: Sequence[Member]) -> list[float] | None:
        numbers = [member.number for member in members]
        if any(member.best_effort for member in members):
            numbers = self._shared_out(platform, members)
        key = platform, tuple(sorted(numbers))
        if key not in self._rates:
            if len(self._rates) >= _MOST_KEPT:
                self._rates.clear()
            self._rates[key] = self._solved(*key)
        rates = self._rates[key]
        if rates is None:
            return None
        return [
            member.level * member.wants.value(*rates[number])
            for member, number in zip(members, numbers, strict=True)
        ]

    def _solved(self, platform: str, numbers: tuple[int, ...]) -> dict[int, Speed] | None:
        there = [self._numbered[number] for number in numbers]
        if not self._knowledge.truth.fits(platform, there):
            return None
        rates = self._knowledge.truth.rates(platform, there)
        used = self._knowledge.truth.used_millicpus(platform, there, rates)
        return {
            number: (rate, busy_cpus(each, rate, millicpus))
            for number, each, rate, millicpus in zip(numbers, there, rates, used, strict=True)
        }

    def _shared_out(self, platform: str, members: Sequence[Member]) -> list[int]:
        left = float(self._knowledge.real_millicpus[platform])
        left -= sum(m.resident.cpu_millicpus for m in members if not m.best_effort)
        sharing = [member for member in members if member.best_effort]
        given = iter(share_out(left, [member.resident.cpu_millicpus for member in sharing]))
        return [
            self._number(self._knowledge.resident(member.wants, next(given)))
            if member.best_effort
            else member.number
            for member in members
        ]

    def _number(self, resident: TrueResident) -> int:
        number = self._numbers.get(resident)
        if number is None:
            number = self._numbers[resident] = len(self._numbered)
            self._numbered.append(resident)
        return number


def _add(members: list[Member], values: list[float], since: float, until: float) -> None:
    for member, value in zip(members, values, strict=True):
        member.done += value * member.ran(since, until)
