"""The published form: a set's contention is the weighted sum of its neighbors' contentions.

    B_S = Σ_w ξ_w c_w B_w

with a weight for each neighbor, service and degree, ξ_w the times that w is in the set. By least
squares on the Gram matrix, which is added up from the sets without a matrix of all of them, with a
ridge towards c = 1 (ten sets tell little about nineteen weights) whose strength leave-one-out
chooses.

Source: Pythia 3.3; the ridge is ours (the paper's least squares has no answer with fewer sets than
neighbors).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from wharfinger.interference.baselines import Simple, missed
from wharfinger.interference.form import Predictor, State, floats, listed
from wharfinger.interference.gram import gram
from wharfinger.interference.measurements import ContentionSetting, Members, ServiceSets, SetTable
from wharfinger.model.arrays import Array

STRENGTHS = np.geomspace(1e-4, 1e4, 17)
"""Of the ridge, over the mean diagonal of the Gram matrix."""


LEFT_OUT = 1000
"""Sets that are left out, one after another."""


@dataclass(frozen=True, slots=True)
class PythiaRegression:
    """Pythia's linear regression."""

    name: str = "pythia"
    version: int = 1

    def fit(self, services: Sequence[ServiceSets]) -> Mapping[ContentionSetting, Predictor]:
        """Weights for each service and degree."""
        fitted: dict[ContentionSetting, Predictor] = {}
        for each in services:
            single = each.scale.contention(each.single)
            weights = {degree: _weights(single, each, table) for degree, table in each.sets.items()}
            fitted[each.setting] = _predictor(each, single, weights, None)
        return fitted

    def restore(self, service: ServiceSets, state: State) -> Predictor:
        """As it was fitted."""
        weights, off = state["weights"], state["off"]
        assert isinstance(weights, Mapping)
        assert isinstance(off, Mapping)
        by_degree = {int(degree): floats(weights, degree) for degree in weights}
        single = service.scale.contention(service.single)
        errors = {int(degree): float(value) for degree, value in off.items()}
        return _predictor(service, single, by_degree, errors)


def _predictor(
    service: ServiceSets,
    single: Array,
    weights: Mapping[int, Array],
    off: Mapping[int, float] | None,
) -> Simple:
    last = weights[max(weights)] if weights else np.ones(len(single))

    def combine(members: Members) -> Array:
        caused = weights.get(members.shape[1], last) * single
        return service.scale.drops(np.maximum(caused[members].sum(axis=1), 0.0))

    numbers = {"weights": {str(degree): listed(each) for degree, each in weights.items()}}
    return Simple(combine, service, missed(combine, service) if off is None else off, numbers)


def _weights(single: Array, service: ServiceSets, table: SetTable) -> Array:
    """Censored sets, and sets of censored neighbors, tell nothing that can be added up."""
    joint = service.scale.contention(table.drops)
    known = ~np.isnan(joint) & ~np.isnan(single[table.members]).any(axis=1)
    members, joint = table.members[known], joint[known]
    scale = float(np.nanmax(np.abs(single), initial=0.0)) or 1.0
    caused = np.nan_to_num(single) / scale
    off = joint / scale - caused[members].sum(axis=1)
    if not len(off):
        return np.ones(len(single))
    products, moments = gram(members, caused, off)
    level = float(np.mean(np.diag(products)))
    if level <= 0:
        return np.ones(len(single))
    values, vectors = np.linalg.eigh(products)
    rotated = vectors.T @ moments
    # Sets in the eigenbasis: leave-one-out needs their leverage under every strength. Of many sets
    # some tell as much.
    some = slice(None, None, max(1, len(off) // LEFT_OUT))
    rows = np.einsum("nd,ndm->nm", caused[members[some]], vectors[members[some]])
    errors = []
    for strength in STRENGTHS * level:
        shrunk = 1 / (np.maximum(values, 0) + strength)
        left = off[some] - rows @ (shrunk * rotated)
        leverage = np.minimum((rows**2) @ shrunk, 1 - 1e-9)
        errors.append(float(np.mean((left / (1 - leverage)) ** 2)))
    best = STRENGTHS[int(np.argmin(errors))] * level
    return np.asarray(1 + vectors @ (rotated / (np.maximum(values, 0) + best)))
