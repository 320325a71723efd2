"""Of scenarios with services that stay on their servers: how these stand when the run ends."""

from collections.abc import Iterable, Sequence

from wharfinger.simulator.cluster.runs import SimulatedServer
from wharfinger.simulator.scenario.jobs import Job


def of_those_that_stay(
    machines: Iterable[SimulatedServer], jobs: Sequence[Job]
) -> dict[str, float | int | None]:
    """Numbers for the report; none where nothing stays.

    * ``services_violated_fraction``: of those that stay, who do less than they must keep of what
      they would do there without neighbors.
    * ``utilization_used_servers_mean``: CPU that is allocated, over that of the servers that hold
      work that came (Pythia 5.6).
    * ``servers_with_work``: how many these are.
    * ``placed_fraction``: of the workloads that came, those that run.
    """
    stay = [job for job in jobs if job.stays]
    if not stay:
        return {}
    kept: dict[str, float] = {}
    placed, allocated, capacity, servers = 0, 0.0, 0.0, 0
    for machine in machines:
        for part in machine.parts:
            kept[part.run.job.name] = part.rate / part.alone if part.alone > 0 else 0.0
        came = sum(not part.run.job.stays for part in machine.parts)
        if came:
            placed, servers = placed + came, servers + 1
            allocated += machine.allocated_millicpus
            capacity += machine.cpu_millicpus
    violated = sum(kept.get(job.name, 0.0) < 1 - job.workload.tolerance for job in stay)
    return {
        "services_violated_fraction": violated / len(stay),
        "utilization_used_servers_mean": allocated / capacity if capacity else None,
        "servers_with_work": servers,
        "placed_fraction": placed / max(1, len(jobs) - len(stay)),
    }
