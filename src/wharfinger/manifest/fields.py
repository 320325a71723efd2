"""The table of a manifest's fields, the one place that says what a manifest may hold.

``sections`` reads by it; ``output`` writes, and makes the JSON Schema and the reference in the
docs. A new field is one row here and, where it is kept, one attribute of a dataclass in
``wharfinger.model.workload``, whose default is the manifest's default.
"""

from dataclasses import replace

from wharfinger.manifest import arrays, kinds, timing
from wharfinger.manifest.kinds import Field, choice, number, or_word, words
from wharfinger.manifest.requires import REQUIRES
from wharfinger.manifest.sections import Maker, Section
from wharfinger.model import units, workload

API_VERSION = "wharfinger.dev/v1alpha1"

MAX_PRIORITY = 1_000_000
MAX_SERVERS = 100_000
MAX_PROFILE_SECONDS = 3600
MAX_RESTARTS = 1_000_000
MAX_FAILURES = 1000

STOP_SIGNALS = [
    "TERM",
    "INT",
    "QUIT",
    "HUP",
    "USR1",
    "USR2",
    "ALRM",
    "WINCH",
    "PWR",
    "ABRT",
    "KILL",
]

UNSTATED = workload.Reservation(250, 512 * 1024**2, elastic_cpu=True, elastic_memory=True)
"""The reservation of a workload that states none."""

DEFAULT_TTL_SECONDS = 7 * 86_400.0

ADAPT = choice(workload.Adapt, "auto")
PRIORITY = number(-MAX_PRIORITY, MAX_PRIORITY, 10, noun=kinds.WHOLE)
SERVERS = number(1, MAX_SERVERS, 8, noun=kinds.WHOLE)
SECONDS = number(0.1, MAX_PROFILE_SECONDS, 8, noun="number of seconds")
EVERY = number(1, MAX_PROFILE_SECONDS, 5, noun="number of seconds")
AMOUNT = number(1e-9, 1e18, 100)
MONEY = number(1e-6, units.MAX_MONEY, 4.5)
PORT = number(1, 65535, 8080, noun=kinds.WHOLE)
FAILURES = number(1, MAX_FAILURES, 3, noun=kinds.WHOLE)
RESTARTS = or_word(number(0, MAX_RESTARTS, 5, noun=kinds.WHOLE), "unlimited")
KEPT = or_word(kinds.DURATION, "forever")
INDEX = number(0, arrays.MAX_INDEX, 7, noun=kinds.WHOLE)
AT_ONCE = number(1, 99_999, 8, noun=kinds.WHOLE)

LATENCY = Section(
    "A bound on a percentile of a service's latency.",
    {
        "percentile": kinds.PERCENTILE("Which percentile is bounded: from 1 to less than 100."),
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
            "Moving it loses or migrates state: while it runs it is moved off a drained server "
            "only, if it is `restartable`, and for no target's sake."
        ),
        "gang": kinds.BOOLEAN(
            "Its servers start together, and it gets no more while it runs. Under `quasar` it "
            "waits for room on as many as keep its target; other policies give one server, or "
            "refuse it several (`not-supported`)."
        ),
        "spread": choice(workload.Spread, "zone")(
            "Its servers are spread evenly over failure zones; one whose zone is unknown counts as "
            "a zone of its own. Under `quasar` and `autoscale`; other policies give one server, or "
            "refuse it several (`not-supported`)."
        ),
    },
    workload.Scale,
)
PROFILE = Section(
    "Profiling before placement.",
    {
        "mode": choice(workload.ProfileMode, "copy")(
            "`copy` runs a sandboxed copy, `live` varies the running workload's allocation, "
            "`none` does neither. Best-effort work is copied where `measure` tells how it does, to "
            "compare platforms while CPU is idle; under `quasar` alone.",
            default="`copy`; `none` if `best-effort` without `measure`",
        ),
        "seconds": SECONDS("Duration of profiling; 0.1 to 3600."),
    },
    workload.Profile,
)
RESTART = Section(
    "Whether its program is started again after its end; a policy alone may stand in its place. "
    "Without it: `on-failure` if `latency-critical`, else `never`; but a program that ran out of "
    "memory which is not stated is started again with more.",
    {
        "policy": choice(workload.RestartPolicy, "on-failure")(
            "After which ends: `always`, `on-failure` (any end but exit status 0) or `never`.",
            required=True,
        ),
        "backoff": kinds.DURATION("Delay before the first restart; doubles with each in a row."),
        "limit": RESTARTS("Most restarts in a row; ten minutes without a failure reset the count."),
    },
    workload.Restart,
    short=words(
        [str(policy) for policy in workload.RestartPolicy],
        "on-failure",
        lambda word: workload.Restart(workload.RestartPolicy(word)),
    ),
    unstated="restart_unstated",
)
_WAYS: dict[str, Field | Section] = {
    "port": PORT("A TCP connection to this port of 127.0.0.1 is accepted."),
    "http": kinds.URL("A GET of this URL is answered with a status from 200 to 399."),
    "command": kinds.COMMAND("This command ends with exit status 0; it runs as the program does."),
}
_LINE: dict[str, Field | Section] = {
    "line": kinds.LINE("This expression is found in a line of the program's output.")
}


def _probe(doc: str, ways: dict[str, Field | Section], failed: str) -> Section:
    attempts: dict[str, Field | Section] = {
        "every": kinds.DURATION("Time between two attempts; at least 100ms."),
        "timeout": kinds.DURATION("Time after which an attempt has failed."),
        "failures": FAILURES(failed),
    }
    return Section(doc, {**ways, **attempts}, workload.Probe)


