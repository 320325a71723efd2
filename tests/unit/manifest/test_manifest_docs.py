"""The reference is what the table says, and what the docs and examples show can be loaded."""

import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml

from wharfinger.errors import InvalidManifest
from wharfinger.manifest import json_schema, load_manifests, load_manifests_with_warnings
from wharfinger.model.workload import WorkloadType

ROOT = Path(__file__).resolve().parents[3]
REFERENCE = ROOT / "docs" / "manifest.md"
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))


def test_the_references_are_up_to_date():
    """That of scenarios too."""
    script = ROOT / "scripts" / "generate-manifest-docs"
    checked = subprocess.run(
        [sys.executable, script, "--check"], capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stderr) == (0, "")


HEAD = "apiVersion: wharfinger.dev/v1alpha1\nkind: Workload\nmetadata: {name: job}\n"
BLOCKS = re.findall(r"```yaml\n(.*?)```", REFERENCE.read_text(), re.DOTALL)


def test_the_worked_example_loads():
    (job,) = load_manifests(BLOCKS[0], working_directory="/")
    assert job.target.completion_seconds == 600
    assert job.schedule.cron == "0 2 * * *"


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_what_the_reference_shows_loads_without_a_warning(block):
    text = block if block.startswith("apiVersion") else HEAD + block
    workloads, warnings = load_manifests_with_warnings(text, working_directory="/")
    assert workloads
    assert warnings == {}


def test_the_messages_in_the_reference_are_the_real_ones():
    (block,) = re.findall(r"```text\n(.*?)```", REFERENCE.read_text(), re.DOTALL)
    text = (
        "apiVersion: wharfinger.dev/v1alpha1\nkind: Workload\nmetadata: {name: cache}\n"
        "spec:\n  type: latency-critical\n  target: {latency: {percentile: 99, below: 2 parsecs}}\n"
        "  priority: 1\n  scale: {max_servers: 2}\n"
        "  run: {command: [sh], ready: {port: 80, line: up}}\n"
    )
    with pytest.raises(InvalidManifest) as refused:
        load_manifests(text, source="cache.yaml", working_directory="/")
    assert list(refused.value.problems) == block.splitlines()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_loads_and_fits_the_schema(path):
    workloads, warnings = load_manifests_with_warnings(
        path.read_bytes(), source=path.name, working_directory="/"
    )
    assert workloads
    assert warnings == {}
    for document in yaml.safe_load_all(path.read_text()):
        jsonschema.validate(document, json_schema(), jsonschema.Draft202012Validator)


def test_the_examples_show_every_type():
    workloads = [
        workload
        for path in EXAMPLES
        for workload in load_manifests(path.read_bytes(), working_directory="/")
    ]
    assert {workload.type for workload in workloads} == set(WorkloadType)
    names = [workload.name for workload in workloads]
    assert len(names) == len(set(names))
