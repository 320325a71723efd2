"""Services that are on their servers from the start, and the work that is packed beside them."""

from itertools import pairwise

import pytest

from wharfinger.errors import InvalidInput
from wharfinger.simulator.run import RunSpec, run
from wharfinger.simulator.scenario.build import build
from wharfinger.simulator.scenario.scenario_files import load_scenario


def test_each_server_has_its_service_at_any_size():
    setup = build(load_scenario("pythia-cluster"), 1, servers=7, workloads=10)
    stay = [job for job in setup.jobs if job.stays]
    assert [job.arrives_at for job in stay] == [0.0] * 7
    assert [job.workload.requires[0].values[0] for job in stay] == [s.name for s in setup.servers]
    assert len(setup.jobs) == 17
    assert all(one.arrives_at <= other.arrives_at for one, other in pairwise(setup.jobs))


@pytest.mark.long
def test_services_are_kept_by_the_model_and_not_by_chance():
    of = {
        policy: run(RunSpec("pythia-cluster", policy, seed=1, scale=0.1)).summary
        for policy in ("true-contention+pythia", "pythia", "least-loaded")
    }
    used = {policy: each["utilization_used_servers_mean"] for policy, each in of.items()}
    assert used["true-contention+pythia"] >= used["pythia"] > used["least-loaded"]
    assert of["true-contention+pythia"]["services_violated_fraction"] == 0
    assert of["pythia"]["placed_fraction"] > 0.9


def test_what_stays_on_each_server_has_no_count(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(
        "apiVersion: wharfinger.dev/v1alpha1\nkind: Scenario\nmetadata: {name: s}\nspec:\n"
        "  servers: [{platform: a, count: 2}]\n"
        "  population: [{name: one, perServer: 1, count: 3}]\n"
    )
    with pytest.raises(InvalidInput, match="what is perServer has no count"):
        load_scenario(str(path))