READY = _probe(
    "How to see that it is ready; exactly one of `port`, `http`, `command` and `line`. Until then "
    "it is not measured and gets no load.",
    {**_WAYS, **_LINE},
    "Failed attempts in a row after which it is no longer ready.",
)
ALIVE = _probe(
    "How to see that it is alive, once it has been ready; exactly one of `port`, `http` and "
    "`command`. A program that is not is stopped as failed, and restarted as `restart` says.",
    _WAYS,
    "Failed attempts in a row after which it is not alive.",
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
        "user": kinds.USER(
            "Name of the user that it runs as; only a manager that runs as root may change it.",
            default="the manager's",
        ),
        "restart": RESTART,
        "ready": READY,
        "alive": ALIVE,
        "timeLimit": kinds.DURATION("Longest time that it may run; then it is stopped as failed."),
        "stopSignal": words(STOP_SIGNALS, "TERM")("The signal that asks it to stop, without SIG."),
        "stopGrace": kinds.TIME("Time between `stopSignal` and SIGKILL."),
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
                    "`done`, `rate`, `throughput`, `offered`, `latency_s`, `latency_ms` or "
                    "`latency_us`.",
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
                "percentile": kinds.PERCENTILE(
                    "Of the histogram.", default="the target's, else 99"
                ),
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
RESOURCES = Section(
    "The allocation wherever no prediction sizes it; see [Resources](#resources).",
    {
        "cpu": kinds.CPU(
            "CPU time per second; not finer than `1m`.",
            "cpu_millicpus",
            default=f"begins at `{units.format_cpu(UNSTATED.cpu_millicpus)}`, follows its use",
            unstated="elastic_cpu",
        ),
        "memory": kinds.MEMORY(
            "Limit on memory; at least `1Mi`.",
            "memory_bytes",
            default=f"begins at `{units.format_bytes(UNSTATED.memory_bytes)}`, follows its use",
            unstated="elastic_memory",
        ),
    },
    workload.Reservation,
    "reservation",
)
AFTER = Section(
    "Workloads that it waits for, by name; an array's name stands for all its members.",
    {
        "completed": kinds.NAMES(
            "These must have ended with exit status 0; if one ends otherwise, it is rejected."
        ),
        "ended": kinds.NAMES("These must have ended, in whatever way."),
        "ready": kinds.NAMES("These must run and be ready."),
    },
    workload.After,
)
SCHEDULE = Section(
    "When a new run of it begins; a cron expression alone may stand in its place.",
    {
        "cron": timing.CRON("Minute, hour, day of month, month and day of week, as in crontab(5)."),
        "timeZone": timing.TIME_ZONE("Of the IANA database."),
        "missed": choice(workload.MissedRun, "run")(
            "What happens to a time that passed while there was no manager: `run` starts one run "
            "for all of them as soon as there is one, `skip` waits for the next."
        ),
    },
    workload.Schedule,
    short=replace(timing.CRON, read=timing.read_schedule),
)
ARRAY = Section(
    "Makes it an array: one workload `NAME-INDEX` for each index. The form with fields is that of "
    "one member, as it is shown.",
    {
        "name": kinds.NAME("The array's name."),
        "index": INDEX("The member's own number."),
        "atOnce": AT_ONCE("How many members may run at the same time.", default="all"),
    },
    workload.ArrayMember,
    short=arrays.RANGE,
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
        "onMiss": choice(workload.OnMiss, "run")(
            "Where the target is expected to be missed on every server: `run` places it where it "
            "is most likely to be kept, `reject` refuses it once that is known."
        ),
        "adapt": ADAPT(
            "What is done about it after it was placed: `auto` adjusts it as its target and those "
            "of others take it, `recommend` only says what would be done, `off` does nothing."
        ),
        "priority": PRIORITY("Higher goes first."),
        "requires": REQUIRES(
            "Which servers it may be placed on, by their labels: of each label one of these "
            'values, or none of them if each has `!` before it (in quotes: `"!yes"`).'
        ),
        "scale": SCALE,
        "resources": RESOURCES,
        "cost": Section(
            "No effect yet: bounds on cost.",
            {
                "maxPerHour": MONEY(
                    "No effect yet: in the currency of the servers' prices.",
                    "max_cost_per_hour",
                    not_supported="keeps no bound on cost",
                )
            },
        ),
        "profile": PROFILE,
        "run": RUN,
        "measure": MEASURE,
        "expectedDuration": kinds.DURATION(
            "How long its user expects a run to take; helps to order and place it.",
            "expected_seconds",
        ),
        "waiting": Section(
            "How it waits, under an admission that lets workloads wait for better servers. "
            "Best-effort work does not.",
            {
                "within": kinds.TIME(
                    "How long it may wait for a server that suits it; then it takes any.",
                    "waiting_seconds",
                )
            },
        ),
        "ttlAfterFinished": KEPT(
            "How long its record and output are kept after its end; `forever` = no limit.",
            default=f"`{units.format_duration(DEFAULT_TTL_SECONDS)}`",
        ),
        "after": AFTER,
        "schedule": SCHEDULE,
        "array": ARRAY,
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
        "name": kinds.NAME(
            "Unique among the workloads that the manager knows; a DNS label.",
            required=False,
            default="required, or `generateName`",
        ),
        "generateName": kinds.PREFIX(
            "Instead of `name`: its beginning; each submission appends five random letters and "
            "digits.",
            None,
        ),
        "labels": kinds.LABELS("At most 64; shown, never interpreted."),
    },
    required=True,
)
MANIFEST = document("Workload", "A workload and its target.", METADATA, SPEC, workload.Workload)
