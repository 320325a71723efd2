"""What counts as a phase that is found, and what as a false alarm."""

from dataclasses import replace

import pytest

from tests.support.simulated_runs import fate
from wharfinger.experiments.paragon_table4 import (
    MODES,
    PARAGON_TABLE4,
    PhasesSeen,
    degradation,
    look,
    preemptive,
    reactive,
)
from wharfinger.simulator.cluster.runs import PhaseChange
from wharfinger.simulator.results.outcome import Outcome
from wharfinger.simulator.truth.physics.regimes import REGIMES

ENDS = Outcome(
    "scenario",
    "policy",
    "fifo",
    0,
    {},
    tuple(
        replace(fate(name, 0.5), ended_at=1000.0, interference_loss=loss)
        for name, loss in zip("abc", (0.1, 0.3, 0.9), strict=True)
    ),
)


def change(at: float, name: str, phase: int, rate: float, before: float = 100.0) -> PhaseChange:
    return PhaseChange(at, name, name, phase, before, rate)


def seen(
    *changes: PhaseChange,
    alarms: dict[str, list[float]] | None = None,
    anew: dict[str, list[float]] | None = None,
    probes: dict[str, list[tuple[float, bool, bool]]] | None = None,
) -> PhasesSeen:
    return PhasesSeen(ENDS, changes, alarms or {}, anew or {}, probes or {})


def test_a_phase_is_found_while_it_lasts_by_either_reason() -> None:
    both = change(100.0, "a", 1, 50.0), change(400.0, "a", 2, 100.0, 50.0)
    told = dict(reactive(seen(*both, alarms={"a": [110.0]}, anew={"a": [450.0]})))
    assert (told["phases"], told["found"], told["found-by-level"]) == (2, 1.0, 0.5)
    assert told["seconds"] == 30.0
    assert told["false-alarms"] == 0.0
    assert told["reclassified-without-phase"] == 0.0


def test_phases_that_do_not_show_or_do_not_last_are_not_counted() -> None:
    hidden, brief = change(100.0, "a", 1, 97.0), change(990.0, "b", 1, 10.0)
    assert dict(reactive(seen(hidden, brief)))["phases"] == 0


def test_an_alarm_is_false_where_no_phase_was_entered_since_the_one_before() -> None:
    told = dict(
        reactive(
            seen(
                change(100.0, "a", 1, 50.0),
                alarms={"a": [50.0, 110.0, 300.0], "b": [10.0]},
                anew={"a": [500.0], "c": [600.0]},
            )
        )
    )
    assert (told["alarms"], told["false-alarms"]) == (4, 0.75)
    assert told["reclassified-without-phase"] == 5 / 6


def test_of_those_sampled_what_does_not_show_is_neither_a_phase_nor_none() -> None:
    hidden, shows = change(100.0, "b", 1, 97.0), change(100.0, "c", 1, 50.0)
    probes = {
        "a": [(200.0, True, False)],
        "b": [(200.0, False, False)],
        "c": [
            (50.0, False, False),
            (150.0, False, False),
            (300.0, True, True),
            (500.0, False, False),
        ],
    }
    told = dict(preemptive(seen(hidden, shows, probes=probes)))
    assert (told["sampled"], told["sampled-with-phases"]) == (6, 2)
    assert (told["found"], told["found-by-scores"]) == (0.5, 0.5), "the one that was missed, too"
    assert (told["sampled-without-phases"], told["false-alarms"]) == (3, 1 / 3)


def test_degradation_is_of_those_with_phases_and_of_neighbors() -> None:
    told = dict(degradation(seen(change(100.0, "a", 1, 50.0), change(100.0, "b", 1, 50.0))))
    assert told["degradation-hmean"] == pytest.approx(0.15)
    assert told["degradation-p90"] == pytest.approx(0.28)
    assert not dict(degradation(seen()))


@pytest.mark.long
def test_a_small_run_finds_phases_and_has_every_published_row() -> None:
    modes = {mode: MODES[mode] for mode in ("reactive", "pre-emptive")}
    numbers = look(REGIMES["moderate"], 1, workloads=20, modes=modes).numbers
    sampled = numbers["pre-emptive/sampled-with-phases"], numbers["reactive/phases"]
    assert min(sampled) > 0
    missing = set(PARAGON_TABLE4.published) - set(numbers)
    assert missing <= {"pre-emptive/false-alarms"}, "where each that was sampled has phases"
    assert 0.5 < numbers["reactive/found"] <= 1
    assert numbers["pre-emptive/found"] > 0
