"""The demo's result for people: tables and what they say, from what ``-o json`` prints."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from wharfinger.cli import format as fmt
from wharfinger.cli.format import Column, table
from wharfinger.demo.verdict import HELD_SHARE, SETTLE_SECONDS
from wharfinger.demo.workloads import (
    BASELINE,
    MAX_OVER,
    MIN_OVER,
    SERVICES,
    TARGETED,
    TOLERANCE,
    UNDER,
    with_room,
)

NOTABLE_SECONDS = 2.0
NOTABLE_SHARE = 0.03

Row = Mapping[str, Any]


def as_text(result: Row) -> str:
    """The tables and what they say."""
    baseline = result["baseline"]
    about = "" if result["policy"] == BASELINE else ", the policy that sizes by targets"
    parts = [
        f"Under {result['policy']}{about}:",
        table(_targeted(result), [*MAIN_COLUMNS, ("ADJUSTED AT", _adjusted_at(result))]),
        _adjustments(result),
        f"The same workloads under {BASELINE}, with what users would reserve:",
        table(_targeted(baseline), BASELINE_COLUMNS),
        "\n".join([_totals(result), _totals(baseline), *_comparison(result, baseline)]),
        _definitions(_targeted(result)),
    ]
    if result["notes"]:
        parts.append("\n  - ".join(["What could not be shown here:", *result["notes"]]))
    parts += [f"Performance and CPU over time: {file}" for file in result["files"]]
    return "\n\n".join(parts)


def _targeted(run: Row) -> list[Row]:
    return [row for row in run["workloads"] if row["name"] in TARGETED]


# --- cells --------------------------------------------------------------------------------------


def percent(share: float | None) -> str:
    """Without decimals; never 100 where something is missing.

    >>> percent(0.934), percent(0.998), percent(None)
    ('93%', '99%', '-')
    """
    return fmt.percent(0.99 if share is not None and 0.99 < share < 1 else share)


def _whole_seconds(seconds: float | None) -> str:
    return fmt.NONE if seconds is None else f"{seconds:.0f} s"


def _predicted(row: Row) -> str:
    if row["predicted"] is None:
        return fmt.NONE
    return "{mean:.2f} ({low:.2f}-{high:.2f})".format_map(row["predicted"])


def _achieved(row: Row) -> str:
    """What came of a workload, in its target's terms."""
    stated = {name: row["achieved"][name] for name in fmt.stated(row["target"])}
    words = [fmt.term(name, value) for name, value in stated.items() if value is not None]
    if row["name"] in SERVICES:
        return f"{' '.join(words)}; held {percent(row['held_share'])}" if words else "never served"
    if words:
        return f"done in {words[0]}"
    return "not done" if row["started_at"] else "never started"


def _reserved(row: Row) -> str:
    ratio = f"{row['reserved_cpus'] / row['needed_cpus']:.1f}"
    about = "as needed" if ratio == "1.0" else f"{ratio}x what is needed"
    return f"{row['reserved_cpus']:.2f} ({about})"


def _waited(row: Row) -> float | None:
    return row["wait_seconds"] if row["started_at"] else None


def _adjusted_at(run: Row) -> Callable[[Row], str]:
    def cell(row: Row) -> str:
        steps = [step for step in run["adjustments"] if step["name"] == row["name"]]
        return ", ".join(_whole_seconds(step["at_seconds"]) for step in steps) or fmt.NONE

    return cell


OUTCOME_COLUMNS: list[Column] = [
    ("ACHIEVED", _achieved),
    ("MET", lambda row: "yes" if row["met"] else "NO"),
    ("WAITED", lambda row: _whole_seconds(_waited(row))),
]
MAIN_COLUMNS: list[Column] = [
    ("WORKLOAD", lambda row: row["name"]),
    ("TARGET", lambda row: fmt.target(row["target"])),
    ("PREDICTED", _predicted),
    *OUTCOME_COLUMNS,
]
BASELINE_COLUMNS: list[Column] = [
    ("WORKLOAD", lambda row: row["name"]),
    ("NEEDS", lambda row: f"{row['needed_cpus']:.2f}"),
    ("RESERVED", _reserved),
    *OUTCOME_COLUMNS,
]


# --- what they say ------------------------------------------------------------------------------


