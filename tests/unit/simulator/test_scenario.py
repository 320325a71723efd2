"""A run's world: what is stated comes out, and nothing depends on what it should not."""

import subprocess
import sys
from dataclasses import replace
from math import inf
from pathlib import Path

import numpy as np
import pytest

from tests.support.measured_tables import ISOLATED, PAIRS, write_tables
from wharfinger.errors import InvalidInput
from wharfinger.model.requirements import Requirement
from wharfinger.model.workload import LatencyBound, ProfileMode, Scale, WorkloadType
from wharfinger.simulator.scenario.arrivals import Arrivals, Bursts, Pattern, Recorded
from wharfinger.simulator.scenario.build import build, scale_to
from wharfinger.simulator.scenario.distributions import Distribution, Shape, constant
from wharfinger.simulator.scenario.loads import LoadModel, LoadShape
from wharfinger.simulator.scenario.population import class_counts
from wharfinger.simulator.scenario.scenario_files import load_scenario, measured_scenario
from wharfinger.simulator.scenario.scenario_types import (
    MeasuredTruth,
    PopulationClass,
    Scenario,
    ServerGroup,
)
from wharfinger.simulator.scenario.setup import EngineAbility, Faults
from wharfinger.simulator.scenario.swf import Larger, SwfTrace
from wharfinger.simulator.scenario.targets import (
    Reservations,
    Share,
    TargetKind,
    TargetOf,
    Targets,
    misjudged,
)
from wharfinger.simulator.truth.ground_truth import TrueResident

GIB = 1024**3
SMALL, BIG = ServerGroup("small", 6, 4000, 8 * GIB, 0.5), ServerGroup("big", 2, 16_000, 64 * GIB)
PLAIN = Scenario(
    "plain",
    servers=(SMALL, BIG),
    population=(PopulationClass("job", cpus_millicpus=(2000,), duration=constant(100.0)),),
    workloads=50,
)
SERVICE = PopulationClass(
    "shop",
    type=WorkloadType.LATENCY_CRITICAL,
    cpus_millicpus=(4000,),
    lifetime=constant(3600.0),
    load=LoadModel(base_per_second=600.0),
    per_cpu=200.0,
    latency=LatencyBound(99, 0.1),
)


def of_class(*classes: PopulationClass, **changes) -> Scenario:
    return replace(PLAIN, population=classes, **changes)


# --- servers --------------------------------------------------------------------------------


def test_servers_are_named_by_platform_and_spread_over_zones():
    setup = build(replace(PLAIN, servers=(SMALL, replace(BIG, zones=2))), 1)
    assert [server.name for server in setup.servers][4:] == ["small-5", "small-6", "big-1", "big-2"]
    assert [server.zone for server in setup.servers][5:] == ["", "zone-1", "zone-2"]
    assert setup.servers[-1].platform.cpu_millicpus == 16_000


def test_what_is_required_of_labels_is_stated_and_targets_can_be_kept_there():
    labelled = replace(BIG, platform="gpu", count=1, speed=0.25, labels={"gpu": "a100"})
    needs = (Requirement("gpu", ("a100",)),)
    scenario = of_class(
        PopulationClass("picky", duration=constant(100.0), requires=needs),
        PopulationClass("plain", duration=constant(100.0)),
        servers=(BIG, labelled),
        targets=Targets(TargetOf.BEST, Share(1.0, 1.0)),
    )
    setup = build(scenario, 1)
    assert [server.labels for server in setup.servers] == [{}, {}, {"gpu": "a100"}]
    of_best = {
        job.workload.name.partition("-")[0]: job.workload.target.rate_per_second / job.work * 100
        for job in setup.jobs
    }
    assert {job.workload.requires for job in setup.jobs} == {(), needs}
    assert of_best == {"picky": pytest.approx(0.25), "plain": pytest.approx(1.0)}
    with pytest.raises(InvalidInput, match=r"class picky: no server on which .* \(gpu=a100\)"):
        build(replace(scenario, servers=(BIG,)), 1)


