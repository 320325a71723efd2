"""A workload's placement, classification and adjustments, as several commands print them."""

from wharfinger.cli import format as fmt
from wharfinger.cli.output import Column, Record, column, table
from wharfinger.cli.statuses import ended_status
from wharfinger.cli.targets import term

ADJUSTMENT_ROWS = 10


def placements(workload: Record) -> str:
    """Where a workload is or was, and with how much."""
    return "; ".join(
        f"{p['name']} ({_cpu_of(p)}, {fmt.size(p['memory_bytes'])} memory)"
        for p in workload["placements"]
    )


def _cpu_of(placement: Record) -> str:
    given, ceiling = placement["cpus"], placement["ceiling_cpus"]
    return allocated(given, ceiling, best_effort=placement["best_effort"])


def allocated(given: float, ceiling: float | None, *, best_effort: bool) -> str:
    """The CPU of an allocation.

    >>> allocated(2.0, None, best_effort=False), allocated(0.0, 0.1, best_effort=True)
    ('2 CPU', 'what others leave, at most 0.1 CPU')
    """
    if not best_effort:
        return fmt.cpus(given)
    return "what others leave" + ("" if ceiling is None else f", at most {fmt.cpus(ceiling)}")


def restarts(workload: Record) -> str:
    """How often its program was started again in this run, and lately."""
    times, in_row = (workload[key] for key in ("restarts", "restarts_in_row"))
    return f"{times}x" + (f", {in_row} of them in a row" if in_row else "")


def runs_text(runs: list[Record]) -> str:
    """Runs that have ended, and what became of each."""
    return table(runs, _RUNS)


_RUNS: list[Column] = [
    column("RUN"),
    ("ENDED", lambda run: f"{fmt.clock(run['ended_at'])}"),
    ("STATUS", ended_status),
    column("RAN", "run_seconds", fmt.duration),
    column("RESTARTS"),
    column("CPU TIME", "cpu_seconds", fmt.duration),
    column("PEAK MEMORY", "memory_peak_bytes", fmt.size),
    column("OF TARGET", "achieved", fmt.percent),
    column("MET", form=fmt.yes_no),
    column("MESSAGE"),
]


def basis(classification: Record) -> str:
    """On what a classification rests."""
    by = f"{classification['estimator']} {classification['version']}"
    if not classification["entries_measured"]:
        return f"a cold start, from known programs of its type ({by})"
    return f"{classification['entries_measured']} entries measured, the others estimated by {by}"


def interference_text(classification: Record, *, wide: bool = False) -> list[str]:
    """What it tolerates and causes, of 100; short: only what was measured."""
    rows = [
        score
        for score in classification["interference"]
        if wide or score["tolerated_measured"] or score["caused_measured"]
    ]
    columns: list[Column] = [
        column("SHARED RESOURCE", "name"),
        ("TOLERATES", lambda score: _score(score, "tolerated")),
        ("CAUSES", lambda score: _score(score, "caused")),
    ]
    return table(rows, columns).splitlines()


def _score(score: Record, kind: str) -> str:
    if score[kind] is None:
        return fmt.NONE
    bound = "over " if kind == "tolerated" and score["tolerated_censored"] else ""
    source = "" if score[f"{kind}_measured"] else ", estimated"
    return f"{bound}{score[kind]:.0f} of 100 (+-{score[f'{kind}_std']:.0f}{source})"


