"""Scenarios by what users call them: ``measured:DIR``, ``trace:DIR``, a shipped one, a file."""

from pathlib import Path

from wharfinger.errors import InvalidInput
from wharfinger.simulation.arrivals import Arrivals, Pattern
from wharfinger.simulation.distributions import Distribution, Shape
from wharfinger.simulation.scenario_types import (
    MeasuredTruth,
    PopulationClass,
    Scenario,
    Share,
    TargetKind,
    TargetOf,
    Targets,
)
from wharfinger.simulation.trace_population import slug

MEASURED = "measured:"


def load_scenario(text: str) -> Scenario:
    """A scenario by what a user calls it.

    Args:
        text: ``measured:DIR`` for measured tables, ``trace:DIR`` or ``trace:FILE`` for a trace, the
            name of a shipped one, or a YAML file.

    Raises:
        InvalidInput: There is no such, or it is wrong.
    """
    if text.startswith(MEASURED):
        return measured_scenario(text.removeprefix(MEASURED))
    raise InvalidInput(f"no scenario {text!r}")


def measured_scenario(directory: str) -> Scenario:
    """Population and platforms from the rows of measured tables, and nothing but them.

    Pairs were measured, so a server has room for two: two CPUs, and each workload takes one. 40% of
    that is 80% of what the servers do with one workload each.
    """
    return Scenario(
        f"measured-{slug(Path(directory).resolve().name)}",
        "workloads and platforms of measured tables, two to a server",
        measured=MeasuredTruth(directory),
        population=(
            PopulationClass(
                "job",
                duration=Distribution(Shape.LOGNORMAL, 1500.0, 0.8, 120.0, 14_400.0),
            ),
        ),
        workloads=300,
        arrivals=Arrivals(Pattern.POISSON, load=0.4),
        targets=Targets(TargetOf.RANDOM_PLATFORM, Share(0.9, 0.9), TargetKind.RATE),
        fractional_cpu=False,
        max_servers=1,
    )