def _adjustments(run: Row) -> str:
    lines = [f"{a['at_seconds']:4.0f} s  {a['name']}: {a['message']}" for a in run["adjustments"]]
    if not lines:
        return "Nothing was adjusted while it ran."
    return "\n  ".join(["Adjusted while it ran:", *lines])


def _totals(run: Row) -> str:
    """What was met and used; clients and the rest are the same for any manager."""
    text = (
        f"{run['policy']:<{len(BASELINE)}}  {run['targets_met']} of {run['targets']} targets met; "
        f"{percent(run['utilization'])} of {run['cpus']:g} CPUs used by workloads, "
        f"{percent(run['targeted_utilization'])} by those with targets"
    )
    if run["machine_utilization"] is None:
        return text
    rest = percent(max(0.0, run["machine_utilization"] - run["utilization"]))
    return f"{text} ({rest} by clients, manager, profiling and the rest of this machine)"


def _comparison(main: Row, baseline: Row) -> Iterator[str]:
    kept_waiting = _kept_waiting(baseline)
    if kept_waiting:
        yield (
            f"Its queue is served in order; with backfilling, {' and '.join(kept_waiting)} "
            "would have started at once."
        )
    pairs = zip(main["workloads"], baseline["workloads"], strict=True)
    better = [line for mine, theirs in pairs for line in _where_better(mine, theirs)]
    if better:
        yield "\n  - ".join([f"Where {BASELINE} did better:", *better])
    else:
        yield f"{BASELINE} did better nowhere in this run."


def _kept_waiting(run: Row) -> list[str]:
    """Workloads that waited in the baseline's queue although there was room."""
    stated = {row["name"]: row["reserved_cpus"] for row in _targeted(run)}
    waits = {row["name"]: _waited(row) for row in _targeted(run)}
    servers = max(1, round(run["cpus"]))
    fitting = with_room(stated, servers, run["cpus"] / servers)
    return [name for name in fitting if _is_sooner(0.0, waits[name])]


def _where_better(mine: Row, theirs: Row) -> Iterator[str]:
    """In what the baseline was ahead with one workload."""
    name = mine["name"]
    if name not in TARGETED:
        less, more = mine["cpu_seconds_used"], theirs["cpu_seconds_used"]
        if more > 1.25 * less + 1:
            yield f"{name} (best-effort) got {more:.0f} s of CPU time, not {less:.0f} s"
        return
    if theirs["met"] and not mine["met"]:
        yield f"{name} met its target"
    ends = [row["achieved"]["completion_seconds"] for row in (theirs, mine)]
    shares = [row["held_share"] or 0.0 for row in (theirs, mine)]
    waits = [_waited(row) for row in (theirs, mine)]
    if _is_sooner(*ends):
        yield f"{name} was done {_gap(*ends)}"
    elif shares[0] > shares[1] + NOTABLE_SHARE:
        held, not_held = map(percent, shares)
        yield f"{name} held its target in {held} of its seconds, not {not_held}"
    if name in SERVICES and _is_sooner(*waits):
        yield f"{name} was served {_gap(*waits)}"


def _is_sooner(theirs: float | None, mine: float | None) -> bool:
    return theirs is not None and (mine is None or theirs < mine - NOTABLE_SECONDS)


def _gap(theirs: float | None, mine: float | None) -> str:
    return f"after {theirs:.0f} s" if mine is None else f"{mine - (theirs or 0.0):.0f} s sooner"


def _definitions(rows: Sequence[Row]) -> str:
    over = sum(row["reserved_cpus"] > row["needed_cpus"] for row in rows)
    under = sum(row["reserved_cpus"] < row["needed_cpus"] for row in rows)
    return f"""\
Met: a service held its target, less {TOLERANCE:.0%}, in {HELD_SHARE:.0%} of its seconds from \
{SETTLE_SECONDS:.0f} s after its start to the end,
as its clients saw it; a batch job ended within its target, waiting and profiling included, \
plus {TOLERANCE:.0%}.
Predicted: performance over target, with the interval at the stated confidence, when it was placed.
Reserved: users misjudge; Quasar found 70% to reserve up to 10 times too much, 20% up to 5 times \
too little (Figure 1d).
Here it is milder: of {len(rows)}, {over} reserve {MIN_OVER:g} to {MAX_OVER:g} times what they \
need, {under} {UNDER:g} times, the rest exactly that."""
