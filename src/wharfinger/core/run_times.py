"""How long workloads run, as far as those tell that have run here."""

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from wharfinger.model.arrays import Array
from wharfinger.model.queue_accounts import QueueAccount
from wharfinger.native import sample_ages

AGES = 256
"""So many of those that run are looked at, of each queue."""
QUANTILES = (np.arange(6) + 0.5) / 6
PRIOR_SECONDS = np.geomspace(10.0, 36_000.0, 49)
"""Each as likely before anything has run here: from 10 s to 10 h, 10 min in the median."""
PRIOR_WEIGHT = 1.0
"""How many workloads that have ended this counts as."""


def run_seconds(accounts: Collection[QueueAccount], now: float) -> tuple[float, ...]:
    """Times from placement to end, each as likely; infinite = longer than any.

    Those that still run count as censored (Kaplan and Meier, "Nonparametric estimation from
    incomplete observations", 1958): the first to end are the short ones. Each of the newest ends
    stands for as many as have ended, so that in the long run those decide. Before that any order of
    magnitude is as likely, which counts as one workload (Susarla and Van Ryzin, "Nonparametric
    Bayesian estimation of survival curves from incomplete observations", 1976).
    """
    seconds, surviving, _ = survival(accounts, now, [(PRIOR_SECONDS, PRIOR_WEIGHT)])
    at = np.searchsorted(-surviving, QUANTILES - 1)
    return tuple(np.append(seconds, np.inf)[at].tolist())


def survival(
    accounts: Collection[QueueAccount],
    now: float,
    prior: Sequence[tuple[Sequence[float] | Array, float]] = (),
) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Times from placement, ascending; the share that runs for longer; and at which one has ended.

    At the other times one still runs: it counts as censored. The newest ends of a queue stand for
    all that it has had. Of ``prior`` each has times after which some have ended, and for how many
    these stand. All are (T,).
    """
    ended = [*prior, *((each.busy_seconds, each.ended) for each in accounts if each.busy_seconds)]
    ages, running = sample_ages([account.began for account in accounts], now, AGES)
    each = [np.full(len(seconds), count / len(seconds)) for seconds, count in ended]
    seconds = np.concatenate([*(newest for newest, _ in ended), ages])
    weight = np.concatenate([*each, running])
    is_end = np.arange(len(seconds)) < len(seconds) - len(ages)
    order = np.lexsort((~is_end, seconds))
    seconds, weight, is_end = seconds[order], weight[order], is_end[order]
    at_risk = np.cumsum(weight[::-1])[::-1]
    surviving = np.cumprod(np.where(is_end, 1 - weight / at_risk, 1.0), dtype=np.float64)
    return seconds, surviving, is_end
