"""All classifications of a workload, from what was measured of it (Quasar 3.2 and 3.4).

Scale-up, scale-out, heterogeneity, tolerated and caused interference: each by a matrix of its own
for each type of workload. ``classifier`` makes of them what the core logs and policies read.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import hypot

from wharfinger.classification.axis import Axis, axes_between, value_on
from wharfinger.classification.utility import Aspect, UtilityMatrix
from wharfinger.estimators.recommender import Recommender, fit
from wharfinger.estimators.registry import DEFAULT_ESTIMATOR
from wharfinger.model.configuration import Configuration, Setting
from wharfinger.model.interference import SharedResource
from wharfinger.model.profile import Entry, Estimate
from wharfinger.model.workload import WorkloadType

MIN_ERROR = 0.03
"""Relative: runs of one program differ by this, however steady each is."""
MIN_POINTS = 5.0
"""The same of a score."""
MAX_POINTS = 100.0


@dataclass(frozen=True, slots=True)
class RowObservations:
    """How one workload did in several settings; missing is missing, never zero.

    All axes start from ``reference``, the first run of the joint plan, which is among
    ``performance``; without any it is a cold start. More performance is better.
    """

    reference: Setting
    performance: Mapping[Setting, Entry] = field(default_factory=dict)
    type: WorkloadType | None = None

    def along(self, kind: Aspect) -> dict[str, Entry]:
        """What was measured along one axis, by its column; everything else as in the reference."""
        return {
            value_on(kind, setting): entry
            for setting, entry in self.performance.items()
            if axes_between(setting, self.reference) in ((), (kind,))
        }


class Classifications:
    """Classifies by utility matrices; learns from each when it is first asked for.

    What has no matrix is not classified; ``fitted`` is what was learnt of these matrices before, as
    ``fit_all`` gives it.
    """

    def __init__(
        self,
        matrices: Mapping[Aspect, UtilityMatrix],
        estimator: str = DEFAULT_ESTIMATOR,
        seed: int = 0,
        fitted: Iterable[tuple[Aspect, Recommender]] = (),
    ) -> None:
        self._matrices = matrices
        self._estimator = estimator
        self._seed = seed
        self._plain: dict[tuple[str, ...], dict[int, int]] = {}
        self._by_rows = {(kind, one.matrix.rows): one for kind, one in fitted}
        self._by_type: dict[tuple[Aspect, WorkloadType | None], Recommender | None] = {}

    def recommender(self, kind: Aspect, type_: WorkloadType | None = None) -> Recommender | None:
        """What was learnt for one classification of one type; ``None`` = no measurements."""
        if (kind, type_) not in self._by_type:
            self._by_type[kind, type_] = self._fit(kind, type_)
        return self._by_type[kind, type_]

    def allocations(self, type_: WorkloadType | None = None) -> dict[int, int]:
        """Columns of scale-up that say nothing but CPU (thousandths): where each is, ascending."""
        recommender = self.recommender(Aspect.SCALE_UP, type_)
        columns = recommender.matrix.columns if recommender else ()
        if columns not in self._plain:
            named = enumerate(map(Configuration.parse, columns))
            plain = {c.cpu_millicpus: j for j, c in named if c == Configuration(c.cpu_millicpus)}
            self._plain[columns] = dict(sorted(plain.items()))
        return self._plain[columns]

    def fit_all(self) -> list[tuple[Aspect, Recommender]]:
        """Learn now all that is learnt when it is first asked for."""
        for kind in self._matrices:
            for type_ in (None, *WorkloadType):
                self.recommender(kind, type_)
        return [(kind, fitted) for (kind, _), fitted in self._by_rows.items()]

    def _fit(self, kind: Aspect, type_: WorkloadType | None) -> Recommender | None:
        matrix = self._matrices.get(kind)
        known = matrix.known_to(type_) if matrix else None
        if known is None:
            return None
        # Types with too few programs of their own share one.
        if (kind, known.rows) not in self._by_rows:
            fitted = fit(self._estimator, known, scale=kind.scale, seed=self._seed)
            self._by_rows[kind, known.rows] = fitted
        return self._by_rows[kind, known.rows]

    def axis(self, kind: Aspect, observed: RowObservations) -> Axis | None:
        """One of scale-up, scale-out and heterogeneity; ``None`` = no measurements."""
        recommender = self.recommender(kind, observed.type)
        if recommender is None:
            return None
        reference = value_on(kind, observed.reference)
        entries = observed.along(kind) if observed.performance else {reference: Entry(1.0)}
        columns = set(recommender.matrix.columns)
        known = {column: entry.value for column, entry in entries.items() if column in columns}
        errors = [max(MIN_ERROR, e.error) for c, e in entries.items() if c != reference]
        noise = max(errors, default=MIN_ERROR if observed.performance else 0.0)
        return Axis(kind, reference, recommender.predict(known), noise**2)

    def scores(
        self,
        kind: Aspect,
        entries: Mapping[SharedResource, Entry],
        type_: WorkloadType | None = None,
    ) -> dict[SharedResource, Estimate]:
        """Tolerated or caused interference by source; a measured one keeps its own error."""
        recommender = self.recommender(kind, type_)
        scores: dict[SharedResource, Estimate] = {}
        if recommender is not None:
            columns = [SharedResource(name) for name in recommender.matrix.columns]
            row = {str(c): measured_score(entries[c]).mean for c in columns if c in entries}
            predicted = recommender.predict(row)
            numbers = zip(columns, predicted.mean, predicted.log_std, strict=True)
            scores = {source: _score(mean, std) for source, mean, std in numbers}
        return scores | {source: measured_score(entry) for source, entry in entries.items()}


def measured_score(entry: Entry) -> Estimate:
    """A measured score; a lower bound says: anything from there to 100, each as likely."""
    error = max(MIN_POINTS, entry.error)
    if not entry.censored or entry.value >= MAX_POINTS:
        return _score(entry.value, error)
    uniform = (MAX_POINTS - entry.value) / 12**0.5
    return _score((entry.value + MAX_POINTS) / 2, hypot(error, uniform))


def _score(mean: float, std: float) -> Estimate:
    return Estimate(float(min(100.0, max(0.0, mean))), float(std))
