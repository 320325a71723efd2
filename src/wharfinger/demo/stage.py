"""What the demo runs on: this machine's CPUs, or a Slurm cluster (``demo.slurm.stage``)."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from wharfinger.catalog.known import KnownPrograms
from wharfinger.demo.cluster import Connect, DemoCluster
from wharfinger.demo.reservations import reservations
from wharfinger.demo.solo import measure_alone, others_busy
from wharfinger.demo.timeline import Row, WatchedCluster
from wharfinger.demo.workloads import BASELINE, SHARE, TARGETED


class Rival(WatchedCluster, Protocol):
    """What runs the same workloads for comparison; ends as a context.

    Attributes:
        policy: What the result calls it.
        work: The programs' working directory.
    """

    policy: str
    work: Path

    def start(self) -> None:
        """Be ready for workloads."""

    def submit(self, text: str) -> None:
        """Hand in manifests."""

    def clear(self) -> None:
        """Stop every workload, and wait until all have ended."""


class DemoStage(Protocol):
    """A cluster to show it on; up inside its context.

    Attributes:
        alone: On what each program runs alone, for people.
        alone_cpus: Of this machine, what that is.
        unit: What several of those are called.
        rival: Of the second run, for people.
    """

    alone: str
    alone_cpus: float
    unit: str
    rival: str

    def manager(self, state: Path, policy: str, *options: str) -> DemoCluster:
        """A manager on it, not started yet; ``options`` are more of ``wharfinger up``."""

    def baseline(self, state: Path) -> AbstractContextManager[Rival]:
        """What the second run is made with."""

    def measure(
        self, cluster: DemoCluster, seconds: float, needs: Mapping[str, float]
    ) -> Iterator[tuple[str, float, float]]:
        """Each program alone, as ``measure_alone`` tells it."""

    def learn(self, known: KnownPrograms, directory: Path) -> KnownPrograms:
        """What is known of known programs, with what is measured of them here."""

    def cpus(self, servers: Sequence[Row]) -> float:
        """What all servers together can do, in CPUs of this machine."""

    def needs(self, servers: Sequence[Row]) -> dict[str, float]:
        """By name, the CPUs that each target is to need, by what its program does alone."""

    def reserved(self, servers: Sequence[Row], seed: int) -> dict[str, float]:
        """By name, the CPUs that users reserve."""

    def notes(self) -> list[str]:
        """What it can't show here."""

    def __enter__(self) -> Any:
        """Bring it up."""

    def __exit__(self, *error: object) -> None:
        """Take it down."""


class LocalStage:
    """This machine, as servers of one CPU each."""

    alone = "one CPU"
    alone_cpus = 1.0
    unit = "CPUs"
    rival = f"{BASELINE}, with users' reservations"

    def __init__(self, connect: Connect) -> None:
        self._connect = connect

    def __enter__(self) -> None:
        """There is nothing to bring up."""

    def __exit__(self, *_error: object) -> None:
        """Managers end by themselves."""

    def manager(self, state: Path, policy: str, *options: str) -> DemoCluster:
        """A manager on it."""
        return DemoCluster(state, policy, self._connect, *options)

    def baseline(self, state: Path) -> AbstractContextManager[Rival]:
        """A manager under the policy that many clusters have."""
        return self.manager(state, BASELINE)

    def measure(
        self, cluster: DemoCluster, seconds: float, needs: Mapping[str, float]
    ) -> Iterator[tuple[str, float, float]]:
        """Each program on a server of its own, while the others are busy."""
        with others_busy(cluster.cpu_numbers[1:]):
            yield from measure_alone(cluster, seconds, needs)

    def learn(self, known: KnownPrograms, directory: Path) -> KnownPrograms:
        """Nothing: they were measured on a machine like this."""
        return known

    def cpus(self, servers: Sequence[Row]) -> float:
        """All of them."""
        return round(float(sum(server["cpus"] for server in servers)), 3)

    def needs(self, servers: Sequence[Row]) -> dict[str, float]:
        """The same for each."""
        return dict.fromkeys(TARGETED, SHARE * self.cpus(servers))

    def reserved(self, servers: Sequence[Row], seed: int) -> dict[str, float]:
        """Over- and underestimates."""
        max_cpus = min(server["cpus"] for server in servers)
        return reservations(TARGETED, SHARE * self.cpus(servers), seed, max_cpus)

    def notes(self) -> list[str]:
        """Its servers' conditions say all."""
        return []
