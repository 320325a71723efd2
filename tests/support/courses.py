"""Clusters in which workloads run at stated paces, period by period."""

from dataclasses import replace

from tests.support.cluster import Cluster, running, server, workload
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.core.lifecycle import Phase
from wharfinger.model.performance import Quantity, Reading, Sample
from wharfinger.model.profile import Classification, Curve, Entry, Estimate, Measurements
from wharfinger.model.workload import Target, Workload

PERIOD_SECONDS = 10.0


def made(policy: str = "feedback", *cpus: int, **others) -> Cluster:
    """Servers a, b, ... with so many CPUs; one of two by default."""
    cluster = Cluster(policy, **others)
    for name, count in zip("abc", cpus or (2,), strict=False):
        cluster.tell(ev.ServerReported(server(name, count)))
    cluster.sync()
    return cluster


def wants(name: str = "w", rate: float = 100, millicpus: int = 2000, **run) -> Workload:
    wanted = workload(name, millicpus)
    return replace(wanted, target=Target(rate_per_second=rate), run=replace(wanted.run, **run))


def start(cluster: Cluster, *wanted: Workload) -> None:
    for each in wanted:
        cluster.tell(ev.WorkloadSubmitted(each))
        running(cluster, each.name)


def filler(name: str) -> Workload:
    return workload(name, best_effort=True)


def measure(cluster: Cluster, times: int = 1, **rates: float) -> list[act.Action]:
    """Periods go by, at whose ends the engine reports; everybody uses the CPU that it has."""
    asked = []
    for _ in range(times):
        cluster.now += PERIOD_SECONDS
        for name, rate in rates.items():
            record = cluster.record(name)
            if record.phase not in (Phase.RUNNING, Phase.ADJUSTING):
                continue
            held = record.placements[0]
            cpu = held.allocation.cpu_millicpus / 1000
            readings = {
                Quantity.RATE: Reading(rate, "progress lines"),
                Quantity.CPU: Reading(cpu, "CPU time", trusted=False),
            }
            sample = Sample(record.key, readings)
            asked += cluster.tell(ev.ServerMeasured(held.server, (sample,))).actions
            cluster.check_books()
    return asked


def phase(cluster: Cluster, name: str) -> Phase:
    return cluster.record(name).phase


def of(kind: type, actions: list[act.Action]) -> list[act.Action]:
    return [action for action in actions if isinstance(action, kind)]


def classified(
    cluster: Cluster, name: str, *columns: tuple[int, float], std: float = 0.05, **others
) -> None:
    """As the planner had it profiled: measured at these allocations, and a curve through them."""
    key = cluster.key(name)
    entries = {cpu: Entry(rate) for cpu, rate in columns}
    cluster.tell(ev.ProfilingFinished(key, Measurements({Quantity.RATE: entries}, runs=1)))
    cluster.tell(ev.WorkloadClassified(key, curve(*columns, std=std, **others)))


def curve(*columns: tuple[int, float], std: float = 0.05, **others) -> Classification:
    points = Curve(tuple(c for c, _ in columns), tuple(Estimate(r, std) for _, r in columns))
    return Classification("hand", "1", {Quantity.RATE: points}, **others)


def labelled(wanted: Workload, **others) -> Workload:
    return replace(wanted, labels={"profile": "yes"}, **others)
