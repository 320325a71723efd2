"""With exact ends known, backfilling delays no head of a queue, and small work need not wait."""

from dataclasses import replace
from random import Random

import pytest

from tests.support.cluster import Cluster, running, server, workload
from wharfinger.core import events as ev
from wharfinger.core.lifecycle import Phase
from wharfinger.core.state import WorkloadRecord
from wharfinger.model.view import Capabilities
from wharfinger.model.workload import Scale

SEEDS = range(24)
WORKLOADS = 30


class Run:
    """A cluster whose workloads end exactly when they are expected to.

    Attributes:
        promised: When each head would start if nothing were placed after it had become the head.
        started: When each workload was placed.
    """

    def __init__(self, seed: int, backfill: int, *, widest: int = 1) -> None:
        random = Random(seed)
        able = Capabilities(max_servers_per_workload=widest)
        policy = "least-loaded" if widest == 1 else "backfill"
        self.cluster = Cluster(policy, able=able, backfill=backfill)
        for at in range(random.randint(1, 4)):
            self.cluster.tell(ev.ServerReported(server(f"s{at}", random.choice((2, 4)))))
        self.cluster.sync()
        self.promised: dict[str, float] = {}
        self.started: dict[str, float] = {}
        self._ends: dict[str, float] = {}
        arrives = 0.0
        for at in range(WORKLOADS):
            arrives += random.expovariate(0.2)
            self._end_until(arrives)
            lasting = float(random.choice((5, 10, 20, 60, 120)))
            asked = workload(f"w{at}", random.choice((100, 500, 1000, 2000, 4000)), 256)
            if widest > 1:
                asked = replace(asked, scale=Scale(random.randint(1, widest)))
            self._tell(arrives, ev.WorkloadSubmitted(replace(asked, expected_seconds=lasting)))
        self._end_until(float("inf"))

    def _end_until(self, time: float) -> None:
        while self._ends and min(self._ends.values()) <= time:
            name = min(self._ends, key=lambda name: (self._ends[name], name))
            at = self._ends.pop(name)
            key = self.cluster.key(name)
            self._tell(at, ev.WorkloadFinished(key, 0, None, "exited"))

    def _tell(self, now: float, event: ev.Report | ev.ClientRequest) -> None:
        cluster = self.cluster
        cluster.now = now
        cluster.tell(event)
        for record in list(cluster.manager.state.workloads.values()):
            if record.phase is Phase.PLACED:
                self.started[record.name] = now
                running(cluster, record.name)
                self._ends[record.name] = now + (record.workload.expected_seconds or 0.0)
        cluster.check_books()
        waiting = [r for r in cluster.manager.state.workloads.values() if r.phase is Phase.QUEUED]
        fitting = [r for r in waiting if self._earliest(r) is not None]
        if fitting and fitting[0].name not in self.promised:
            promised = self._earliest(fitting[0])
            assert promised is not None
            self.promised[fitting[0].name] = promised

    def _earliest(self, head: WorkloadRecord) -> float | None:
        """Tried on every server, end by end; ``None`` = it is larger than all of them.

        Of several servers: when the last of those that it needs is free.
        """
        need, found = head.workload.reservation.cpu_millicpus, []
        for name, there in self.cluster.manager.state.servers.items():
            residents = self.cluster.manager.residents_of(name)
            for time in sorted({self.cluster.now, *self._ends.values()}):
                held = sum(
                    each.allocation.cpu_millicpus
                    for r in residents
                    for each in r.placements
                    if each.server == name and self._ends[r.name] > time
                )
                if held + need <= there.cpu_millicpus:
                    found.append(time)
                    break
        wanted = min(head.workload.scale.max_servers, len(found))
        return sorted(found)[wanted - 1] if found else None


@pytest.mark.parametrize("seed", SEEDS)
def test_no_head_starts_later_than_without_what_was_placed_ahead_of_it(seed: int) -> None:
    run = Run(seed, backfill=32)
    late = {n: (run.started[n], at) for n, at in run.promised.items() if run.started[n] > at}
    assert not late


@pytest.mark.parametrize("seed", SEEDS)
def test_no_head_on_several_servers_starts_later_either(seed: int) -> None:
    run = Run(seed, backfill=32, widest=3)
    late = {n: (run.started[n], at) for n, at in run.promised.items() if run.started[n] > at}
    assert not late


@pytest.mark.long
def test_small_work_waits_less_and_something_is_placed_ahead() -> None:
    waited = dict.fromkeys((0, 32), 0.0)
    for seed in SEEDS:
        for backfill in waited:
            run = Run(seed, backfill)
            records = run.cluster.manager.state.workloads.values()
            small = [r for r in records if r.workload.reservation.cpu_millicpus <= 500]
            waited[backfill] += sum(run.started[r.name] - r.submitted_at for r in small)
    assert waited[32] < waited[0] / 2
