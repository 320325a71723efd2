"""Classifies interference where it is known between pairs of programs, and not by source.

A new program is run beside a few known ones (``ProfilingPlan.beside``): two entries of its row and
of its column in the matrix of pairs, from which ``contention.pairs`` fills in the rest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import hypot, sqrt

from wharfinger.contention.pairs import PairModel, Seen
from wharfinger.model.arrays import Array
from wharfinger.model.pairs import ANY_PLATFORM, Relative, profile_on
from wharfinger.model.performance import PROXIES, Quantity
from wharfinger.model.profile import Classification, Entry, Measurements, Origin

REFERENCES = 2
"""Known programs beside which a new one is run: as many entries as each classification takes."""


@dataclass(frozen=True, slots=True, eq=False)
class PairClassifier:
    """Completes classifications by profiles of pairs; without a model they stay as they are.

    ``references`` are known programs to run beside a new one, most telling first.
    """

    model: PairModel | None
    references: tuple[str, ...] = field(default=())

    @classmethod
    def fit(
        cls, names: Sequence[str], relative: Mapping[str, Array] | Array, size: int = REFERENCES
    ) -> "PairClassifier":
        """Learn from K known programs, which may be none; arguments as for ``PairModel.fit``.

        One matrix is that of any platform; ``size`` is how many references to choose.

        Raises:
            InvalidInput: The matrices are none of pairs.
        """
        matrices = relative if isinstance(relative, Mapping) else {ANY_PLATFORM: relative}
        if not names or not any((matrix > 0).any() for matrix in matrices.values()):
            return cls(None)
        model = PairModel.fit(names, matrices)
        return cls(model, model.references(size))

    def complete(self, classification: Classification, measured: Measurements) -> Classification:
        """With profiles of pairs, instead of scores by source: the two would count twice.

        Raises:
            NotFound: It was run beside an unknown program, or on a platform without pairs.
        """
        if self.model is None:
            return classification
        slowdowns = len(measured.beside) + len(measured.upon)
        return replace(
            classification,
            tolerated={},
            caused={},
            measured=classification.measured + slowdowns,
            pairs=self.model.predict(_seen(measured), measured.platform),
        )

    def without_neighbors(self, measured: Measurements) -> Measurements:
        """The copies' performance as it would be without the residents that pressed on them.

        What is predicted that these take is added, and its doubt to the errors. What was observed
        of the workload itself is corrected where it is learnt.

        Raises:
            NotFound: As from ``complete``.
        """
        if self.model is None or not measured.neighbors:
            return measured
        own = self.model.predict(_seen(measured), measured.platform)
        slowdowns = {}
        for platform, pressure in measured.neighbors.items():
            profile = profile_on(own, platform)
            if profile is not None and profile.basis == pressure.basis:
                slowdowns[platform] = profile.beside(pressure)
        performance = {
            quantity: {
                cpu: _unslowed(entry, quantity, slowdowns.get(measured.platform))
                for cpu, entry in row.items()
            }
            for quantity, row in measured.performance.items()
        }
        further = {
            quantity: tuple(
                replace(one, entry=_unslowed(one.entry, quantity, slowdown))
                for one in row
                for slowdown in [slowdowns.get(one.setting.platform)]
            )
            for quantity, row in measured.further.items()
        }
        return replace(measured, performance=performance, further=further)


def _seen(measured: Measurements) -> Seen:
    slowdowns = (*measured.beside.values(), *measured.upon.values())
    errors = [entry.error**2 for entry in slowdowns if entry.value > 0]
    error = sqrt(sum(errors) / len(errors)) if errors else 0.0
    return Seen(_values(measured.beside), _values(measured.upon), error)


def _unslowed(entry: Entry, quantity: Quantity, slowdown: Relative | None) -> Entry:
    if slowdown is None or quantity in PROXIES or entry.origin is not Origin.PROFILED:
        return entry
    share = slowdown.mean if quantity is Quantity.LATENCY else 1 / slowdown.mean
    return replace(entry, value=entry.value * share, error=hypot(entry.error, slowdown.std))


def _values(entries: Mapping[str, Entry]) -> dict[str, float]:
    return {name: entry.value for name, entry in entries.items()}
