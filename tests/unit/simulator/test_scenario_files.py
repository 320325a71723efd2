"""Scenarios by name and file: read as strictly as manifests, and said what is wrong."""

from pathlib import Path

import pytest

from tests.support.measured_tables import write_tables
from wharfinger.errors import InvalidInput, InvalidManifest
from wharfinger.model.requirements import Requirement
from wharfinger.model.workload import Adapt, LatencyBound, WorkloadType
from wharfinger.simulator.scenario.arrivals import Arrivals, Bursts, Pattern
from wharfinger.simulator.scenario.distributions import Distribution, Shape
from wharfinger.simulator.scenario.scenario_files import load_scenario, read_scenario, shipped
from wharfinger.simulator.scenario.scenario_types import MeasuredTruth, ServerGroup
from wharfinger.simulator.scenario.setup import Faults, Outage
from wharfinger.simulator.scenario.swf import SwfTrace
from wharfinger.simulator.scenario.targets import Reservations, Share, TargetKind, TargetOf
from wharfinger.simulator.truth.measured import Rule

HEAD = "apiVersion: wharfinger.dev/v1alpha1\nkind: Scenario\nmetadata: {name: shop}\nspec:\n"
SERVERS = "  servers: [{platform: big, count: 3, cpus: 8, memory: 16Gi, speed: 1.5, zones: 2}]\n"
JOB = "  population: [{name: job}]\n"
SERVICE = """  population:
    - name: a
      type: latency-critical
      load: {shape: flat, base: 1/s}
      target: {throughput: 1/s}
"""


def read(spec: str, directory: Path = Path("/srv")):
    return read_scenario(HEAD + spec, source="shop.yaml", directory=directory)


def problems(spec: str) -> list[str]:
    with pytest.raises(InvalidManifest) as refused:
        read(spec)
    return list(refused.value.problems)


def test_a_whole_scenario_is_read():
    scenario = read(
        SERVERS
        + """
  truth: undisturbed
  population:
    - name: report
      share: 3
      type: single-node
      applications: [pdf, csv]
      cpus: [1, 500m]
      memory: 1Gi
      duration: {shape: lognormal, mean: 25m, sigma: 0.8, from: 2m, to: 4h}
      targets: {of: none}
      bestEffort: 10%
    - name: shop
      type: latency-critical
      lifetime: 2h
      ratePerCpu: 200/s
      load: {shape: spike, base: 100/s, peak: 900/s, at: 10m, for: 1m}
      target: {latency: {percentile: 99, below: 50ms}}
      scale: {maxServers: 4}
      profile: {mode: none}
      adapt: off
  workloads: 40
  arrivals: {pattern: poisson, load: 0.6, bursts: {every: 1h, size: 5, within: 1m}}
  targets: {of: random-platform, share: {from: 80%, to: 90%}, kind: completionTime, room: 10s}
  reservations: {tooMuch: {share: 50%, upTo: 4}, tooLittle: {share: 0%}}
  training: 50%
  costs: {start: 2s, keepsWork: true}
  measuring: {every: 20s, noise: 5%}
  faults: {mtbf: 7d, outages: [{server: big-1, at: 1h, for: 10m}]}
  until: 1d
  engine: {fractionalCpu: false}
"""
    )
    assert scenario.name == "shop"
    assert scenario.servers == (ServerGroup("big", 3, 8000, 16 * 1024**3, 1.5, 2),)
    assert scenario.measured is None
    report, shop = scenario.population
    assert report.duration == Distribution(Shape.LOGNORMAL, 1500.0, 0.8, 120.0, 14_400.0)
    assert (report.cpus_millicpus, report.applications) == ((1000, 500), ("pdf", "csv"))
    assert report.type is WorkloadType.SINGLE_NODE
    assert report.targets is not None
    assert report.targets.of is TargetOf.NONE
    assert (report.adapt, shop.adapt) == (Adapt.AUTO, Adapt.OFF)
    assert shop.lifetime == Distribution(Shape.CONSTANT, 7200.0)
    assert (shop.latency, shop.per_cpu, shop.scale.max_servers) == (LatencyBound(99, 0.05), 200, 4)
    assert scenario.arrivals == Arrivals(load=0.6, bursts=Bursts(3600.0, 5, 60.0))
    assert (scenario.targets.share, scenario.targets.kind) == (
        Share(0.8, 0.9),
        TargetKind.COMPLETION_TIME,
    )
    assert scenario.reservations == Reservations(0.5, 4.0, 0.0)
    assert (scenario.training, scenario.until_seconds) == (0.5, 86_400.0)
    assert scenario.faults == Faults((Outage("big-1", 3600.0, 600.0),), mtbf_seconds=7 * 86_400.0)
    assert not scenario.engine.fractional_cpu


