"""Pythia's Figures 9 and 10: how well the contention of two and three neighbors is predicted.

Source: Pythia 5.2 and 5.3. The ground truth of ``pythia_figure6``: all sets of 19 batch programs
beside each service, measured with an error; forms learn from a sample of them, and predict the
others. Errors are against the truth.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from time import perf_counter

import numpy as np

from wharfinger.experiments import physics_plots
from wharfinger.experiments.ground_truth import (
    GroundTruthStudy,
    Picture,
    StudyFindings,
    mean_curve,
    pooled,
)
from wharfinger.experiments.pythia_figure6 import (
    PLATFORM,
    SIZES,
    STREAMER,
    asked_service,
    batch_resident,
    world,
)
from wharfinger.interference.completion import completed
from wharfinger.interference.design import by_information
from wharfinger.interference.evaluation import HeldOutSets, SamplingPlan, judge
from wharfinger.interference.measurements import (
    ContentionMeasurements,
    ContentionSetting,
    MeasuredSet,
    ServiceSets,
)
from wharfinger.interference.model import InterferenceModel
from wharfinger.interference.registry import DEFAULT_FORM, FORMS, make_form
from wharfinger.model.arrays import Array
from wharfinger.simulator.truth.physics.hardware import MIB
from wharfinger.simulator.truth.physics.named import PYTHIA_BATCH, PYTHIA_SERVICES
from wharfinger.simulator.truth.physics.regimes import Regime
from wharfinger.simulator.truth.physics.sources import bubble
from wharfinger.simulator.truth.physics.truth import Physics

DEGREES = (1, 2, 3)
ERROR = 0.005
"""Relative, of every measured performance."""
CURVE_ERROR = 0.02
"""Of a curve beside bubbles: with idiosyncratic noise that of each bubble differs."""
REPEATS = 5
"""Samples of a population."""
SHARE = 0.05
SHARES = (0.005, 0.01, 0.025, 0.05, 0.1, 0.3)
INFORMED = (0.01, 0.025, 0.05)
"""Shares that are also chosen by information."""
CONFIDENCE = 0.95
CASES = {"": False, "with-whims/": True}
"""Whether neighbors have idiosyncratic noise, which is as large as what they do."""
UNSEEN = 6
"""Programs that are hidden, one after another."""
Both = tuple[ContentionMeasurements, ContentionMeasurements]
"""As measured, and as it is."""


def measured_sets(truth: Physics, services: Sequence[str], names: Sequence[str], seed: int) -> Both:
    """All sets of a population, with errors of measurement and without, in the same order."""
    rng = np.random.default_rng([seed, 20])
    noisy, exact = [], []
    for name in services:
        setting, service = ContentionSetting(name, PLATFORM), asked_service(truth, name)
        alone = truth.alone(PLATFORM, service)
        sets: list[tuple[tuple[str, ...], float]] = [((), size) for size in SIZES]
        for degree in DEGREES:
            sets += [(one, 0.0) for one in itertools.combinations_with_replacement(names, degree)]
        for one, size in sets:
            beside = [batch_resident(truth, n) for n in (one or (bubble(size).name,))]
            kept = truth.rates(PLATFORM, [service, *beside])[0] / alone
            error = CURVE_ERROR if size else 0.0
            row = MeasuredSet(setting, tuple(sorted(one)), kept, error, size * MIB)
            exact.append(row)
            # A curve is measured often enough: its error is not what is looked at here.
            seen = kept if size else kept * float(np.exp(ERROR * rng.standard_normal()))
            noisy.append(row if size else replace(row, value=seen, error=ERROR * seen))
    return ContentionMeasurements.of(noisy), ContentionMeasurements.of(exact)


def judged(
    both: Both, forms: Sequence[str], share: float, seed: int, *, informed: bool = False
) -> dict[str, dict[int, HeldOutSets]]:
    """Forms that learned from a share of the measured sets, on the true ones of the rest."""
    noisy, exact = both

    def sampler(
        measurements: ContentionMeasurements, part: float, rng: np.random.Generator
    ) -> Both:
        draw = int(rng.integers(2**31))
        if informed:
            learned, rest = by_information(measurements, part, np.random.default_rng(draw))
            return learned, ContentionMeasurements(tuple(map(_true, rest.services, exact.services)))
        learned, _ = measurements.sampled(part, np.random.default_rng(draw))
        return learned, exact.sampled(part, np.random.default_rng(draw))[1]

    plan = SamplingPlan(share, REPEATS, seed, CONFIDENCE, sampler)
    return judge(noisy, [make_form(name) for name in forms], plan, perf_counter)


def _true(rest: ServiceSets, exact: ServiceSets) -> ServiceSets:
    """The same sets with their true drops."""
    sets = {}
    for degree, table in rest.sets.items():
        all_sets = exact.sets[degree]
        place = {tuple(one): at for at, one in enumerate(all_sets.members.tolist())}
        at = np.array([place[tuple(one)] for one in table.members.tolist()], dtype=np.intp)
        sets[degree] = all_sets.take(at)
    return replace(exact, sets=sets)


def predict(regime: Regime, seed: int, names: Sequence[str] = PYTHIA_BATCH) -> StudyFindings:
    """Figure 9, of one population."""
    numbers: dict[str, float] = {}
    drawn: dict[str, dict[str, Array]] = {}
    for case, whims in CASES.items():
        truth = world(regime, seed, 1.0, whims=whims)
        both = measured_sets(truth, [*PYTHIA_SERVICES, *([] if whims else [STREAMER])], names, seed)
        for form, held in judged(both, list(FORMS), SHARE, seed).items():
            numbers |= dict(_numbers(f"{case}{form}", held))
            if not whims:
                for service in PYTHIA_SERVICES:
                    errors = 100 * np.clip(_of_service(held.values(), service).errors(), -1, 4)
                    drawn.setdefault(service, {})[form] = errors
    return StudyFindings(numbers, {"errors": drawn})


def _of_service(all_held: Iterable[HeldOutSets], *services: str) -> HeldOutSets:
    """The predictions for these services alone."""
    found = HeldOutSets()
    for held in all_held:
        pairs = zip(held.parts, held.services, strict=True)
        found.parts += [part for part, setting in pairs if setting.service in services]
        found.fit_seconds += held.fit_seconds
    return found


def _numbers(name: str, held: Mapping[int, HeldOutSets]) -> Iterator[tuple[str, float]]:
    for service in PYTHIA_SERVICES:
        errors = _of_service(held.values(), service).errors()
        yield f"{name}/{service}/median", float(np.median(errors))
        yield f"{name}/{service}/std", float(np.std(errors))
    for group, services in (("", PYTHIA_SERVICES), (f"{STREAMER}/", (STREAMER,))):
        for degree, each in held.items():
            some = _of_service([each], *services)
            if not some.parts:
                continue
            metrics = some.metrics(CONFIDENCE)
            for key, short in _SHOWN.items():
                if metrics[key] is not None and (not group or key in _OF_STREAMER):
                    yield f"{name}/{group}degree-{degree}/{short}", float(str(metrics[key]))
            for one in metrics["qos"]:  # type: ignore[attr-defined] # a list of records
                for key in ("safe_found", "unsafe_allowed"):
                    if one[key] is not None:
                        yield f"{name}/{group}degree-{degree}/qos-{one['qos']:g}/{key}", one[key]


_SHOWN = {
    "median_absolute_error": "median-absolute",
    "bias": "bias",
    "mean_absolute_log_error": "log-error",
    "coverage_90": "coverage-90",
    "censored": "censored",
}
_OF_STREAMER = {"mean_absolute_log_error", "coverage_90"}


def learn(regime: Regime, seed: int, names: Sequence[str] = PYTHIA_BATCH) -> StudyFindings:
    """Figure 10, of one population."""
    both = measured_sets(world(regime, seed, 1.0), PYTHIA_SERVICES, names, seed)
    numbers: dict[str, float] = {}
    curves: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for share in SHARES:
        found = judged(both, ["pythia", DEFAULT_FORM], share, seed)
        if share in INFORMED:
            chosen = judged(both, [DEFAULT_FORM], share, seed, informed=True)
            found[f"{DEFAULT_FORM}-by-information"] = chosen[DEFAULT_FORM]
        for name, held in found.items():
            errors = np.abs(_of_service(held.values(), *PYTHIA_SERVICES).errors())
            for what, value in (("median", np.median(errors)), ("p95", np.percentile(errors, 95))):
                numbers[f"{name}/{100 * share:g}%/{what}"] = float(value)
                curves[what][name].append(100 * float(value))
    along = {DEFAULT_FORM + "-by-information": INFORMED}
    drawn = {
        what: {
            name: (100 * np.array(along.get(name, SHARES)), np.array(values))
            for name, values in by_name.items()
        }
        for what, by_name in curves.items()
    }
    return StudyFindings(numbers, {"learning": drawn})


def unseen(regime: Regime, seed: int, names: Sequence[str] = PYTHIA_BATCH) -> StudyFindings:
    """Programs that ran beside two services only, beside the third."""
    services = (*PYTHIA_SERVICES, STREAMER)
    noisy, exact = measured_sets(world(regime, seed, 1.0), services, names, seed)
    learned, _ = noisy.sampled(SHARE, np.random.default_rng(seed))
    rng = np.random.default_rng([seed, 1])
    errors: dict[str, list[Array]] = defaultdict(list)
    for at in rng.choice(len(names), min(UNSEEN, len(names)), replace=False).tolist():
        for number, service in enumerate(learned.services):
            if service.setting.service in PYTHIA_SERVICES:
                for how, each in _without(learned, number, at).items():
                    model = InterferenceModel.fit(DEFAULT_FORM, each)
                    predictor = model.predictors[service.setting]
                    for table in exact.services[number].sets.values():
                        with_it = table.take(np.flatnonzero((table.members == at).any(axis=1)))
                        off = predictor.drops(with_it.members)[0] - with_it.drops
                        errors[how].append(np.abs(off))
    numbers = {f"{how}/log-error": float(np.concatenate(e).mean()) for how, e in errors.items()}
    return StudyFindings(numbers)


def _without(
    learned: ContentionMeasurements, number: int, hidden: int
) -> dict[str, ContentionMeasurements]:
    """All singles known, and one hidden: completed from other services, or the mean of all."""
    service = learned.services[number]
    single, errors = service.single.copy(), service.single_errors.copy()
    single[hidden] = errors[hidden] = np.nan
    sets = {
        degree: table.take(np.flatnonzero((table.members != hidden).all(axis=1)))
        for degree, table in service.sets.items()
    }
    sets = {degree: table for degree, table in sets.items() if len(table)}
    blank = replace(service, single=single, single_errors=errors, sets=sets)
    mean, spread = single.copy(), errors.copy()
    mean[hidden], spread[hidden] = np.nanmean(single), np.nanstd(single)
    averaged = replace(blank, single=mean, single_errors=spread, measured=~np.isnan(single))

    def with_it(other: ServiceSets) -> ContentionMeasurements:
        rest = learned.services
        return ContentionMeasurements((*rest[:number], other, *rest[number + 1 :]))

    return {
        "measured": with_it(replace(service, sets=sets)),
        "completed": completed(with_it(blank)),
        "average": with_it(averaged),
    }


_NOTES = (
    (
        "CPUs are cores, as in Pythia's cluster. Every performance is measured with an error of "
        "0.5%; predictions are judged by the true ones."
    ),
    (
        "A prediction beyond the largest bubble counts as that; sets below 0.2 MiB of contention "
        "are not in relative errors, those beyond the curve are censored."
    ),
)

PYTHIA_FIGURE9 = GroundTruthStudy(
    name="pythia-figure9",
    about="errors of predicted joint contention by model, learnt from 5% of the sets",
    source="Pythia, Figure 9 and section 5.2",
    measure=predict,
    units={"*/coverage-90": "fraction", "*/censored": "fraction", "*/qos-*": "fraction",
           "*": "relative"},
    published={
        "pythia/redis/median": 0.063, "pythia/mongodb/median": -0.034,
        "pythia/redis/std": 0.152, "pythia/mongodb/std": 0.106,
        "multi-bubble-up/redis/median": 1.85, "multi-bubble-up/mongodb/median": 0.615,
        "multi-bubble-up/redis/std": 0.286, "multi-bubble-up/mongodb/std": 0.171,
    },
    notes=_NOTES,
    pictures=(
        Picture(
            "errors",
            physics_plots.distributions,
            "Predicted over true contention",
            {"xlabel": "error (%)"},
            pooled,
        ),
    ),
)  # fmt: skip

PYTHIA_FIGURE10 = GroundTruthStudy(
    name="pythia-figure10",
    about="errors of predicted joint contention by the share of the sets that was measured",
    source="Pythia, Figure 10 and section 5.3",
    measure=learn,
    units={"*": "relative"},
    notes=_NOTES,
    pictures=(
        Picture(
            "learning",
            physics_plots.curves,
            "Error of the contention",
            {"axes_labels": ("sets measured (%)", "error (%)"), "log": True,
             "legend": "upper right"},
            mean_curve,
        ),
    ),
)  # fmt: skip

PYTHIA_UNSEEN = GroundTruthStudy(
    name="pythia-unseen",
    about="sets with a program that was only measured beside two other services",
    source="nothing published: Pythia's stated weakness, section 1",
    measure=unseen,
    units={"*": "relative"},
    notes=("Errors of the logarithm of performance, of all sets of two and three with it.",),
    pictures=(),
)
