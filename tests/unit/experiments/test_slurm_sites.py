"""What a site's engine costs: all policies on all engines, and sentences about the aims."""

from wharfinger.experiments.comparison import KeptRun, _bounded, summarise
from wharfinger.experiments.registry import find_experiment
from wharfinger.experiments.slurm_sites import ABLE, ENGINES, KEPT, POLICIES, SITE, _account
from wharfinger.simulator.pieces import informed


def run(kept: float, seed: int = 0) -> KeptRun:
    return KeptRun("made", "fifo", seed, {KEPT: kept, "performance_mean": kept})


def compared(**kept: float):
    """Kept by each policy on every engine; ``site_NAME``: on a site's."""

    def of(policy: str, engine: tuple[str, ...]) -> float:
        return kept.get(f"site_{policy}", kept[policy]) if engine == SITE else kept[policy]

    runs = [(informed(p, *e), [run(of(p, e))]) for e in ENGINES for p in POLICIES]
    return summarise(runs)


def test_it_runs_every_policy_on_every_engine() -> None:
    experiment = find_experiment("slurm-sites")
    assert len(experiment.policies) == len(set(experiment.policies)) == 16
    assert informed("quasar", *ABLE) in experiment.policies
    assert experiment.scenarios == ("quasar-batch", "paragon-local-medium", "slurm-site")


def test_it_says_whether_the_aims_are_met() -> None:
    made = {"oracle": 1.0, "quasar": 0.8, "backfill": 0.4, "reservation": 0.3}
    *_, met = _account("made", compared(**made))
    assert met.startswith("made on whole-cpus and no-resize: quasar keeps 0.800; 1.00 of what")
    assert met.endswith("; as much as is wanted.")
    *_, missed = _account("made", compared(**made, site_quasar=0.6))
    assert missed.endswith("; less than 0.9 of it and less than 0.5 of that gain.")


def test_an_oracle_takes_only_schedules_on_its_own_engine() -> None:
    runs = [
        ("whole-cpus+oracle", [run(0.5)]),
        ("whole-cpus+quasar", [run(0.6)]),
        ("quasar", [run(0.9)]),
        ("oracle", [run(0.8)]),
        ("stated+quasar", [run(0.7)]),
    ]
    bounded = dict(_bounded(runs))
    assert bounded["whole-cpus+oracle"][0].taken_from == "whole-cpus+quasar"
    assert bounded["oracle"][0].taken_from == "quasar"
