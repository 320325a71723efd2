"""The demo's end: tables for people, and the same as JSON."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wharfinger.demo import words
from wharfinger.demo.plan import (
    BASELINE,
    HELD_SHARE,
    OVER_LEAST,
    OVER_MOST,
    SETTLE_SECONDS,
    TOLERANCE,
    UNDER,
    Goal,
    Kind,
    Reservation,
    with_room,
)
from wharfinger.demo.timeline import Course, Step
from wharfinger.demo.verdict import Outcome, Seen

ENOUGH = 0.8
"""Of the targets, met: else the demo ends with exit status 3."""
WORTH_TELLING_SECONDS = 2.0
WORTH_TELLING_SHARE = 0.03


@dataclass(frozen=True, slots=True)
class Run:
    """One run and what came of it.

    Attributes:
        course: What was seen.
        outcomes: Of those with a target.
        fillers: Names of those without.
        seen: What services' clients saw, by name.
        surge_seconds: When the load surged.
    """

    course: Course
    outcomes: tuple[Outcome, ...]
    fillers: tuple[str, ...]
    seen: Mapping[str, Sequence[Seen]]
    surge_seconds: float

    @property
    def met(self) -> int:
        """How many targets were met."""
        return sum(outcome.met for outcome in self.outcomes)

    @property
    def targeted_utilization(self) -> float:
        """CPU time of work with targets over all that there was."""
        return self.course.utilization([outcome.member.name for outcome in self.outcomes])

    @property
    def utilization(self) -> float:
        """CPU time of all workloads over all that there was."""
        return self.targeted_utilization + self.course.utilization(self.fillers)


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that the demo found.

    Attributes:
        seed: Of what was drawn.
        goals: By name.
        reservations: What users would have stated, by name.
        main: The run under the policy that is shown.
        baseline: The run beside it.
        notes: What could not be shown here, and why.
        picture: The file; ``None`` = there is none.
    """

    seed: int
    goals: Mapping[str, Goal]
    reservations: Mapping[str, Reservation]
    main: Run
    baseline: Run
    notes: tuple[str, ...] = ()
    picture: str | None = None

    @property
    def passed(self) -> bool:
        """Whether enough targets were met."""
        return self.main.met >= ENOUGH * len(self.main.outcomes)


# --- for machines -------------------------------------------------------------------------------


def as_json(report: Report) -> dict[str, Any]:
    """What ``-o json`` prints; keys are a contract (docs/demo.md)."""
    return {
        **_run_json(report.main, report.reservations),
        "baseline": _run_json(report.baseline, report.reservations),
        "seed": report.seed,
        "targets_met": report.main.met,
        "targets": len(report.main.outcomes),
        "notes": list(report.notes),
        "files": [report.picture] if report.picture else [],
    }


def _run_json(run: Run, reservations: Mapping[str, Reservation]) -> dict[str, Any]:
    outcomes = {outcome.member.name: outcome for outcome in run.outcomes}
    workloads = [
        {
            **workload,
            **_outcome_json(outcomes.get(workload["name"]), reservations),
            "cpu_seconds_used": round(run.course.used(workload["name"]), 3),
        }
        for workload in run.course.workloads
    ]
    return {
        "policy": run.course.policy,
        "utilization": round(run.utilization, 4),
        "targeted_utilization": round(run.targeted_utilization, 4),
        "machine_utilization": _rounded(run.course.busy),
        "duration_seconds": round(run.course.times[-1], 1) if run.course.times else 0.0,
        "adjustments": [step_json(step) for step in run.course.adjustments],
        "workloads": workloads,
    }


def step_json(step: Step) -> dict[str, Any]:
    """One adjustment."""
    return {
        "name": step.name,
        "at_seconds": round(step.at_seconds, 1),
        "kind": step.kind,
        "reason": step.reason,
        "message": step.message,
        "cpus": step.cpus,
    }


