"""The table of a scenario's fields, the one place that says what a scenario may hold.

``scenario_files`` reads by it and ``scripts/generate-manifest-docs`` describes it. A new field is
one line here and one field of a dataclass, whose default is the scenario's.
"""

from wharfinger.manifest import kinds
from wharfinger.manifest.fields import (
    API_VERSION,
    CPU,
    DURATION,
    MEMORY,
    SERVERS,
    Field,
    Section,
)
from wharfinger.simulator.scenario.arrivals import Arrivals, Bursts, Pattern, Recorded
from wharfinger.simulator.scenario.population_fields import CLASS, TARGETS
from wharfinger.simulator.scenario.scenario_kinds import (
    COUNT,
    EXACT,
    FACTOR,
    FRACTION,
    LOAD,
    NUMBER,
    REGIME,
    SIGMA,
    TEXT,
    TIME,
    TRUTH_WORD,
)
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

KIND = "Scenario"


SERVER = Section(
    "servers",
    "servers",
    ServerGroup,
    (
        Field("platform", "platform", TEXT, "Its name, once in the list.", required=True),
        Field("count", "count", COUNT, "How many."),
        Field("cpus", "cpu_millicpus", CPU, "Of each."),
        Field("memory", "memory_bytes", MEMORY, "Of each."),
        Field(
            "speed",
            "speed",
            NUMBER,
            "How fast work is done there, without tables; 1 = as its duration says.",
        ),
        Field("zones", "zones", SERVERS, "Over so many failure zones they are spread, in turn."),
    ),
    "The cluster. With tables the default is four servers of each platform, with room for two "
    "workloads; with a trace the servers of the trace.",
    many=True,
)

TRUTH = Section(
    "truth",
    "truth",
    MeasuredTruth,
    (
        Field(
            "measured",
            "directory",
            kinds.DIRECTORY,
            "Directory of the tables; a relative path starts where the scenario lies.",
            required=True,
        ),
        Field(
            "rule",
            "rule",
            kinds.choice(Rule, "product"),
            "What several neighbours do to one, where only pairs were measured.",
        ),
        Field("unit", "unit", TEXT, "Of work, per second of which performance is."),
    ),
    "How fast workloads really are: from measured tables; or `physics`, by the hardware of named "
    "platforms and what applications ask of it; or `undisturbed`, where they do not touch one "
    "another and each runs at the speed of the CPU that it has.",
    short=TRUTH_WORD,
)

ARRIVALS = Section(
    "arrivals",
    "arrivals",
    Arrivals,
    (
        Field(
            "pattern", "pattern", kinds.choice(Pattern, "poisson"), "How they follow one another."
        ),
        Field("every", "every_seconds", DURATION, "Mean gap between two."),
        Field(
            "load",
            "load",
            LOAD,
            "Instead: CPU time of all workloads, alone and at their best, over what the cluster "
            "has while they come. A number, 1 = all of it.",
        ),
        Field(
            "spread",
            "spread_seconds",
            DURATION,
            "Of `gaussian`: standard deviation.",
            default="none",
        ),
        Section(
            "bursts",
            "bursts",
            Bursts,
            (
                Field("every", "every_seconds", DURATION, "From one to the next.", required=True),
                Field("size", "size", COUNT, "Workloads of each.", required=True),
                Field("within", "within_seconds", DURATION, "They come within this."),
                Field("times", "times", COUNT, "So many.", default="as long as workloads come"),
            ),
            "Many at once, on top; the load counts them in.",
        ),
        Section(
            "recorded",
            "recorded",
            Recorded,
            (
                Field("file", "path", kinds.FILE, "A CSV file.", required=True),
                Field("column", "column", TEXT, "Of the times.", required=True),
                Field("unit", "unit_seconds", DURATION, "What 1 means in it."),
            ),
            "Arrivals of a trace, for workloads of a population.",
        ),
    ),
    "When workloads are handed in. Without it: `poisson` with a load of 0.7.",
)

