"""Resizing along the curve that was classified, from how a workload does now (Quasar 4.1)."""

from dataclasses import replace
from math import log

from wharfinger.classification.prediction import TargetPart, pace_with, performance_with
from wharfinger.model.allocation import Allocation
from wharfinger.model.decisions import Prediction
from wharfinger.model.profile import Estimate
from wharfinger.model.view import ClusterView, OffTarget
from wharfinger.policies.placement.sizing import SizingSettings, prediction, sizes

MEDIAN = 0.5
"""The confidence at which nothing is added for doubt."""


def after_resize(
    parts: list[TargetPart],
    before: Allocation,
    after: Allocation,
    off: OffTarget,
    confidence: float,
) -> Prediction:
    """How it should do with another allocation: from its present performance, along the curve.

    In the target's own terms only where it has one, and no time of completion: how much is done,
    and how each of several parts does, is not known here.
    """
    now = pace_with(parts, before.cpu_millicpus, MEDIAN).mean
    then = pace_with(parts, after.cpu_millicpus, MEDIAN)
    level = max(off.pace, 1e-9) / now
    found = prediction(Estimate(then.mean * level, then.std), confidence)
    if len(parts) > 1 or parts[0].work is not None:
        return found
    terms = performance_with(parts, after.cpu_millicpus, -log(level), 0.0, confidence)
    return replace(found, performance=terms)


def along_curve(
    parts: list[TargetPart],
    held: Allocation,
    off: OffTarget,
    view: ClusterView,
    margin: float,
    settings: SizingSettings,
) -> int | None:
    """The least CPU with which the present performance becomes a little more than enough.

    Args:
        parts: Of the target.
        held: What it has.
        off: How far off its target it is.
        view: The servers.
        margin: How many times its target is aimed at.
        settings: Which sizes are considered.

    Returns:
        ``None`` where the curve says that no CPU would do: then it may be the curve that is
        wrong.
    """
    if not parts or held.cpu_millicpus <= 0:
        return None
    now = log(pace_with(parts, held.cpu_millicpus, MEDIAN).mean)
    fractional = view.capabilities.fractional_cpu
    grid = sizes(int(view.cpu_capacity.max()), fractional=fractional, settings=settings)
    for cpu in grid.tolist():
        change = log(pace_with(parts, cpu, MEDIAN).mean) - now
        if log(max(off.pace, 1e-9)) + change >= log(margin):
            return int(cpu) if (cpu > held.cpu_millicpus) == (off.pace < 1) else None
    return None
