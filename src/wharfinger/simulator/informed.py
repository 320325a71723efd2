"""What the words before a policy's name stand for: truth, and parts that do less (``pieces``).

A service's classification has no truth but its scores.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from wharfinger.classification.classifier import measured_score
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.core.seams.adaptation import Remedy, Residents
from wharfinger.core.seams.estimation import Profiling
from wharfinger.core.seams.placement import PlacementPolicy, ServerIndex
from wharfinger.core.seams.verdicts import PlacementVerdict
from wharfinger.core.state import WorkloadRecord
from wharfinger.core.tracking import Tracked
from wharfinger.model.allocation import Placement
from wharfinger.model.decisions import Decision, Place, ReasonCode, Refuse, Stage
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.model.profile import Classification, Curve, Estimate, Measurements
from wharfinger.model.view import Request, View
from wharfinger.simulator.cluster.campaign import Campaign
from wharfinger.simulator.pieces import (
    NO_PROFILING,
    NO_REACTION,
    ONE_A_SERVER,
    TRUE_PLATFORMS,
    TRUE_SCORES,
    TRUE_SERVERS,
    TRUE_SIZES,
)
from wharfinger.simulator.scenario.jobs import Job
from wharfinger.simulator.scenario.setup import Setup
from wharfinger.simulator.truth.ground_truth import TrueResident

EXACT = 1e-3
"""Standard deviation of the logarithm of what is true."""


class TrueClassifier:
    """Classifies as another does, and puts the truth in the place of what it has guessed.

    ``campaign`` measures on the ``reference`` platform without noise.
    """

    def __init__(
        self,
        setup: Setup,
        words: frozenset[str],
        classify: Callable[[act.ClassifyWorkload], ev.Report],
        campaign: Campaign,
        reference: str,
        sources: Sequence[SharedResource],
    ) -> None:
        self._words, self._classify = words, classify
        self._truth, self._reference = setup.truth, reference
        self._campaign, self._sources = campaign, sources
        self._jobs = {job.name: job for job in setup.jobs}
        self._sizes = {server.platform.name: server.cpu_millicpus for server in setup.servers}
        self._scores: dict[str, dict[str, dict[SharedResource, Estimate]]] = {}

    def classify(self, action: act.ClassifyWorkload) -> ev.Report:
        """Of a job in its first phase."""
        report = self._classify(action)
        if not isinstance(report, ev.WorkloadClassified):
            return report
        made, job = report.classification, self._jobs[action.workload.name]
        if TRUE_SCORES in self._words:
            made = replace(made, **self._true_scores(job), scores_measured=True)
        if job.is_service:
            return replace(report, classification=made)
        if TRUE_SIZES in self._words:
            made = self._with_sizes(made, job)
        if TRUE_PLATFORMS in self._words:
            made = self._with_platforms(made, job)
        if TRUE_SERVERS in self._words:
            made = self._with_servers(made, job)
        return replace(report, classification=made)

    def _true_scores(self, job: Job) -> dict[str, Any]:
        if job.application not in self._scores:
            measured = self._campaign.scores(job.application, self._sources)
            self._scores[job.application] = (
                {}
                if measured is None
                else {
                    kind: {source: measured_score(entry) for source, entry in entries.items()}
                    for kind, entries in (
                        ("tolerated", measured.tolerated),
                        ("caused", measured.caused),
                    )
                }
            )
        return self._scores[job.application]

    def _with_platforms(self, made: Classification, job: Job) -> Classification:
        sizes = {min(job.cpu_millicpus, most) for most in self._sizes.values()}
        if TRUE_SIZES in self._words:
            sizes |= self._halves(self._reference, job)
        own = self._curve(self._reference, job, sizes)
        ratios = {}
        for platform, most in self._sizes.items():
            cpu = min(job.cpu_millicpus, most)
            here, there = (self._rate(name, job, cpu) for name in (self._reference, platform))
            if here > 0 and there > 0:
                ratios[platform] = Estimate(there / here, EXACT)
        return replace(
            made,
            curves={**made.curves, Quantity.RATE: own} if own else made.curves,
            total=job.work if made.total is None else made.total,
            platform=self._reference,
            platforms=ratios,
            by_allocation={},
        )

    def _with_sizes(self, made: Classification, job: Job) -> Classification:
        platform = self._platform_of(made)
        own = self._curve(platform, job, self._halves(platform, job))
        if own is None:
            return made
        return replace(
            made,
            curves={**made.curves, Quantity.RATE: own},
            total=job.work if made.total is None else made.total,
            platform=platform,
        )

    def _with_servers(self, made: Classification, job: Job) -> Classification:
        """As they scale where the curves hold: with less memory there they gain more of others."""
        platform = self._platform_of(made)
        cpu = min(job.cpu_millicpus, self._sizes[platform])
        one = self._rate(platform, job, cpu)
        if one <= 0:
            return made
        counts = range(1, job.workload.scale.max_servers + 1)
        rates = {n: n * self._rate(platform, job, cpu, n) / one for n in counts}
        outs = {n: Estimate(rate, EXACT) for n, rate in rates.items() if rate > 0}
        return replace(made, servers=outs)

    def _platform_of(self, made: Classification) -> str:
        return made.platform or self._reference

    def _halves(self, platform: str, job: Job) -> set[int]:
        """What it can use of a server, and halves of it; at least one CPU."""
        most = min(job.cpu_millicpus, self._sizes[platform])
        return {most} | {most >> n for n in range(1, 8) if most >> n >= MILLICPUS_PER_CPU}

    def _curve(self, platform: str, job: Job, sizes: set[int]) -> Curve | None:
        rates = {cpu: self._rate(platform, job, cpu) for cpu in sorted(sizes)}
        if min(rates.values()) <= 0:
            return None
        return Curve(tuple(rates), tuple(Estimate(rate, EXACT) for rate in rates.values()))

    def _rate(self, platform: str, job: Job, cpu_millicpus: int, servers: int = 1) -> float:
        cpu, memory = float(cpu_millicpus), job.memory_bytes
        resident = TrueResident(job.application, cpu, memory, servers=servers)
        return self._truth.alone(platform, resident)


class NoProfiling:
    """Has each workload classified at once."""

    name = NO_PROFILING

    def beside(self, _request: Request, _view: View) -> None:
        """No copies are needed."""

    def plan(self, _request: Request, _view: View) -> Profiling:
        """None."""
        message = "nothing is measured: what is known is the truth"
        return Profiling(Decision(Stage.PROFILING, self.name, True, ReasonCode.OK, message))


class NoReaction:
    """An adaptation that follows no target."""

    name = NO_REACTION
    settings: Any = None

    def track(self, record: WorkloadRecord, now: float, slowdown: Estimate | None) -> Tracked:
        """Nothing."""
        return Tracked(record.name, None)

    def measured(self, record: WorkloadRecord, platform: str = "") -> Measurements | None:
        """What its profile has told."""
        return record.measurements

    def wake_at(self, now: float, cluster: Residents) -> float | None:
        """Never."""
        return None

    def remedies(self, now: float, event: ev.Event, cluster: Residents) -> Iterator[Remedy]:
        """None."""
        return iter(())


class OneAServer:
    """A placement that is shown empty servers only."""

    def __init__(self, placement: PlacementPolicy) -> None:
        self._placement = placement
        self.name = f"{ONE_A_SERVER}+{placement.name}"
        self.settings: Any = placement.settings
        self.keeps_scale = getattr(placement, "keeps_scale", False)
        self.follows_targets = getattr(placement, "follows_targets", False)

    def place(self, request: Request, view: View) -> PlacementVerdict:
        """As the placement does, where nobody runs."""
        taken = np.where(view.residents > 0, view.cpu_capacity, view.cpu_allocated)
        return self._placement.place(request, replace(view, cpu_allocated=taken, loads=None))

    def resize(
        self, request: Request, placements: tuple[Placement, ...], view: View
    ) -> Place | Refuse | None:
        """As the placement does."""
        return self._placement.resize(request, placements, view)

    def index(self) -> ServerIndex | None:
        """The placement's."""
        return self._placement.index()
