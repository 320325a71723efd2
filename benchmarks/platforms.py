"""How well performance is predicted on each platform, with what would be given there.

    python -m benchmarks.platforms --scenario paragon-ec2-high --scale 0.1 --seed 1

Programs that nobody has run before are profiled by the planner's own plan on an empty cluster and
classified. The truth is the scenario's physics: alone on each platform that holds its memory, with
as much CPU as it can use, or all that the platform has. No policy sees it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from math import hypot, log

import numpy as np

from benchmarks._harness import parser, report
from wharfinger.classification.prediction import change_on
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.core.pipeline import Core
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Classification, Estimate, quantile
from wharfinger.model.view import Capabilities, Request
from wharfinger.policies.registry import make_policy
from wharfinger.simulator.cluster.cluster import SimulatedCluster
from wharfinger.simulator.kernel.loop import EventLoop
from wharfinger.simulator.kernel.streams import Streams
from wharfinger.simulator.policies import Trained
from wharfinger.simulator.run import RunSpec, prepare
from wharfinger.simulator.scenario.jobs import Job
from wharfinger.simulator.scenario.setup import Costs, Setup
from wharfinger.simulator.truth.ground_truth import TrueResident

PROGRAMS = 100
CONFIDENCE = 0.9
"""Of each side: 80% of the truths are to lie between."""


class Profiled:
    """Profiles and classifies on an empty cluster, one program after the other."""

    def __init__(self, setup: Setup, seed: int) -> None:
        self._trained = Trained(setup, Streams(seed))
        self._loop, self._reports = EventLoop(), list[ev.Report]()
        at_once = Costs(start_seconds=0.0, start_spread=0.0)
        streams, measuring = Streams(seed), setup.measuring
        self._cluster = SimulatedCluster(
            self._loop,
            setup.truth,
            setup.servers,
            streams=streams,
            costs=at_once,
            measuring=measuring,
        )
        core = Core(make_policy("least-loaded"))
        able = Capabilities(measures=True, profiles=True, fractional_cpu=setup.fractional_cpu)
        core.handle(0.0, core.started("n", "0", "none", able))
        for server in setup.servers:
            core.handle(0.0, ev.ServerReported(server))
        core.handle(0.0, ev.EngineSynced((), tuple(server.name for server in setup.servers)))
        self._view = core.view
        self._cluster.attach(self._reports.append)
        self.elsewhere: Counter[str] = Counter()

    def classify(self, job: Job) -> Classification | None:
        profiling = self._trained.planner.plan(Request(job.workload), self._view)
        if profiling is None or profiling.plan is None:
            return None
        self.elsewhere.update(run.setting.platform for run in profiling.plan.further)
        self._cluster.jobs[job.name] = job
        self._reports.clear()
        self._cluster.perform(act.ProfileWorkload(job.name, job.workload, profiling.plan))
        while self._loop.step():
            for told in self._reports:
                if isinstance(told, ev.ProfilingFinished):
                    action = act.ClassifyWorkload(job.name, job.workload, told.measurements)
                    answer = self._trained.classify(action)
                    return answer.classification if hasattr(answer, "classification") else None
            self._reports.clear()
        return None


def errors(setup: Setup, job: Job, known: Classification) -> Iterator[tuple[str, float, bool]]:
    """By platform: the relative error, and whether the truth lies in the interval."""
    for name, platform in {s.platform.name: s.platform for s in setup.servers}.items():
        if platform.memory_bytes < job.memory_bytes:
            continue
        cpu = min(job.cpu_millicpus, platform.cpu_millicpus)
        true = setup.truth.alone(name, TrueResident(job.application, float(cpu), job.memory_bytes))
        here, change = known.curves[Quantity.RATE].at(cpu), change_on(known, name, cpu)
        found = Estimate(here.mean * change.mean, hypot(here.std, change.std))
        within = abs(log(found.mean / true)) <= quantile(CONFIDENCE) * found.std
        yield name, abs(found.mean - true) / true, within


def run(scenario: str, scale: float, seed: int, programs: int) -> dict[str, object]:
    setup = prepare(RunSpec(scenario, seed=seed, scale=scale)).setup
    profiled, by_platform, within = Profiled(setup, seed), defaultdict(list), list[bool]()
    new = {job.application: job for job in reversed(setup.jobs)}
    jobs = [job for name, job in new.items() if name not in setup.training][::-1][:programs]
    for job in jobs:
        known = profiled.classify(job)
        for name, error, held in errors(setup, job, known) if known else ():
            by_platform[name].append(error)
            within.append(held)
    everything = [error for each in by_platform.values() for error in each]
    return {
        "scenario": scenario,
        "programs": len(jobs),
        "mean_absolute_relative_error": float(np.mean(everything)),
        "median_absolute_relative_error": float(np.median(everything)),
        "interval_80_coverage": float(np.mean(within)),
        "by_platform": {name: float(np.mean(each)) for name, each in by_platform.items()},
        "runs_elsewhere": dict(profiled.elsewhere),
    }


def main() -> None:
    options = parser("Error of predicted performance by platform.")
    options.add_argument("--scenario", default="paragon-ec2-high", help="of physics")
    options.add_argument("--scale", type=float, default=0.1, help="of the cluster (default: 0.1)")
    options.add_argument("--programs", type=int, default=PROGRAMS, help="new ones (default: 100)")
    given = options.parse_args()
    report("platforms", given, [run(given.scenario, given.scale, given.seed, given.programs)])


if __name__ == "__main__":
    main()
