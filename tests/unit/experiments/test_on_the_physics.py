"""Experiments that look at the physics itself: small versions of each, and what they draw."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.support.pictures import shows_data
from tests.support.simulated_runs import simulate
from wharfinger.errors import InvalidInput
from wharfinger.estimators.matrix import Matrix
from wharfinger.experiments import (
    ibench_figure51,
    ibench_figure52,
    ibench_figure53,
    ibench_figure54,
    ibench_figure59,
    ibench_sources,
    physics_matrices,
    pythia_contention,
    pythia_figure6,
    quasar_figure2,
)
from wharfinger.experiments.base import Arguments, Context, ExperimentResult
from wharfinger.experiments.registry import EXPERIMENTS
from wharfinger.experiments.workspace import workspace
from wharfinger.model.interference import SharedResource
from wharfinger.simulator.truth.physics.clusters import HARDWARE
from wharfinger.simulator.truth.physics.regimes import REGIMES

NAMES = (
    "quasar-figure2",
    "pythia-table1",
    "pythia-figure5",
    "pythia-figure6",
    "pythia-figure15",
    "ibench-figure51",
    "ibench-figure52",
    "ibench-figure53",
    "ibench-figure54",
    "ibench-figure59",
    "physics-matrices",
)
MODERATE = REGIMES["moderate"]
FEW = ("streamcluster", "bzip2", "mcf", "hmmer")


SMALL = {
    "quasar-figure2": partial(quasar_figure2.look, jobs=1),
    "pythia-table1": pythia_contention.table1,
    "pythia-figure5": pythia_contention.by_service,
    "pythia-figure15": pythia_contention.variation,
    "pythia-figure6": partial(pythia_figure6.look, names=FEW),
    "ibench-figure51": partial(ibench_figure51.look, most=2),
    "ibench-figure52": ibench_figure52.look,
    "ibench-figure53": ibench_figure53.look,
    "ibench-figure54": ibench_figure54.look,
    "ibench-figure59": partial(ibench_figure59.look, mixes={4: 3}),
    "physics-matrices": partial(physics_matrices.look, most=8, estimators=["column-means"]),
}
"""One job, four batch programs, eight programs of a pool, an estimator that takes no time."""


def run(name: str, repeats: int = 1, **given: object) -> ExperimentResult:
    experiment = replace(EXPERIMENTS[name], measure=SMALL[name])
    arguments = Arguments(repeats, **given)  # type: ignore[arg-type]
    experiment.check(arguments)
    told: list[tuple[int, int]] = []
    with workspace(None) as space:
        context = Context(simulate, arguments, space, 1, lambda *each: told.append(each))
        result = experiment.run(context)
    assert told == [(done, repeats) for done in range(repeats + 1)]
    return result


def measured(result: ExperimentResult) -> dict[str, float]:
    return {row.name: row.measured for row in result.rows if row.measured is not None}


@pytest.mark.parametrize("name", NAMES)
def test_a_regime_that_there_is_not_is_refused_before_anything_runs(name: str):
    with pytest.raises(InvalidInput, match=r"--regime: 'wild' is no regime; there are moderate"):
        EXPERIMENTS[name].check(Arguments(repeats=1, regime="wild"))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_another_regime_has_other_numbers(name: str):
    moderate, contended = run(name), run(name, regime="contended")
    assert [row.name for row in moderate.rows] == [row.name for row in contended.rows]
    assert measured(moderate) != measured(contended)
    assert any("contended" in note for note in contended.notes)
    assert measured(run(name, regime="moderate")) == measured(moderate)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_picture_can_be_drawn(name: str):
    pytest.importorskip("matplotlib")
    result = run(name, regime="contended")
    assert result.pictures
    for draw in result.pictures.values():
        assert shows_data(draw())


def test_quasars_ranges():
    result = run("quasar-figure2")
    found = measured(result)
    published = {row.name: row.published for row in result.rows}
    assert published["hadoop/servers/largest"] == 7
    assert published["memcached/cores of J/knee-ratio"] == 8
    assert 3 < found["hadoop/servers/largest"] < 30
    assert 1.5 < found["hadoop/data/largest"] < 6
    assert found["hadoop/interference-on-a/largest"] > 3
    assert found["spark/scale-out-exponent-highest"] > 1 > found["spark/scale-out-exponent-lowest"]


def test_a_knee_is_where_latency_crosses_a_millisecond():
    service = quasar_figure2.Memcached(MODERATE, 0)
    cases = service.panels()["cores of J"]
    found = service.knees(cases)
    assert found["1"] < found["2"] < found["4"]
    curves = service.curves(cases, found)
    for along, up in curves.values():
        assert up[np.argmin(np.abs(np.array(along) - along[-3]))] == pytest.approx(1.0, rel=0.02)
    # Those that lie on one another are one.
    (label,) = [name for name in curves if "24" in name]
    assert "16" in label.split(", ")


def test_a_service_that_waits_for_memory_is_underestimated():
    found = measured(run("pythia-figure6"))
    assert found["streamer/degree-3/mean"] < 0 < found["both/degree-3/mean"]
    assert found["table2/redis/graph-analytics-3"] < found["table2/redis/graph-analytics-1"]


def test_sums_of_the_papers_sets_are_mostly_too_high():
    found = measured(run("pythia-table1"))
    assert len(found) == 2 * len(pythia_contention.TABLE1)
    assert np.mean([error > 0 for error in found.values()]) > 0.5


def test_what_batch_programs_take_grows_with_their_number():
    found = measured(run("pythia-figure15"))
    for name in pythia_figure6.PYTHIA_SERVICES:
        assert 0 < found[f"{name}/degree-2/lost-median"] < found[f"{name}/degree-3/lost-median"]
        assert found[f"{name}/variation-of-17"] < found[f"{name}/variation-of-all"]


def test_contention_hangs_on_the_service():
    found = measured(run("pythia-figure5"))
    assert found["degree-1/apart"] > 0
    assert found["figure4/redis/bodytrack"] < found["figure4/redis/canneal"]


def test_sets_are_all_or_a_sample():
    assert len(pythia_figure6.sets_of(FEW, 2, 0)) == 10
    names = [str(number) for number in range(19)]
    sample = pythia_figure6.sets_of(names, 4, 0)
    assert len(set(sample)) == pythia_figure6.SAMPLED
    assert sample == pythia_figure6.sets_of(names, 4, 0) != pythia_figure6.sets_of(names, 4, 1)


def test_sources_that_share_nothing_leave_one_another_alone():
    truth = ibench_sources.world(MODERATE, 0)
    pairs = ibench_figure54.pairwise(truth, HARDWARE[ibench_sources.WITH_SMT])
    of = SharedResource
    assert {one for one, _ in pairs} == set(of)
    assert pairs[of.NETWORK_BANDWIDTH, of.MEMORY_BANDWIDTH] == pytest.approx(1, abs=0.01)
    assert pairs[of.INTEGER, of.VECTOR] == pytest.approx(1, abs=0.01)
    assert pairs[of.L2_BANDWIDTH, of.PREFETCHER] == pytest.approx(1, abs=0.01)
    assert pairs[of.INTEGER, of.INTEGER] < 0.9
    without = ibench_figure54.pairwise(truth, HARDWARE[ibench_sources.WITHOUT_SMT])
    assert of.INTEGER not in {one for one, _ in without}


def test_tolerated_is_read_between_intensities():
    curve = [1.0] * 3 + [0.9] * (len(ibench_sources.INTENSITIES) - 3)
    assert ibench_sources.tolerated(curve) == pytest.approx(15.0)
    assert ibench_sources.tolerated([1.0] * len(curve)) == 100
    assert ibench_sources.tolerated([0.9] * len(curve)) == 0


def test_every_source_takes_more_of_its_resource_the_more_intense_it_is():
    found = measured(run("ibench-figure52"))
    for resource in SharedResource:
        assert found[f"{resource}/r-squared"] > 0.95
        assert found[f"{resource}/furthest"] < 0.15


def test_what_was_validated_stands_beside(tmp_path: Path):
    points = [{"intensity": x, "achieved": 0.9 * x} for x in (0, 50, 100)]
    sources = [{"name": "integer", "points": points}, {"name": "l2-cache", "points": []}]
    (tmp_path / "here.json").write_text(json.dumps({"sources": sources}))
    found = measured(run("ibench-figure52", tables=tmp_path))
    assert found["live/integer/at-100"] == pytest.approx(0.9)
    assert "live/l2-cache/at-100" not in found


@pytest.mark.parametrize("text", ["[]", "{", '{"sources": [{"name": "integer"}]}'])
def test_what_is_no_validation_is_refused(tmp_path: Path, text: str):
    (tmp_path / "here.json").write_text(text)
    with pytest.raises(
        InvalidInput, match=r"--tables: .*here\.json.* is not what `wharfinger ibench"
    ):
        EXPERIMENTS["ibench-figure52"].check(Arguments(repeats=1, tables=tmp_path))


def test_memcached_answers_fewer_in_time_as_its_share_of_the_network_falls():
    found = measured(run("ibench-figure53"))
    of = "memcached/network-bandwidth"
    assert found[f"{of}/in-time-at-50"] > 0.95
    assert found[f"{of}/in-time-at-100"] < 0.2
    assert found[f"{of}/share-at-100"] < 0.6 * found[f"{of}/share-at-50"]
    assert found["memcached/misses/at-100-over-alone"] == pytest.approx(1, abs=0.02)
    assert found["mcf/last-level-cache/at-100"] < 0.8
    assert found["mcf/correlation"] > 0.9


def test_programs_with_more_data_take_more_of_memorys_capacity_as_measured():
    found = measured(run("ibench-figure51"))
    assert found["memcached/capacity/median"] == pytest.approx(
        found["memcached/footprint/median"], abs=5
    )
    assert found["capacity/rank-correlation"] > 0.5
    assert found["bandwidth/rank-correlation"] > 0.5


def test_rules_by_the_truth_are_bounds():
    found = measured(run("ibench-figure59"))
    rules = ("random", "eq. 5.1", "interference", "interference and cores")
    performance, kept = (
        {
            rule: found[f"4-programs/{rule}/{what}"]
            for rule in (*rules, "best", "least interference")
        }
        for what in ("performance", "over-alone-there")
    )
    assert max(performance[rule] for rule in rules) <= performance["best"]
    assert max(kept[rule] for rule in rules) <= kept["least interference"]
    assert performance["interference and cores"] > performance["random"]
    shares = [found[f"4-programs/random/time-{part}"] for part in ("core", "cache", "memory")]
    assert sum(shares) == pytest.approx(1)


@pytest.mark.slow
def test_a_search_by_exchanges_keeps_the_cores_that_there_are():
    regime, count = MODERATE, 1
    found = ibench_figure59.on_chip(regime, 0, 16, count).numbers
    assert found["16-programs/random/performance"] < found["16-programs/best/performance"]
    assert sorted(len(mix) for mix in ibench_figure59.mixes_of(16, 60, 0)) == [16] * 60


def test_what_a_matrix_is_like():
    values = np.exp(np.outer([0.0, 1.0, 2.0, 5.0], [1.0, 2.0, 4.0]))
    plain = Matrix.of({str(n): row.tolist() for n, row in enumerate(values)}, ["a", "b", "c"])
    assert physics_matrices.component_shares(plain)[0] == pytest.approx(1.0)
    assert physics_matrices.spread(plain) > 0.1
    sums = np.exp(np.add.outer([0.0, 1.0, 2.0, 5.0], [1.0, 2.0, 4.0]))
    added = Matrix.of({str(n): row.tolist() for n, row in enumerate(sums)}, ["a", "b", "c"])
    assert physics_matrices.spread(added) == pytest.approx(0, abs=1e-9)


@pytest.mark.long
def test_measured_matrices_stand_beside_drawn_ones(
    tmp_path: Path, write_pairs: Callable[..., None]
):
    write_pairs(tmp_path / "pairs-here.slowdown.csv")
    found = measured(run("physics-matrices", tables=tmp_path))
    assert "real/pairs-here/in-1" in found
    assert "real/pairs-here/error/column-means" in found


@pytest.fixture
def write_pairs() -> Callable[..., None]:
    def write(path: Path) -> None:
        names = "abcdefgh"
        random = np.random.default_rng(0)
        lines = [
            ",".join([name, name, *(f"{value:.3f}" for value in random.uniform(1, 2, len(names)))])
            for name in names
        ]
        path.write_text("\n".join([",".join(["name", "group", *names]), *lines]) + "\n")

    return write


def test_a_directory_without_matrices_is_refused(tmp_path: Path):
    with pytest.raises(InvalidInput, match=r"--tables: .* has no \*\.csv"):
        EXPERIMENTS["physics-matrices"].check(Arguments(repeats=1, tables=tmp_path))
