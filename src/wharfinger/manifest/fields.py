"""The table of a manifest's fields, the one place that says what a manifest may hold.

Reading (``parsing``), writing (``rendering``), the JSON Schema (``schema``) and the
reference in the docs (``reference``) all walk this table. A new field is one line here and,
where it is kept, one field of a dataclass in ``wharfinger.model.workload``, whose default
is the manifest's default.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from wharfinger.errors import InvalidInput
from wharfinger.manifest import kinds
from wharfinger.manifest.kinds import Kind
from wharfinger.model import units
from wharfinger.model.workload import (
    HttpMeasure,
    LatencyBound,
    Measure,
    MetricKind,
    NumberKind,
    Profile,
    ProfileMode,
    Reservation,
    Run,
    Scale,
    Spread,
    Target,
    Workload,
    WorkloadType,
)

API_VERSION = "wharfinger.dev/v1alpha1"
KIND = "Workload"

MIN_MEMORY_BYTES = 1024**2
MAX_PRIORITY = 1_000_000
MAX_SERVERS = 100_000
MAX_PROFILE_SECONDS = 3600


Maker: TypeAlias = "Callable[..., object] | None"
"""Makes an object of a section's attributes."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field that holds a value.

    Attributes:
        name: Its key.
        attribute: Where its section's object keeps it; ``None`` = nowhere, it is a constant.
        kind: How it is read, written and described.
        doc: What it says, in one or two sentences.
        required: Whether its section must have it.
        default: Its default in words, where it is not simply the dataclass's.
    """

    name: str
    attribute: str | None
    kind: Kind
    doc: str
    required: bool = False
    default: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """One field that holds other fields.

    Attributes:
        name: Its key; empty for the whole manifest.
        attribute: Where the object around it keeps its object; ``None`` = it has none of its
            own and its fields belong to the object around it.
        make: Makes its object from the attributes of its fields; an ``InvalidInput`` that it
            raises is a problem of the section.
        fields: In the order in which they are written.
        doc: What it says.
        required: Whether the section around it must have it.
        many: Whether it is a list of such; then its attribute is a tuple of objects.
        short: What may stand in its place instead of a mapping; ``None`` = nothing.
    """

    name: str
    attribute: str | None
    make: Maker
    fields: "tuple[Field | Section, ...]"
    doc: str
    required: bool = False
    many: bool = False
    short: Kind | None = None


def default_of(make: Maker, attribute: str | None) -> object:
    """The default of a dataclass's attribute; ``None`` where there is none or it is empty."""
    if make is None or attribute is None:
        return None
    for field in dataclasses.fields(make):  # type: ignore[arg-type]  # every make is a dataclass
        if field.name == attribute and field.default is not dataclasses.MISSING:
            return field.default
    return None


def _tolerance(text: str) -> float:
    fraction = units.parse_fraction(text)
    if fraction >= 1:
        raise InvalidInput(
            f"{units.quoted(text)} would tolerate anything; write less than 100%, e.g. 5%"
        )
    return fraction


def _positive(pattern: str, zeros: str = "[0.]") -> str:
    """A pattern of what is not zero: the first digit after all ``zeros`` is another."""
    return f"^(?={zeros}*[1-9])" + pattern.removeprefix("^")