def test_other_numbers_of_servers_and_workloads_keep_the_proportions():
    two = of_class(PopulationClass("a", share=3), PopulationClass("b"))
    setup = build(two, 1, servers=12, workloads=200)
    names = [job.name.partition("-")[0] for job in setup.jobs]
    assert (names.count("a"), names.count("b")) == (150, 50)
    platforms = [server.platform.name for server in setup.servers]
    assert (platforms.count("small"), platforms.count("big")) == (9, 3)


def test_platforms_that_get_no_server_are_not_there():
    setup = build(PLAIN, 1, servers=1)
    assert [server.name for server in setup.servers] == ["small-1"]
    assert setup.jobs[0].work == 50.0, "its best platform is the one that is there"


def test_platforms_whose_names_look_alike_have_servers_of_their_own():
    servers = (replace(SMALL, platform="a_b"), replace(SMALL, platform="a-b"))
    names = [server.name for server in build(replace(PLAIN, servers=servers), 1).servers]
    assert len(set(names)) == 12


@pytest.mark.parametrize(
    "arrivals",
    [
        Arrivals(load=0.5),
        Arrivals(every_seconds=10.0),
        Arrivals(Pattern.GAUSSIAN, every_seconds=10.0, spread_seconds=2.0),
        Arrivals(every_seconds=10.0, bursts=Bursts(200.0, 10)),
    ],
)
def test_a_scaled_run_has_a_share_of_everything_and_the_same_load(arrivals):
    whole = replace(PLAIN, workloads=2000, arrivals=arrivals)
    servers = tuple(replace(group, count=group.count * 10) for group in PLAIN.servers)
    whole = replace(whole, servers=servers)
    setup, scaled = build(whole, 1), build(whole, 1, scale=0.2)
    assert (len(scaled.servers), len(scaled.jobs)) == (16, 400)
    lasts = [each.jobs[-1].arrives_at for each in (setup, scaled)]
    assert lasts[1] == pytest.approx(lasts[0], rel=0.15), "a fifth as often, and a fifth of them"


def test_recorded_arrivals_are_thinned_evenly(tmp_path):
    (tmp_path / "times.csv").write_text("at\n" + "\n".join(map(str, range(0, 1000, 10))))
    recorded = Arrivals(recorded=Recorded(str(tmp_path / "times.csv"), "at"))
    setup = build(replace(PLAIN, workloads=40, arrivals=recorded), 1, scale=0.25)
    assert [job.arrives_at for job in setup.jobs] == [40.0 * at for at in range(10)]
    with pytest.raises(InvalidInput, match="recorded arrivals can't be made more"):
        build(replace(PLAIN, workloads=40, arrivals=recorded), 1, scale=2.0)


@pytest.mark.parametrize(("name", "value"), [("servers", 4), ("workloads", 9)])
def test_a_scale_leaves_no_other_number(name, value):
    with pytest.raises(InvalidInput, match=f"leave --{name} out"):
        build(PLAIN, 1, scale=0.5, **{name: value})


def test_no_class_is_left_out_of_a_scaled_run():
    scenario = load_scenario("quasar-webserver-flat")
    assert class_counts(scenario, lambda stated: stated) == [1, 300, 300]
    assert class_counts(scenario, lambda _: 30) == [1, 14, 15]
    assert class_counts(scenario, lambda _: 2) == [0, 1, 1]
    assert [job.is_service for job in build(scenario, 1, scale=0.05).jobs].count(True) == 1
    assert scale_to(scenario, 60) == 60 / 601
    assert scale_to(scenario, 1000) == 1.0


# --- the population -------------------------------------------------------------------------


def test_a_job_takes_its_duration_alone_on_the_best_platform():
    setup = build(PLAIN, 1)
    (work,) = {job.work for job in setup.jobs}
    best = setup.truth.most("big", "job")
    assert work / best == 100.0
    assert setup.truth.most("small", "job") == best / 2
    assert setup.truth.alone("big", TrueResident("job", 1000, 1)) == best / 2


def test_what_a_platform_cannot_give_is_not_its_best():
    setup = build(of_class(PopulationClass("job", cpus_millicpus=(8000,))), 1)
    assert setup.truth.most("small", "job") == 0.5 * 0.5


