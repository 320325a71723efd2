"""A row for each program; newer measurements correct older ones."""

from dataclasses import replace

import pytest

from tests.support.cluster import workload
from wharfinger.classification.learnt import (
    LEARNT,
    MAX_ROWS,
    joined,
    learn,
    row_name,
)
from wharfinger.classification.utility import Aspect, UtilityMatrix
from wharfinger.model.configuration import Configuration, Setting
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Entry, Measurements, SettingEntry
from wharfinger.model.programs import program_of
from wharfinger.model.workload import Run, Workload


def of(*command: str) -> Workload:
    return replace(workload("w"), run=Run(command))


def found(entries: dict[int, float], at: float = 0.0, **others) -> Measurements:
    row = {cpu: Entry(v, 0.03, measured_at=at) for cpu, v in entries.items()}
    return Measurements({Quantity.RATE: row}, **others)


@pytest.mark.parametrize(
    ("command", "program"),
    [
        (("/usr/bin/gzip", "-9"), "gzip"),
        (("python3.11", "-m", "train"), "train"),
        (("bash",), "bash"),
        (("java", "-Xmx1g", "-jar", "/srv/app.jar"), "app.jar"),
        (("bash", "-c", "curl http://host/?token=SECRET"), "bash"),
        (("env", "PASSWORD=SECRET", "/srv/train"), "train"),
    ],
)
def test_a_command_is_a_run_of_its_program(command, program) -> None:
    assert program_of(command) == program
    assert row_name(command).startswith(f"{LEARNT}{program}-")
    assert row_name(command) != row_name((*command, "more"))


def test_three_entries_make_a_row_and_two_do_not() -> None:
    job = of("sort", "-n")
    assert not learn({}, job, found({500: 1.0, 1000: 2.0}))
    learnt = learn({}, job, found({500: 1.0, 1000: 2.0, 2000: 3.0}))
    row = learnt[Aspect.SCALE_UP].rows[row_name(job.run.command)]
    assert {column: e.value for column, e in row.entries.items()} == {
        "cpu=500m": 1.0,
        "cpu=1000m": 2.0,
        "cpu=2000m": 3.0,
    }
    assert row.group == "sort"
    assert row.type is job.type


def test_the_next_run_of_it_corrects_the_row_at_the_level_of_now() -> None:
    """The second run had a larger input; its shape is what both tell."""
    job = of("sort", "-n")
    learnt = learn({}, job, found({500: 1.0, 1000: 2.0, 2000: 3.0}))
    learnt = learn(learnt, job, found({500: 0.1, 1000: 0.2, 1500: 0.3}, at=60.0))
    rows = learnt[Aspect.SCALE_UP].rows
    assert len(rows) == 1
    entries = rows[row_name(job.run.command)].entries
    assert entries["cpu=2000m"].value == pytest.approx(0.3)
    assert entries["cpu=1000m"].value == pytest.approx(0.2)
    assert entries["cpu=1000m"].error < 0.03


def test_scores_and_latencies_are_learnt_too_and_proxies_are_not() -> None:
    row = {cpu: Entry(0.1) for cpu in (500, 1000, 2000)}
    measurements = Measurements(
        {Quantity.LATENCY: row, Quantity.CPU: row},
        tolerated={SharedResource.INTEGER: Entry(20.0, 5.0)},
    )
    learnt = learn({}, of("nginx"), measurements)
    assert set(learnt) == {Aspect.SCALE_UP, Aspect.TOLERATED}
    (name,) = learnt[Aspect.SCALE_UP].rows
    assert name.endswith("/latency")
    assert learnt[Aspect.SCALE_UP].rows[name].entries["cpu=500m"].value == 10.0, "1/s"


def test_the_rows_corrected_longest_ago_go_first() -> None:
    learnt: dict[Aspect, UtilityMatrix] = {}
    for number in range(MAX_ROWS + 3):
        learnt = learn(learnt, of("job", str(number)), found({100: 1.0, 200: 2.0, 400: 3.0}))
        learnt = learn(learnt, of("job", "0"), found({100: 1.0, 200: 2.0, 400: 3.0}))
    rows = learnt[Aspect.SCALE_UP].rows
    assert len(rows) == MAX_ROWS
    assert row_name(("job", "0")) in rows
    assert row_name(("job", "1")) not in rows


KNOWN = {
    Aspect.SCALE_UP: UtilityMatrix.of(
        Aspect.SCALE_UP, {"a": {f"cpu={cpu}m": cpu / 1000 for cpu in (250, 500, 1000, 2000)}}
    )
}


def test_what_was_learnt_stands_beside_the_known_programs_on_their_columns() -> None:
    """300m, 600m and 1200m tell 500m and 1000m, and neither 250m nor 2000m."""
    learnt = learn({}, of("b"), found({300: 3.0, 600: 6.0, 1200: 12.0}))
    both = joined(KNOWN, learnt)[Aspect.SCALE_UP]
    assert list(both.rows) == ["a", row_name(("b",))]
    assert both.columns == KNOWN[Aspect.SCALE_UP].columns
    entries = both.rows[row_name(("b",))].entries
    assert {column: round(e.value, 6) for column, e in entries.items()} == {
        "cpu=500m": 5.0,
        "cpu=1000m": 10.0,
    }
    assert all(e.error > 0.03 for e in entries.values())
    far = learn({}, of("c"), found({10: 1.0, 20: 2.0, 40: 3.0}))
    assert list(joined(KNOWN, far)[Aspect.SCALE_UP].rows) == ["a"], "it tells nothing of them"
    assert joined(KNOWN, {}) == KNOWN
    assert joined({}, learnt) == {}


def test_a_bound_is_no_score() -> None:
    scores = {
        SharedResource.INTEGER: Entry(30.0, 0.0, censored=True),
        SharedResource.TLB: Entry(100.0, 0.0, censored=True),
    }
    learnt = learn({}, of("a"), Measurements(tolerated=scores))
    (row,) = learnt[Aspect.TOLERATED].rows.values()
    assert list(row.entries) == ["tlb"], "never broken at all is one"


def test_runs_on_three_platforms_with_one_allocation_make_a_row_across_them() -> None:
    """Another allocation, and a run on two servers, say nothing of a platform."""

    def ran(platform: str, value: float, cpu: int = 1000, servers: int = 1) -> SettingEntry:
        return SettingEntry(Setting(platform, Configuration(cpu), servers), Entry(value, 0.03))

    job = of("sort", "-n")
    further = {Quantity.RATE: (ran("b", 2.0), ran("b", 9.0, 2000), ran("a", 9.0, servers=2))}
    two = found({1000: 1.0}, platform="a", further=further)
    assert Aspect.HETEROGENEITY not in learn({}, job, two)
    further = {Quantity.RATE: (*further[Quantity.RATE], ran("c", 3.0))}
    learnt = learn({}, job, found({1000: 1.0}, platform="a", further=further))
    row = learnt[Aspect.HETEROGENEITY].rows[row_name(job.run.command)]
    assert {column: e.value for column, e in row.entries.items()} == {"a": 1.0, "b": 2.0, "c": 3.0}
