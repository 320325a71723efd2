"""How often 90% intervals of scale-up hold, above the largest allocation measured and elsewhere.

    python -m benchmarks.beyond --seeds 1,2,3 [SCENARIO@SCALE ...]

Programs of a scenario that are not in its training set, each measured with every two allocations
(with the scenario's noise) on the platform where the training set was measured.
"""

import argparse
import json
from collections.abc import Iterator
from math import exp, log

import numpy as np

from wharfinger.estimators.estimator import NORMAL_90
from wharfinger.model.performance import Quantity
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.model.profile import Entry, Measurements
from wharfinger.simulator.scenario.build import build
from wharfinger.simulator.scenario.jobs import Job
from wharfinger.simulator.scenario.scenario_files import in_regime, load_scenario
from wharfinger.simulator.training import TrainingSet
from wharfinger.simulator.truth.ground_truth import GroundTruth, TrueResident

SCENARIOS = (
    "quasar-single@1",
    "quasar-batch@1",
    "quasar-ec2-light@0.25",
    "paragon-ec2-high@0.02",
    "paragon-local-low@0.5",
)
SATURATING = 1e12
"""Requests per second: more than any service answers."""
Row = tuple[str, float, float]
"""Where, error of the logarithm, standard deviation."""


def rows(scenario: str, seed: int, scale: float) -> Iterator[Row]:
    """One for each program, pair of allocations measured, and other allocation."""
    setup = build(in_regime(load_scenario(scenario), "moderate"), seed, None, None, scale)
    training = TrainingSet(setup, seed, stated=True)
    rng, noise = np.random.default_rng(seed), max(setup.measuring.noise, 1e-4)
    jobs = {job.application: job for job in reversed(setup.jobs) if not job.best_effort}
    for application in sorted(jobs.keys() - set(setup.training)):
        job = jobs[application]
        told = {c: _measure(setup.truth, training.reference, job, c) for c in training.columns}
        if min(rate for rate, _ in told.values()) <= 0:
            continue
        quantity = Quantity.THROUGHPUT if job.is_service else Quantity.RATE
        for at, large in enumerate(training.columns):
            for small in training.columns[:at]:
                drawn = np.exp(noise * rng.standard_normal((2, 2)))
                entries = [
                    {c: Entry(told[c][part] * drawn[part][i], noise) for i, c in enumerate(pair)}
                    for part, pair in enumerate([(small, large)] * 2)
                ]
                measured = {quantity: entries[0], Quantity.CPU: entries[1]}
                made = training.classifier.classify(
                    Measurements(measured, platform=training.reference), job.workload.type
                )
                for cpu in training.columns:
                    if cpu not in (small, large):
                        where = "above" if cpu > large else "below" if cpu < small else "between"
                        estimate = made.curves[quantity].at(cpu)
                        yield where, log(told[cpu][0] / estimate.mean), estimate.std


def _measure(truth: GroundTruth, platform: str, job: Job, cpu: int) -> tuple[float, float]:
    """Its rate with so much CPU and a server to itself, and CPUs that it keeps busy."""
    load = SATURATING if job.is_service else None
    alone = [TrueResident(job.application, float(cpu), job.memory_bytes, load)]
    rates = truth.rates(platform, alone)
    return rates[0], truth.used_millicpus(platform, alone, rates)[0] / MILLICPUS_PER_CPU


def main() -> None:
    """Print one line of JSON for each scenario and place."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("scenarios", nargs="*", default=SCENARIOS, metavar="SCENARIO@SCALE")
    parser.add_argument("--seeds", default="1,2,3,4,5")
    options = parser.parse_args()
    for named in options.scenarios:
        scenario, _, scale = named.partition("@")
        found: list[Row] = []
        for seed in options.seeds.split(","):
            found += rows(scenario, int(seed), float(scale or 1))
        for where in ("above", "between", "below"):
            errors = np.array([(error, std) for place, error, std in found if place == where])
            if len(errors):
                held = np.abs(errors[:, 0]) <= NORMAL_90 * errors[:, 1]
                print(
                    json.dumps(
                        {
                            "scenario": named,
                            "where": where,
                            "count": len(errors),
                            "held": round(float(held.mean()), 3),
                            "factor_off": round(exp(float(np.abs(errors[:, 0]).mean())), 3),
                            "std": round(float(errors[:, 1].mean()), 3),
                        }
                    ),
                    flush=True,
                )


if __name__ == "__main__":
    main()