def test_programs_that_use_other_amounts_of_cpu_are_others():
    setup = build(of_class(PopulationClass("job", cpus_millicpus=(500, 2000))), 1)
    assert {(job.application, job.cpu_millicpus) for job in setup.jobs} == {
        ("job-500m", 500),
        ("job-2", 2000),
    }
    with pytest.raises(InvalidInput, match="application 'x' has other cpus"):
        build(
            of_class(
                PopulationClass("a", applications=("x",)),
                PopulationClass("b", applications=("x",), cpus_millicpus=(2000,)),
            ),
            1,
        )


def test_who_could_use_more_than_a_server_has_is_given_all_of_one():
    job = build(of_class(PopulationClass("job", cpus_millicpus=(64_000,))), 1).jobs[0]
    assert job.workload.reservation.cpu_millicpus == 16_000
    assert job.cpu_millicpus == 64_000


def test_memory_that_no_server_has_is_refused():
    with pytest.raises(InvalidInput, match="class job: 65Gi of memory, and the largest server has"):
        build(of_class(PopulationClass("job", memory_bytes=(GIB, 65 * GIB))), 1)


def test_best_effort_work_has_no_target_and_is_profiled_as_its_class_says():
    setup = build(of_class(PopulationClass("job", best_effort=0.3)), 1, workloads=400)
    given = [job for job in setup.jobs if job.best_effort]
    assert len(given) == pytest.approx(120, abs=30)
    assert all(job.workload.target is None for job in given)
    assert {job.workload.profile.mode for job in given} == {ProfileMode.COPY}


def test_a_service_has_its_load_its_lifetime_and_its_bound():
    job = build(of_class(SERVICE), 1).jobs[0]
    assert (job.work, job.lifetime_seconds, job.is_service) == (inf, 3600.0, True)
    target = job.workload.target
    assert target is not None
    assert (target.throughput_per_second, target.latency) == (600.0, LatencyBound(99, 0.1))
    changing = LoadModel(LoadShape.SPIKE, 100.0, 700.0)
    target = build(of_class(replace(SERVICE, load=changing)), 1).jobs[0].workload.target
    assert target is not None
    assert target.throughput_per_second is None


def test_a_service_answers_with_each_cpu_that_it_has():
    truth = build(of_class(SERVICE), 1).truth
    assert truth.most("big", "shop") == 800.0
    assert truth.alone("small", TrueResident("shop", 1000, 1, 50.0, 2)) == 100.0


def test_single_node_work_has_one_server_and_batch_its_scale():
    wide = PopulationClass("wide", scale=Scale(4))
    one = PopulationClass("one", type=WorkloadType.SINGLE_NODE)
    jobs = build(of_class(wide, one, max_servers=2), 1).jobs
    assert {(job.workload.type.value, job.workload.scale.max_servers) for job in jobs} == {
        ("batch", 4),
        ("single-node", 1),
    }


# --- targets --------------------------------------------------------------------------------


def test_a_rate_or_a_completion_time_of_the_best_platform():
    rate = build(replace(PLAIN, targets=Targets(share=Share(0.8, 0.8))), 1).jobs[0]
    assert rate.workload.target.rate_per_second == pytest.approx(0.8)
    time = Targets(share=Share(0.8, 0.8), kind=TargetKind.COMPLETION_TIME, room_seconds=20.0)
    job = build(replace(PLAIN, targets=time), 1).jobs[0]
    assert job.workload.target.completion_seconds == pytest.approx(145.0)
    none = build(replace(PLAIN, targets=Targets(TargetOf.NONE)), 1).jobs[0]
    assert none.workload.target is None


def test_the_platform_of_a_server_drawn_at_random():
    targets = Targets(TargetOf.RANDOM_PLATFORM, Share(1.0, 1.0))
    setup = build(replace(PLAIN, targets=targets), 1, workloads=800)
    rates = [job.workload.target.rate_per_second for job in setup.jobs]
    assert set(rates) == {0.5, 1.0}
    assert rates.count(0.5) == pytest.approx(600, abs=50), "six of eight servers are small"


