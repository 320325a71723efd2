"""The table of a scenario's fields: traces.

A part of ``scenario_fields``.
"""

from wharfinger.manifest import kinds
from wharfinger.manifest.fields import CPU, DURATION, MEMORY, Field, Section
from wharfinger.simulator.scenario.scenario_kinds import (
    BYTES,
    FRACTION,
    NUMBER,
    TEXT,
    TEXTS,
    TIME,
    TYPE,
    TYPES,
)
from wharfinger.simulator.scenario.swf import Larger, SwfTrace
from wharfinger.simulator.scenario.traces import CsvTrace, JobColumns, NodeColumns, Units, Window

WINDOW = Section(
    "window",
    "window",
    Window,
    (
        Field("from", "start_seconds", TIME, "Who came before is left out."),
        Field("until", "end_seconds", DURATION, "Who came then or later too.", default="its end"),
        Field("timeScale", "time_scale", NUMBER, "All times are multiplied by it."),
        Field("arrivalScale", "arrival_scale", NUMBER, "Times between arrivals once more."),
        Field("sample", "sample", FRACTION, "Share of servers and workloads that is drawn."),
    ),
    "Which part of the trace.",
)

CSV = Section(
    "csv",
    "trace",
    CsvTrace,
    (
        Field(
            "directory",
            "directory",
            kinds.DIRECTORY,
            "Of its files.",
            default="where the scenario lies, or `trace:DIR`",
        ),
        Field("jobs", "jobs", TEXT, "File of workloads.", required=True),
        Section(
            "columns",
            "columns",
            JobColumns,
            (
                Field("arrival", "arrival", TEXT, "When it was handed in.", required=True),
                Field("cpu", "cpu", TEXT, "That it asked for.", required=True),
                Field("name", "name", TEXT, "What it is called."),
                Field(
                    "start",
                    "start",
                    TEXT,
                    "When it began; where it is empty the workload never ran.",
                    default="the arrival",
                ),
                Field("end", "end", TEXT, "When it ended."),
                Field("duration", "duration", TEXT, "Instead of the end."),
                Field("memory", "memory", TEXT, "That it asked for."),
                Field("type", "type", TEXT, "See `types`."),
            ),
            "What they are called there.",
            required=True,
        ),
        Field("nodes", "nodes", TEXT, "File of servers."),
        Section(
            "nodeColumns",
            "node_columns",
            NodeColumns,
            (
                Field("cpu", "cpu", TEXT, "Of one.", required=True),
                Field("memory", "memory", TEXT, "Of one.", required=True),
                Field(
                    "platform",
                    "platform",
                    TEXTS,
                    "Together they name its platform.",
                    default="its size does",
                ),
            ),
            "What they are called there.",
        ),
        Section(
            "units",
            "units",
            Units,
            (
                Field("time", "seconds", DURATION, "What 1 means."),
                Field("cpu", "millicpus", CPU, "What 1 means."),
                Field("memory", "memory_bytes", BYTES, "What 1 means."),
            ),
            "Of both files.",
        ),
        Field("types", "types", TYPES, "Kind of workload by what the column says.", default="none"),
        Field("otherType", "default_type", TYPE, "Where it says something else."),
        WINDOW,
    ),
    "A trace in CSV files with a line of names.",
)

SWF = Section(
    "swf",
    "trace",
    SwfTrace,
    (
        Field(
            "file",
            "path",
            kinds.FILE,
            "The file.",
            required=True,
        ),
        Field("memory", "memory_bytes", MEMORY, "Of each server of which its header tells."),
        Field(
            "larger",
            "larger",
            kinds.choice(Larger, "spread"),
            "Jobs larger than every server: spread over several at once, or left out.",
        ),
        WINDOW,
    ),
    "A trace in the Standard Workload Format.",
)

TRACE = Section("trace", None, None, (CSV, SWF), "Instead of a population: `csv` or `swf`.")
