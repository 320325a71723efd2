"""``wharfinger contention plan``: which sets to measure next."""

import argparse
from math import exp

import numpy as np

from wharfinger.cli.output import column, show, table
from wharfinger.errors import InvalidInput
from wharfinger.files.contention_sets import read_measurements
from wharfinger.interference.design import proposals


def run(arguments: argparse.Namespace) -> None:
    """Rank the sets that were not measured, and print the first."""
    measurements = read_measurements(arguments.measurements)
    if not any(each.scale.tells_performance for each in measurements.services):
        mend = "write performances, or bubbles beside which the service ran"
        raise InvalidInput(
            f"{arguments.measurements}: contention alone tells no performance; {mend}"
        )
    degrees = range(2, int(arguments.degree) + 1)
    rng = np.random.default_rng(arguments.seed)
    chosen = proposals(measurements, int(arguments.count), degrees, arguments.qos, rng)
    least = arguments.enough or 0.0
    document = [
        {
            "name": "+".join(each.neighbors),
            "ls": each.service.setting.service,
            "platform": each.service.setting.platform,
            "class": each.service.setting.load_class,
            "worth": each.worth,
            "performance": exp(-each.drop) if each.service.scale.tells_performance else None,
            "log_std": each.std,
        }
        for each in chosen
        if each.worth >= least
    ]
    columns = [
        column("LS"),
        column("BATCH", "name"),
        column("WORTH", form=lambda worth: f"{100 * worth:.1f}%"),
        column("EXPECTED", "performance", lambda value: f"{100 * value:.1f}%"),
        column("STD", "log_std", lambda std: f"{100 * std:.1f}%" if std < 10 else ">1000%"),
    ]
    empty = "no set is left to measure that could be safe and tells anything"
    show(document, arguments.output, lambda: table(document, columns, empty))
