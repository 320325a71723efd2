"""The table of a manifest's fields, the one place that says what a manifest may hold.

``sections`` reads by it; ``output`` writes, and makes the JSON Schema and the reference in the
docs. A new field is one row here and, where it is kept, one attribute of a dataclass in
``wharfinger.model.workload``, whose default is the manifest's default.
"""

from wharfinger.manifest import kinds
from wharfinger.manifest.kinds import Field, choice, number
from wharfinger.manifest.sections import Maker, Section
from wharfinger.model import units, workload

API_VERSION = "wharfinger.dev/v1alpha1"

MAX_PRIORITY = 1_000_000
MAX_SERVERS = 100_000
MAX_PROFILE_SECONDS = 3600

PERCENTILE = number(0, 100, 99, 99.9, open_ends=True)
PRIORITY = number(-MAX_PRIORITY, MAX_PRIORITY, 10, noun=kinds.WHOLE)
SERVERS = number(1, MAX_SERVERS, 8, noun=kinds.WHOLE)
SECONDS = number(0.1, MAX_PROFILE_SECONDS, 8, noun="number of seconds")
EVERY = number(1, MAX_PROFILE_SECONDS, 5, noun="number of seconds")
AMOUNT = number(1e-9, 1e18, 100)
MONEY = number(1e-6, units.MAX_MONEY, 4.5)

