"""Paragon's short jobs: what it costs to place them at random instead of by profiling.

Source: Paragon (TOCS) 3.5: 100 Hadoop jobs with ideal completion times of 10 to 30 s; its cluster
is not stated, so it is the local one of section 5, at medium load. Training is not counted there.
"""

from dataclasses import replace
from statistics import fmean

from wharfinger.experiments.paragon_figures import OF_SCHEDULERS
from wharfinger.experiments.runs import Figure, Published, RunMeasure
from wharfinger.simulator.results.outcome import Outcome

SCENARIO = """\
# Paragon (TOCS) 3.5: 100 Hadoop jobs of 10 to 30 s on its local cluster.
apiVersion: wharfinger.dev/v1alpha1
kind: Scenario
metadata: {name: short-jobs, description: short Hadoop jobs on Paragon's local cluster}
spec:
  truth: physics
  servers:
    - {platform: xeon-l5609, count: 1}
    - {platform: xeon-x5650, count: 2}
    - {platform: xeon-x5670, count: 2}
    - {platform: xeon-l5640, count: 1}
    - {platform: xeon-mp, count: 5}
    - {platform: xeon-e5345, count: 8}
    - {platform: xeon-e5335, count: 8}
    - {platform: opteron-240, count: 7}
    - {platform: atom-330, count: 5}
    - {platform: atom-d510, count: 1}
  population:
    - name: hadoop
      type: batch
      pool: hadoop
      duration: {shape: uniform, from: 10s, to: 30s}
      expectsDuration: true
  workloads: 100
  arrivals: {pattern: poisson, load: 0.5}
  targets: {of: best, share: 100%, kind: rate}
  reservations: exact
  training: 25%
  engine: {fractionalCpu: false}
  maxServers: 1
"""
NAME = "short-jobs"
AT_RANDOM = "paragon[short_seconds=60]"
"""All of these jobs are short, also those of 30 s."""
PROFILED = "paragon[short_seconds=0]"
RUNNING, TIME, RATIO = "running_seconds_mean", "completion_seconds_mean", "running-over-profiled"


def running_seconds(outcome: Outcome) -> float | None:
    """Mean time from the first start of a job to its end."""
    running = [fate.seconds - fate.wait_seconds for fate in outcome.ended]
    return fmean(running) if running else None


def completion_seconds(outcome: Outcome) -> float | None:
    """Mean time of those that ended from submission on, training and waiting included."""
    return fmean(fate.seconds for fate in outcome.ended) if outcome.ended else None


PARAGON_SHORT_JOBS = replace(
    OF_SCHEDULERS,
    name="paragon-short-jobs",
    about="what it costs to place short jobs at random instead of by profiling",
    source="Paragon (TOCS) 3.5",
    policies=("oracle", PROFILED, AT_RANDOM, "least-loaded"),
    documents={NAME: SCENARIO},
    measures=(
        RunMeasure(RUNNING, "s", better=-1, of=running_seconds),
        RunMeasure(RATIO, "times", over=(RUNNING, PROFILED)),
        RunMeasure(TIME, "s", better=-1, of=completion_seconds),
        RunMeasure("waiting_loss_mean", better=-1),
        RunMeasure("failed", "workloads"),
    ),
    published=(Published(NAME, AT_RANDOM, RATIO, 1.15, "3.5"),),
    figures=(
        Figure("bars", "running-{regime}", "Short jobs: {regime}", of=RUNNING, label="seconds"),
    ),
    notes=(f"{RUNNING}: from the first start on, as published; {TIME}: from submission on.",),
)
