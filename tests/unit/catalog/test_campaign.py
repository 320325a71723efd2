"""A campaign: every allocation, every row kept at once, what was done is not done again."""

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from wharfinger.catalog import campaign
from wharfinger.catalog.known_files import load_known
from wharfinger.catalog.listing import chosen
from wharfinger.classification.utility import Aspect
from wharfinger.errors import Conflict, EngineFault, InvalidInput, Unavailable
from wharfinger.model.configuration import Configuration, Setting
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity
from wharfinger.model.platform import Platform, Server
from wharfinger.model.profile import (
    PROFILED_SOURCES,
    Entry,
    FurtherRun,
    Measurements,
    ProfilingPlan,
    SettingEntry,
)
from wharfinger.model.workload import Workload

SERVER = Server("server0", Platform("p", "x86_64", "A CPU", 2000, 8 << 30), 2000, 8 << 30)
NAMES = ["gzip", "sed", "sort"]


class Profiler:
    """Finds each program as fast as its allocation, and remembers what it was asked for."""

    def __init__(self, failing: str = "") -> None:
        self.asked: list[tuple[str, ProfilingPlan]] = []
        self.failing = failing

    def __call__(self, key: str, workload: Workload, plan: ProfilingPlan) -> Measurements:
        self.asked.append((key, plan))
        assert Path(workload.run.working_directory).is_dir()
        if key == self.failing:
            raise EngineFault("the copy ended with 1")
        further = (SettingEntry(run.setting, Entry(7.0, 0.01)) for run in plan.further)
        return Measurements(
            {Quantity.RATE: {cpu: Entry(float(cpu), 0.01) for cpu in plan.cpu_millicpus}},
            {SharedResource.INTEGER: Entry(5.0, 1.0)},
            {SharedResource.INTEGER: Entry(50.0, 1.0)},
            further={Quantity.RATE: tuple(further)} if plan.further else {},
        )


def settings(directory: Path, seconds: float = 1.0) -> campaign.CampaignSettings:
    return campaign.CampaignSettings(
        directory, seconds, campaign.allocations(2), "wharfinger ...", directory / campaign.WORK
    )


def run(directory: Path, profiler: Profiler, names: list[str] = NAMES) -> campaign.CampaignOutcome:
    return campaign.run(chosen(names), settings(directory), SERVER, profiler)


def test_every_allocation_and_source_is_asked_for(tmp_path: Path):
    profiler = Profiler()
    outcome = run(tmp_path, profiler)
    plans = [plan for _, plan in profiler.asked]
    assert all(plan.cpu_millicpus[0] == 1000 for plan in plans)
    assert all(sorted(plan.cpu_millicpus) == list(campaign.allocations(2)) for plan in plans)
    assert all(plan.sources == PROFILED_SOURCES for plan in plans)
    assert all(plan.seconds <= 28 for plan in plans)
    assert outcome.measured == ("gzip", "sed", "sort")
    known = load_known(tmp_path)
    assert known.scale_up.rows == ("gzip", "sed", "sort")
    assert known.machine.cpu_model == "A CPU"


def test_where_there_are_several_platforms_each_is_a_column_by_allocation(tmp_path: Path):
    elsewhere = (FurtherRun(Setting("q", Configuration(1000)), ("server1",)),)
    asked = replace(settings(tmp_path), further=elsewhere)
    campaign.run(chosen(["gzip", "sed"]), asked, SERVER, Profiler())
    across = load_known(tmp_path).matrices[Aspect.HETEROGENEITY]
    assert set(across.rows) == {"gzip", "sed"}
    values = {column: entry.value for column, entry in across.rows["sed"].entries.items()}
    assert values["q@1000m"] == 7.0
    assert values["p@2000m"] == 2000.0
    with pytest.raises(Conflict, match="now 2 CPUs of A CPU"):
        run(tmp_path, Profiler(), ["gzip"])


def test_what_is_done_is_not_done_again(tmp_path: Path):
    run(tmp_path, Profiler(), ["sed"])
    profiler = Profiler()
    outcome = run(tmp_path, profiler)
    assert [key for key, _ in profiler.asked] == ["gzip", "sort"]
    assert outcome.kept == ("sed",)
    assert load_known(tmp_path).scale_up.rows == ("gzip", "sed", "sort")


@pytest.mark.slow
def test_a_kill_loses_the_row_under_way_only(tmp_path: Path):
    script = f"""
import os, signal
from pathlib import Path
from tests.unit.catalog.test_campaign import Profiler, run

class Killed(Profiler):
    def __call__(self, key, workload, plan):
        if key == "sort":
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(key, workload, plan)

run(Path({str(tmp_path)!r}), Killed())
"""
    root = Path(__file__).parents[3]
    killed = subprocess.run([sys.executable, "-c", script], cwd=root, check=False)
    assert killed.returncode == -signal.SIGKILL
    profiler = Profiler()
    outcome = run(tmp_path, profiler)
    assert [key for key, _ in profiler.asked] == ["sort"]
    assert outcome.kept == ("gzip", "sed")


def test_a_program_that_gives_nothing_keeps_nobody_from_being_measured(tmp_path: Path):
    outcome = run(tmp_path, Profiler(failing="sed"))
    assert outcome.failed == {"sed": "the copy ended with 1"}
    assert outcome.measured == ("gzip", "sort")
    assert load_known(tmp_path).machine.skipped == {"sed": "the copy ended with 1"}


def test_what_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    outcome = run(tmp_path, Profiler(), ["python-json", "sed"])
    assert outcome.skipped == {"sed": "needs dash, sed"}
    assert outcome.measured == ("python-json",)


def test_nothing_at_all_is_a_failure(tmp_path: Path):
    with pytest.raises(Unavailable, match="no program could be measured: sed: the copy ended"):
        run(tmp_path, Profiler(failing="sed"), ["sed"])


def test_rows_of_other_conditions_are_not_mixed(tmp_path: Path):
    run(tmp_path, Profiler(), ["sed"])
    with pytest.raises(Conflict, match=r"sed was measured under other conditions .*--anew"):
        campaign.run(chosen(NAMES), settings(tmp_path, 2.0), SERVER, Profiler())
    campaign.forget(tmp_path)
    campaign.run(chosen(NAMES), settings(tmp_path, 2.0), SERVER, Profiler())


def test_a_program_that_has_changed_is_measured_again(tmp_path: Path):
    run(tmp_path, Profiler(), ["sed"])
    path = tmp_path / "rows" / "sed.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "digest": "another"}))
    assert run(tmp_path, Profiler(), ["sed"]).measured == ("sed",)


def test_a_broken_row_is_named(tmp_path: Path):
    run(tmp_path, Profiler(), ["sed"])
    path = tmp_path / "rows" / "sed.json"
    path.write_text("{")
    with pytest.raises(InvalidInput, match=r"sed\.json: .*remove it"):
        run(tmp_path, Profiler(), ["sed"])


def test_time_left_follows_what_was_done(tmp_path: Path):
    steps: list[campaign.CampaignStep] = []
    campaign.run(chosen(NAMES), settings(tmp_path), SERVER, Profiler(), steps.append)
    assert [step.program for step in steps] == ["gzip", "sed", "sort"]
    assert steps[0].left_seconds == pytest.approx(3 * 15.0)
    assert steps[-1].left_seconds < 15.0
