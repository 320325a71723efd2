"""The demo's result for people: tables and conclusions, from what ``-o json`` prints."""

from collections.abc import Iterator
from typing import Any

from wharfinger.cli import format as fmt
from wharfinger.cli import targets
from wharfinger.cli.output import Column, column, table
from wharfinger.demo.reservations import with_room
from wharfinger.demo.timeline import Row
from wharfinger.demo.verdict import HELD_SHARE, SETTLE_SECONDS
from wharfinger.demo.workloads import SERVICES, TARGETED, TOLERANCE

NOTABLE_SECONDS = 2.0
NOTABLE_SHARE = 0.03


def as_text(result: Row) -> str:
    """The tables and conclusions."""
    baseline = result["baseline"]
    about = "" if result["policy"] == baseline["policy"] else ", the policy that sizes by targets"
    adjusted: Column = ("ADJUSTED AT", lambda row: _adjusted_at(row, result))
    notes = ["What could not be shown here:", *result["notes"]] if result["notes"] else []
    parts = [
        f"Under {result['policy']}{about}:",
        table(_targeted(result), [*_MAIN, adjusted]),
        _adjustments(result),
        f"The same workloads under {baseline['policy']}, with what users would reserve:",
        table(_targeted(baseline), _BASELINE),
        "\n".join(
            (
                *(_totals(run, len(baseline["policy"])) for run in (result, baseline)),
                *_comparison(result, baseline),
            )
        ),
        _definitions(_targeted(result)),
        "\n  - ".join(notes),
        *(f"Performance and CPU over time: {file}" for file in result["files"]),
    ]
    return "\n\n".join(filter(None, parts))


def _targeted(run: Row) -> list[Row]:
    return [row for row in run["workloads"] if row["name"] in TARGETED]


def _percent(share: float | None) -> str:
    """Without decimals; never 100 where something is missing.

    >>> _percent(0.934), _percent(0.998), _percent(None)
    ('93%', '99%', '-')
    """
    return fmt.percent(0.99 if share is not None and 0.99 < share < 1 else share)


def _seconds(value: float | None) -> str:
    return fmt.NONE if value is None else f"{value:.0f} s"


def _achieved(row: Row) -> str:
    words = targets.achieved_of_target(dict(row))
    if row["name"] in SERVICES:
        held = f"{words}; held {_percent(row['held_share'])}"
        return "never served" if words == fmt.NONE else held
    if words != fmt.NONE:
        return f"done in {words}"
    return "not done" if row["started_at"] else "never started"


def _reserved(row: Row) -> str:
    ratio = f"{row['reserved_cpus'] / row['needed_cpus']:.1f}"
    about = "as needed" if ratio == "1.0" else f"{ratio}x what is needed"
    return f"{row['reserved_cpus']:.2f} ({about})"


def _waited(row: Row) -> float | None:
    return row["wait_seconds"] if row["started_at"] else None


def _adjusted_at(row: Row, run: Row) -> str:
    steps = [step for step in run["adjustments"] if step["name"] == row["name"]]
    return ", ".join(_seconds(step["at_seconds"]) for step in steps) or fmt.NONE


def _where(row: Row) -> str:
    """``n4 (fast)``, and how often it was moved."""
    on = map("{} ({})".format, row["servers"], row["platforms"])
    return ", ".join([*on, *([f"moved {row['moves']}x"] if row["moves"] else [])]) or fmt.NONE


_OUTCOME: list[Column] = [
    ("ON", _where),
    ("ACHIEVED", _achieved),
    column("MET", form=lambda met: "yes" if met else "NO"),
    ("WAITED", lambda row: _seconds(_waited(row))),
]
_MAIN: list[Column] = [
    column("WORKLOAD", "name"),
    column("TARGET", form=targets.target),
    column("PREDICTED", form="{mean:.2f} ({low:.2f}-{high:.2f})".format_map),
    *_OUTCOME,
]
_BASELINE: list[Column] = [
    column("WORKLOAD", "name"),
    column("NEEDS", "needed_cpus", "{:.2f}".format),
    ("RESERVED", _reserved),
    *_OUTCOME,
]


def _adjustments(run: Row) -> str:
    lines = [f"{a['at_seconds']:4.0f} s  {a['name']}: {a['message']}" for a in run["adjustments"]]
    if not lines:
        return "Nothing was adjusted while it ran."
    return "\n  ".join(["Adjusted while it ran:", *lines])


def _totals(run: Row, width: int) -> str:
    text = (
        f"{run['policy']:<{width}}  {run['targets_met']} of {run['targets']} targets met; "
        f"{_percent(run['utilization'])} of {run['cpus']:g} CPUs used by workloads, "
        f"{_percent(run['targeted_utilization'])} by those with targets"
    )
    if run["machine_utilization"] is None:
        return text
    rest = _percent(max(0.0, run["machine_utilization"] - run["utilization"]))
    return f"{text} ({rest} by clients, manager, profiling and the rest of this machine)"


def _comparison(main: Row, baseline: Row) -> Iterator[str]:
    """In what the baseline was better, and who waited although there was room."""
    waits = {row["name"]: _waited(row) for row in _targeted(baseline)}
    stated = {row["name"]: row["reserved_cpus"] for row in _targeted(baseline)}
    servers = baseline["servers"]
    fitting = with_room(stated, servers, baseline["cpus"] / servers)
    if waiting := [name for name in fitting if _is_sooner(0.0, waits[name])]:
        yield (
            f"It keeps room for the first in its queue: {' and '.join(waiting)} waited although "
            "there was room."
        )
    pairs = zip(main["workloads"], baseline["workloads"], strict=True)
    better = [line for mine, theirs in pairs for line in _where_better(mine, theirs)]
    if better:
        yield "\n  - ".join([f"Where {baseline['policy']} did better:", *better])
    else:
        yield f"{baseline['policy']} did better nowhere in this run."


def _where_better(mine: Row, theirs: Row) -> Iterator[str]:
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
        held, not_held = map(_percent, shares)
        yield f"{name} held its target in {held} of its seconds, not {not_held}"
    if name in SERVICES and _is_sooner(*waits):
        yield f"{name} was served {_gap(*waits)}"


def _is_sooner(theirs: float | None, mine: float | None) -> bool:
    return theirs is not None and (mine is None or theirs < mine - NOTABLE_SECONDS)


def _gap(theirs: float | None, mine: float | None) -> str:
    return f"after {theirs:.0f} s" if mine is None else f"{mine - (theirs or 0.0):.0f} s sooner"


def _definitions(rows: list[Any]) -> str:
    ratios = [row["reserved_cpus"] / row["needed_cpus"] for row in rows]
    over, under = ([r for r in ratios if r > 1], [r for r in ratios if r < 1])
    kinds = [
        f"{len(over)} reserve {min(over):.1f} to {max(over):.1f} times what they need"
        if over
        else "",
        f"{len(under)} {min(under):.1f} times" if under else "",
        f"{len(ratios) - len(over) - len(under)} exactly that",
    ]
    return f"""\
Met: a service held its target, less {TOLERANCE:.0%}, in {HELD_SHARE:.0%} of its seconds from \
{SETTLE_SECONDS:.0f} s after its start to the end,
as its clients saw it; a batch job ended within its target, waiting and profiling included, \
plus {TOLERANCE:.0%}.
Predicted: performance over target, with the interval at the stated confidence, when it was placed.
Reserved: users misjudge; Quasar found 70% to reserve up to 10 times too much, 20% up to 5 times \
too little (Figure 1d).
Here, of {len(rows)}, {", ".join(filter(None, kinds))}."""
