"""What was measured before of a scenario's training set, and what is learnt of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import exp

import numpy as np
from numpy.typing import NDArray

from wharfinger.classification.classifier import Classifier
from wharfinger.classification.pairwise import PairClassifier
from wharfinger.classification.platforms import platform_column
from wharfinger.classification.utility import Aspect, UtilityMatrix
from wharfinger.model.configuration import Configuration, Setting
from wharfinger.model.interference import SCORED
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Curve, Entry, Estimate, Measurements
from wharfinger.simulator.cluster.campaign import Campaign
from wharfinger.simulator.kernel.streams import Streams
from wharfinger.simulator.scenario.setup import Setup
from wharfinger.simulator.truth.ground_truth import GroundTruth, TrueResident

CPU_STEPS = 7  # allocations at which the training set is profiled: the largest server, and halves
MOST_SERVERS = 4
LEAST_MILLICPUS = 125


class TrainingSet:
    """One scenario's; it is never changed.

    Attributes:
        platforms: Their servers' CPU (thousandths) by name.
        reference: The platform on which all but heterogeneity was measured.
        sources: Of interference, that can be injected on it.
        known: What was measured; ``classifier`` has learnt from it, ``pairs`` from pairs.
    """

    def __init__(self, setup: Setup, seed: int, *, stated: bool) -> None:
        self._setup, self._stated, streams = setup, stated, Streams(seed)
        self.platforms = {server.platform.name: server.cpu_millicpus for server in setup.servers}
        self.reference = _reference(setup, self.platforms)
        largest = self.platforms[self.reference]
        self.columns = _columns(largest, fractional=setup.engine.fractional_cpu)
        servers = min(MOST_SERVERS, setup.max_servers)
        campaign = Campaign(setup, streams, self.reference, self.columns, servers)
        self.sources = campaign.signals()
        self.known = self._matrices(campaign)
        self.classifier = Classifier(self.known)
        references = [name for name in setup.truth.references if name in setup.training]
        matrices = {name: _pair_matrix(setup, streams, references, name) for name in self.platforms}
        self.pairs = PairClassifier.fit(references, matrices)

    def _matrices(self, campaign: Campaign) -> dict[Aspect, UtilityMatrix]:
        rows: dict[Aspect, dict[str, dict[str, Entry]]] = {}
        used: dict[str, dict[str, float]] = {}
        for name in self._setup.training:
            measured = campaign.measure(name, self.sources)
            if measured is not None:
                for kind, row in self._rows(measured).items():
                    rows.setdefault(kind, {})[name] = row
                busy = measured.performance.get(Quantity.CPU, {}).items()
                used[name] = {Configuration(cpu).name: e.value for cpu, e in busy}
        made = {
            kind: UtilityMatrix.of(kind, entries, used=used if kind is Aspect.SCALE_UP else None)
            for kind, entries in rows.items()
        }
        return {kind: matrix for kind, matrix in made.items() if matrix.columns}

    def _rows(self, measured: Measurements) -> dict[Aspect, dict[str, Entry]]:
        performance = measured.performance
        quantity = next(q for q in (Quantity.THROUGHPUT, Quantity.RATE) if q in performance)
        own = {cpu: e for cpu, e in measured.performance[quantity].items() if e.value > 0}
        most = max(own, default=0)
        further = {run.setting: run.entry for run in measured.further.get(quantity, ())}
        across = dict(self._across(own, further))
        out = {str(s.servers): e for s, e in further.items() if s.servers > 1 and e.value > 0}
        if own:
            out["1"] = own[most]
        return {
            Aspect.SCALE_UP: {Configuration(cpu).name: e for cpu, e in sorted(own.items())},
            Aspect.HETEROGENEITY: across,
            Aspect.SCALE_OUT: dict(sorted(out.items())),
            Aspect.TOLERATED: {source.value: e for source, e in measured.tolerated.items()},
            Aspect.CAUSED: {source.value: e for source, e in measured.caused.items()},
        }

    def _across(
        self, own: Mapping[int, Entry], further: Mapping[Setting, Entry]
    ) -> Iterator[tuple[str, Entry]]:
        """Entries of heterogeneity by column: platform and allocation.

        Where each workload is given what it states, by platform alone: a copy has as much on every
        one, and an entry says how fast a platform is, not how large.
        """
        others = {s: e for s, e in further.items() if s.servers == 1 and e.value > 0}
        if not self._stated:
            for cpu, entry in own.items():
                yield platform_column(self.reference, cpu), entry
            for setting, entry in others.items():
                cpu = setting.configuration.cpu_millicpus
                yield platform_column(setting.platform, cpu), entry
        elif own:
            sizes = sorted(own)
            most = own[sizes[-1]]
            yield self.reference, most
            curve = Curve(tuple(sizes), tuple(Estimate(own[cpu].value, 0.0) for cpu in sizes))
            for setting in sorted(others, key=lambda each: each.configuration.cpu_millicpus):
                level = most.value / curve.at(setting.configuration.cpu_millicpus).mean
                yield (
                    setting.platform,
                    replace(others[setting], value=others[setting].value * level),
                )


training_set = lru_cache(maxsize=2)(TrainingSet)
"""The same for policies that are compared: they have learnt from one set."""


def _pair_matrix(
    setup: Setup, streams: Streams, names: Sequence[str], platform: str
) -> NDArray[np.float64]:
    """(K, K) performance of row beside column over that of row alone; 0 = they do not fit."""
    matrix, noise = np.zeros((len(names), len(names))), setup.measuring.noise
    for i, one in enumerate(names):
        for j, other in enumerate(names):
            error = noise * streams.normal("training", "pair", platform, one, other)
            matrix[i, j] = _pair_rate(setup.truth, platform, one, other) * exp(error)
    return matrix


def _pair_rate(truth: GroundTruth, platform: str, application: str, other: str) -> float:
    """Rate of an application beside another over that alone; 0 = the two do not fit."""
    own = TrueResident(application, 1000.0, 1)
    alone = truth.alone(platform, own)
    pair = [own, TrueResident(other, 1000.0, 1)]
    if alone <= 0 or not truth.fits(platform, pair):
        return 0.0
    return truth.rates(platform, pair)[0] / alone


def _reference(setup: Setup, sizes: dict[str, int]) -> str:
    """A high-end platform (Paragon 2.4); of equal ones where most sources have a signal."""
    beside = TrueResident(setup.training[0], 1000.0, 1)

    def signals(platform: str) -> int:
        return sum(
            setup.truth.source(platform, source, 100.0, beside) is not None for source in SCORED
        )

    return max(sizes, key=lambda platform: (sizes[platform], signals(platform)))


def _columns(largest_millicpus: int, *, fractional: bool) -> tuple[int, ...]:
    """Halves of the largest server; whole CPUs where there are no others."""
    if not fractional:
        whole = {2**i * 1000 for i in range(CPU_STEPS) if 2**i * 1000 <= largest_millicpus}
        return tuple(sorted(whole | {largest_millicpus // 1000 * 1000}))
    halves = {largest_millicpus // 2**i for i in range(CPU_STEPS)}
    return tuple(sorted(cpu for cpu in halves if cpu >= LEAST_MILLICPUS))
