"""The demo's result for people, from what ``-o json`` prints; numbers in words."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wharfinger.demo.timeline import Row
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

NONE = "-"
NOTABLE_SECONDS = 2.0
NOTABLE_SHARE = 0.03


# --- numbers ------------------------------------------------------------------------------------


def rate(per_second: float) -> str:
    """Three digits.

    >>> rate(417.3), rate(2.04)
    ('417/s', '2.04/s')
    """
    return f"{per_second:.0f}/s" if per_second >= 100 else f"{per_second:.3g}/s"


def latency(seconds: float) -> str:
    """In milliseconds below a second.

    >>> latency(0.0123), latency(0.00321), latency(2.5)
    ('12 ms', '3.2 ms', '2.5 s')
    """
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{1000 * seconds:.{0 if seconds >= 0.01 else 1}f} ms"


def whole_seconds(seconds: float | None) -> str:
    """Without decimals."""
    return NONE if seconds is None else f"{seconds:.0f} s"


def percent(share: float | None) -> str:
    """Without decimals; never 100 where something is missing.

    >>> percent(0.934), percent(0.998), percent(None)
    ('93%', '99%', '-')
    """
    if share is None:
        return NONE
    return f"{int(share * 100)}%" if 0.99 < share < 1 else f"{share:.0%}"


def met(value: bool | None) -> str:
    """Whether a target is met."""
    return NONE if value is None else "yes" if value else "NO"


def performance(values: Mapping[str, Any] | None) -> str:
    """A target, or what is achieved of one.

    >>> performance({"throughput_per_second": 200.0, "latency": {"percentile": 95.0,
    ...              "below_seconds": 0.1}})
    '200/s, p95 < 100 ms'
    >>> performance({"completion_seconds": 12.3, "rate_per_second": None})
    'done in 12 s'
    """
    forms = {
        "throughput_per_second": rate,
        "rate_per_second": rate,
        "latency": lambda b: f"p{b['percentile']:g} < {latency(b['below_seconds'])}",
        "latency_seconds": latency,
        "completion_seconds": "done in {:.0f} s".format,
    }
    present = {key: value for key, value in (values or {}).items() if value is not None}
    return ", ".join(form(present[key]) for key, form in forms.items() if key in present) or NONE


def _predicted(prediction: Mapping[str, float] | None) -> str:
    if prediction is None:
        return NONE
    return f"{prediction['mean']:.2f} ({prediction['low']:.2f}-{prediction['high']:.2f})"


def _achieved(row: Row) -> str:
    """What came of a workload, in its target's terms."""
    achieved = row["achieved"]
    if row["name"] not in SERVICES:
        if achieved["completion_seconds"] is not None:
            return performance(achieved)
        return "not done" if row["started_at"] else "never started"
    if achieved["throughput_per_second"] is None:
        return "never served"
    parts = [rate(achieved["throughput_per_second"])]
    if row["target"]["latency"] is not None:
        bound = row["target"]["latency"]["percentile"]
        parts.append(f"p{bound:g} {latency(achieved['latency_seconds'])}")
    return f"{', '.join(parts)}; held {percent(row['held_share'])}"


def _waited(row: Row) -> float | None:
    return row["wait_seconds"] if row["started_at"] else None


def _reserved(row: Row) -> str:
    ratio = row["reserved_cpus"] / row["needed_cpus"]
    about = "as needed" if f"{ratio:.1f}" == "1.0" else f"{ratio:.1f}x what is needed"
    return f"{row['reserved_cpus']:.2f} ({about})"


# --- the whole ----------------------------------------------------------------------------------


def as_text(result: Row) -> str:
    """The tables and what they say."""
    baseline = result["baseline"]
    about = "" if result["policy"] == BASELINE else ", the policy that sizes by targets"
    parts = [
        f"Under {result['policy']}{about}:",
        _main_table(result),
        _adjustments(result),
        f"The same workloads under {BASELINE}, with what users would reserve:",
        _baseline_table(baseline),
        "\n".join([_totals(result), _totals(baseline), *_comparison(result, baseline)]),
        _definitions(_targeted(result)),
    ]
    if result["notes"]:
        parts.append("\n  - ".join(["What could not be shown here:", *result["notes"]]))
    parts += [f"Performance and CPU over time: {file}" for file in result["files"]]
    return "\n\n".join(parts)


def _targeted(run: Row) -> list[Row]:
    return [row for row in run["workloads"] if row["name"] in TARGETED]


def table(head: str, rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell; ``head`` has a word or, joined by _, two for each.

    >>> print(table("A IS_B", [["long", "1"], ["x", "2"]]))
    A     IS B
    long  1
    x     2
    """
    lines = [[word.replace("_", " ") for word in head.split()], *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def _main_table(run: Row) -> str:
    def adjusted(name: str) -> str:
        times = [step["at_seconds"] for step in run["adjustments"] if step["name"] == name]
        return ", ".join(map(whole_seconds, times)) or NONE

    rows = [
        [
            row["name"],
            performance(row["target"]),
            _predicted(row["predicted"]),
            _achieved(row),
            met(row["met"]),
            whole_seconds(_waited(row)),
            adjusted(row["name"]),
        ]
        for row in _targeted(run)
    ]
    return table("WORKLOAD TARGET PREDICTED ACHIEVED MET WAITED ADJUSTED_AT", rows)


def _adjustments(run: Row) -> str:
    lines = [f"{a['at_seconds']:4.0f} s  {a['name']}: {a['message']}" for a in run["adjustments"]]
    if not lines:
        return "Nothing was adjusted while it ran."
    return "\n  ".join(["Adjusted while it ran:", *lines])


def _baseline_table(run: Row) -> str:
    rows = [
        [
            row["name"],
            f"{row['needed_cpus']:.2f}",
            _reserved(row),
            _achieved(row),
            met(row["met"]),
            whole_seconds(_waited(row)),
        ]
        for row in _targeted(run)
    ]
    return table("WORKLOAD NEEDS RESERVED ACHIEVED MET WAITED", rows)


def _totals(run: Row) -> str:
    """What was met and used; clients and the rest are the same for any manager."""
    mets = [row["met"] for row in _targeted(run)]
    text = (
        f"{run['policy']:<{len(BASELINE)}}  {sum(mets)} of {len(mets)} targets met; "
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
        yield f"{name} held its target in {percent(shares[0])} of its seconds, not " + (
            percent(mine["held_share"])
        )
    if name in SERVICES and _is_sooner(*waits):
        yield f"{name} was served {_gap(*waits)}"


def _is_sooner(theirs: float | None, mine: float | None) -> bool:
    return theirs is not None and (mine is None or theirs < mine - NOTABLE_SECONDS)


def _gap(theirs: float | None, mine: float | None) -> str:
    if mine is None:
        return f"after {theirs:.0f} s"
    return f"{mine - (theirs or 0.0):.0f} s sooner"


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
