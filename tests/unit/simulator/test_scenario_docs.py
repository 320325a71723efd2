"""What the page, the examples and the shipped scenarios show can be read and built."""

import re
from pathlib import Path

import pytest

from wharfinger.errors import InvalidManifest
from wharfinger.simulator.scenario.build import build
from wharfinger.simulator.scenario.scenario_files import (
    SHIPPED,
    load_scenario,
    read_scenario,
    shipped,
)

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "scenarios.md"
EXAMPLES = sorted((ROOT / "examples" / "scenarios").rglob("*.yaml"))
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.split("name: ")[1][:9])
def test_what_the_page_shows_is_read(block: str):
    scenario = read_scenario(block, source="page", directory=ROOT)
    if scenario.measured is None and scenario.trace is None:
        setup = build(scenario, 1)
        assert len(setup.jobs) >= 100


def test_the_first_one_is_as_the_page_tells():
    setup = build(read_scenario(BLOCKS[0], source="page", directory=ROOT), 1)
    assert (setup.servers[0].name, setup.servers[-1].name) == ("old-1", "new-4")
    assert {setup.jobs[0].name, setup.jobs[-1].name} == {"report-001", "report-300"}


def test_the_messages_on_the_page_are_the_real_ones():
    (block,) = re.findall(r"```text\n(.*?)```", PAGE.read_text(), re.DOTALL)
    text = (
        "apiVersion: wharfinger.dev/v1alpha1\nkind: Scenario\nmetadata: {name: first}\nspec:\n"
        "  severs: []\n  population:\n    - {name: report, duration: {shape: lognormal}}\n"
        "  arrivals: {pattern: poisson}\n"
    )
    with pytest.raises(InvalidManifest) as refused:
        read_scenario(text, source="first.yaml", directory=ROOT)
    assert list(refused.value.problems) == block.splitlines()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_builds(path: Path):
    scenario = load_scenario(str(path))
    assert scenario.description
    setup = build(scenario, 1)
    assert setup.jobs
    assert setup.servers


def test_the_example_of_a_trace_is_also_found_by_its_directory():
    setup = build(load_scenario(f"trace:{ROOT / 'examples' / 'scenarios' / 'small-trace'}"), 1)
    assert [job.name for job in setup.jobs][:3] == ["align", "align-2", "call"]
    assert len(setup.servers) == 3
    assert setup.notes == (
        (
            "rows of the trace that were left out: 1 outside of the window, "
            "1 without a start or an end"
        ),
    )


@pytest.mark.parametrize("name", sorted(shipped()))
def test_a_shipped_one_builds(name: str):
    scenario = load_scenario(name)
    if scenario.trace is not None:
        return
    setup = build(scenario, 1, servers=20, workloads=60)
    came = [job for job in setup.jobs if not job.stays]
    assert (len(setup.servers), len(came)) == (20, 60)


def test_shipped_ones_are_installed_with_the_package():
    folder = ROOT / "src/wharfinger/simulator/scenario/scenarios"
    names = {path.stem for path in folder.glob("*.yaml")}
    assert {path.stem for path in SHIPPED.glob("*.yaml")} == names
