"""The table of a scenario's fields: its classes of workloads, and their targets.

A part of ``scenario_fields``.
"""

from wharfinger.manifest.fields import PRIORITY, PROFILE, SCALE, SERVICE_TARGET
from wharfinger.manifest.kinds import BOOLEAN, DURATION, NAME, RATE, TIME, TOLERANCE, choice
from wharfinger.manifest.sections import Section
from wharfinger.simulator.scenario import scenario_kinds as kinds
from wharfinger.simulator.scenario.distributions import Distribution, Shape
from wharfinger.simulator.scenario.loads import LoadModel, LoadShape
from wharfinger.simulator.scenario.scenario_kinds import COUNT, FRACTION, SIGMA
from wharfinger.simulator.scenario.scenario_types import (
    PopulationClass,
    Share,
    TargetKind,
    TargetOf,
    Targets,
)


def _distribution(doc: str) -> Section:
    fields = {
        "shape": choice(Shape, "lognormal")("Which."),
        "mean": DURATION("Before anything is cut.", default="none"),
        "sigma": SIGMA("Of `lognormal`: of its logarithm."),
        "from": TIME("What is less becomes this; `uniform`'s lower end.", "low"),
        "to": DURATION(
            "What is more becomes this; `uniform`'s upper end.", "high", default="no end"
        ),
    }
    return Section(doc, fields, Distribution, short=kinds.CONSTANT)


TARGETS = Section(
    "What is asked of workloads that complete work.",
    {
        "of": choice(TargetOf, "best")(
            "On which platform: the best, that of a server drawn at random, or no targets."
        ),
        "share": Section(
            "What is asked of the performance alone, drawn evenly between two ends; `90%` "
            "without it.",
            {"from": FRACTION("The least.", "low"), "to": FRACTION("The most.", "high")},
            Share,
            short=kinds.ONE_SHARE,
        ),
        "kind": choice(TargetKind, "rate")("In which terms."),
        "room": TIME("Added to a completion time, for starting."),
    },
    Targets,
)
_STEP = {
    "at": TIME("From when on; the first `0s`.", required=True),
    "rate": RATE("What is asked then.", required=True),
}
_LOAD = Section(
    "What each service is asked, in queries per second; constant between changes.",
    {
        "shape": choice(LoadShape, "flat")("How it changes over time.", required=True),
        "base": RATE("The least.", default="none"),
        "peak": RATE("The most.", default="none"),
        "period": DURATION("Of `fluctuating` and `diurnal`."),
        "at": TIME("When the `spike` begins, after submission."),
        "for": DURATION("How long it lasts."),
        "steps": Section("Of shape `steps`.", _STEP, lambda at, rate: (at, rate), many=True),
    },
    LoadModel,
)
POPULATION = Section(
    "Classes of workloads that are alike, but for what is drawn.",
    {
        "name": NAME("Beginning of the workloads' names.", required=True),
        "share": kinds.NUMBER("Of all workloads, relative to the other classes."),
        "count": COUNT("So many instead; then each class has one."),
        "type": kinds.TYPE("What kind of workload."),
        "pool": kinds.POOL(
            "Of the physics: where its applications come from. They say what CPU and memory they "
            "can use.",
            default="none",
        ),
        "poolSize": COUNT("So many of them at most.", default="all"),
        "phases": kinds.MEMORY_LOADS(
            "Of the physics: each is a sequence of programs of the pool, by how much they load "
            "memory.",
            default="one program",
        ),
        "applications": kinds.TEXTS(
            "What they are to the ground truth; each is drawn as often.",
            default="all of the tables; without tables one, named as the class",
        ),
        "cpus": kinds.CPUS("What one can use on a server; one is drawn."),
        "memory": kinds.MEMORIES("What one takes on each; one is drawn."),
        "duration": _distribution(
            "Of its work, alone on the best platform, with all its CPU; `10m` without it."
        ),
        "lifetime": _distribution("How long a service is wanted, from submission."),
        "load": _LOAD,
        "ratePerCpu": RATE(
            "Without tables: what a service answers with one CPU of speed 1.", "per_cpu"
        ),
        "target": Section(
            "What is asked of a service. Its throughput is the load where that is flat, and not "
            "stated where it is not.",
            SERVICE_TARGET,
        ),
        "targets": TARGETS,
        "tolerance": TOLERANCE("By how much a target may be missed."),
        "bestEffort": FRACTION("Share of them without a target."),
        "priority": PRIORITY("Higher goes first."),
        "scale": SCALE,
        "restartable": BOOLEAN("They may be moved."),
        "profile": PROFILE,
    },
    PopulationClass,
    many=True,
)
