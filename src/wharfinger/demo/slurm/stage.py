"""The demo on Slurm: a cluster of six nodes and three platforms that it starts itself.

A node is one CPU that is given out whole, and really a share of a CPU of this machine: so
platforms differ for real, and which node a program runs on decides whether its target is kept.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from wharfinger.catalog.known import KnownPrograms
from wharfinger.catalog.known_files import load_known
from wharfinger.demo.cluster import Connect, DemoCluster
from wharfinger.demo.slurm.cluster import SlurmCluster
from wharfinger.demo.slurm.settings import MIB, NodeSet
from wharfinger.demo.slurm.users import SlurmUsers
from wharfinger.demo.solo import measure_alone
from wharfinger.demo.stage import Rival
from wharfinger.demo.timeline import Row
from wharfinger.demo.workloads import TARGETED
from wharfinger.errors import Unavailable

PLATFORMS = {"fast": 0.42, "middle": 0.28, "slow": 0.14}
"""Share of the machine's CPUs, all but a little of them, that two nodes of each really are."""
NEEDS = {"web": 0.3, "cache": 0.55, "compress": 0.75, "sort": 0.3, "report": 0.7}
"""Of a fast node, by what each program does there alone. ``sort`` does with any; the others need
one that is not slow, ``web`` in its surge."""
FEATURE = "platform:"
MEASURED = ("sha256sum", "python-re")
"""Known programs that are measured on every platform: none of them takes part."""
MEASURE_SECONDS = 0.5


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
    unit = "fast nodes"
    rival = "Slurm's own backfill scheduler, as users would hand them in"

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._slurm = SlurmCluster(nodes())
        self.alone_cpus = next(
            each.cpu_millicpus / 1000 for each in self._slurm.node_sets if each.platform == "fast"
        )

    def __enter__(self) -> None:
        """Start it."""
        self._slurm.open()

    def __exit__(self, *_error: object) -> None:
        """End it, with all that runs on it."""
        self._slurm.close()

    def manager(self, state: Path, policy: str, *options: str) -> DemoCluster:
        """A manager with the engine ``slurm``."""
        slurm = self._options(state)
        cluster = DemoCluster(state, policy, self._connect, *slurm, *options, servers="")
        cluster.environment = self._environment
        return cluster

    @property
    def _environment(self) -> dict[str, str]:
        return {**os.environ, **self._slurm.environment}

    @staticmethod
    def _options(directory: Path) -> list[str]:
        """Of commands that use the cluster; makes a shared directory beside this one."""
        shared = directory.with_name(f"{directory.name}.shared")
        shared.mkdir(mode=0o755)
        features = f"--platform-feature={FEATURE}*"
        return ["--engine", "slurm", "--shared-dir", str(shared), features]

    def learn(self, known: KnownPrograms, directory: Path) -> KnownPrograms:
        """With how fast some are on each platform, as an administrator measures that."""
        words = [*self._options(directory), "--only", ",".join(MEASURED), "--busy"]
        words += ["--seconds", f"{MEASURE_SECONDS}s", "--out", str(directory)]
        done = subprocess.run(
            [sys.executable, "-m", "wharfinger", "classify", "measure", *words],
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            why = done.stderr.strip().splitlines()[-1:] or done.stdout.strip().splitlines()[-1:]
            raise Unavailable(f"known programs can't be measured: {''.join(why)}")
        return replace(known, further=load_known(directory).further)

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
