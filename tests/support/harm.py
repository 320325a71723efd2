"""Whether a policy does harm: paired runs of it and the baselines, and how noise is treated.

Functions of a module, so that other processes find them by name.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tests.support.measured_tables import write_tables
from wharfinger.model.arrays import normal_below
from wharfinger.simulator.oracle.greedy import GreedyOracle
from wharfinger.simulator.results.outcome import JobOutcome
from wharfinger.simulator.run import UNDER, RunSpec, prepare_in_turn
from wharfinger.simulator.scenario.build import scale_to
from wharfinger.simulator.scenario.scenario_files import load_scenario

BASELINES = ("least-loaded", "random")
HARM = 0.01
SURE = 0.95
"""A test fails where there is harm with this probability, not where it may be chance."""
SCENARIO = """\
apiVersion: wharfinger.dev/v1alpha1
kind: Scenario
metadata: {name: drawn-tables, description: tables of programs that slow one another}
spec:
  truth: {measured: "."}
  population:
    - name: job
      duration: {shape: lognormal, mean: 1500s, sigma: 0.8, from: 2m, to: 4h}
  workloads: 60
  arrivals: {pattern: poisson, load: 0.4}
  targets: {of: random-platform, share: 90%, kind: rate}
  engine: {fractionalCpu: false}
  maxServers: 1
"""


@dataclass(frozen=True, slots=True)
class Case:
    """What runs, small; ``regime`` ``""`` = the scenario's own.

    Servers shrink with workloads, or all of them are there (``few_on_all``).
    """

    scenario: str
    regime: str = ""
    workloads: int = 100
    seeds: tuple[int, ...] = (1, 2)
    few_on_all: bool = False

    @property
    def name(self) -> str:
        """For messages and for exceptions."""
        return f"{self.regime or 'own'}/{Path(self.scenario).parent.name or self.scenario}"


@dataclass(frozen=True, slots=True)
class Fates:
    """Of one run, by workload with a target or none but not best-effort; ``idle`` as below."""

    kept: NDArray[np.float64]
    performance: NDArray[np.float64]
    idle: tuple[str, ...]


def fates(case: Case, policy: str, seed: int) -> Fates:
    """Run it, perhaps under another admission (``paragon + arq``). Who never ran has performance 0.

    ``idle`` names those that had not ended while, at the end, a server stood free on which what
    they need would fit.
    """
    scale = scale_to(load_scenario(case.scenario), case.workloads)
    own, _, admission = policy.partition(UNDER)
    regime = case.regime or None
    spec = RunSpec(case.scenario, own, admission, seed=seed, regime=regime, scale=scale)
    if case.few_on_all:
        spec = replace(spec, scale=1.0, workloads=case.workloads)
    simulation = prepare_in_turn(spec)
    outcome = simulation.run()
    free = [
        (server.cpu_millicpus, server.memory_bytes)
        for name, server in simulation.manager.state.servers.items()
        if server.accepting and not _holds(simulation.manager.state, name)
    ]
    jobs = {job.name: job for job in simulation.setup.jobs}
    idle = [
        fate.name
        for fate in outcome.fates
        if fate.end == "unfinished"
        and not fate.platform
        and any(
            cpu >= jobs[fate.name].cpu_millicpus and memory >= jobs[fate.name].memory_bytes
            for cpu, memory in free
        )
    ]
    wanted = [fate for fate in outcome.fates if fate.type != "best-effort"]
    return Fates(
        np.array([float(fate.kept) for fate in wanted if fate.target_performance is not None]),
        np.array([_performance(fate) for fate in wanted]),
        tuple(idle),
    )


def _performance(fate: JobOutcome) -> float:
    """Of its target, at most 1: what is given beyond that does nobody good."""
    reached = fate.target_performance
    return fate.performance if reached is None else reached


def _holds(state, server: str) -> bool:
    return any(
        placement.server == server
        for record in state.workloads.values()
        if not record.ended
        for placement in record.placements
    )


def drawn_tables(folder: Path, programs: int = 12) -> str:
    """A scenario of tables on two platforms, drawn: pressure and sensitivity, with noise."""
    draw = np.random.default_rng(7)
    names = [f"p{number:02}" for number in range(programs)]
    alone = draw.lognormal(1.0, 0.5, programs)
    faster = draw.lognormal(0.6, 0.3, programs)
    presses, suffers = draw.gamma(1.0, 0.35, programs), draw.gamma(1.0, 0.5, programs)
    isolated, pairs = ["workload,platform,performance"], ["platform,workload,beside,performance"]
    for at, name in enumerate(names):
        rates = {"slow": alone[at], "fast": alone[at] * faster[at]}
        for platform, rate in rates.items():
            isolated.append(f"{name},{platform},{rate:.5g}")
            left = np.exp(-suffers[at] * presses + draw.normal(0.0, 0.03, programs))
            for other, share in zip(names, np.minimum(left, 1.0), strict=True):
                pairs.append(f"{platform},{name},{other},{rate * share:.5g}")
    write_tables(folder, "\n".join(isolated) + "\n", "\n".join(pairs) + "\n")
    (folder / "scenario.yaml").write_text(SCENARIO)
    return str(folder / "scenario.yaml")


@dataclass(frozen=True, slots=True)
class Shortfall:
    """By how much a policy does worse than the better baseline, and how sure that is.

    Attributes:
        mean: Of the differences, workload by workload on identical draws.
        error: Its standard error. Workloads of one run are taken as independent, which they are not
            quite: so it is somewhat too small, and the test somewhat too strict.
    """

    under: str
    mean: float
    error: float

    @property
    def probability(self) -> float:
        """That it is more than ``HARM``; without any spread it is so or not."""
        ahead = self.mean - HARM
        if self.error == 0:
            return float(ahead > 1e-9)
        return float(normal_below(np.array([ahead / self.error]))[0])


def shortfall(own: Sequence[Fates], baselines: dict[str, Sequence[Fates]], key: str) -> Shortfall:
    """Against the baseline that is better in the mean over all seeds."""

    def joined(runs: Sequence[Fates]) -> NDArray[np.float64]:
        return np.concatenate([getattr(run, key) for run in runs])

    best = max(baselines, key=lambda name: float(joined(baselines[name]).sum()))
    difference = joined(baselines[best]) - joined(own)
    if not difference.size:
        return Shortfall(best, 0.0, 0.0)
    error = float(difference.std(ddof=1)) / sqrt(difference.size) if difference.size > 1 else 0.0
    return Shortfall(best, float(difference.mean()), error)


ORACLE = GreedyOracle.name
