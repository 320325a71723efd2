"""What stands behind each policy in a simulated run: its planner, and who answers for it.

Baselines need neither. ``quasar`` has a planner and a classifier, as in a live manager, from the
scenario's training set. ``oracle`` reads the ground truth itself (``oracle.greedy``).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp

import numpy as np
from numpy.typing import NDArray

from wharfinger.classification.classifier import Classifier
from wharfinger.classification.learnt import joined, learn
from wharfinger.classification.pairwise import PairClassifier
from wharfinger.classification.planner import JointPlanner
from wharfinger.classification.platforms import platform_column
from wharfinger.classification.utility import Aspect, UtilityMatrix
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.core.pipeline import Core
from wharfinger.core.seams.estimation import ProfilingNeeds
from wharfinger.core.seams.policy import Policy
from wharfinger.errors import InvalidInput, WharfingerError
from wharfinger.model.configuration import Configuration, Setting
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Curve, Entry, Estimate, Measurements
from wharfinger.model.workload import Workload
from wharfinger.policies.registry import POLICIES, Bundle, Part, bundle_of, make_policy
from wharfinger.simulator.cluster.campaign import Campaign
from wharfinger.simulator.informed import (
    NO_PROFILING,
    ONE_A_SERVER,
    TRUE_CONTENTION,
    NoProfiling,
    OneAServer,
    TrueClassifier,
    words_of,
)
from wharfinger.simulator.kernel.streams import Streams
from wharfinger.simulator.oracle.greedy import GreedyOracle
from wharfinger.simulator.scenario.setup import Setup
from wharfinger.simulator.true_contention import TrueContention
from wharfinger.simulator.truth.ground_truth import GroundTruth, TrueResident

ORACLE = GreedyOracle.name
Answer = Callable[[act.ClassifyWorkload], ev.Report]
Learn = Callable[[float, Workload, Measurements], None]
SIZING = ProfilingNeeds()
REFIT_SECONDS = 300.0  # simulated, between two refits at least
REFIT_SHARE = 0.2  # of its rows, that must be new
CPU_STEPS = 7  # allocations at which the training set is profiled: the largest server, and halves
MOST_SERVERS = 4
LEAST_MILLICPUS = 125


def _learns_nothing(_now: float, _workload: Workload, _measured: Measurements) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Estimates:
    """One policy, ready to decide, and what answers ``ClassifyWorkload``.

    ``takes_stated`` = it is given the reservations that users state, who err; ``learn`` is told
    when a workload has ended, with all that was measured of it.
    """

    policy: Policy
    classify: Answer
    takes_stated: bool = False
    learn: Learn = _learns_nothing

    def decide_for(self, manager: Core) -> None:
        """This core asks it from now on: one that looks at the truth has to see all residents."""
        if isinstance(self.policy.placement, GreedyOracle):
            self.policy.placement.watch(manager)


def policies() -> tuple[str, ...]:
    """Names of all that can be simulated."""
    return (*POLICIES, ORACLE)


def estimates_for(spec: str, setup: Setup, seed: int, confidence: float, **parts: str) -> Estimates:
    """The policy of a name, perhaps with settings in brackets, with what it needs.

    ``parts`` are others than the policy's own, as ``make_policy`` takes them; empty = its own.
    Pieces of the truth may stand before the name (``informed``).

    Raises:
        InvalidInput: There is no such policy, or nothing that it could learn from.
    """
    words, spec = words_of(spec)
    extra = {ORACLE: Bundle(Part(lambda: GreedyOracle(setup)))}
    policy = make_policy(
        spec,
        defaults={"confidence": confidence, "seed": seed},
        extra=extra,
        estimation=None,
        **parts,
    )
    bundle = bundle_of(spec, extra)
    stated = bundle.takes_stated or _takes_stated(policy)
    if ONE_A_SERVER in words:
        policy = replace(policy, placement=OneAServer(policy.placement))
    if TRUE_CONTENTION in words:
        policy = replace(policy, contention=TrueContention(setup))
    if bundle.estimates:
        trained = Trained(setup, Streams(seed), policy.profiling)
        planner = NoProfiling() if NO_PROFILING in words else trained.planner
        planned = replace(policy, estimation=planner)
        classify = trained.told(words) if words else trained.classify
        return Estimates(planned, classify, stated, trained.learn)
    return Estimates(policy, _nothing, takes_stated=stated)


def _takes_stated(policy: Policy) -> bool:
    return getattr(policy.placement.settings, "reservations", "") == "stated"


def _nothing(action: act.ClassifyWorkload) -> ev.Report:
    return ev.ClassificationFailed(action.key, "this policy does not classify")


class Trained:
    """What a training set teaches, by the live classifier; ``InvalidInput`` without a set."""

    def __init__(self, setup: Setup, streams: Streams, needs: ProfilingNeeds = SIZING) -> None:
        if not setup.training:
            raise InvalidInput(
                f"scenario {setup.name!r} has no training set for a policy to learn from; give it "
                "one (training: ...), or choose another policy"
            )
        self._setup, self._streams, self._needs = setup, streams, needs
        sizes = {server.platform.name: server.cpu_millicpus for server in setup.servers}
        self._platforms = tuple(sizes)
        self._reference = _reference(setup, sizes)
        self._columns = _columns(sizes[self._reference], fractional=setup.fractional_cpu)
        servers = min(MOST_SERVERS, setup.max_servers)
        self._campaign = Campaign(setup, streams, self._reference, self._columns, servers)
        self._sources = sources = self._campaign.signals()
        self._known = self._matrices(sources)
        self._learnt: dict[Aspect, UtilityMatrix] = {}
        self._refitted_at, self._refitted_with = 0.0, 0
        self._classifier = Classifier(self._known)
        references = [name for name in setup.truth.references if name in setup.training]
        matrices = {p: self._pair_matrix(references, p) for p in self._platforms}
        self._pairs = PairClassifier.fit(references, matrices)
        self.planner = JointPlanner(
            self._classifier.classifications, sources, self._pairs.references, needs
        )

    def classify(self, action: act.ClassifyWorkload) -> ev.Report:
        """As a live manager does."""
        workload = action.workload
        bound = workload.target.latency if workload.target else None
        try:
            measurements = self._pairs.without_neighbors(action.measurements)
            alone = self._classifier.classify(measurements, workload.type, bound)
            classification = self._pairs.complete(alone, measurements)
        except WharfingerError as error:
            return ev.ClassificationFailed(action.key, f"it can't be classified: {error}")
        return ev.WorkloadClassified(action.key, classification)

    def told(self, words: frozenset[str]) -> Answer:
        """The same, with these pieces of the truth."""
        exact = replace(self._setup, measuring=replace(self._setup.measuring, noise=0.0))
        campaign = Campaign(exact, self._streams, self._reference, self._columns, 1)
        own = self._reference, self._sources
        return TrueClassifier(self._setup, words, self.classify, campaign, *own).classify

    def learn(self, now: float, workload: Workload, measured: Measurements) -> None:
        """A row of its program; now and then all is learnt anew, in simulated time.

        As a live manager does (``runtime.learning``): plans are made by the training set alone, and
        classifications are in the log: a replay needs none of this. Only where workloads
        are given what they state: what it does to sizing is unmeasured (decision 0057).
        """
        application = workload.run.command[-1]
        if not self._needs.stated or application in self._setup.training:
            return
        program = replace(workload, run=replace(workload.run, command=(application,)))
        self._learnt = learn(self._learnt, program, measured)
        rows = sum(len(matrix.rows) for matrix in self._learnt.values())
        least = REFIT_SHARE * (self._refitted_with + len(self._setup.training))
        is_due = now >= self._refitted_at + REFIT_SECONDS
        if is_due and rows - self._refitted_with >= least:
            self._classifier = Classifier(joined(self._known, self._learnt))
            self._refitted_at, self._refitted_with = now, rows

    def _matrices(self, sources: Sequence[SharedResource]) -> dict[Aspect, UtilityMatrix]:
        rows: dict[Aspect, dict[str, dict[str, Entry]]] = {}
        for name in self._setup.training:
            measured = self._campaign.measure(name, sources)
            if measured is not None:
                for kind, row in self._rows(measured).items():
                    rows.setdefault(kind, {})[name] = row
        made = {kind: UtilityMatrix.of(kind, entries) for kind, entries in rows.items()}
        return {kind: matrix for kind, matrix in made.items() if matrix.columns}

    def _rows(self, measured: Measurements) -> dict[Aspect, dict[str, Entry]]:
        performance = measured.performance
        quantity = next(q for q in (Quantity.THROUGHPUT, Quantity.RATE) if q in performance)
        own = {cpu: e for cpu, e in measured.performance[quantity].items() if e.value > 0}
        most = max(own, default=0)
        further = {run.setting: run.entry for run in measured.further.get(quantity, ())}
        across = dict(self._across(own, further))
        out = {str(s.servers): e for s, e in further.items() if s.servers > 1 and e.value > 0}
        if own:
            out["1"] = own[most]
        return {
            Aspect.SCALE_UP: {Configuration(cpu).name: e for cpu, e in sorted(own.items())},
            Aspect.HETEROGENEITY: across,
            Aspect.SCALE_OUT: dict(sorted(out.items())),
            Aspect.TOLERATED: {source.value: e for source, e in measured.tolerated.items()},
            Aspect.CAUSED: {source.value: e for source, e in measured.caused.items()},
        }

    def _across(
        self, own: Mapping[int, Entry], further: Mapping[Setting, Entry]
    ) -> Iterator[tuple[str, Entry]]:
        """Entries of heterogeneity by column: platform and allocation.

        Where each workload is given what it states, by platform alone: a copy has as much on every
        one, and an entry says how fast a platform is, not how large.
        """
        others = {s: e for s, e in further.items() if s.servers == 1 and e.value > 0}
        if not self._needs.stated:
            for cpu, entry in own.items():
                yield platform_column(self._reference, cpu), entry
            for setting, entry in others.items():
                cpu = setting.configuration.cpu_millicpus
                yield platform_column(setting.platform, cpu), entry
        elif own:
            sizes = sorted(own)
            most = own[sizes[-1]]
            yield self._reference, most
            curve = Curve(tuple(sizes), tuple(Estimate(own[cpu].value, 0.0) for cpu in sizes))
            for setting in sorted(others, key=lambda each: each.configuration.cpu_millicpus):
                level = most.value / curve.at(setting.configuration.cpu_millicpus).mean
                yield (
                    setting.platform,
                    replace(others[setting], value=others[setting].value * level),
                )

    def _pair_matrix(self, names: Sequence[str], platform: str) -> NDArray[np.float64]:
        """(K, K) performance of row beside column over that of row alone; 0 = they do not fit."""
        matrix, noise = np.zeros((len(names), len(names))), self._setup.measuring.noise
        for i, one in enumerate(names):
            for j, other in enumerate(names):
                error = noise * self._streams.normal("training", "pair", platform, one, other)
                matrix[i, j] = _pair_rate(self._setup.truth, platform, one, other) * exp(error)
        return matrix


def _pair_rate(truth: GroundTruth, platform: str, application: str, other: str) -> float:
    """Rate of an application beside another over that alone; 0 = the two do not fit."""
    own = TrueResident(application, 1000.0, 1)
    alone = truth.alone(platform, own)
    pair = [own, TrueResident(other, 1000.0, 1)]
    if alone <= 0 or not truth.fits(platform, pair):
        return 0.0
    return truth.rates(platform, pair)[0] / alone


def _reference(setup: Setup, sizes: dict[str, int]) -> str:
    """A high-end platform (Paragon 2.4); of equal ones where most sources have a signal."""
    beside = TrueResident(setup.training[0], 1000.0, 1)

    def signals(platform: str) -> int:
        return sum(
            setup.truth.source(platform, source, 100.0, beside) is not None
            for source in SharedResource
        )

    return max(sizes, key=lambda platform: (sizes[platform], signals(platform)))


def _columns(largest_millicpus: int, *, fractional: bool) -> tuple[int, ...]:
    """Halves of the largest server; whole CPUs where there are no others."""
    if not fractional:
        whole = {2**i * 1000 for i in range(CPU_STEPS) if 2**i * 1000 <= largest_millicpus}
        return tuple(sorted(whole | {largest_millicpus // 1000 * 1000}))
    halves = {largest_millicpus // 2**i for i in range(CPU_STEPS)}
    return tuple(sorted(cpu for cpu in halves if cpu >= LEAST_MILLICPUS))
