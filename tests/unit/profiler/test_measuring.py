"""What flags and files say of measuring becomes a manifest, whose rules hold."""

from pathlib import Path

import pytest

from wharfinger.errors import InvalidInput, InvalidManifest
from wharfinger.model.performance import Quantity
from wharfinger.profiler.measuring import quantities_of, read_measure, workload_of

COMMAND = ["./program"]


def test_a_service_counts_by_what_is_told_of_it():
    load = {"command": ["./load"], "regex": "p99=(?P<latency_ms>.*)"}
    workload = workload_of(COMMAND, {"load": load}, {}, "flags")
    assert quantities_of(workload) == (Quantity.LATENCY,)
    http = {"url": "http://127.0.0.1/", "metric": "seconds", "kind": "histogram"}
    workload = workload_of(COMMAND, {"http": http}, {}, "flags")
    assert set(quantities_of(workload)) == {Quantity.THROUGHPUT, Quantity.LATENCY}


def test_a_program_counts_by_its_rate():
    workload = workload_of(COMMAND, {"progress": {"regex": "(.*)%"}}, {}, "flags")
    assert quantities_of(workload) == (Quantity.RATE,)


def test_the_section_alone_and_a_whole_manifest_are_read(tmp_path: Path):
    path = tmp_path / "measure.yaml"
    path.write_text("progress: {regex: '(.*)%'}")
    assert read_measure(path) == ({"progress": {"regex": "(.*)%"}}, {})
    path.write_text(
        "kind: Workload\nspec: {type: batch, target: {rate: 5/s}, measure: {command: [./rate]}}"
    )
    beside = {"type": "batch", "target": {"rate": "5/s"}}
    assert read_measure(path) == ({"command": ["./rate"]}, beside)
    path.write_text("spec: {run: {command: [a], ready: {port: 7001}}, measure: {command: [b]}}")
    workload = workload_of(COMMAND, *read_measure(path), str(path))
    assert workload.run.command == ("./program",)
    assert workload.run.ready is not None


@pytest.mark.parametrize("text", ["[1]", "spec: {}", "a: b: c"])
def test_a_file_that_says_nothing_of_measuring_is_refused(tmp_path: Path, text: str):
    path = tmp_path / "measure.yaml"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=r"measure\.yaml: "):
        read_measure(path)


def test_a_mistake_is_told_as_the_manifest_tells_it():
    with pytest.raises(InvalidManifest, match="unknown field 'progres'"):
        workload_of(COMMAND, {"progres": {}}, {}, "flags")