def test_shares_are_drawn_between_their_ends():
    setup = build(replace(PLAIN, targets=Targets(share=Share(0.5, 0.9))), 1, workloads=500)
    rates = [job.workload.target.rate_per_second for job in setup.jobs]
    assert 0.5 <= min(rates) < 0.52
    assert 0.88 < max(rates) <= 0.9


# --- arrivals and load ----------------------------------------------------------------------


def test_arrivals_bring_the_stated_load():
    varied = PopulationClass(
        "job", cpus_millicpus=(1000, 4000), duration=Distribution(Shape.EXPONENTIAL, 300.0)
    )
    scenario = of_class(varied, arrivals=Arrivals(Pattern.REGULAR, load=0.6))
    setup = build(scenario, 1, workloads=500)
    gap = setup.jobs[1].arrives_at
    asked = sum(job.cpu_millicpus * job.work for job in setup.jobs) / 500 / gap
    assert asked / (2 * 16_000 + 6 * 4000 * 0.5) == pytest.approx(0.6)


def test_a_service_counts_with_what_it_needs_for_its_load():
    setup = build(of_class(SERVICE, arrivals=Arrivals(Pattern.REGULAR, load=0.5)), 1)
    asked = 3 * 3600 / setup.jobs[1].arrives_at
    assert asked / (2 * 16 + 6 * 4 * 0.5) == pytest.approx(0.5)


# --- reservations ---------------------------------------------------------------------------


def test_users_misjudge_as_figure_1d_says():
    cpu, memory = misjudged(Reservations(), np.random.default_rng(1).random((20_000, 3)))
    over, under = cpu > 1, cpu < 1
    assert over.mean() == pytest.approx(0.7, abs=0.02)
    assert under.mean() == pytest.approx(0.2, abs=0.02)
    assert cpu.max() <= 10
    assert cpu.min() >= 0.2
    assert np.median(cpu[over]) == pytest.approx(10**0.5, rel=0.05), "log-uniform"
    assert memory.min() == 1
    assert (memory[~over] == 1).all()
    assert np.corrcoef(np.log(cpu[over]), np.log(memory[over]))[0, 1] < 0.05


def test_what_is_stated_fits_the_largest_server_and_is_drawn_apart():
    jobs = build(PLAIN, 1, workloads=300).jobs
    assert max(job.stated.cpu_millicpus for job in jobs) == 16_000
    assert min(job.stated.cpu_millicpus for job in jobs) < 1000
    assert {job.workload.reservation.cpu_millicpus for job in jobs} == {2000}
    exact = build(replace(PLAIN, reservations=None), 1, workloads=300).jobs
    assert exact == tuple(replace(job, stated=None) for job in jobs)


def test_whole_cpus_are_whole():
    scenario = of_class(
        PopulationClass("job", cpus_millicpus=(500, 1500)),
        engine=EngineAbility(fractional_cpu=False),
    )
    setup = build(scenario, 1, workloads=200)
    for job in setup.jobs:
        assert job.stated.cpu_millicpus % 1000 == 0
        assert job.workload.reservation.cpu_millicpus % 1000 == 0
        assert job.workload.reservation.cpu_millicpus >= job.cpu_millicpus


# --- what is drawn hangs on nothing else ----------------------------------------------------


def test_the_same_seed_is_the_same_world_and_another_is_another():
    first, again, other = build(PLAIN, 1), build(PLAIN, 1), build(PLAIN, 2)
    assert (first.jobs, first.faults, first.training) == (again.jobs, again.faults, again.training)
    assert first.jobs != other.jobs


def test_one_change_leaves_other_draws_as_they_were():
    two = of_class(PopulationClass("a", best_effort=0.5), PopulationClass("b", best_effort=0.5))
    varied = Distribution(Shape.EXPONENTIAL, 50.0)
    changed = of_class(
        replace(two.population[0], duration=varied),
        two.population[1],
        faults=Faults(mtbf_seconds=1000.0),
    )
    kinds = [[job.best_effort for job in build(each, 1).jobs] for each in (two, changed)]
    assert kinds[0] == kinds[1]