def test_labels_of_servers_and_what_is_required_of_them():
    servers = "  servers: [{platform: big, labels: {gpu: a100, site/disk: ssd}}, {platform: old}]\n"
    scenario = read(servers + "  population: [{name: job, requires: {gpu: [h100, a100]}}]\n")
    assert [group.labels for group in scenario.servers] == [{"gpu": "a100", "site/disk": "ssd"}, {}]
    (job,) = scenario.population
    assert job.requires == (Requirement("gpu", ("a100", "h100")),)
    for labels in ('{gpu: "!a100"}', "{gpu: [a100]}", "{a b: x}", "gpu"):
        (line,) = problems(f"  servers: [{{platform: big, labels: {labels}}}]\n" + JOB)
        assert line.startswith("shop.yaml:5: spec.servers[0].labels")


def test_the_least_scenario():
    scenario = read(SERVERS + JOB)
    assert scenario.arrivals == Arrivals(Pattern.POISSON, load=0.7)
    assert scenario.reservations == Reservations()
    assert read(SERVERS + JOB + "  reservations: exact\n").reservations is None


def test_paths_start_where_the_scenario_lies():
    scenario = read(JOB + "  truth: {measured: tables, rule: worst}\n")
    assert scenario.measured == MeasuredTruth("/srv/tables", "worst")
    trace = read("  trace: {swf: {file: log.swf}}\n").trace
    assert trace == SwfTrace("/srv/log.swf")


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (
            JOB + "  severs: []\n",
            "shop.yaml:6: spec: unknown field 'severs'; did you mean servers?",
        ),
        (
            "  population:\n    - name: a\n      cpu: 2\n",
            "shop.yaml:7: spec.population[0]: unknown field 'cpu'; did you mean cpus?",
        ),
        (JOB + JOB, "shop.yaml:6: key 'population' stands twice, here and in line 5; remove one"),
        (
            JOB + "  servers: {platform: a}\n",
            (
                "shop.yaml:6: spec.servers: is a mapping, not a list; write - and a mapping of "
                "platform, count, cpus, memory, speed, zones"
            ),
        ),
        (
            "  population:\n    - name: a\n      duration: 5 parsecs\n",
            (
                "shop.yaml:7: spec.population[0].duration: '5 parsecs' is not a duration; "
                "write e.g. 2ms, 1.5s or 1h30m"
            ),
        ),
        (
            "  population:\n    - name: a\n      duration: {shape: lognormal}\n",
            (
                "shop.yaml:7: spec.population[0].duration: lognormal needs its mean; "
                "write e.g. mean: 25m"
            ),
        ),
        (
            "  population:\n    - name: a\n      load: {shape: flat, base: 5/s}\n",
            (
                "shop.yaml:6: spec.population[0]: class a: latency-critical work has a load, "
                "no other has"
            ),
        ),
        (
            JOB + "  truth: {}\n",
            "shop.yaml:6: spec.truth.measured: is missing; write e.g. measured",
        ),
        (
            JOB + "  truth: undisturbd\n",
            "shop.yaml:6: spec.truth: 'undisturbd' is not one of undisturbed, physics; did you",
        ),
        (
            JOB + "  arrivals: {pattern: poisson}\n",
            "shop.yaml:6: spec.arrivals: write either every, e.g. 10s, or load, e.g. 0.7",
        ),
        ("  until: 1h\n", "shop.yaml:4: spec: write either a population or a trace"),
        (
            "  trace: {swf: {file: a}}\n  workloads: 3\n",
            "shop.yaml:6: spec.workloads: a trace has its own; remove it, or the trace",
        ),
        (
            "  trace: {swf: {file: a}, csv: {jobs: a, columns: {arrival: a, cpu: b, end: c}}}\n",
            "shop.yaml:5: spec.trace.swf: a trace is either csv or swf; remove one",
        ),
        (
            "  population: [{name: a, count: 3}]\n  workloads: 3\n",
            "shop.yaml:6: spec.workloads: the classes have counts; remove it, or write shares",
        ),
        (
            "  population: [{name: a, count: 3}, {name: b}]\n",
            "shop.yaml:4: spec: class a has a count and others not; give all one",
        ),
        (
            "  population: [{name: a}, {name: a}]\n",
            "shop.yaml:4: spec: class 'a' stands twice; put the two together",
        ),
        (
            SERVICE,
            "shop.yaml:4: spec: class a never ends; write its lifetime, or until",
        ),
    ],
)
def test_what_is_wrong_is_said_with_line_field_and_mend(spec: str, problem: str):
    (found,) = problems(spec)
    assert found.startswith(problem)


