"""The table of a scenario's fields, the one place that says what a scenario may hold.

``scenario_files`` reads by it and ``scripts/generate-manifest-docs`` describes it. A new field is
one row here and one attribute of a dataclass, whose default is the scenario's.
"""

from wharfinger.manifest.fields import SERVERS, document
from wharfinger.manifest.kinds import (
    BOOLEAN,
    CPU,
    DIRECTORY,
    DURATION,
    FILE,
    MEMORY,
    NAME,
    TIME,
    choice,
)
from wharfinger.manifest.sections import Section
from wharfinger.simulator.scenario import scenario_kinds as kinds
from wharfinger.simulator.scenario.arrivals import Arrivals, Bursts, Pattern, Recorded
from wharfinger.simulator.scenario.population_fields import POPULATION, TARGETS
from wharfinger.simulator.scenario.scenario_kinds import COUNT, FACTOR, FRACTION, TEXT
from wharfinger.simulator.scenario.scenario_types import (
    FaultModel,
    MeasuredTruth,
    Reservations,
    Scenario,
    ServerGroup,
)
from wharfinger.simulator.scenario.setup import Costs, Measuring, Outage
from wharfinger.simulator.scenario.trace_fields import TRACE
from wharfinger.simulator.truth.measured import Rule

_SERVERS = Section(
    "The cluster. With tables the default is four servers of each platform, with room for two "
    "workloads; with a trace the servers of the trace.",
    {
        "platform": TEXT("Its name, once in the list."),
        "count": COUNT("How many."),
        "cpus": CPU("Of each.", "cpu_millicpus"),
        "memory": MEMORY("Of each."),
        "speed": kinds.NUMBER(
            "How fast work is done there, without tables; 1 = as its duration says."
        ),
        "zones": SERVERS("Over so many failure zones they are spread, in turn."),
    },
    ServerGroup,
    many=True,
)
_TRUTH = Section(
    "How fast workloads really are: from measured tables; or `physics`, by the hardware of named "
    "platforms and what applications ask of it; or `undisturbed`, where they do not touch one "
    "another and each runs at the speed of the CPU that it has.",
    {
        "measured": DIRECTORY(
            "Directory of the tables; a relative path starts where the scenario lies.", "directory"
        ),
        "rule": choice(Rule, "product")(
            "What several neighbors do to one, where only pairs were measured."
        ),
        "unit": TEXT("Of work, per second of which performance is."),
    },
    MeasuredTruth,
    short=kinds.TRUTH_WORD,
)
_ARRIVALS = Section(
    "When workloads are submitted. Without it: `poisson` with a load of 0.7.",
    {
        "pattern": choice(Pattern, "poisson")("How they follow one another."),
        "every": DURATION("Mean gap between two."),
        "load": kinds.LOAD(
            "Instead: CPU time of all workloads, alone and at their best, over what the cluster "
            "has while they come. A number, 1 = all of it."
        ),
        "spread": DURATION("Of `gaussian`: standard deviation.", default="none"),
        "bursts": Section(
            "Many at once, on top; the load counts them in.",
            {
                "every": DURATION("From one to the next."),
                "size": COUNT("Workloads of each."),
                "within": DURATION("They come within this."),
                "times": COUNT("So many.", default="as long as workloads come"),
            },
            Bursts,
        ),
        "recorded": Section(
            "Arrivals of a trace, for workloads of a population.",
            {
                "file": FILE("A CSV file.", "path"),
                "column": TEXT("Of the times."),
                "unit": DURATION("What 1 means in it."),
            },
            Recorded,
        ),
    },
    Arrivals,
)


def _misjudged(doc: str, attribute: str) -> Section:
    share = FRACTION("Of the users.", attribute)
    up_to = FACTOR("By at most this factor.", f"{attribute}_up_to")
    return Section(doc, {"share": share, "upTo": up_to})


_RESERVATIONS = Section(
    "What users would reserve, for policies that go by it; as in Quasar's Figure 1d without it. "
    "`exact`: what is needed.",
    {
        "tooMuch": _misjudged("Who reserves more than is needed, of CPU and of memory.", "over"),
        "tooLittle": _misjudged(
            "Who reserves less CPU than is needed, and as much memory.", "under"
        ),
    },
    Reservations,
    short=kinds.EXACT,
)
_COSTS = Section(
    "What takes time besides running.",
    {
        "start": TIME("From a start to the program running, mean."),
        "startSigma": kinds.SIGMA("Standard deviation of its logarithm.", "start_spread"),
        "resize": TIME("Until a changed allocation holds."),
        "stop": TIME("Until a stop is done."),
        "move": TIME("What a start takes longer after a move."),
        "keepsWork": BOOLEAN("Who is moved goes on where it was."),
        "profilingRun": DURATION(
            "Of each profiling run.", "phase_seconds", default="as its plan says"
        ),
    },
    Costs,
)
_MEASURING = Section(
    "How well performance is seen.",
    {
        "every": DURATION("Between two measurements of a server."),
        "noise": FRACTION("Standard deviation of a measurement's logarithm."),
        "delay": TIME("Until it is told."),
    },
    Measuring,
)
_FAULTS = Section(
    "What goes wrong.",
    {
        "mtbf": DURATION("Mean time between failures of a server."),
        "repair": DURATION("Mean time until it is back."),
        "outages": Section(
            "Besides, those that are listed. Servers are named by platform and number.",
            {"server": NAME("E.g. `big-01`."), "at": TIME("When."), "for": DURATION("How long.")},
            Outage,
            many=True,
        ),
        "startFailures": FRACTION("Share of starts that fail."),
        "lostAnswers": FRACTION("Share of answers that are lost."),
        "foundAfter": DURATION("Until it is seen that one was.", "found_seconds"),
    },
    FaultModel,
)
_METADATA = Section(
    "Which scenario it is.",
    {"name": NAME("Of the scenario."), "description": TEXT("In one line.", default="none")},
    required=True,
)
_SPEC = Section(
    "The cluster, and what comes to it.",
    {
        "servers": _SERVERS,
        "truth": _TRUTH,
        "regime": kinds.REGIME("Calibration of the physics; `--regime` picks another."),
        "population": POPULATION,
        "trace": TRACE,
        "workloads": COUNT("How many, where classes have shares."),
        "arrivals": _ARRIVALS,
        "targets": TARGETS,
        "reservations": _RESERVATIONS,
        "training": FRACTION(
            "Share of the applications that were profiled before.", default="a third"
        ),
        "costs": _COSTS,
        "measuring": _MEASURING,
        "faults": _FAULTS,
        "until": DURATION("The end.", default="when all is done"),
        "fractionalCpu": BOOLEAN("Else whole CPUs are given."),
        "maxServers": SERVERS("Of one workload."),
    },
    required=True,
)
SCENARIO = document(
    "Scenario", "A simulated cluster, and what comes to it.", _METADATA, _SPEC, Scenario
)