LATENCY = Section(
    "A bound on a percentile of a service's latency.",
    {
        "percentile": PERCENTILE("Which percentile is bounded: more than 0, less than 100."),
        "below": kinds.DURATION("The bound."),
    },
    workload.LatencyBound,
)
SERVICE_TARGET: dict[str, Field | Section] = {
    "throughput": kinds.RATE("Queries or operations per second."),
    "latency": LATENCY,
}
TARGET = Section(
    "The performance to reach. A `latency-critical` workload states `throughput`, `latency` or "
    "both; `batch` and `single-node` state `completionTime` or `rate`, or nothing; "
    "`best-effort` has no target.",
    {
        **SERVICE_TARGET,
        "completionTime": kinds.DURATION("From submission to completion.", "completion_seconds"),
        "rate": kinds.RATE("Work per second, in the unit that `measure` reads."),
    },
    workload.Target,
)
SCALE = Section(
    "Scale-out.",
    {
        "maxServers": SERVERS("Maximum number of servers; 1 if `single-node`."),
        "stateful": kinds.BOOLEAN(
            "Not supported yet: moving it loses or migrates state.",
            not_supported="moves a stateful workload like any other",
        ),
        "gang": kinds.BOOLEAN(
            "Not supported yet: all its servers start together or not at all.",
            not_supported="does not start all servers of a workload together",
        ),
        "spread": choice(workload.Spread, "zone")(
            "Not supported yet: what its servers are spread over.",
            not_supported="does not spread a workload's servers over zones",
        ),
    },
    workload.Scale,
)
PROFILE = Section(
    "Profiling before placement.",
    {
        "mode": choice(workload.ProfileMode, "copy")(
            "`copy` runs a sandboxed copy, `live` varies the running workload's allocation, "
            "`none` does neither. Best-effort work is never copied.",
            default="`copy`; `none` if `best-effort`",
        ),
        "seconds": SECONDS("Duration of profiling; 0.1 to 3600."),
    },
    workload.Profile,
)
RUN = Section(
    "The program.",
    {
        "command": kinds.COMMAND("The program, looked up in PATH, and its arguments; no shell."),
        "env": kinds.ENVIRONMENT("Added to a minimal environment; the values are never shown."),
        "workingDir": kinds.DIRECTORY(
            "Where it runs; relative to where you call `submit`.",
            "working_directory",
            default="`.`",
        ),
        "stopGrace": kinds.TIME("Time between SIGTERM and SIGKILL."),
        "restartable": kinds.BOOLEAN("It may be restarted from its beginning, to migrate."),
    },
    workload.Run,
)
MEASURE = Section(
    "How its performance is measured; see [measure.md](measure.md).",
    {
        "progress": Section(
            "Performance read from the workload's own lines, on output or in a file.",
            {
                "regex": kinds.REGEX(
                    "Searched in each line; its first group is a number, or its groups are named "
                    "`done`, `rate`, `throughput`, `latency_s`, `latency_ms`, `latency_us`.",
                    "progress_regex",
                    required=True,
                ),
                "kind": choice(workload.NumberKind, "counter")(
                    "Whether the first group is work done so far or a rate.",
                    "progress_kind",
                    default="`counter`",
                ),
                "total": AMOUNT("The number when all work is done.", "progress_total"),
                "file": kinds.FILE(
                    "Where the lines are, if not on its output; as `run.workingDir`.",
                    "progress_file",
                ),
            },
        ),
        "http": Section(
            "Performance read from an HTTP endpoint.",
            {
                "url": kinds.URL("Asked by GET."),
                "metric": kinds.METRIC(
                    "A Prometheus metric, the sum of its series with these labels; without it the "
                    "answer must be one number."
                ),
                "kind": choice(workload.MetricKind, "counter")(
                    "Work done so far, a performance, or latencies in seconds."
                ),
                "percentile": PERCENTILE("Of the histogram.", default="the target's, else 99"),
            },
            workload.HttpMeasure,
        ),
        "command": kinds.COMMAND("Prints the number, or e.g. `latency_ms 1.5`, within 5 s."),
        "commandKind": choice(workload.NumberKind, "gauge")(
            "Whether the command prints work done so far or a rate.", default="`gauge`"
        ),
        "load": Section(
            "Performance read from a load generator's report.",
            {
                "command": kinds.COMMAND(
                    "A load generator, run repeatedly for a `latency-critical` workload.",
                    "load_command",
                    required=True,
                ),
                "regex": kinds.REGEX(
                    "As in `progress`, but its first group is the service's performance.",
                    "load_regex",
                    default="`progress.regex`",
                ),
            },
        ),
        "seconds": EVERY("Sampling interval; at least 1.", "every_seconds"),
    },
    workload.Measure,
)
SPEC = Section(
    "Target and program.",
    {
        "type": choice(workload.WorkloadType, "batch")(
            "The type, which determines how the target is stated."
        ),
        "target": TARGET,
        "tolerance": kinds.TOLERANCE(
            "Deviation from the target that still meets it; less than 100%."
        ),
        "priority": PRIORITY("Higher goes first."),
        "scale": SCALE,
        "resources": Section(
            "Allocation under policies that do not size by target; others ignore it.",
            {
                "cpu": kinds.CPU("CPU time per second; not finer than `1m`."),
                "memory": kinds.MEMORY("Limit on memory; at least `1Mi`."),
            },
            workload.Reservation,
            "reservation",
        ),
        "cost": Section(
            "Not supported yet: bounds on cost.",
            {
                "maxPerHour": MONEY(
                    "Not supported yet: in the currency of the servers' prices.",
                    "max_cost_per_hour",
                    not_supported="keeps no bound on cost",
                )
            },
        ),
        "profile": PROFILE,
        "run": RUN,
        "measure": MEASURE,
    },
    required=True,
)


def document(kind: str, doc: str, metadata: Section, spec: Section, make: Maker) -> Section:
    """The table of a whole document of a kind."""
    version = kinds.constant(API_VERSION)("The format.", None, required=True)
    word = kinds.constant(kind)("What the document describes.", None, required=True)
    return Section(
        doc, {"apiVersion": version, "kind": word, "metadata": metadata, "spec": spec}, make
    )


METADATA = Section(
    "Identity of the workload.",
    {
        "name": kinds.NAME("Unique among the workloads that the manager knows; a DNS label."),
        "labels": kinds.LABELS("At most 64; shown, never interpreted."),
    },
    required=True,
)
MANIFEST = document("Workload", "A workload and its target.", METADATA, SPEC, workload.Workload)
