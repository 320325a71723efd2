"""The table of a scenario's fields: traces.

A part of ``scenario_fields``.
"""

from wharfinger.manifest.kinds import CPU, DIRECTORY, DURATION, FILE, MEMORY, TIME, choice
from wharfinger.manifest.sections import Section
from wharfinger.simulator.scenario.scenario_kinds import (
    BYTES,
    FRACTION,
    NUMBER,
    TEXT,
    TEXTS,
    TYPE,
    TYPES,
)
from wharfinger.simulator.scenario.swf import Larger, SwfTrace
from wharfinger.simulator.scenario.traces import CsvTrace, JobColumns, NodeColumns, Units, Window

_WINDOW = Section(
    "Which part of the trace.",
    {
        "from": TIME("Who came before is left out.", "start_seconds"),
        "until": DURATION("Who came then or later too.", "end_seconds", default="its end"),
        "timeScale": NUMBER("All times are multiplied by it."),
        "arrivalScale": NUMBER("Times between arrivals once more."),
        "sample": FRACTION("Share of servers and workloads that is drawn."),
    },
    Window,
)
_COLUMNS = Section(
    "What they are called there.",
    {
        "arrival": TEXT("When it was submitted."),
        "cpu": TEXT("That it asked for."),
        "name": TEXT("What it is called."),
        "start": TEXT(
            "When it began; where it is empty the workload never ran.", default="the arrival"
        ),
        "end": TEXT("When it ended."),
        "duration": TEXT("Instead of the end."),
        "memory": TEXT("That it asked for."),
        "type": TEXT("See `types`."),
    },
    JobColumns,
)
_NODE_COLUMNS = Section(
    "What they are called there.",
    {
        "cpu": TEXT("Of one."),
        "memory": TEXT("Of one."),
        "platform": TEXTS("Together they name its platform.", default="its size does"),
    },
    NodeColumns,
)
_UNITS = Section(
    "Of both files.",
    {
        "time": DURATION("What 1 means.", "seconds"),
        "cpu": CPU("What 1 means.", "millicpus"),
        "memory": BYTES("What 1 means."),
    },
    Units,
)
_CSV = Section(
    "A trace in CSV files with a line of names.",
    {
        "directory": DIRECTORY(
            "Of its files.", default="where the scenario lies, or `trace:DIR`", required=False
        ),
        "jobs": TEXT("File of workloads.", required=True),
        "columns": _COLUMNS,
        "nodes": TEXT("File of servers."),
        "nodeColumns": _NODE_COLUMNS,
        "units": _UNITS,
        "types": TYPES("Kind of workload by what the column says.", default="none"),
        "otherType": TYPE("Where it says something else.", "default_type"),
        "window": _WINDOW,
    },
    CsvTrace,
    "trace",
)
_SWF = Section(
    "A trace in the Standard Workload Format.",
    {
        "file": FILE("The file.", "path"),
        "memory": MEMORY("Of each server of which its header tells."),
        "larger": choice(Larger, "spread")(
            "Jobs larger than every server: spread over several at once, or left out."
        ),
        "window": _WINDOW,
    },
    SwfTrace,
    "trace",
)
TRACE = Section("Instead of a population: `csv` or `swf`.", {"csv": _CSV, "swf": _SWF})
