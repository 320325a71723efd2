"""``wharfinger contention evaluate``: models compared on sets that they have not seen."""

import argparse
from time import perf_counter

from wharfinger.cli.contention_fit import refuse_small_sample
from wharfinger.cli.output import Record, column, show, table
from wharfinger.cli.progress import Progress
from wharfinger.files.contention_sets import read_measurements
from wharfinger.interference.design import by_information
from wharfinger.interference.evaluation import SamplingPlan, at_random, judge
from wharfinger.interference.registry import DEFAULT_FORM, FORMS, make_form

SAMPLERS = {"random": at_random, "information": by_information}


def run(arguments: argparse.Namespace) -> None:
    """Hold sets out, predict them by each model, print how well that went."""
    forms = [make_form(name) for name in arguments.model or FORMS]
    measurements = read_measurements(arguments.measurements)
    refuse_small_sample(measurements, arguments.sample)
    plan = SamplingPlan(
        arguments.sample,
        arguments.repeats,
        arguments.seed,
        arguments.confidence,
        SAMPLERS[arguments.sampling],
    )
    with Progress("evaluating") as progress:
        held = judge(measurements, forms, plan, perf_counter, progress.share)
    document = {
        "default": DEFAULT_FORM,
        "sample": arguments.sample,
        "sampling": arguments.sampling,
        "repeats": arguments.repeats,
        "confidence": arguments.confidence,
        "seed": arguments.seed,
        "results": [
            {"name": name, "degree": degree, **of_degree[degree].metrics(arguments.confidence)}
            for name, of_degree in held.items()
            for degree in sorted(of_degree)
        ],
    }
    show(document, arguments.output, lambda: _text(document))


def _percent(value: float) -> str:
    return f"{100 * value:.1f}%"


def _text(document: Record) -> str:
    columns = [
        column("MODEL", "name"),
        column("DEGREE"),
        column("MEDIAN ERROR", form=_percent),
        column("ABSOLUTE", "median_absolute_error", _percent),
        column("P95", "p95_error", _percent),
        column("BIAS", form=_percent),
        column("LOG ERROR", "mean_absolute_log_error", "{:.4f}".format),
        column("COVERAGE 90%", "coverage_90", "{:.2f}".format),
        column("CENSORED", form="{:.3f}".format),
        column("FIT", "fit_seconds", lambda seconds: f"{1e3 * seconds:.1f}ms"),
        column("PREDICT", "predict_nanoseconds", lambda ns: f"{ns / 1e3:.2g}us"),
    ]
    rows = document["results"]
    safety = [
        {"name": row["name"], "degree": row["degree"], **each}
        for row in rows
        for each in row["qos"]
    ]
    of_safety = [
        column("MODEL", "name"),
        column("DEGREE"),
        column("QOS", "qos", lambda each: f"{100 * each:g}%"),
        column("SAFE FOUND", form="{:.3f}".format),
        column("UNSAFE ALLOWED", form="{:.4f}".format),
    ]
    words = (
        f"{_percent(document['sample'])} of the sets of each degree, chosen by "
        f"{document['sampling']}, {document['repeats']} times; a set is allowed if it is safe "
        f"with a probability of {_percent(document['confidence'])}"
    )
    return f"{table(rows, columns)}\n\n{table(safety, of_safety)}\n\n{words}"
