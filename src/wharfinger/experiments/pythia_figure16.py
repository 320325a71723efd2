"""Pythia's Figures 16 and 17: how far servers with services are filled, and how many are needed.

``pythia-two-services`` is the same with two services on each server (section 6, not built there).

A service on each server is asked all that it can do, and keeps a share of what it does alone. The
batch workloads that come are packed by predictions of several models, by the true contention
(the oracle), and by baselines that do not look at services.
"""

from dataclasses import replace
from importlib.resources import files

from wharfinger.experiments.runs import Figure, Published, RunExperiment, RunMeasure
from wharfinger.simulator.pieces import TRUE_CONTENTION, informed
from wharfinger.simulator.truth.physics.regimes import REGIMES

SCENARIO = "pythia-cluster"
LEVELS = (80, 90, 95, 99)
"""Shares of what a service does alone that it keeps, in percent."""
USED, VIOLATED, SERVERS = (
    "utilization_used_servers_mean",
    "services_violated_fraction",
    "servers_with_work",
)
PYTHIA = "pythia"
PUBLISHED_FORM, SUM, PRODUCT, ONE = (
    f"pythia[form={form}]" for form in ("pythia", "multi-bubble-up", "product", "bubble-up")
)
ORACLE = informed(PYTHIA, TRUE_CONTENTION)


TWO_SERVICES = "pythia-two-services"


def _at(name: str, level: int, *changed: tuple[str, str]) -> str:
    text = files("wharfinger.simulator.scenario.scenarios").joinpath(f"{SCENARIO}.yaml").read_text()
    changed = (
        (f"name: {SCENARIO}", f"name: {name}-{level}"),
        ("tolerance: 10%", f"tolerance: {100 - level}%"),
        *changed,
    )
    for old, new in changed:
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text


PYTHIA_FIGURE16 = RunExperiment(
    name="pythia-figure16",
    about="utilization of servers with services, and services violated, by model and kept share",
    source="Pythia, Figures 16 and 17 and section 5.6",
    policies=(ORACLE, PYTHIA, PUBLISHED_FORM, SUM, PRODUCT, ONE, "least-loaded", "random"),
    documents={f"{SCENARIO}-{level}": _at(SCENARIO, level) for level in LEVELS},
    regimes=tuple(REGIMES),
    measures=(
        RunMeasure(USED, better=1),
        RunMeasure(VIOLATED, better=-1),
        RunMeasure(SERVERS, "servers"),
        RunMeasure("placed_fraction", better=1),
        RunMeasure("of-oracle", "times", over=(USED, ORACLE)),
        RunMeasure("of-sum", "times", over=(USED, SUM)),
    ),
    published=(
        Published(f"{SCENARIO}-90", PUBLISHED_FORM, USED, 0.99, "5.6"),
        Published(f"{SCENARIO}-90", SUM, USED, 0.72, "5.6"),
        Published(f"{SCENARIO}-90", ONE, USED, 0.5, "5.6"),
        Published(f"{SCENARIO}-95", PUBLISHED_FORM, "of-sum", 1.71, "5.6"),
        Published(f"{SCENARIO}-80", PUBLISHED_FORM, SERVERS, 167, "Figure 17"),
    ),
    figures=(
        Figure("bars", "utilization-{scenario}", "CPU allocated of servers with work", of=USED,
               label="share"),
        Figure("bars", "violated-{scenario}", "Services below what they keep", of=VIOLATED,
               label="share"),
    ),
    notes=(
        (
            "A service is asked all that it can do, and its performance is its rate. The models "
            "are fitted to all single neighbors and 5% of the sets of two and three, each measured "
            "with an error of 0.5%."
        ),
        (
            "of-oracle: over what is allocated by the true contention; of-sum: over what the sum "
            "of single slowdowns allows, which is Multi-Bubble-Up's rule."
        ),
    ),
)  # fmt: skip

PYTHIA_TWO_SERVICES = replace(
    PYTHIA_FIGURE16,
    name=TWO_SERVICES,
    about="utilization of servers with two services each, and services violated, by model",
    source="Pythia, section 6: left to later work there, so nothing is published",
    documents={
        f"{TWO_SERVICES}-{level}": _at(
            TWO_SERVICES,
            level,
            ("count: 500}", "count: 40}"),
            ("perServer: 1", "perServer: 2"),
            ("count: 500\n", "count: 80\n"),
            ("statesCpus: 2", "statesCpus: 1"),
        )
        for level in (90, 95)
    },
    published=(),
    notes=(
        *PYTHIA_FIGURE16.notes,
        "40 servers with two services of two CPUs each, and 80 batch workloads with one CPU.",
    ),
)
