"""The oracle: the default policy, told the true numbers in place of estimates.

It decides by the rules of ``quasar``, with nothing to estimate, no profiling to wait for and no
doubt. So it bounds what better estimates can give, and not what another rule could.
"""

import numpy as np

from wharfinger.contention.exact import exact_profiles
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.core.seams.estimation import Profiling
from wharfinger.model.decisions import Decision, ReasonCode, Stage
from wharfinger.model.pairs import PairProfile
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Classification, Curve, Estimate
from wharfinger.model.view import Request, View
from wharfinger.policies.placement.quasar import Quasar, QuasarSettings
from wharfinger.policies.registry import Bundle, Part
from wharfinger.simulator.scenario.jobs import Job
from wharfinger.simulator.scenario.setup import Setup
from wharfinger.simulator.truth.ground_truth import GroundTruth, TrueResident

NEVER = 1e-9  # stands for a rate of 0, of which there is no logarithm
CPU_SHARES = (0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0)
"""Of what a job can use: where the curve is told; between these it is a line in logarithms."""


class Oracle(Quasar):
    """``quasar``, by true numbers."""

    name = "oracle"


ESTIMATING = Bundle(Part(Oracle, QuasarSettings), contention="combined", needs_measurements=True)
"""The oracle where contention is known between pairs."""


class NothingToProfile:
    """Everything with a target is classified at once."""

    name = "oracle"

    def plan(self, request: Request, _view: View) -> Profiling | None:
        """No runs."""
        if request.workload.best_effort or request.workload.target is None:
            return None
        message = "the true numbers are known"
        return Profiling(Decision(Stage.PROFILING, self.name, True, ReasonCode.OK, message))


class TrueNumbers:
    """Answers what an estimator would estimate."""

    def __init__(self, setup: Setup) -> None:
        self._truth = setup.truth
        self._jobs = {job.name: job for job in setup.jobs}
        self._fractional = setup.fractional_cpu
        self._max_servers = setup.max_servers
        self._sizes = {server.platform.name: server.cpu_millicpus for server in setup.servers}
        self._basis = self._truth.references
        self._platforms = tuple(self._sizes)
        self._pairs: dict[str, dict[str, PairProfile]] = {}

    def classify(self, action: act.ClassifyWorkload) -> ev.Report:
        """The truth of one workload."""
        job = self._jobs.get(action.workload.name)
        if job is None:
            return ev.ClassificationFailed(action.key, "the ground truth does not know it")
        return ev.WorkloadClassified(action.key, self.classification(job))

    def classification(self, job: Job) -> Classification:
        """All that is true of a job."""
        most = {p: self._truth.most(p, job.application) for p in self._platforms}
        reference = max(self._platforms, key=lambda platform: most[platform])
        columns = self._columns(job)
        rates = [self._rate(job, reference, cpu) for cpu in columns]
        curves = {Quantity.RATE: _exact(columns, rates)}
        target = job.workload.target
        bound = target.latency if target else None
        held = None
        if job.load is not None:
            curves = {Quantity.THROUGHPUT: _exact(columns, rates)}
            if bound is not None:
                held = bound.below_seconds
                queue = self._truth.queue(job.application)
                could = [
                    queue.held_per_second(rate, cpu / 1000, bound)
                    for rate, cpu in zip(rates, columns, strict=True)
                ]
                curves[Quantity.HELD] = _exact(columns, could)
        base = max(rates[-1], NEVER)
        return Classification(
            estimator="truth",
            version="1",
            curves=curves,
            shape=_exact(columns, [rate / base for rate in rates]),
            total=None if job.is_service else job.work,
            measured=len(columns),
            platform=reference,
            platforms={
                platform: Estimate(max(self._rate(job, platform, columns[-1]), NEVER) / base, 0.0)
                for platform in self._platforms
                if platform != reference
            },
            servers=self._servers(job, reference, columns[-1]),
            held_below_seconds=held,
            asked_per_second=max(job.load.per_second) if job.load else None,
            pairs=self._pairs_of(job) if self._basis else {},
        )

    def _columns(self, job: Job) -> tuple[int, ...]:
        if not self._fractional:
            return tuple(range(1000, max(job.cpu_millicpus, 1000) + 1, 1000))
        return tuple(dict.fromkeys(max(1, round(s * job.cpu_millicpus)) for s in CPU_SHARES))

    def _rate(self, job: Job, platform: str, cpu_millicpus: int, servers: int = 1) -> float:
        given = float(min(cpu_millicpus, self._sizes[platform]))
        load = None if job.load is None else job.load.per_second[0]
        who = TrueResident(job.application, given, job.memory_bytes, load, servers)
        if not self._truth.fits(platform, [who]):
            return 0.0
        return self._truth.alone(platform, who)

    def _servers(self, job: Job, platform: str, cpu_millicpus: int) -> dict[int, Estimate]:
        most = min(self._max_servers, job.workload.scale.max_servers)
        one = max(self._rate(job, platform, cpu_millicpus), NEVER)
        return {
            count: Estimate(count * self._rate(job, platform, cpu_millicpus, count) / one, 0.0)
            for count in range(2, most + 1)
        }

    def _pairs_of(self, job: Job) -> dict[str, PairProfile]:
        profiles = {platform: self._profiles(platform) for platform in self._platforms}
        name = job.application
        return {platform: one[name] for platform, one in profiles.items() if name in one}

    def _profiles(self, platform: str) -> dict[str, PairProfile]:
        if platform not in self._pairs:
            rows = [
                [pair_rate(self._truth, platform, name, other) for other in self._basis]
                for name in self._basis
            ]
            matrix = np.array(rows)
            self._pairs[platform] = exact_profiles(f"true/{platform}", self._basis, matrix)
        return self._pairs[platform]


def pair_rate(truth: GroundTruth, platform: str, application: str, other: str) -> float:
    """Rate of an application beside another over that alone; 0 = the two do not fit."""
    own = TrueResident(application, 1000.0, 1)
    alone = truth.alone(platform, own)
    pair = [own, TrueResident(other, 1000.0, 1)]
    if alone <= 0 or not truth.fits(platform, pair):
        return 0.0
    return truth.rates(platform, pair)[0] / alone


def _exact(columns: tuple[int, ...], values: list[float]) -> Curve:
    return Curve(columns, tuple(Estimate(max(value, NEVER), 0.0) for value in values))