def test_all_problems_are_told_at_once():
    assert len(problems("  population: [{name: A}]\n  until: 5\n  training: 200%\n")) == 3


def test_no_document_and_two():
    for text in ("", HEAD + JOB + "---\n" + HEAD + JOB):
        with pytest.raises(InvalidManifest, match="documents; a scenario is one"):
            read_scenario(text, source="x", directory=Path("/"))


def test_a_workload_is_no_scenario():
    with pytest.raises(InvalidManifest, match="'Workload' is not known; write Scenario"):
        read_scenario(
            HEAD.replace("kind: Scenario", "kind: Workload") + JOB, source="x", directory=Path("/")
        )


# --- by name --------------------------------------------------------------------------------


def test_shipped_ones_are_listed_with_what_they_are():
    assert {"synthetic", "services", "openb"} <= shipped().keys()
    assert all(0 < len(described) < 100 for described in shipped().values())


@pytest.mark.parametrize("name", sorted(shipped()))
def test_a_shipped_one_is_read(name: str):
    scenario = load_scenario(name)
    assert scenario.name == name
    assert scenario.description == shipped()[name]


def test_a_file_is_read(tmp_path: Path):
    path = tmp_path / "shop.yaml"
    path.write_text(HEAD + JOB + "  truth: {measured: tables}\n")
    assert load_scenario(str(path)).measured == MeasuredTruth(str(tmp_path / "tables"))


def test_measured_tables_by_their_directory(tmp_path: Path):
    scenario = load_scenario(f"measured:{write_tables(tmp_path / 'My Tables')}")
    assert scenario.name == "measured-my-tables"
    assert scenario.targets.of is TargetOf.RANDOM_PLATFORM


def test_tables_with_a_scenario_of_their_own(tmp_path):
    write_tables(tmp_path)
    (tmp_path / "scenario.yaml").write_text(HEAD + JOB + "  workloads: 7\n")
    scenario = load_scenario(f"measured:{tmp_path}")
    assert (scenario.measured.directory, scenario.workloads) == (str(tmp_path), 7)
    (tmp_path / "scenario.yaml").write_text(HEAD + JOB + "  truth: {measured: ., rule: worst}\n")
    assert load_scenario(f"measured:{tmp_path}").measured.rule is Rule.WORST


def test_tables_whose_scenario_is_about_something_else(tmp_path):
    write_tables(tmp_path)
    physics = "  population: [{name: job, pool: mixes}]\n  truth: physics\n"
    (tmp_path / "scenario.yaml").write_text(HEAD + physics)
    with pytest.raises(InvalidInput, match="its truth is not these tables"):
        load_scenario(f"measured:{tmp_path}")


def test_a_trace_by_its_directory_has_its_own_mapping_or_the_shipped_one(tmp_path: Path):
    assert load_scenario(f"trace:{tmp_path}").trace.directory == str(tmp_path)
    (tmp_path / "scenario.yaml").write_text(
        HEAD + "  trace: {csv: {jobs: mine.csv, columns: {arrival: a, cpu: c, end: e}}}\n"
    )
    scenario = load_scenario(f"trace:{tmp_path}")
    assert (scenario.name, scenario.trace.jobs) == ("shop", "mine.csv")
    (tmp_path / "scenario.yaml").write_text(HEAD + SERVERS + JOB)
    with pytest.raises(InvalidInput, match=r"no trace in CSV; write spec\.trace\.csv"):
        load_scenario(f"trace:{tmp_path}")


def test_a_file_behind_trace_is_in_the_standard_format(tmp_path: Path):
    path = tmp_path / "KTH-SP2.1.swf"
    path.write_text("")
    scenario = load_scenario(f"trace:{path}")
    assert (scenario.name, scenario.trace) == ("kth-sp2", SwfTrace(str(path)))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("sinthetic", "no scenario 'sinthetic': did you mean synthetic?"),
        ("zzz", "write a file, measured:DIR, trace:DIR, or one that `simulate --list` shows"),
        ("a/b.yaml", "there is no such file; check the path"),
        ("trace:/nowhere", "/nowhere: does not exist; name a directory, or an SWF file"),
    ],
)
def test_what_is_no_scenario(name: str, says: str):
    with pytest.raises(InvalidInput) as refused:
        load_scenario(name)
    assert says in str(refused.value)
