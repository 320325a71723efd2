"""The table of a scenario's fields: its classes of workloads, and their targets.

A part of ``scenario_fields``.
"""

from wharfinger.manifest import kinds
from wharfinger.manifest.fields import (
    DURATION,
    PRIORITY,
    PROFILE,
    RATE,
    SCALE,
    TARGET,
    TOLERANCE,
    Field,
    Section,
)
from wharfinger.simulator.scenario.distributions import Distribution, Shape
from wharfinger.simulator.scenario.loads import LoadModel, LoadShape
from wharfinger.simulator.scenario.scenario_kinds import (
    CONSTANT,
    COUNT,
    CPUS,
    FRACTION,
    MEMORIES,
    MEMORY_LOADS,
    NUMBER,
    ONE_SHARE,
    POOL,
    SIGMA,
    TEXTS,
    TIME,
    TYPE,
)
from wharfinger.simulator.scenario.scenario_types import (
    PopulationClass,
    Share,
    TargetKind,
    TargetOf,
    Targets,
)


def _distribution(name: str, doc: str) -> Section:
    return Section(
        name,
        name,
        Distribution,
        (
            Field("shape", "shape", kinds.choice(Shape, "lognormal"), "Which.", required=True),
            Field("mean", "mean", DURATION, "Before anything is cut.", default="none"),
            Field("sigma", "sigma", SIGMA, "Of `lognormal`: of its logarithm."),
            Field("from", "low", TIME, "What is less becomes this; `uniform`'s lower end."),
            Field(
                "to",
                "high",
                DURATION,
                "What is more becomes this; `uniform`'s upper end.",
                default="no end",
            ),
        ),
        doc,
        short=CONSTANT,
    )


SHARE = Section(
    "share",
    "share",
    Share,
    (
        Field("from", "low", FRACTION, "The least.", required=True),
        Field("to", "high", FRACTION, "The most.", required=True),
    ),
    "What is asked of the performance alone, drawn evenly between two ends; `90%` without it.",
    short=ONE_SHARE,
)

TARGETS = Section(
    "targets",
    "targets",
    Targets,
    (
        Field(
            "of",
            "of",
            kinds.choice(TargetOf, "best"),
            "On which platform: the best, that of a server drawn at random, or no targets.",
        ),
        SHARE,
        Field("kind", "kind", kinds.choice(TargetKind, "rate"), "In which terms."),
        Field("room", "room_seconds", TIME, "Added to a completion time, for starting."),
    ),
    "What is asked of workloads that complete work.",
)

LOAD_SECTION = Section(
    "load",
    "load",
    LoadModel,
    (
        Field(
            "shape",
            "shape",
            kinds.choice(LoadShape, "flat"),
            "How it changes over time.",
            required=True,
        ),
        Field("base", "base_per_second", RATE, "The least.", default="none"),
        Field("peak", "peak_per_second", RATE, "The most.", default="none"),
        Field("period", "period_seconds", DURATION, "Of `fluctuating` and `diurnal`."),
        Field("at", "at_seconds", TIME, "When the `spike` begins, after being handed in."),
        Field("for", "for_seconds", DURATION, "How long it lasts."),
        Section(
            "steps",
            "steps",
            lambda at, rate: (at, rate),
            (
                Field("at", "at", TIME, "From when on; the first `0s`.", required=True),
                Field("rate", "rate", RATE, "What is asked then.", required=True),
            ),
            "Of shape `steps`.",
            many=True,
        ),
    ),
    "What each service is asked, in queries per second; constant between changes.",
)

CLASS = Section(
    "population",
    "population",
    PopulationClass,
    (
        Field("name", "name", kinds.NAME, "Beginning of the workloads' names.", required=True),
        Field("share", "share", NUMBER, "Of all workloads, relative to the other classes."),
        Field("count", "count", COUNT, "So many instead; then each class has one."),
        Field("type", "type", TYPE, "What kind of workload."),
        Field(
            "pool",
            "pool",
            POOL,
            "Of the physics: where its applications come from. They say what CPU and memory they "
            "can use.",
            default="none",
        ),
        Field("poolSize", "pool_size", COUNT, "So many of them at most.", default="all"),
        Field(
            "phases",
            "phases",
            MEMORY_LOADS,
            "Of the physics: each is a sequence of programs of the pool, by how much they load "
            "memory.",
            default="one program",
        ),
        Field(
            "applications",
            "applications",
            TEXTS,
            "What they are to the ground truth; each is drawn as often.",
            default="all of the tables; without tables one, named as the class",
        ),
        Field("cpus", "cpus_millicpus", CPUS, "What one can use on a server; one is drawn."),
        Field("memory", "memory_bytes", MEMORIES, "What one takes on each; one is drawn."),
        _distribution(
            "duration",
            "Of its work, alone on the best platform, with all its CPU; `10m` without it.",
        ),
        _distribution("lifetime", "How long a service is wanted, from being handed in."),
        LOAD_SECTION,
        Field(
            "ratePerCpu",
            "per_cpu",
            RATE,
            "Without tables: what a service answers with one CPU of speed 1.",
        ),
        Section(
            "target",
            None,
            None,
            tuple(part for part in TARGET.fields if part.name in ("throughput", "latency")),
            "What is asked of a service. Its throughput is the load where that is flat, and not "
            "stated where it is not.",
        ),
        TARGETS,
        Field("tolerance", "tolerance", TOLERANCE, "By how much a target may be missed."),
        Field("bestEffort", "best_effort", FRACTION, "Share of them without a target."),
        Field("priority", "priority", PRIORITY, "Higher goes first."),
        SCALE,
        Field("restartable", "restartable", kinds.BOOLEAN, "They may be moved."),
        PROFILE,
    ),
    "Classes of workloads that are alike, but for what is drawn.",
    many=True,
)