@pytest.mark.slow
def test_nothing_hangs_on_the_hash_seed():
    code = (
        "import hashlib\n"
        "from wharfinger.simulator.scenario.build import build\n"
        "from wharfinger.simulator.scenario.scenario_files import load_scenario\n"
        "made = build(load_scenario('services'), 3)\n"
        "text = repr((made.servers, made.jobs, made.training, made.faults))\n"
        "print(hashlib.sha256(text.encode()).hexdigest())"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(runs) == 1


def test_training_is_a_share_of_the_applications():
    names = tuple("abcdefghi")
    setup = build(of_class(PopulationClass("job", applications=names)), 1)
    assert len(setup.training) == 3
    assert set(setup.training) < set(names)
    assert build(replace(PLAIN, training=0.0), 1).training == ()


def test_faults_go_on_while_workloads_may_be_there():
    setup = build(replace(PLAIN, faults=Faults(mtbf_seconds=50.0, repair_seconds=5.0)), 1)
    assert setup.faults.outages[-1].at_seconds > setup.jobs[-1].arrives_at
    ended = build(replace(PLAIN, faults=Faults(mtbf_seconds=50.0), until_seconds=60.0), 1)
    assert all(each.at_seconds < 60 for each in ended.faults.outages)


# --- measured tables ------------------------------------------------------------------------


def test_measured_tables_make_population_and_platforms(tmp_path: Path):
    setup = build(load_scenario(f"measured:{write_tables(tmp_path)}"), 1, workloads=100)
    assert [server.name for server in setup.servers] == [
        *(f"fast-{n}" for n in range(1, 5)),
        *(f"slow-{n}" for n in range(1, 5)),
    ]
    assert {server.cpu_millicpus for server in setup.servers} == {2000}
    assert {job.application for job in setup.jobs} == {"a", "b", "c"}
    assert not setup.engine.fractional_cpu
    for job in setup.jobs:
        best = max(setup.truth.most(name, job.application) for name in ("fast", "slow"))
        assert 120 <= job.work / best <= 14_400.000001
        assert 0 < job.workload.target.rate_per_second <= 0.9 * best


def test_what_fits_nowhere_in_the_cluster_does_not_come(tmp_path: Path):
    scenario = measured_scenario(str(write_tables(tmp_path)))
    slow = replace(scenario, servers=(ServerGroup("slow"),))
    assert {job.application for job in build(slow, 1).jobs} == {"a", "b"}
    wanted = replace(slow, population=(PopulationClass("job", applications=("c",)),))
    with pytest.raises(InvalidInput, match="application 'c' runs on none of the platforms slow"):
        build(wanted, 1)


def test_names_that_the_tables_do_not_have(tmp_path: Path):
    scenario = measured_scenario(str(write_tables(tmp_path)))
    with pytest.raises(InvalidInput, match="platform 'mid' is not in the tables"):
        build(replace(scenario, servers=(ServerGroup("mid"),)), 1)
    with pytest.raises(InvalidInput, match="application 'x' is not in the tables"):
        build(replace(scenario, population=(PopulationClass("j", applications=("x",)),)), 1)


def test_what_was_estimated_is_said(tmp_path: Path):
    folder = write_tables(tmp_path, pairs=PAIRS.replace("fast,a,b,8\n", ""))
    setup = build(measured_scenario(str(folder)), 1)
    assert setup.notes == ("1 of 18 pairs were not measured and are estimated",)
    folder = write_tables(tmp_path, isolated=ISOLATED + "d,fast,3\n")
    assert "1 runs alone were not measured" in build(measured_scenario(str(folder)), 1).notes[1]


def test_tables_are_needed_only_where_they_are_named(tmp_path: Path):
    missing = replace(PLAIN, servers=(), truth=MeasuredTruth(str(tmp_path / "none")))
    with pytest.raises(InvalidInput, match="is not there; name one that holds"):
        build(missing, 1)
    with pytest.raises(InvalidInput, match=r"no servers; list them under spec\.servers"):
        build(replace(PLAIN, servers=()), 1)


# --- traces ---------------------------------------------------------------------------------

TRACE = """apiVersion: wharfinger.dev/v1alpha1
kind: Scenario
metadata: {name: mine}
spec:
  trace:
    csv:
      jobs: jobs.csv
      columns: {name: n, arrival: t, duration: d, cpu: c, memory: m, type: q}
      nodes: nodes.csv
      nodeColumns: {cpu: c, memory: m, platform: [kind]}
      units: {memory: 1Gi}
      types: {low: best-effort}
  targets: {kind: completionTime, share: 50%}
  reservations: exact
"""


def csv_trace(folder: Path) -> Scenario:
    (folder / "scenario.yaml").write_text(TRACE)
    (folder / "jobs.csv").write_text(
        "n,t,d,c,m,q\nA/1,0,60,2,1,high\nA/1,5,30,0.5,1,low\nbig,6,30,40,1,high\n"
        "fat,7,30,1,999,high\n"
    )
    (folder / "nodes.csv").write_text("kind,c,m\nx,8,32\nx,8,32\nx,16,32\n,4,8\n")
    return load_scenario(f"trace:{folder}")


def test_a_trace_runs_as_long_as_it_ran(tmp_path: Path):
    setup = build(csv_trace(tmp_path), 1)
    assert [(job.name, job.arrives_at, job.work) for job in setup.jobs] == [
        ("a-1", 0.0, 60.0),
        ("a-1-2", 5.0, 30.0),
    ]
    first, second = setup.jobs
    assert (first.application, first.workload.target.completion_seconds) == ("batch-2", 120.0)
    assert (second.best_effort, second.workload.target) == (True, None)
    assert setup.truth.alone("x-8cpu-32Gi", TrueResident("batch-2", 1000, 1)) == 0.5
    assert setup.notes == (
        (
            "rows of the trace that were left out: 1 larger than every server, "
            "1 that need more memory than every server has"
        ),
    )


def test_servers_of_a_trace_are_grouped_by_what_they_are(tmp_path: Path):
    names = [server.name for server in build(csv_trace(tmp_path), 1).servers]
    assert names == ["x-8cpu-32gi-1", "x-8cpu-32gi-2", "x-16cpu-32gi-1", "4cpu-8gi-1"]


def test_a_trace_may_be_sampled_but_not_multiplied(tmp_path: Path):
    scenario = csv_trace(tmp_path)
    half = replace(scenario.trace, window=replace(scenario.trace.window, sample=0.5))
    setup = build(replace(scenario, trace=half), 1)
    assert (len(setup.servers), len(setup.jobs)) == (2, 1)
    assert len(build(scenario, 1, servers=8, workloads=1).servers) == 8
    with pytest.raises(InvalidInput, match="3 workloads of a trace that has 2; ask for fewer"):
        build(scenario, 1, workloads=3)


def test_wide_jobs_of_the_standard_format_start_on_several_servers_at_once(tmp_path: Path):
    fields = ["1", "0", "-1", "100", "20", *["-1"] * 5, "1", *["-1"] * 7]
    (tmp_path / "a.swf").write_text("; MaxNodes: 4\n; MaxProcs: 32\n" + " ".join(fields) + "\n")
    scenario = load_scenario(f"trace:{tmp_path / 'a.swf'}")
    setup = build(scenario, 1)
    (job,) = setup.jobs
    assert job.workload.scale == Scale(3)
    assert job.cpu_millicpus == -(-20_000 // 3)
    part = TrueResident(job.application, job.cpu_millicpus, 1, servers=3)
    assert 3 * setup.truth.alone("node", part) == pytest.approx(1.0, rel=1e-3)
    assert setup.truth.most("node", job.application) == 1.0
    assert job.workload.target.completion_seconds == pytest.approx(100 / 0.9)
    skip = SwfTrace(str(tmp_path / "a.swf"), larger=Larger.SKIP)
    with pytest.raises(InvalidInput, match="no job is left"):
        build(replace(scenario, trace=skip), 1)
    wide = (ServerGroup("wide", 1, 64_000, 64 * GIB),)
    (job,) = build(replace(scenario, servers=wide), 1).jobs
    assert job.workload.scale == Scale()


def test_a_trace_is_scaled_by_its_own_jobs() -> None:
    scenario = load_scenario("slurm-site")
    assert scale_to(scenario, 60) == pytest.approx(60 / len(build(scenario, 1).jobs))
    assert scale_to(scenario, 10_000) == 1.0
