"""The API's answers about what is predicted, what was measured for that, and what was done.

``service/forecasts.py`` fills them; they are parts of the answers in ``service/models.py``.
"""

from pydantic import Field

from wharfinger.service.model_base import Model


class Interval(Model):
    """A predicted number; `low` and `high` hold each with the stated confidence."""

    mean: float = Field(description="As likely too low as too high.")
    low: float
    high: float


class PredictedPerformance(Model):
    """What is predicted in the target's terms; `null` = not classified, or not asked for."""

    throughput_per_second: Interval | None
    latency_seconds: Interval | None
    rate_per_second: Interval | None
    completion_seconds: Interval | None = Field(description="From being handed in to its end.")


class Prediction(Model):
    """Predicted performance over target at a stated confidence; 1 = exactly the target."""

    mean: float = Field(description="As likely too low as too high.")
    low: float = Field(description="Reached with `confidence`; the allocation is sized by it.")
    high: float = Field(description="Not exceeded with `confidence`.")
    confidence: float
    performance: PredictedPerformance = Field(description="The same in the target's terms.")


class PredictionError(Model):
    """What was predicted, held against what came."""

    name: str = Field(description="What was predicted, with its unit, e.g. `rate_per_second`.")
    predicted: float
    achieved: float
    log_error: float = Field(description="ln(achieved / predicted); 0 = exactly as predicted.")
    within: bool = Field(description="Whether it lies within the predicted interval.")


class Placement(Model):
    """An allocation on a server."""

    name: str = Field(description="The server's.")
    cpus: float
    memory_bytes: int
    best_effort: bool = Field(description="It uses what the others leave.")


class Adjustment(Model):
    """One thing that was done about a placed workload, and what became of it."""

    time: str
    kind: str = Field(
        description="resized, suspended, resumed, relieved (a neighbour gave way to it), moved, "
        "kept (nothing was done, for the reason given) or reclassified."
    )
    source: list[Placement] = Field(
        alias="from", description="Where it was, with how much; empty = it did not run."
    )
    to: list[Placement] = Field(description="From then on; empty = it does not run.")
    reason: str = Field(description="Stable word.")
    message: str = Field(description="The cause, for people.")
    pace_before: float | None = Field(description="Performance over target; `null` = not known.")
    pace_after: float | None = Field(
        description="Once it had time to show (20 s), or the newest before; `null` = not measured."
    )


class CurvePoint(Model):
    """Performance with so much CPU, alone."""

    cpus: float
    mean: float = Field(description="As likely too low as too high.")
    low: float = Field(description="Exceeded with the classification's `confidence`.")
    high: float = Field(description="Not exceeded with it.")
    measured: bool = Field(description="Whether it was measured; else it is filled in.")


class Curve(Model):
    """How performance follows CPU."""

    name: str = Field(
        description="What it says, with its unit; `relative` = to performance with one CPU."
    )
    points: list[CurvePoint] = Field(description="By CPU, ascending.")


class Score(Model):
    """Interference with one shared resource, 0-100; `null` = not known."""

    name: str = Field(description="The shared resource.")
    tolerated: float | None = Field(description="Pressure up to which it keeps its performance.")
    tolerated_std: float | None
    tolerated_measured: bool
    tolerated_censored: bool = Field(description="Never slowed as far as was tried: a lower bound.")
    caused: float | None = Field(description="Pressure that it exerts itself.")
    caused_std: float | None
    caused_measured: bool


class Change(Model):
    """Performance elsewhere, relative to where the curves hold."""

    name: str = Field(description="The platform, or how many servers.")
    mean: float = Field(description="As likely too low as too high; 1 = the same.")
    low: float = Field(description="Exceeded with the classification's `confidence`.")
    high: float = Field(description="Not exceeded with it.")


class Silence(Model):
    """Something that should have been measured and was not."""

    name: str = Field(description="What, e.g. `tolerated/integer`, or `copy` for all of it.")
    reason: str = Field(description="Why, for people.")


class Classification(Model):
    """What a workload needs, and how sure that is."""

    estimator: str = Field(description="Which computed it.")
    version: str = Field(description="The estimator's.")
    confidence: float = Field(description="That each `low` and each `high` below holds.")
    entries_measured: int = Field(
        description="How many of its numbers were measured; 0 = all are those of its like."
    )
    total: float | None = Field(
        description="Work until it is complete, in the unit of its rate; `null` = not known."
    )
    curves: list[Curve] = Field(description="Performance by CPU.")
    platform: str | None = Field(description="On which they hold; `null` = not known.")
    platforms: list[Change] = Field(description="On other platforms, relative to that one.")
    servers: list[Change] = Field(description="On so many servers together, relative to one.")
    interference: list[Score]
    silent: list[Silence] = Field(description="What could not be measured, and why.")


class Entry(Model):
    """One measured number."""

    name: str = Field(description="What it says, with its unit.")
    cpus: float = Field(description="Under which allocation.")
    value: float
    error: float = Field(description="Standard error, as a share of the value.")
    origin: str = Field(description="offline, profiled, observed or predicted.")
    measured_at: str | None = Field(description="When; `null` = not known.")


class Profiling(Model):
    """What was measured of a workload under known allocations."""

    runs: int = Field(description="How often a copy was started; 0 = no copy was.")
    seconds: float = Field(description="How long that took.")
    entries: list[Entry] = Field(
        description="What it is classified by: the copy's runs; once it was classified anew, "
        "also its own, and the copy's moved to the level at which it ran then."
    )
    observed: list[Entry] = Field(
        description="How the workload itself did since then, under each allocation that it had."
    )


class NeedPoint(Model):
    """How it should do with so much CPU, alone on a server."""

    cpus: float
    pace: Interval = Field(description="Performance over target; 1 = exactly the target.")
    performance: PredictedPerformance
    reaches: bool = Field(description="The target, with the stated confidence.")
    measured: bool = Field(description="Whether it was measured; else it is filled in.")
