"""``wharfinger classify evaluate``: of a matrix in a CSV file, or of the known programs."""

import argparse
from dataclasses import replace
from pathlib import Path
from time import perf_counter

from wharfinger.catalog.known import SCALE, SCORE_SCALE, KnownPrograms
from wharfinger.catalog.known_files import load_known
from wharfinger.cli.output import Column, Record, column, show, table
from wharfinger.cli.progress import Progress
from wharfinger.estimators.design import Satisfied
from wharfinger.estimators.evaluation import EvaluationPlan, Strategy, evaluate
from wharfinger.estimators.matrix import Matrix, RowScale, Transform
from wharfinger.estimators.registry import DEFAULT_ESTIMATOR, ESTIMATORS, make_estimator
from wharfinger.files.matrices import read_matrix


def run(arguments: argparse.Namespace) -> None:
    """Hold programs out, predict them by each estimator, print how well that went."""
    names = arguments.estimator or list(ESTIMATORS)
    for name in names:
        make_estimator(name)  # An unknown name is refused before anything is read.
    plan = EvaluationPlan(
        reveal=arguments.reveal,
        strategy=Strategy(arguments.strategy),
        scale=RowScale(arguments.scale or RowScale.AUTO),
        pairs=arguments.pairs,
        higher=arguments.direction == "higher",
        repeats=arguments.repeats,
        seed=arguments.seed,
        satisfied=None if arguments.stop is None else Satisfied(arguments.stop),
    )
    if arguments.known is None:
        document = _evaluation("", read_matrix(arguments.matrix), names, plan)
        show(document, arguments.output, lambda: _text(document))
        return
    programs = load_known(Path(arguments.known) if arguments.known else None)
    documents = [
        _known_evaluation(name, matrix, names, replace(plan, scale=scale, higher=True))
        for name, matrix, scale in (
            ("scale-up", programs.scale_up, SCALE),
            ("tolerated", programs.tolerated, SCORE_SCALE),
            ("caused", programs.caused, SCORE_SCALE),
        )
    ]
    show(documents, arguments.output, lambda: _known_text(documents, programs))


def _known_evaluation(name: str, matrix: Matrix, names: list[str], plan: EvaluationPlan) -> Record:
    """With as many entries revealed as leave one to predict."""
    plan = replace(plan, reveal=min(plan.reveal, len(matrix.columns) - 1))
    document = _evaluation(name, matrix, names, plan)
    if matrix.transform is Transform.IDENTITY:
        kept = ("coverage_90", "fit_seconds", "fold_in_seconds_median")
        document["estimators"] = {
            estimator: {
                "mean_absolute_error": metrics["mean_absolute_log_error"],
                **{key: metrics[key] for key in kept},
            }
            for estimator, metrics in document["estimators"].items()
        }
    head = {"name": name, "rows": len(matrix.rows), "columns": list(matrix.columns)}
    return {**head, **document}


def _evaluation(name: str, matrix: Matrix, names: list[str], plan: EvaluationPlan) -> Record:
    with Progress(f"evaluating {name}".strip()) as progress:
        evaluation = evaluate(matrix, names, plan, progress.share, clock=perf_counter)
    return {
        "default": DEFAULT_ESTIMATOR,
        "estimators": evaluation.estimators,
        "rows_predicted": evaluation.rows,
        "rows_passed_over": evaluation.rows_passed_over,
        "reveal": plan.reveal,
        "mean_revealed": evaluation.mean_revealed,
        "strategy": str(plan.strategy),
        "scale": str(plan.scale),
        "pairs": plan.pairs,
        "direction": "higher" if plan.higher else "lower",
        "repeats": plan.repeats,
        "seed": plan.seed,
    }


def _measure(header: str, key: str, digits: int = 3) -> Column:
    return column(header, key, f"{{:.{digits}f}}".format)


_TIMES = [
    _measure("COVERAGE 90%", "coverage_90"),
    column("FIT", "fit_seconds", lambda seconds: f"{seconds * 1e3:.1f}ms"),
    column("FOLD IN", "fold_in_seconds_median", lambda seconds: f"{seconds * 1e6:.0f}us"),
]
_EVALUATION = [
    column("ESTIMATOR"),
    _measure("MEAN ERROR", "mean_relative_error"),
    _measure("MEDIAN", "median_relative_error"),
    _measure("P90", "p90_relative_error"),
    _measure("LOG ERROR", "mean_absolute_log_error"),
    _measure("BEST IN 5%", "best_within_5pct"),
    _measure("BEST IN 10%", "best_within_10pct"),
    _measure("REGRET", "mean_regret"),
    *_TIMES,
]
_SCORES = [column("ESTIMATOR"), _measure("MEAN ERROR (OF 100)", "mean_absolute_error", 1), *_TIMES]


def _text(document: Record) -> str:
    rows = [{"estimator": name, **metrics} for name, metrics in document["estimators"].items()]
    columns = _SCORES if "mean_absolute_error" in rows[0] else _EVALUATION
    most, mean = document["reveal"], document["mean_revealed"]
    entries = str(most) if mean == most else f"at most {most} (on average {mean:.1f})"
    words = f"{document['rows_predicted']} rows predicted, each from {entries} entries"
    if document["rows_passed_over"]:
        words += f"; {document['rows_passed_over']} skipped, with no more entries than that"
    return f"{table(rows, columns)}\n{words}"


def _known_text(documents: list[Record], programs: KnownPrograms) -> str:
    machine = programs.machine
    head = (
        f"{len(programs.programs)} known programs, measured {machine.measured_at} on "
        f"{machine.cpus} CPUs of {machine.cpu_model or 'an unknown model'}"
    )
    if machine.provisional:
        head += "; provisional: too few or too short for anything but tests"
    parts = [f"{document['name']}\n{_text(document)}" for document in documents]
    return "\n\n".join([head, *parts])