def _outcome_json(
    outcome: Outcome | None, reservations: Mapping[str, Reservation]
) -> dict[str, Any]:
    """The demo's own judgement: ``met`` is of the whole run, not of its last moment."""
    if outcome is None:
        return {"met": None, "performance": None, "held_share": None, "reserved_cpus": None}
    reservation = reservations.get(outcome.member.name)
    return {
        "met": outcome.met,
        "predicted": outcome.predicted,
        "performance": _rounded(outcome.score),
        "held_share": _rounded(outcome.held_share),
        "reserved_cpus": reservation.cpus if reservation else None,
        "achieved": {
            "completion_seconds": _rounded(outcome.completion_seconds),
            "throughput_per_second": _rounded(outcome.throughput_per_second),
            "latency_seconds": _rounded(outcome.latency_seconds),
            "rate_per_second": None,
        },
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


# --- for people ---------------------------------------------------------------------------------


def as_text(report: Report) -> str:
    """The tables and what they say."""
    parts = [
        f"Under {report.main.course.policy}, the policy that sizes by targets:"
        if report.main.course.policy != BASELINE
        else f"Under {BASELINE}:",
        _main_table(report.main),
        _adjustments(report.main),
        f"The same set under {BASELINE}, with what users would reserve:",
        _baseline_table(report),
        "\n".join(_summary(report)),
        "\n".join(_definitions(report.reservations)),
    ]
    if report.notes:
        parts.append(
            "\n".join(["What could not be shown here:", *map("  - {}".format, report.notes)])
        )
    if report.picture:
        parts.append(f"Performance and CPU over time: {report.picture}")
    return "\n\n".join(parts)


def _main_table(run: Run) -> str:
    rows = [
        [
            outcome.member.name,
            words.target(outcome.goal),
            words.predicted(outcome.predicted),
            words.achieved(outcome),
            words.verdict(outcome.met),
            _seconds(outcome.waited_seconds),
            ", ".join(f"{step.at_seconds:.0f} s" for step in outcome.adjustments) or words.NONE,
        ]
        for outcome in run.outcomes
    ]
    return words.table(
        ["WORKLOAD", "TARGET", "PREDICTED", "ACHIEVED", "MET", "WAITED", "ADJUSTED AT"], rows
    )


def _seconds(value: float | None) -> str:
    return words.NONE if value is None else f"{value:.0f} s"


def _adjustments(run: Run) -> str:
    steps = run.course.adjustments
    if not steps:
        return "Nothing was adjusted while it ran."
    lines = ["Adjusted while it ran:"]
    lines += [f"  {step.at_seconds:4.0f} s  {step.name}: {step.message}" for step in steps]
    return "\n".join(lines)


def _baseline_table(report: Report) -> str:
    rows = []
    for mine, theirs in zip(report.main.outcomes, report.baseline.outcomes, strict=True):
        name = mine.member.name
        reservation = report.reservations[name]
        rows.append(
            [
                name,
                f"{mine.goal.need_cpus:.2f}",
                f"{reservation.cpus:.2f} ({reservation.about})",
                words.achieved(theirs),
                words.verdict(theirs.met),
                _seconds(theirs.waited_seconds),
            ]
        )
    return words.table(["WORKLOAD", "NEEDS", "RESERVED", "ACHIEVED", "MET", "WAITED"], rows)


def _summary(report: Report) -> Iterator[str]:
    main, base = report.main, report.baseline
    names = (main.course.policy, base.course.policy)
    width = max(map(len, names))
    for name, run in zip(names, (main, base), strict=True):
        yield (
            f"{name.ljust(width)}  {run.met} of {len(run.outcomes)} targets met; "
            f"{words.percent(run.utilization)} of {run.course.cpus:g} CPUs used by workloads, "
            f"{words.percent(run.targeted_utilization)} by those with targets" + _others(run)
        )
    past = _let_past(report)
    if past:
        yield (
            f"Its line is served in order; had those that fit been let past (backfilling), "
            f"{' and '.join(past)} would have had room at once."
        )
    better = list(_where_better(report))
    if better:
        yield f"Where {base.course.policy} did better:"
        yield from map("  - {}".format, better)
    else:
        yield f"{base.course.policy} did better nowhere in this run."


def _let_past(report: Report) -> list[str]:
    """Who waited in the baseline's line although there was room."""
    cpus = report.baseline.course.cpus
    servers = max(1, round(cpus))
    fits = with_room(report.reservations, servers, cpus / servers)
    return [
        outcome.member.name
        for outcome in report.baseline.outcomes
        if outcome.member.name in fits
        and (outcome.waited_seconds is None or outcome.waited_seconds > WORTH_TELLING_SECONDS)
    ]


def _others(run: Run) -> str:
    """What else the CPUs did: the same for whoever manages, and noise for both."""
    if run.course.busy is None:
        return ""
    rest = max(0.0, run.course.busy - run.utilization)
    return f" ({words.percent(rest)} by clients, manager, profiling and the rest of this machine)"


def _where_better(report: Report) -> Iterator[str]:
    """Honestly: in what the baseline was ahead."""
    for mine, theirs in zip(report.main.outcomes, report.baseline.outcomes, strict=True):
        name = mine.member.name
        if theirs.met and not mine.met:
            yield f"{name} met its target"
        if _sooner(theirs.completion_seconds, mine.completion_seconds):
            yield f"{name} was done {_gap(mine.completion_seconds, theirs.completion_seconds)}"
        elif theirs.held_share is not None and (
            theirs.held_share > (mine.held_share or 0.0) + WORTH_TELLING_SHARE
        ):
            yield (
                f"{name} held its target in {words.percent(theirs.held_share)} of its seconds, "
                f"not {words.percent(mine.held_share)}"
            )
        if mine.member.kind is Kind.SERVICE and _sooner(theirs.waited_seconds, mine.waited_seconds):
            yield f"{name} was served {_gap(mine.waited_seconds, theirs.waited_seconds)}"
    for name in report.main.fillers:
        less, more = report.main.course.used(name), report.baseline.course.used(name)
        if more > 1.25 * less + 1:
            yield f"{name} (best-effort) got {more:.0f} s of CPU time, not {less:.0f} s"


def _sooner(theirs: float | None, mine: float | None) -> bool:
    return theirs is not None and (mine is None or theirs < mine - WORTH_TELLING_SECONDS)


def _gap(mine: float | None, theirs: float | None) -> str:
    assert theirs is not None
    return f"after {theirs:.0f} s" if mine is None else f"{mine - theirs:.0f} s sooner"


def _definitions(stated: Mapping[str, Reservation]) -> Iterator[str]:
    yield (
        f"Met: a service held its target, less {TOLERANCE:.0%}, in {HELD_SHARE:.0%} of its seconds "
        f"from {SETTLE_SECONDS:.0f} s after its start to the end,"
    )
    yield (
        "as its clients saw it; a batch job ended within its target, waiting and profiling "
        f"included, plus {TOLERANCE:.0%}."
    )
    yield (
        "Predicted: performance over target, with the interval at the stated confidence, when it "
        "was placed."
    )
    over = sum(reservation.factor > 1 for reservation in stated.values())
    under = sum(reservation.factor < 1 for reservation in stated.values())
    yield (
        "Reserved: users misjudge; Quasar found 70% to reserve up to 10 times too much, 20% up to "
        "5 times too little (Figure 1d)."
    )
    yield (
        f"Here it is milder: of {len(stated)}, {over} reserve {OVER_LEAST:g} to {OVER_MOST:g} "
        f"times what they need, {under} {UNDER:g} times, the rest exactly that."
    )