RESERVATIONS = Section(
    "reservations",
    "reservations",
    Reservations,
    (
        Section(
            "tooMuch",
            None,
            None,
            (
                Field("share", "over", FRACTION, "Of the users."),
                Field("upTo", "over_up_to", FACTOR, "By at most this factor."),
            ),
            "Who reserves more than is needed, of CPU and of memory.",
        ),
        Section(
            "tooLittle",
            None,
            None,
            (
                Field("share", "under", FRACTION, "Of the users."),
                Field("upTo", "under_up_to", FACTOR, "By at most this factor."),
            ),
            "Who reserves less CPU than is needed, and as much memory.",
        ),
    ),
    "What users would reserve, for policies that go by it; as in Quasar's Figure 1d without it. "
    "`exact`: what is needed.",
    short=EXACT,
)

COSTS = Section(
    "costs",
    "costs",
    Costs,
    (
        Field("start", "start_seconds", TIME, "From a start to the program running, mean."),
        Field("startSigma", "start_spread", SIGMA, "Standard deviation of its logarithm."),
        Field("resize", "resize_seconds", TIME, "Until a changed allocation holds."),
        Field("stop", "stop_seconds", TIME, "Until a stop is done."),
        Field("move", "move_seconds", TIME, "What a start takes longer after a move."),
        Field("keepsWork", "keeps_work", kinds.BOOLEAN, "Who is moved goes on where it was."),
        Field(
            "profilingRun",
            "phase_seconds",
            DURATION,
            "Of each run of a profiling copy.",
            default="as its plan says",
        ),
    ),
    "What takes time besides running.",
)

MEASURING = Section(
    "measuring",
    "measuring",
    Measuring,
    (
        Field("every", "every_seconds", DURATION, "Between two measurements of a server."),
        Field("noise", "noise", FRACTION, "Standard deviation of a measurement's logarithm."),
        Field("delay", "delay_seconds", TIME, "Until it is told."),
    ),
    "How well performance is seen.",
)

FAULTS = Section(
    "faults",
    "faults",
    FaultModel,
    (
        Field("mtbf", "mtbf_seconds", DURATION, "Mean time between failures of a server."),
        Field("repair", "repair_seconds", DURATION, "Mean time until it is back."),
        Section(
            "outages",
            "outages",
            Outage,
            (
                Field("server", "server", kinds.NAME, "E.g. `big-01`.", required=True),
                Field("at", "at_seconds", TIME, "When.", required=True),
                Field("for", "for_seconds", DURATION, "How long.", required=True),
            ),
            "Besides, those that are listed. Servers are named by platform and number.",
            many=True,
        ),
        Field("startFailures", "start_failures", FRACTION, "Share of starts that fail."),
        Field("lostAnswers", "lost_answers", FRACTION, "Share of answers that are lost."),
        Field("foundAfter", "found_seconds", DURATION, "Until it is seen that one was."),
    ),
    "What goes wrong.",
)

METADATA = Section(
    "metadata",
    None,
    None,
    (
        Field("name", "name", kinds.NAME, "Of the scenario.", required=True),
        Field("description", "description", TEXT, "In one line.", default="none"),
    ),
    "Which scenario it is.",
    required=True,
)

SPEC = Section(
    "spec",
    None,
    None,
    (
        SERVER,
        TRUTH,
        Field(
            "regime",
            "regime",
            REGIME,
            "Calibration of the physics; `--regime` picks another.",
        ),
        CLASS,
        TRACE,
        Field("workloads", "workloads", COUNT, "How many, where classes have shares."),
        ARRIVALS,
        TARGETS,
        RESERVATIONS,
        Field(
            "training",
            "training",
            FRACTION,
            "Share of the applications that were profiled before.",
            default="a third",
        ),
        COSTS,
        MEASURING,
        FAULTS,
        Field("until", "until_seconds", DURATION, "The end.", default="when all is done"),
        Field("fractionalCpu", "fractional_cpu", kinds.BOOLEAN, "Else whole CPUs are given."),
        Field("maxServers", "max_servers", SERVERS, "Of one workload."),
    ),
    "The cluster, and what comes to it.",
    required=True,
)

SCENARIO = Section(
    "",
    None,
    Scenario,
    (
        Field("apiVersion", None, kinds.constant(API_VERSION), "The format.", required=True),
        Field("kind", None, kinds.constant(KIND), "What the document describes.", required=True),
        METADATA,
        SPEC,
    ),
    "A simulated cluster, and what comes to it.",
)
