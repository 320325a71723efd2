"""What stands behind each policy in a simulated run: its planner, and who answers for it.

Baselines need neither. ``quasar`` has what a live manager has: programs that were profiled
exhaustively before (the scenario's training set, through copies and with a measurement's error),
a planner, and a classifier. ``oracle`` has the ground truth: as true numbers for the rules of
``quasar`` where interference is known between pairs, else it looks itself (``oracle_greedy``).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp

import numpy as np
from numpy.typing import NDArray

from wharfinger.classification.base import ProfilingPlanner
from wharfinger.classification.classifier import Classifier
from wharfinger.classification.pairwise import PairClassifier
from wharfinger.classification.planner import JointPlanner
from wharfinger.classification.utility import Kind, UtilityMatrix
from wharfinger.errors import InvalidInput, WharfingerError
from wharfinger.manager import actions as act
from wharfinger.manager import events as ev
from wharfinger.manager.manager import Manager
from wharfinger.model.configuration import Configuration
from wharfinger.placement.base import Policy
from wharfinger.placement.quasar import Quasar
from wharfinger.placement.registry import POLICIES, PolicyOptions, make_policy
from wharfinger.placement.reservation import Reservation
from wharfinger.simulation.oracle import NothingToProfile, Oracle, TrueNumbers
from wharfinger.simulation.oracle_greedy import GreedyOracle
from wharfinger.simulation.setup import Setup
from wharfinger.simulation.streams import Streams
from wharfinger.simulation.truth import Resident

Answer = Callable[[act.ClassifyWorkload], ev.Report]
CPU_STEPS = 7
"""Allocations at which the training set is profiled: halves of the largest server, and it."""
MOST_SERVERS = 4
LEAST_MILLICPUS = 125


@dataclass(frozen=True, slots=True)
class Estimates:
    """One policy, ready to decide.

    Attributes:
        policy: Places and resizes.
        planner: Decides on profiling; ``None`` = nothing is profiled.
        classify: Answers ``ClassifyWorkload``.
        by_reservation: It goes by what users reserve, who err.
    """

    policy: Policy
    planner: ProfilingPlanner | None
    classify: Answer
    by_reservation: bool = False

    def decide_for(self, manager: Manager) -> None:
        """This core asks it from now on: one that looks at the truth has to see who is where."""
        if isinstance(self.policy, GreedyOracle):
            self.policy.watch(manager)


def policies() -> tuple[str, ...]:
    """Names of all that can be simulated."""
    return (*POLICIES, Oracle.name)


def estimates_for(name: str, setup: Setup, *, seed: int, confidence: float) -> Estimates:
    """The policy of a name, with what it needs.

    Args:
        name: One of ``policies()``.
        setup: The run's world.
        seed: Of the run's streams.
        confidence: With which a target must be reached.

    Raises:
        InvalidInput: There is no such policy, or nothing that it could learn from.
    """
    if name == Oracle.name and not setup.truth.references:
        return Estimates(GreedyOracle(setup), None, _nothing)
    if name == Oracle.name:
        return Estimates(Oracle(confidence), NothingToProfile(), TrueNumbers(setup).classify)
    if name not in POLICIES:
        raise InvalidInput(f"--policy: {name!r} is not a policy; there are {', '.join(policies())}")
    policy = make_policy(name, PolicyOptions(confidence=confidence, seed=seed))
    if name == Quasar.name:
        trained = Trained(setup, Streams(seed))
        return Estimates(policy, trained.planner, trained.classify)
    return Estimates(policy, None, _nothing, by_reservation=name == Reservation.name)


def _nothing(action: act.ClassifyWorkload) -> ev.Report:
    return ev.ProfilingFailed(action.key, "this policy does not classify")


class Trained:
    """What a training set teaches, by the live manager's classifier.

    Args:
        setup: With the training set.
        streams: For the errors of its measurements.

    Raises:
        InvalidInput: There is no training set.
    """

    def __init__(self, setup: Setup, streams: Streams) -> None:
        if not setup.training:
            raise InvalidInput(
                f"scenario {setup.name!r} has no training set for quasar to learn from; give it "
                "one (training: ...), or choose another policy"
            )
        self._setup, self._streams = setup, streams
        sizes = {server.platform.name: server.cpu_millicpus for server in setup.servers}
        self._platforms = tuple(sizes)
        self._reference = max(sizes, key=lambda platform: sizes[platform])
        self._columns = _columns(max(sizes.values()), fractional=setup.fractional_cpu)
        self._classifier = Classifier(self._matrices())
        references = [name for name in setup.truth.references if name in setup.training]
        matrices = {p: self._pair_matrix(references, p) for p in self._platforms}
        self._pairs = PairClassifier.fit(references, matrices)
        self.planner = JointPlanner(
            self._classifier.classifications, sources=(), beside=self._pairs.references
        )

    def classify(self, action: act.ClassifyWorkload) -> ev.Report:
        """As a live manager does."""
        workload = action.workload
        bound = workload.target.latency if workload.target else None
        try:
            found = self._classifier.classify(action.measurements, workload.type, bound)
            found = self._pairs.complete(found, action.measurements)
        except WharfingerError as error:
            return ev.ProfilingFailed(action.key, f"it can't be classified: {error}")
        return ev.WorkloadClassified(action.key, found)

    def _matrices(self) -> dict[Kind, UtilityMatrix]:
        """The training set, profiled exhaustively."""
        rows: dict[Kind, dict[str, dict[str, float]]] = {
            Kind.SCALE_UP: {},
            Kind.HETEROGENEITY: {},
            Kind.SCALE_OUT: {},
        }
        for name in self._setup.training:
            most = self._columns[-1]
            sizes = {Configuration(cpu).name: cpu for cpu in self._columns}
            up = {size: self._seen(name, self._reference, cpu) for size, cpu in sizes.items()}
            across = {p: self._seen(name, p, most) for p in self._platforms}
            counts = range(1, min(MOST_SERVERS, self._setup.max_servers) + 1)
            out = {str(n): n * self._seen(name, self._reference, most, n) for n in counts}
            for kind, row in zip(rows, (up, across, out), strict=True):
                rows[kind][name] = {column: value for column, value in row.items() if value > 0}
        noise = self._setup.measuring.noise
        return {kind: UtilityMatrix.of(kind, known, error=noise) for kind, known in rows.items()}

    def _seen(self, name: str, platform: str, cpu: int, servers: int = 1) -> float:
        """What a copy with an empty server to itself would be measured at."""
        true = self._setup.truth.alone(platform, Resident(name, float(cpu), 1, None, servers))
        return true * self._error("alone", name, platform, cpu, servers)

    def _error(self, *what: str | int) -> float:
        return exp(self._setup.measuring.noise * self._streams.normal("training", *what))

    def _pair_matrix(self, names: Sequence[str], platform: str) -> NDArray[np.float64]:
        """(K, K) performance of row beside column over that of row alone; 0 = they do not fit."""
        truth = self._setup.truth
        matrix = np.zeros((len(names), len(names)))
        for i, one in enumerate(names):
            own = Resident(one, 1000.0, 1)
            alone = truth.alone(platform, own)
            for j, other in enumerate(names):
                pair = [own, Resident(other, 1000.0, 1)]
                if alone > 0 and truth.fits(platform, pair):
                    rate = truth.rates(platform, pair)[0] / alone
                    matrix[i, j] = rate * self._error("pair", platform, one, other)
        return matrix


def _columns(largest_millicpus: int, *, fractional: bool) -> tuple[int, ...]:
    """Halves of the largest server; whole CPUs where there are no others."""
    if not fractional:
        whole = {2**i * 1000 for i in range(CPU_STEPS) if 2**i * 1000 <= largest_millicpus}
        return tuple(sorted(whole | {largest_millicpus // 1000 * 1000}))
    halves = {largest_millicpus // 2**i for i in range(CPU_STEPS)}
    return tuple(sorted(cpu for cpu in halves if cpu >= LEAST_MILLICPUS))
