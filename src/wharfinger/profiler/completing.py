"""Fills in what a profile has not measured, from the known programs; marked as estimated.

Source: Paragon (TOCS) 3.2: two sources are measured, the others follow from programs that are
alike. Each kind of score is a row of its own; without any measured score of a kind nothing is
estimated, and of a source that no known program was measured with neither.
"""

from typing import Any

import numpy as np

from wharfinger.catalog.known import SCORE_SCALE, KnownPrograms
from wharfinger.catalog.known_files import load_known
from wharfinger.estimators.estimator import NORMAL_90
from wharfinger.estimators.recommender import fit
from wharfinger.estimators.registry import DEFAULT_ESTIMATOR
from wharfinger.model.interference import SharedResource
from wharfinger.profiler.comparison import KINDS
from wharfinger.profiler.report import LEAST
from wharfinger.profiling.curves import CONFIDENCE_Z, Verdict

NOT_INJECTED = "it was not injected"


def complete(document: dict[str, Any], known: KnownPrograms | None = None) -> None:
    """Add an estimate for each score that is missing; ``known`` are those of this installation."""
    known = load_known() if known is None else known
    rows = {row["name"]: row for row in document["sources"]}
    for kind in KINDS:
        matrix = known.tolerated if kind == "tolerated" else known.caused
        measured = {
            name: max(LEAST, row[kind]["value"])
            for name, row in rows.items()
            if row[kind] is not None and name in matrix.columns
        }
        if not measured or not matrix.rows:
            continue
        model = fit(DEFAULT_ESTIMATOR, matrix, scale=SCORE_SCALE, seed=0)
        row_of = [[measured.get(column, np.nan) for column in matrix.columns]]
        (prediction,) = model.predict_many(np.array(row_of))
        low, high = prediction.interval_90()
        for at, name in enumerate(prediction.columns):
            if name in rows and rows[name][kind] is not None:
                continue
            if name not in rows:
                rows[name] = _empty(name)
                document["sources"].append(rows[name])
            # Of 90 % there, of 95 % here; the scale is logarithmic.
            mean = float(prediction.mean[at])
            wider = CONFIDENCE_Z / NORMAL_90
            rows[name][kind] = {
                "value": min(100.0, mean),
                "low": min(100.0, mean * (float(low[at]) / mean) ** wider),
                "high": min(100.0, mean * (float(high[at]) / mean) ** wider),
                "error": float(prediction.std[at]),
                "at_least": False,
            }
            rows[name]["estimated"].append(kind)


def _empty(name: str) -> dict[str, Any]:
    return {
        "name": SharedResource(name).value,
        "verdict": Verdict.NO_SIGNAL.value,
        "reason": NOT_INJECTED,
        "tolerated": None,
        "caused": None,
        "caused_by": None,
        "caused_reason": None,
        "cross_check": None,
        "beyond_cpu": None,
        "sibling": None,
        "estimated": [],
        "rounds": 0,
        "curve": [],
        "calibration": [],
    }
