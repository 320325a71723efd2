"""What stands behind each policy in a simulated run: its planner, and who answers for it.

Baselines need neither. ``quasar`` has a planner and a classifier, as in a live manager, from the
scenario's training set. ``oracle`` reads the ground truth itself (``oracle.greedy``).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from wharfinger.classification.classifier import Classifier
from wharfinger.classification.colocation import ColocationLearner, CorunObserver
from wharfinger.classification.learnt import joined, learn
from wharfinger.classification.planner import JointPlanner
from wharfinger.classification.utility import Aspect, UtilityMatrix
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.core.pipeline import Core
from wharfinger.core.seams.estimation import ProfilingNeeds
from wharfinger.core.seams.policy import Policy
from wharfinger.core.state import WorkloadRecord
from wharfinger.errors import InvalidInput, WharfingerError
from wharfinger.model.interference import SharedResource
from wharfinger.model.platform import Server
from wharfinger.model.profile import Estimate, Measurements
from wharfinger.model.workload import Workload
from wharfinger.policies.registry import POLICIES, Bundle, Part, bundle_of, make_policy
from wharfinger.simulator.cluster.campaign import Campaign
from wharfinger.simulator.informed import (
    NoProfiling,
    NoReaction,
    OneAServer,
    TrueClassifier,
)
from wharfinger.simulator.kernel.streams import Streams
from wharfinger.simulator.oracle.adaptation import OracleAdaptation
from wharfinger.simulator.oracle.admission import OracleAdmission
from wharfinger.simulator.oracle.greedy import GreedyOracle
from wharfinger.simulator.pieces import (
    NO_PROFILING,
    NO_REACTION,
    ONE_A_SERVER,
    PIECES,
    STATED,
    TRUE_CONTENTION,
    TRUE_SCORES,
    words_of,
)
from wharfinger.simulator.scenario.setup import Setup
from wharfinger.simulator.sets_training import with_sets
from wharfinger.simulator.training import training_set
from wharfinger.simulator.true_contention import TrueContention

ORACLE = GreedyOracle.name
OF_ORACLE = frozenset((TRUE_SCORES, NO_PROFILING))
Answer = Callable[[act.ClassifyWorkload], ev.Report]
Learn = Callable[[float, Workload, Measurements], None]
Look = Callable[[Server, Sequence[WorkloadRecord], Mapping[str, Estimate]], None]
SIZING = ProfilingNeeds()
REFIT_SECONDS = 300.0  # simulated, between two refits at least
REFIT_SHARE = 0.2  # of its rows, that must be new


def _learns_nothing(_now: float, _workload: Workload, _measured: Measurements) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Estimates:
    """One policy, ready to decide, and what answers ``ClassifyWorkload``.

    ``takes_stated`` = it is given the reservations that users state, who err; ``learn`` is told
    when a workload has ended, with all that was measured of it; ``look`` is shown the residents of
    a server that have changed, with their measured rates; ``None`` = it learns nothing of that.
    ``sources`` of interference have a signal on the platform where training sets are measured.
    """

    policy: Policy
    classify: Answer
    takes_stated: bool = False
    learn: Learn = _learns_nothing
    look: Look | None = None
    sources: tuple[SharedResource, ...] = ()

    def decide_for(self, manager: Core) -> None:
        """This core asks it from now on: one that looks at the truth has to see all residents."""
        if isinstance(self.policy.placement, GreedyOracle):
            self.policy.placement.watch(manager)


def policies() -> tuple[str, ...]:
    """Names of all that can be simulated."""
    return (*POLICIES, ORACLE)


def estimates_for(spec: str, setup: Setup, seed: int, confidence: float, **parts: str) -> Estimates:
    """The policy of a name, perhaps with settings in brackets, with what it needs.

    ``parts`` are others than the policy's own, as ``make_policy`` takes them; empty = its own. An
    admission may be ``oracle``. Pieces of the truth may stand before the name (``pieces``).

    Raises:
        InvalidInput: There is no such policy or piece, or nothing that it could learn from.
    """
    words, spec = words_of(spec)
    admission, oracle = parts.pop("admission", ""), _oracle(setup)
    if spec == ORACLE and admission not in {"", ORACLE} and setup.training:
        # An admission may ask for scores of interference: they are true.
        oracle, words = replace(oracle, contention="by-source", estimates=True), words | OF_ORACLE
    extra = {ORACLE: oracle}
    policy = make_policy(
        spec,
        defaults={"confidence": confidence, "seed": seed},
        extra=extra,
        estimation=None,
        admission="" if admission == ORACLE else admission,
        **parts,
    )
    policy = with_sets(policy, setup, seed)
    if admission == ORACLE:
        policy = replace(policy, admission=OracleAdmission(setup))
    policy = replace(policy, needs_measurements=_is_measured(policy, setup))
    bundle = bundle_of(spec, extra)
    stated = STATED in words or bundle.takes_stated or _takes_stated(policy)
    if ONE_A_SERVER in words:
        policy = replace(policy, placement=OneAServer(policy.placement))
    if NO_REACTION in words:
        policy = replace(policy, adaptation=NoReaction())
    if TRUE_CONTENTION in words:
        policy = replace(policy, contention=TrueContention(setup))
    if bundle.estimates:
        trained = Trained(setup, Streams(seed), policy.profiling)
        planner = NoProfiling() if NO_PROFILING in words else trained.planner
        planned = replace(policy, estimation=planner)
        told = frozenset(word for word in words if PIECES[word])
        classify = trained.told(told) if told else trained.classify
        look = trained.look if trained.learns_colocation else None
        return Estimates(planned, classify, stated, trained.learn, look, trained.sources)
    return Estimates(policy, _nothing, takes_stated=stated)


def _oracle(setup: Setup) -> Bundle:
    greedy = GreedyOracle(setup)
    return Bundle(
        Part(lambda: greedy), adaptation=Part(lambda: OracleAdaptation(setup, greedy.short))
    )


def _takes_stated(policy: Policy) -> bool:
    return getattr(policy.placement.settings, "reservations", "") == "stated"


def _is_measured(policy: Policy, setup: Setup) -> bool:
    """Whether what runs is measured: as the policy needs it, or as its settings say."""
    when = getattr(policy.placement.settings, "measures", "")
    if policy.needs_measurements or when == "always":
        return True
    return when == "phases" and any(job.phases for job in setup.jobs)


def _nothing(action: act.ClassifyWorkload) -> ev.Report:
    return ev.ClassificationFailed(action.key, "this policy does not classify")


def _application(workload: Workload) -> str:
    return workload.run.command[-1]


class Trained:
    """What a training set teaches, by the live classifier; ``InvalidInput`` without a set."""

    def __init__(self, setup: Setup, streams: Streams, needs: ProfilingNeeds = SIZING) -> None:
        if not setup.training:
            raise InvalidInput(
                f"scenario {setup.name!r} has no training set for a policy to learn from; give it "
                "one (training: ...), or choose another policy"
            )
        self._setup, self._streams, self._needs = setup, streams, needs
        self._training = training = training_set(setup, streams.seed, stated=needs.stated)
        self._classifier, self._pairs = training.classifier, training.pairs
        self._learnt: dict[Aspect, UtilityMatrix] = {}
        self._refitted_at, self._refitted_with = 0.0, 0
        self._observer = CorunObserver(_application)
        self._colocations = ColocationLearner(_application, training.platforms)
        self.planner = JointPlanner(self._classifier.classifications, self._pairs.references, needs)

    def classify(self, action: act.ClassifyWorkload) -> ev.Report:
        """As a live manager does."""
        workload = action.workload
        bound = workload.target.latency if workload.target else None
        try:
            measurements = self._pairs.without_neighbors(action.measurements)
            alone = self._classifier.classify(measurements, workload.type, bound)
            classification = self._pairs.complete(alone, measurements)
            if self.learns_colocation:
                own = self._colocations.profiles(workload)
                classification = replace(classification, pairs=own)
        except WharfingerError as error:
            return ev.ClassificationFailed(action.key, f"it can't be classified: {error}")
        return ev.WorkloadClassified(action.key, classification)

    @property
    def sources(self) -> tuple[SharedResource, ...]:
        """Those that can be injected."""
        return self._training.sources

    @property
    def learns_colocation(self) -> bool:
        """Whether it learns how programs slow one another.

        Where pairs were measured that is known, and only what is given as stated has a share of a
        server that is known before it is placed.
        """
        return self._needs.gives_stated and self._pairs.model is None

    def look(
        self, server: Server, residents: Sequence[WorkloadRecord], rates: Mapping[str, Estimate]
    ) -> None:
        """Learn from the residents of a server, as they run beside one another."""
        self._colocations.learn(self._observer.look(server, residents, rates))

    def told(self, words: frozenset[str]) -> Answer:
        """The same, with these pieces of the truth."""
        exact = replace(self._setup, measuring=replace(self._setup.measuring, noise=0.0))
        own = self._training.reference, self._training.sources
        campaign = Campaign(exact, self._streams, own[0], self._training.columns, 1)
        return TrueClassifier(self._setup, words, self.classify, campaign, *own).classify

    def learn(self, now: float, workload: Workload, measured: Measurements) -> None:
        """A row of its program; now and then all is learnt anew, in simulated time.

        As a live manager does (``runtime.learning``): plans are made by the training set alone, and
        classifications are in the log: a replay needs none of this. Only where workloads
        are given what they state: what it does to sizing is unmeasured (decision 0057).
        """
        application = _application(workload)
        if not self._needs.stated or application in self._setup.training:
            return
        program = replace(workload, run=replace(workload.run, command=(application,)))
        self._learnt = learn(self._learnt, program, measured)
        rows = sum(len(matrix.rows) for matrix in self._learnt.values())
        least = REFIT_SHARE * (self._refitted_with + len(self._setup.training))
        is_due = now >= self._refitted_at + REFIT_SECONDS
        if is_due and rows - self._refitted_with >= least:
            self._classifier = Classifier(joined(self._training.known, self._learnt))
            self._refitted_at, self._refitted_with = now, rows
