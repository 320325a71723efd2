"""Allocations that follow what is measured, where the user stated none and nothing predicts them.

CPU and memory of an elastic reservation begin small (``model.workload.Reservation``). They grow
within what is free on the server, never at the cost of others, and CPU beyond the reservation is
given back to what waits for it. Called by every adaptation.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from wharfinger.core.lifecycle import Phase
from wharfinger.core.seams.adaptation import Reallocate, Remedy, Residents
from wharfinger.core.state import WorkloadRecord
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.decisions import Decision, ReasonCode, Stage
from wharfinger.model.performance import Quantity
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.model.units import cpu_number, memory_number

STEP = 50
"""Allocations of CPU are multiples of this, in thousandths."""


@dataclass(frozen=True, slots=True)
class ElasticSettings:
    """When an elastic allocation follows what is measured.

    Attributes:
        at_limit: Share of its CPU from whose use a workload gets twice as much.
        throttled: Share of periods without CPU left that says the same.
        grow_seconds: How long it has had its CPU before it gets more.
        idle: Share of its CPU below whose use it gets less, but not less than it reserves.
        shrink_seconds: How long it has had its CPU before it gets less.
        memory_full: Share of its memory from whose use it gets twice as much, at once.
    """

    at_limit: float = 0.9
    throttled: float = 0.5
    grow_seconds: float = 4.0
    idle: float = 0.4
    shrink_seconds: float = 120.0
    memory_full: float = 0.75


class Elastic:
    """What elastic workloads get, under these settings.

    ``max_per_minute``: adjustments of all workloads after which no CPU is changed here, so that
    some are left to those that follow targets.
    """

    def __init__(self, settings: ElasticSettings, max_per_minute: int) -> None:
        self._settings = settings
        self._max_per_minute = max_per_minute

    def follow(
        self, now: float, measured: Sequence[WorkloadRecord], cluster: Residents
    ) -> Iterator[Remedy]:
        """Resize those of the measured ones that are elastic."""
        elastic = [r for r in measured if _is_elastic(r) and cluster.able(r).resize]
        if not elastic or cluster.recommends:
            return
        for server in dict.fromkeys(record.placements[0].server for record in elastic):
            here = [record for record in elastic if record.placements[0].server == server]
            if not self._is_limited(now, cluster):
                yield from self._give_back(here, server, cluster)
        for record in elastic:
            if record.phase is Phase.RUNNING:
                yield from self._resize(now, record, cluster)

    def _resize(self, now: float, record: WorkloadRecord, cluster: Residents) -> Iterator[Remedy]:
        held, why = record.placements[0].allocation, []
        cpu_free, memory_free = _free(record.placements[0].server, cluster)
        most = cluster.request(record, now).most_on(record.placements[0], cluster.able(record))
        if most is not None:
            cpu_free = min(cpu_free, most.cpu_millicpus - held.cpu_millicpus)
            memory_free = min(memory_free, most.memory_bytes - held.memory_bytes)
        memory_bytes, said = self._memory(record, held, memory_free)
        why += [said] if said else []
        cpu_millicpus, said = self._cpu(now, record, held, cpu_free, cluster)
        if why and not cluster.may_adjust(record):  # Memory is given in any case.
            cpu_millicpus, said = held.cpu_millicpus, ""
        why += [said] if said else []
        if why:
            need = replace(held, cpu_millicpus=cpu_millicpus, memory_bytes=memory_bytes)
            yield _resized(record, need, "; ".join(why), cluster)

    def _memory(self, record: WorkloadRecord, held: Allocation, free: int) -> tuple[int, str]:
        """Twice as much when it fills up; never less, for what it held once it may need again."""
        used = _reading(record, Quantity.MEMORY)
        if not record.workload.reservation.elastic_memory or used is None:
            return held.memory_bytes, ""
        more = min(held.memory_bytes, max(0, free))
        if used <= self._settings.memory_full * held.memory_bytes or more < held.memory_bytes // 16:
            return held.memory_bytes, ""
        memory_bytes = held.memory_bytes + more
        of = f"{memory_number(used)} of {memory_number(held.memory_bytes)}"
        return memory_bytes, f"{of} memory in use: {memory_number(memory_bytes)}"

    def _cpu(
        self, now: float, record: WorkloadRecord, held: Allocation, free: int, cluster: Residents
    ) -> tuple[int, str]:
        """Twice as much at its limit, less when it has long used little of it."""
        used, settings = _reading(record, Quantity.CPU), self._settings
        if used is None or not _follows_cpu(record, cluster) or self._is_limited(now, cluster):
            return held.cpu_millicpus, ""
        used_millicpus = round(used * MILLICPUS_PER_CPU)
        share = used_millicpus / held.cpu_millicpus
        since = max(t for t in (record.started_at, record.adjusted_at, 0.0) if t is not None)
        throttled = _reading(record, Quantity.THROTTLED) or 0.0
        size, did, step = held.cpu_millicpus, "", _step(cluster)
        if share >= settings.at_limit or throttled >= settings.throttled:
            more = min(held.cpu_millicpus, max(0, free) // step * step)
            if now - since >= settings.grow_seconds or now < since:
                size, did = held.cpu_millicpus + more, "at its limit"
        elif share < settings.idle and now - since >= settings.shrink_seconds:
            wanted = -(-round(used_millicpus / settings.idle) // step) * step
            least = record.workload.reservation.cpu_millicpus
            halved = (
                -(-held.cpu_millicpus // 2 // step) * step
                if step > STEP
                else held.cpu_millicpus // 2
            )
            size, did = max(wanted, halved, least), "far below it"
        if abs(size - held.cpu_millicpus) < step or (
            did == "far below it" and size > held.cpu_millicpus
        ):
            return held.cpu_millicpus, ""
        before, after = cpu_number(held.cpu_millicpus), cpu_number(size)
        done = "raised" if size > held.cpu_millicpus else "reduced"
        why = f"{cpu_number(used_millicpus)} CPU in use, {did}"
        return size, f"{done} from {before} to {after} CPU: {why}"

    def _is_limited(self, now: float, cluster: Residents) -> bool:
        recent = sum(0 <= now - at < 60 for at in cluster.state.adjusted_at)
        return recent >= self._max_per_minute

    def _give_back(
        self, elastic: Sequence[WorkloadRecord], server: str, cluster: Residents
    ) -> Iterator[Remedy]:
        """CPU beyond the reservations, to the first that waits for room and fits with it."""
        spare = {
            record.name: record.placements[0].allocation.cpu_millicpus
            - record.workload.reservation.cpu_millicpus
            for record in elastic
            if record.phase is Phase.RUNNING
            and _follows_cpu(record, cluster)
            and cluster.may_adjust(record)
        }
        cpu_free, memory_free = _free(server, cluster)
        whole = 1 if cluster.state.capabilities.fractional_cpu else MILLICPUS_PER_CPU
        most = sum(max(0, millicpus) for millicpus in spare.values())
        for name, need in cluster.waiting_for_room():
            short = need.cpu_millicpus - cpu_free
            if not 0 < short <= most or need.memory_bytes > memory_free:
                continue
            for record in sorted(elastic, key=lambda r: -spare.get(r.name, 0)):
                given = min(-(-short // whole) * whole, spare.get(record.name, 0) // whole * whole)
                if given <= 0:
                    continue
                short -= given
                held = record.placements[0].allocation
                less = replace(held, cpu_millicpus=held.cpu_millicpus - given)
                before, after = cpu_number(held.cpu_millicpus), cpu_number(less.cpu_millicpus)
                why = f"reduced from {before} to {after} CPU: {name} waits for room"
                yield _resized(record, less, why, cluster)
            return


def _step(cluster: Residents) -> int:
    """Of CPU that is added or taken, in thousandths."""
    return STEP if cluster.state.capabilities.fractional_cpu else MILLICPUS_PER_CPU


def _is_elastic(record: WorkloadRecord) -> bool:
    reserved = record.workload.reservation
    return (
        (reserved.elastic_cpu or reserved.elastic_memory)
        and record.phase is Phase.RUNNING
        and not record.revoking
        and not record.paused
        and len(record.placements) == 1
    )


def _follows_cpu(record: WorkloadRecord, cluster: Residents) -> bool:
    """Whether its CPU follows its use: it is neither predicted nor follows a target."""
    follows = getattr(cluster.placement, "follows_targets", False)
    by_target = record.tracking is not None and follows
    elastic = record.workload.reservation.elastic_cpu and not record.workload.best_effort
    return elastic and record.predicted is None and not by_target


def _reading(record: WorkloadRecord, quantity: Quantity) -> float | None:
    reading = record.performance and record.performance.readings.get(quantity)
    return reading.value if reading else None


def _free(server: str, cluster: Residents) -> tuple[int, int]:
    """CPU in thousandths, and bytes of memory, that are not allocated there."""
    view = cluster.view()
    row = view.row(server)
    return (
        int(view.cpu_capacity[row] - view.cpu_allocated[row]),
        int(view.memory_capacity[row] - view.memory_allocated[row]),
    )


def _resized(record: WorkloadRecord, need: Allocation, why: str, cluster: Residents) -> Reallocate:
    decision = Decision(
        Stage.ADAPTATION,
        cluster.placement.name,
        accepted=True,
        reason=ReasonCode.OK,
        message=f"resized by measurement: {why}",
        numbers={
            "cpu_needed_millicpus": float(need.cpu_millicpus),
            "memory_needed_bytes": float(need.memory_bytes),
        },
        predicted=record.predicted,
    )
    return Reallocate(record.name, (Placement(record.placements[0].server, need),), decision)
