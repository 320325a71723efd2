"""Whether a place can be of use at all, before any server is looked at.

A ladder asks where to migrate to whenever a workload that violates its target is measured, and
mostly no server would do: of 4,096 such questions in ``paragon-ec2-high`` (100 workloads, seed 1)
3,828 are answered here.
"""

from dataclasses import replace

from wharfinger.classification.prediction import KEPT, parts_of, slower_by_size
from wharfinger.core.seams.contention import Assessment
from wharfinger.model.decisions import Term
from wharfinger.model.memo import by_identity
from wharfinger.model.profile import Curve, Estimate
from wharfinger.model.view import Request, View
from wharfinger.policies.placement.sizing import (
    DEFAULT,
    SizingSettings,
    prediction_beside,
    sizes,
)

ROUNDING = 1e-9
"""Of the logarithm of performance: a bound is no lower for the order of a sum."""
ANY = 1
"""Thousandths of a CPU that stand for any, where a curve is one number."""
BOUNDS = 4
"""Numbers that bound a curve: more are nearer to it, and take longer to ask about."""


def may_pay(
    request: Request, view: View, contention: Assessment, settings: SizingSettings = DEFAULT
) -> bool:
    """Whether ``request.pays`` may hold of what is predicted on some one server.

    False is certain: nowhere does a job do better, or is that surer, than with the best size on the
    fastest platform beside those who slow it least. Of what has no single curve it says nothing.
    """
    known, pays = request.classification, request.pays
    if known is None or pays is None or not len(view.names):
        return True
    period = view.capabilities.quota_period_seconds
    parts = parts_of(request.workload, known, request.waited_seconds, period)
    fractional = view.capabilities.fractional_cpu
    grid = sizes(int(view.cpu_capacity.max()), fractional=fractional, settings=settings)
    if len(parts) != 1 or parts[0].term is not Term.RATE or not grid.size:
        return True
    (part,), among = parts, tuple(grid.tolist())
    least, _ = slower_by_size(known, tuple(view.platforms), among)
    drop = float(least.min()) + min(0.0, float(contention.suffered.mean.min())) - ROUNDING
    confidence, target = settings.confidence, request.workload.target
    for most in _most(part.curve, among):
        parts = [replace(part, curve=most)]
        alone = parts[0].normalized(ANY)
        given = parts, confidence, alone, ANY, (drop, 0.0), None, (target, ANY)
        if pays(prediction_beside(*given)):
            return True
    return False


@by_identity(maxsize=KEPT)
def _most(curve: Curve, among: tuple[int, ...]) -> tuple[Curve, ...]:
    """Bounds on a curve at these sizes, a few: each size gives no more than one, and no surer."""
    means, stds = curve.over(among)
    best: list[tuple[float, float]] = []
    for mean, std in sorted(zip(means, stds, strict=True), key=lambda one: (-one[0], one[1])):
        if not best or std < best[-1][1]:
            best.append((mean, std))
    step = -(-len(best) // BOUNDS)
    some = (best[at : at + step] for at in range(0, len(best), step))
    return tuple(
        Curve((ANY,), (Estimate(first[0], last[1]),))
        for first, last in ((each[0], each[-1]) for each in some)
    )
