"""The demo on Slurm: a cluster of six nodes and three platforms that it starts itself.

A node is one CPU that is given out whole, and really a share of a CPU of this machine: so
platforms differ for real, and which node a program runs on decides whether its target is kept.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from wharfinger.demo.cluster import Connect, DemoCluster
from wharfinger.demo.slurm.cluster import SlurmCluster
from wharfinger.demo.slurm.settings import MIB, NodeSet
from wharfinger.demo.slurm.users import SlurmUsers
from wharfinger.demo.solo import measure_alone
from wharfinger.demo.stage import Rival
from wharfinger.demo.timeline import Row
from wharfinger.demo.workloads import TARGETED

PLATFORMS = {"fast": 0.42, "middle": 0.28, "slow": 0.14}
"""Share of the machine's CPUs, all but a little of them, that two nodes of each really are."""
NEEDS = {"web": 0.3, "cache": 0.55, "compress": 0.5, "sort": 0.25, "report": 0.25}
"""Of a fast node, by what each program does there alone: in its surge ``web`` needs a fast node,
``cache`` and ``compress`` one that is not slow, and the others any."""
FEATURE = "platform:"


def nodes() -> tuple[NodeSet, ...]:
    """Two of each platform; their names say nothing of it."""
    machine = sorted(os.sched_getaffinity(0))
    names = iter(("n4", "n1", "n6", "n3", "n2", "n5"))
    return tuple(
        NodeSet(
            platform,
            (next(names), next(names)),
            1,
            1024 * MIB,
            round(500 * len(machine) * share),
            tuple(machine),
        )
        for platform, share in PLATFORMS.items()
    )


class SlurmStage:
    """The cluster, and managers on it."""

    alone = "a fast node"
    rival = "Slurm's own backfill scheduler, as users would hand them in"

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._slurm = SlurmCluster(nodes())

    def __enter__(self) -> None:
        """Start it."""
        self._slurm.open()

    def __exit__(self, *_error: object) -> None:
        """End it, with all that runs on it."""
        self._slurm.close()

    def manager(self, state: Path, policy: str, *options: str) -> DemoCluster:
        """A manager with the engine ``slurm``."""
        shared = state.with_name(f"{state.name}.shared")
        shared.mkdir(mode=0o755)
        features = (f"--platform-feature={FEATURE}{platform}" for platform in PLATFORMS)
        slurm = ("--engine", "slurm", "--shared-dir", str(shared), *features)
        cluster = DemoCluster(state, policy, self._connect, *slurm, *options, servers="")
        cluster.environment = {**os.environ, **self._slurm.environment}
        return cluster

    def baseline(self, state: Path) -> AbstractContextManager[Rival]:
        """The users of plain Slurm."""
        return SlurmUsers(self._slurm, state.with_name(f"{state.name}.work"))

    def measure(
        self, cluster: DemoCluster, seconds: float, needs: Mapping[str, float]
    ) -> Iterator[tuple[str, float, float]]:
        """Each program on a fast node, which has its share whatever the others do."""
        yield from measure_alone(cluster, seconds, needs, {"slurm/feature.platform": "fast"})

    def cpus(self, servers: Sequence[Row]) -> float:
        """What the nodes really are."""
        return sum(len(each.names) * each.cpu_millicpus for each in self._slurm.node_sets) / 1000

    def needs(self, servers: Sequence[Row]) -> dict[str, float]:
        """Shares of a fast node."""
        return dict(NEEDS)

    def reserved(self, servers: Sequence[Row], seed: int) -> dict[str, float]:
        """A node each: Slurm gives out whole CPUs."""
        return dict.fromkeys(TARGETED, 1.0)

    def notes(self) -> list[str]:
        """What this machine can't limit."""
        return list(self._slurm.conditions)