DURATION = kinds.quantity(
    "duration, e.g. `10m`",
    units.parse_duration_seconds,
    units.format_duration,
    _positive(units.DURATION_PATTERN, "[0.a-z]"),
    "2ms",
    "1.5s",
    "1h30m",
)
GRACE = kinds.quantity(
    "duration, e.g. `10s`",
    lambda text: units.parse_duration_seconds(text, allow_zero=True),
    units.format_duration,
    units.DURATION_PATTERN,
    "10s",
)
RATE = kinds.quantity(
    "rate, e.g. `40k/s`",
    units.parse_rate_per_second,
    units.format_rate,
    _positive(units.RATE_PATTERN),
    "40000/s",
    "40k/s",
    "3M/min",
)
TOLERANCE = kinds.quantity(
    "fraction, e.g. `5%`",
    _tolerance,
    units.format_fraction,
    units.FRACTION_PATTERN,
    "5%",
    "0.05",
    number={"type": "number", "minimum": 0, "exclusiveMaximum": 1},
)
CPU = kinds.quantity(
    "CPUs, e.g. `250m` or `2`",
    units.parse_cpu_millicpus,
    units.format_cpu,
    _positive(units.CPU_PATTERN),
    "250m",
    "2",
    "0.5",
    number={"type": "number", "exclusiveMinimum": 0, "maximum": 1_000_000},
)
MEMORY = kinds.quantity(
    "bytes, e.g. `512Mi`",
    lambda text: units.parse_bytes(text, minimum=MIN_MEMORY_BYTES),
    units.format_bytes,
    _positive(units.BYTES_PATTERN),
    "512Mi",
    "4Gi",
    "1.5G",
    number={"type": "integer", "minimum": MIN_MEMORY_BYTES, "maximum": units.MAX_BYTES},
)
PERCENTILE = kinds.number("number, e.g. `99`", 0, 100, 99, 99.9, open_ends=True)
PRIORITY = kinds.number("whole number, e.g. `10`", -MAX_PRIORITY, MAX_PRIORITY, 10, integer=True)
SERVERS = kinds.number("whole number, e.g. `8`", 1, MAX_SERVERS, 8, integer=True)
SECONDS = kinds.number("number of seconds, e.g. `8`", 0.1, MAX_PROFILE_SECONDS, 8)
EVERY = kinds.number("number of seconds, e.g. `5`", 1, MAX_PROFILE_SECONDS, 5)
AMOUNT = kinds.number("number, e.g. `100`", 1e-9, 1e18, 100)
MONEY = kinds.number("number, e.g. `4.50`", 1e-6, units.MAX_MONEY, 4.5)

METADATA = Section(
    "metadata",
    None,
    None,
    (
        Field(
            "name",
            "name",
            kinds.NAME,
            "Unique among the workloads that the manager knows; a DNS label.",
            required=True,
        ),
        Field("labels", "labels", kinds.LABELS, "Your own, at most 64; shown, never interpreted."),
    ),
    "Who the workload is.",
    required=True,
)

TARGET = Section(
    "target",
    "target",
    Target,
    (
        Field(
            "throughput",
            "throughput_per_second",
            RATE,
            "Queries or operations per second that a service must hold.",
        ),
        Section(
            "latency",
            "latency",
            LatencyBound,
            (
                Field(
                    "percentile",
                    "percentile",
                    PERCENTILE,
                    "Which percentile is bounded: more than 0, less than 100.",
                    required=True,
                ),
                Field("below", "below_seconds", DURATION, "What it stays below.", required=True),
            ),
            "A bound on a percentile of a service's latency.",
        ),
        Field(
            "completionTime",
            "completion_seconds",
            DURATION,
            "From being handed in to its end.",
        ),
        Field(
            "rate", "rate_per_second", RATE, "Work per second, in the unit that `measure` reads."
        ),
    ),
    "The performance to reach. A `latency-critical` workload states `throughput`, `latency` or "
    "both; `batch` and `single-node` state `completionTime` or `rate`, or nothing; "
    "`best-effort` has no target.",
)

SCALE = Section(
    "scale",
    "scale",
    Scale,
    (
        Field(
            "maxServers", "max_servers", SERVERS, "The most servers it may use; 1 if `single-node`."
        ),
        Field("stateful", "stateful", kinds.BOOLEAN, "Moving it loses or migrates state."),
        Field("gang", "gang", kinds.BOOLEAN, "All its servers start together or not at all."),
        Field(
            "spread",
            "spread",
            kinds.choice(Spread, "zone"),
            "Over what its servers are spread; anywhere without it.",
        ),
    ),
    "How far it may scale out, and what that costs it.",
)

RESOURCES = Section(
    "resources",
    "reservation",
    Reservation,
    (
        Field("cpu", "cpu_millicpus", CPU, "CPU time per second; not finer than `1m`."),
        Field("memory", "memory_bytes", MEMORY, "Limit on memory; at least `1Mi`."),
    ),
    "What policies give it that do not size by target. Policies that do ignore it.",
)

COST = Section(
    "cost",
    None,
    None,
    (
        Field(
            "maxPerHour",
            "max_cost_per_hour",
            MONEY,
            "In the currency of the servers' prices.",
            required=True,
        ),
    ),
    "What it may cost.",
)

PROFILE = Section(
    "profile",
    "profile",
    Profile,
    (
        Field(
            "mode",
            "mode",
            kinds.choice(ProfileMode, "copy"),
            "`copy` runs a sandboxed copy, `live` varies the running workload's allocation, "
            "`none` does neither. Best-effort work is never copied.",
            default="`copy`; `none` if `best-effort`",
        ),
        Field("seconds", "seconds", SECONDS, "For how long; at least 0.1, at most 3600."),
    ),
    "How it may be profiled before it is placed.",
)

