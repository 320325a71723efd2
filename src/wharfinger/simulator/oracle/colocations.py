"""The residents of each server, as the ground truth sees them, and the effect of one more.

Part of ``greedy``. Residents are read from the manager's records, so that starting ones count;
their work is added up from true rates.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from wharfinger.core.state import WorkloadRecord
from wharfinger.model.allocation import Allocation
from wharfinger.simulator.cluster.runs import share_out
from wharfinger.simulator.oracle.demand import Knowledge, Wants, lost
from wharfinger.simulator.truth.ground_truth import TrueResident, busy_cpus

ResidentsOf = Callable[[str], Sequence[WorkloadRecord]]  # of a server, by its name
SAFE = 1.001  # times what is needed is asked for: sums are only so exact
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
    keys: tuple[str, ...] = ()
    members: list[Member] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class NewcomerEffect:
    """A newcomer among the residents of a server.

    Attributes:
        missed: How many residents would miss targets that they would keep without it.
        lost: Of the logarithm of the residents' performance, their sum.
    """

    value: float
    missed: int
    lost: float


class Colocations:
    """The residents of all servers; ``parts`` = what those on several are to do on each."""

    def __init__(self, knowledge: Knowledge, residents: ResidentsOf) -> None:
        self._knowledge, self._residents = knowledge, residents
        self._servers: dict[str, ServerMembers] = {}
        self._numbers: dict[TrueResident, int] = {}
        self._numbered: list[TrueResident] = []
        self._rates: dict[tuple[str, tuple[int, ...]], dict[int, Speed] | None] = {}
        self.parts: dict[tuple[str, str], float] = {}

    def newcomer(
        self, wants: Wants, platform: str, allocation: Allocation, servers: int = 1
    ) -> Member:
        """A workload that may come to a server of that platform."""
        return self._member(wants, platform, allocation, servers)

    def effect(
        self, newcomer: Member, server: str, platform: str, now: float
    ) -> NewcomerEffect | None:
        """What would come of it; ``None`` = memory is not enough for all."""
        here = self._members_now(server, platform, now)
        values = self._values(platform, [*here.members, newcomer])
        if values is None:
            return None
        missed, less = 0, 0.0
        for member, before, after in zip(here.members, here.values, values, strict=False):
            if after >= before:
                continue
            if not member.best_effort:
                less += lost(before, after)
            needed = member.needed(now, before, here.since)
            missed += after < needed <= before
        return NewcomerEffect(values[-1], missed, less)

    def _members_now(self, server: str, platform: str, now: float) -> ServerMembers:
        records = self._residents(server)
        keys = tuple([record.key for record in records])
        here = self._servers.get(server)
        if here is None or here.platform != platform:
            here = self._servers[server] = ServerMembers(platform, since=now)
        if here.keys != keys:
            self._catch_up(here, server, records, now)
            here.keys = keys
        return here

    def _catch_up(
        self, here: ServerMembers, server: str, records: Sequence[WorkloadRecord], now: float
    ) -> None:
        """New residents count from the last look at the server on, others until they ended."""
        before = {member.key: member for member in here.members}
        keys = {record.key for record in records}
        joined = [
            self._joined(each, server, here.platform) for each in records if each.key not in before
        ]
        left = [member for key, member in before.items() if key not in keys]
        members = [*here.members, *filter(None, joined)]
        values = self._settled(here.platform, members)
        since = here.since
        for member in sorted(left, key=lambda member: member.gone_at or here.since):
            ended = min(now, max(since, member.gone_at or since))
            _add(members, values, since, ended)
            members = [each for each in members if each is not member]
            values, since = self._settled(here.platform, members), ended
        _add(members, values, since, now)
        here.members, here.values, here.since = members, values, now

    def _joined(self, record: WorkloadRecord, server: str, platform: str) -> Member | None:
        wants = self._knowledge.wants(record.name)
        at = [placement for placement in record.placements if placement.server == server]
        if wants is None or not at:
            return None
        servers = len(record.placements)
        member = self._member(wants, platform, at[0].allocation, servers)
        member.record, member.key = record, record.key
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
        return Member(wants, "", None, best_effort, resident, number, 1.0, level, alone)

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