def curves_text(classification: Record) -> list[str]:
    r"""Every point of every curve; then other platforms, and several servers.

    >>> times = {"mean": 1.5, "low": 1.2, "high": 1.9}
    >>> platforms = [{"name": "usual", **times}, {"name": "fast", **times}]
    >>> servers = [{"name": "1", **times}, {"name": "2", **times}]
    >>> known = {"platform": "usual", "platforms": platforms, "servers": servers, "confidence": 0.8}
    >>> print("\n".join(curves_text({"curves": [], **known})))
    on fast: 1.5 times (1.2 to 1.9) that on usual
    on 2 servers: 1.5 times (1.2 to 1.9) that on one
    """
    sure = fmt.percent(classification["confidence"])
    columns = [
        column("CPU", "cpus", fmt.number),
        column("EXPECTED", "mean", fmt.significant),
        column(f"OVER ({sure})", "low", fmt.significant),
        column(f"UNDER ({sure})", "high", fmt.significant),
        column("", "measured", lambda measured: "measured" if measured else ""),
    ]
    lines = []
    for curve in classification["curves"]:
        name = curve["name"] if curve["name"] != "relative" else "relative to that with one CPU"
        lines += [f"{name}:", *table(curve["points"], columns).splitlines()]
    here = classification["platform"]
    changes = [(c, c["name"], here) for c in classification["platforms"] if c["name"] != here]
    on_several = (c for c in classification["servers"] if c["name"] != "1")
    changes += [(c, f"{c['name']} servers", "one") for c in on_several]
    for change, where, base in changes:
        mean, low, high = (fmt.significant(change[key]) for key in ("mean", "low", "high"))
        lines.append(f"on {where}: {mean} times ({low} to {high}) that on {base}")
    return lines


def measured_text(workload: Record) -> list[str]:
    """What profiling and its own runs measured, and what could not be measured."""
    profiling, classification = workload["profiling"], workload["classification"]
    cold = classification and not classification["entries_measured"]
    lines = [basis(classification)] if cold else []
    if profiling is not None:
        runs = profiling["runs"]
        count = f"{runs} profiling run{'' if runs == 1 else 's'}"
        lines += [f"{count}, {fmt.duration(profiling['seconds'])} in all"] if runs else []
        lines += _entries("classified by", profiling["entries"])
        lines += _entries("since then, as it runs", profiling["observed"])
    silent = classification["silent"] if classification else []
    return lines + [f"not measured: {s['name']}: {s['reason']}" for s in silent]


def _entries(head: str, entries: list[Record]) -> list[str]:
    values = [f"{term(e['name'], e['value'])} with {fmt.number(e['cpus'])} CPU" for e in entries]
    return [f"{head}: {', '.join(values)}"] if entries else []


def adjustments_text(adjustments: list[Record], *, wide: bool = True) -> str:
    """Each adjustment: what changed, its effect on the target, and why; short: the newest."""
    shown = adjustments if wide else adjustments[-ADJUSTMENT_ROWS:]
    earlier = len(adjustments) - len(shown)
    columns: list[Column] = [
        column("TIME", form=fmt.time_of_day),
        column("DONE", "kind", done),
        ("CHANGED", change),
        ("OF TARGET", _of_target),
        column("WHY", "message", lambda why: fmt.words(why.removeprefix("reclassified: "))),
    ]
    return table(shown, columns) + (f"\nand {earlier} earlier: -o wide" if earlier else "")


def done(kind: str) -> str:
    """What an adjustment of this kind did."""
    return "nothing" if kind == "unchanged" else kind


def change(adjustment: Record) -> str:
    """From what to what; a dash where nothing of its placement changed."""
    before, after = adjustment["from"], adjustment["to"]
    servers = [",".join(placement["name"] for placement in side) for side in (before, after)]
    if adjustment["kind"] == "migrated":
        return f"{servers[0]} -> {servers[1] or '?'}"
    if before == after or not (before and after):
        return fmt.NONE
    if servers[0] != servers[1]:
        return " -> ".join(servers)
    if before[0]["cpus"] == after[0]["cpus"]:
        return " -> ".join(fmt.size(side[0]["memory_bytes"]) for side in (before, after))
    return " -> ".join(fmt.number(side[0]["cpus"]) for side in (before, after)) + " CPU"


def _of_target(adjustment: Record) -> str:
    before, after = (adjustment[f"normalized_performance_{side}"] for side in ("before", "after"))
    if after is None or adjustment["kind"] == "unchanged":
        return fmt.percent(before)
    return f"{fmt.percent(before)} -> {fmt.percent(after)}"