RUN = Section(
    "run",
    "run",
    Run,
    (
        Field(
            "command",
            "command",
            kinds.COMMAND,
            "The program, looked up in PATH, and its arguments. No shell reads it.",
            required=True,
        ),
        Field(
            "env",
            "env",
            kinds.ENVIRONMENT,
            "Added to a minimal environment; the values are never shown.",
        ),
        Field(
            "workingDir",
            "working_directory",
            kinds.DIRECTORY,
            "Where it runs; a relative path starts where you call `submit`.",
            default="`.`",
        ),
        Field(
            "stopGrace",
            "stop_grace_seconds",
            GRACE,
            "Between asking it to stop (SIGTERM) and killing it.",
        ),
        Field(
            "restartable",
            "restartable",
            kinds.BOOLEAN,
            "It may be stopped, and started again from its beginning, to be moved.",
        ),
    ),
    "The program.",
    required=True,
)

MEASURE = Section(
    "measure",
    "measure",
    Measure,
    (
        Section(
            "progress",
            None,
            None,
            (
                Field(
                    "regex",
                    "progress_regex",
                    kinds.REGEX,
                    "Searched in each line; its first group is a number, or its groups are named "
                    "`done`, `rate`, `throughput`, `latency_s`, `latency_ms`, `latency_us`.",
                    required=True,
                ),
                Field(
                    "kind",
                    "progress_kind",
                    kinds.choice(NumberKind, "counter"),
                    "Whether the first group is work done so far or a rate.",
                    default="`counter`",
                ),
                Field("total", "progress_total", AMOUNT, "The number when all work is done."),
                Field(
                    "file",
                    "progress_file",
                    kinds.FILE,
                    "Where the lines are, if not on its output; a relative path starts where you "
                    "call `submit`.",
                ),
            ),
            "Performance read from the workload's own lines, on output or in a file.",
        ),
        Section(
            "http",
            "http",
            HttpMeasure,
            (
                Field("url", "url", kinds.URL, "Asked by GET.", required=True),
                Field(
                    "metric",
                    "metric",
                    kinds.METRIC,
                    "A Prometheus metric; all its series with these labels are added up. Without "
                    "it the answer must be one number.",
                ),
                Field(
                    "kind",
                    "kind",
                    kinds.choice(MetricKind, "counter"),
                    "Work done so far, a performance, or a histogram of latencies in seconds.",
                ),
                Field(
                    "percentile",
                    "percentile",
                    PERCENTILE,
                    "Of the histogram.",
                    default="the target's, else 99",
                ),
            ),
            "Performance read from an HTTP endpoint.",
        ),
        Field(
            "command",
            "command",
            kinds.COMMAND,
            "Prints the number, or lines such as `latency_ms 1.5`; it has 5 seconds.",
        ),
        Field(
            "commandKind",
            "command_kind",
            kinds.choice(NumberKind, "gauge"),
            "Whether the command prints work done so far or a rate.",
            default="`gauge`",
        ),
        Section(
            "load",
            None,
            None,
            (
                Field(
                    "command",
                    "load_command",
                    kinds.COMMAND,
                    "A load generator run beside a `latency-critical` workload, again and again.",
                    required=True,
                ),
                Field(
                    "regex",
                    "load_regex",
                    kinds.REGEX,
                    "As in `progress`, but its first group is the service's performance.",
                    default="`progress.regex`",
                ),
            ),
            "Performance read from a load generator's report.",
        ),
        Field("seconds", "every_seconds", EVERY, "Between two samples; at least 1."),
    ),
    "How the manager reads its performance; see [measure.md](measure.md).",
)

SPEC = Section(
    "spec",
    None,
    None,
    (
        Field(
            "type",
            "type",
            kinds.choice(WorkloadType, "batch"),
            "What kind of workload it is, which says how its target is stated.",
            required=True,
        ),
        TARGET,
        Field(
            "tolerance",
            "tolerance",
            TOLERANCE,
            "By how much the target may be missed and still is kept; less than 100%.",
        ),
        Field("priority", "priority", PRIORITY, "Higher goes first."),
        SCALE,
        RESOURCES,
        COST,
        PROFILE,
        RUN,
        MEASURE,
    ),
    "What it must reach and how it runs.",
    required=True,
)

MANIFEST = Section(
    "",
    None,
    Workload,
    (
        Field("apiVersion", None, kinds.constant(API_VERSION), "The format.", required=True),
        Field("kind", None, kinds.constant(KIND), "What the document describes.", required=True),
        METADATA,
        SPEC,
    ),
    "A workload and the performance it must reach.",
)
