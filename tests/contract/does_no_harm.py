"""A policy that claims it does no worse than least-loaded and random, where scenarios are small.

Kept targets and mean performance over target, 0 for what never ran, are at most a point below the
better one's, on every shipped scenario of physics in every regime. Draws are identical, and
differences are taken workload by workload. A test fails where harm of more than a point is likelier
than 95%, so a pass of one case says little; one test joins all cases of a policy, where chance is
small.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tests.support.harm import BASELINES, ORACLE, SURE, Case, Fates, drawn_tables, fates, shortfall
from wharfinger.simulator.scenario.scenario_files import shipped

KEYS = ("kept", "performance")
NEEDS_FILES = {"openb"}
"""Scenarios of traces that are not shipped."""
NO_REGIMES = {"openb", "services", "slurm-site", "synthetic"}
SIZES = {"paragon-gce": 500, "quasar-ec2": 50}
"""How many workloads: of the first all, for on a fifth of its servers five hold a workload of 8
CPUs, and which of them finds one free at once is chance; the second takes minutes for each."""
ONE_SEED = {"quasar-ec2"}
"""Scenarios that go on for hours."""
ON_ALL = {"quasar-stateful"}
"""Scenarios of which few workloads have all servers: its services run on few of the platforms."""
IBENCHS = {"ibench-mix", "ibench-hadoop", "ibench-memcached"}
"""Of ``ibench``, which claims less, also ``test_ibench_on_its_scenarios``."""
CASES = [
    Case(
        name,
        "" if name in NO_REGIMES else "moderate",
        SIZES.get(name, 100),
        (1,) if name in ONE_SEED else (1, 2),
        few_on_all=name in ON_ALL,
    )
    for name in shipped()
    if name not in NEEDS_FILES
] + [Case("paragon-local-low", regime) for regime in ("contended", "overcommitted")]
OF_SERVICES = {
    "quasar-stateful", "quasar-webserver-flat", "quasar-webserver-fluctuating",
    "quasar-webserver-spike",
}  # fmt: skip
"""Scenarios of services and best-effort work, neither of which waits for quality."""
MORE_SEEDS = {
    "paragon-local-oversubscribed": (1, 2, 3, 4),
    **dict.fromkeys(OF_SERVICES | {"ibench-memcached"}, (1, 2)),
}
"""Where waiting decides, or few services: with fewer chance was taken for harm (decision 0053)."""
SMALLER = {"quasar-ec2": 25}
"""Fewer workloads there with more contention."""
OTHER_REGIMES = [
    replace(
        case,
        regime=regime,
        workloads=SMALLER.get(case.scenario, case.workloads),
        seeds=MORE_SEEDS.get(case.scenario, (seed,)),
    )
    for case in CASES
    for seed, regime in enumerate(("contended", "overcommitted"), 1)
    if case.regime == "moderate" and case.scenario != "paragon-local-low"
]
"""With one seed each, where a run takes two to four times as long: one test joins them all."""
LOW_LOAD = [
    Case("paragon-gce", "moderate", workloads, tuple(range(1, 7)), few_on_all=True)
    for workloads in (60, 125)
]
"""Few jobs on a whole cluster, so short that a profile costs many their targets."""
MEASURED = [
    Case(f"measured:{folder}", workloads=200, seeds=(1, 2, 3))
    for folder in os.environ.get("WHARFINGER_TABLES", "").split(":")
    if folder
]
"""Measured tables that the environment names: directories, separated by colons."""

UNDER_ARQ = " + arq"
QUEUED = [case for case in CASES if case.scenario not in OF_SERVICES | IBENCHS]
QUEUED_ELSEWHERE = {
    "paragon": [case for case in OTHER_REGIMES if case.scenario.startswith("paragon-local")]
}
"""By policy, in other regimes; the other clusters take minutes for each."""


@cache
def ran(case: Case, policy: str) -> tuple[Fates, ...]:
    return tuple(fates(case, policy, seed) for seed in case.seeds)


@cache
def ran_both(case: Case, policy: str) -> tuple[tuple[Fates, ...], tuple[Fates, ...]]:
    """In the order of arrival and under ``arq``, seed by seed: both learn from one training set."""
    names = (policy, policy + UNDER_ARQ)
    by_seed = [tuple(fates(case, name, seed) for name in names) for seed in case.seeds]
    in_order, under_arq = zip(*by_seed, strict=True)
    return in_order, under_arq


def own(case: Case, policy: str) -> tuple[Fates, ...]:
    """Of the policy that is held."""
    is_queued = case in QUEUED or case in QUEUED_ELSEWHERE.get(policy, ())
    return ran_both(case, policy)[0] if is_queued else ran(case, policy)


def check(case: Case, policy: str, key: str) -> None:
    short = shortfall(own(case, policy), {name: ran(case, name) for name in BASELINES}, key)
    assert short.probability < SURE, (
        f"{policy} does {short.mean:.3f} ± {short.error:.3f} worse than {short.under} in {key}"
    )


def left_over(cases: Sequence[Case], policy: str) -> dict[str, list[tuple[str, ...]]]:
    """By case, what had not ended while a server that it fits on stood free."""
    left = {case.name: [run.idle for run in own(case, policy) if run.idle] for case in cases}
    return {name: names for name, names in left.items() if names}


def check_together(cases: Sequence[Case], policy: str, key: str) -> None:
    """Each workload weighs the same."""
    baselines = {name: [run for case in cases for run in ran(case, name)] for name in BASELINES}
    short = shortfall([run for case in cases for run in own(case, policy)], baselines, key)
    assert short.probability < SURE, f"{short.mean:.3f} ± {short.error:.3f} under {short.under}"


def check_arq(cases: Sequence[Case], policy: str, key: str) -> None:
    """That admission against the order of arrival, all cases together."""
    in_order, under_arq = (
        [run for case in cases for run in ran_both(case, policy)[at]] for at in (0, 1)
    )
    short = shortfall(under_arq, {policy: in_order}, key)
    assert short.probability < SURE, f"{short.mean:.3f} ± {short.error:.3f} worse in {key}"


class InOtherRegimes:
    """What is held of one policy where neighbors press more, or CPU is promised more than once."""

    policy: str

    @pytest.mark.parametrize("key", KEYS)
    @pytest.mark.parametrize("case", OTHER_REGIMES, ids=str)
    def test_it_does_no_harm(self, case: Case, key: str) -> None:
        check(case, self.policy, key)

    def test_nothing_is_left_over_where_it_fits(self) -> None:
        assert not left_over(OTHER_REGIMES, self.policy)

    @pytest.mark.parametrize("key", KEYS)
    def test_all_cases_together_are_no_worse(self, key: str) -> None:
        check_together(OTHER_REGIMES, self.policy, key)


class DoesNoHarm:
    """What is held of one policy; each has a file, so that two of them run at a time."""

    policy: str

    @pytest.mark.parametrize("key", KEYS)
    @pytest.mark.parametrize("case", (*CASES, *LOW_LOAD, *MEASURED), ids=str)
    def test_it_does_no_harm(self, case: Case, key: str) -> None:
        check(case, self.policy, key)

    @pytest.mark.parametrize("key", KEYS)
    def test_it_does_no_harm_beside_pairs_that_were_measured(
        self, key: str, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        folder = tmp_path_factory.getbasetemp() / "drawn-tables"
        scenario = str(folder / "scenario.yaml") if folder.exists() else drawn_tables(folder)
        check(Case(scenario, workloads=60, seeds=(1, 2, 3)), self.policy, key)

    def test_nothing_is_left_over_where_it_fits(self) -> None:
        assert not left_over(CASES, self.policy)

    def test_the_oracle_keeps_no_fewer_targets(self, tmp_path: Path) -> None:
        """On tables, where it knows all that there is to know."""
        case = Case(drawn_tables(tmp_path / "tables"), workloads=60, seeds=(1, 2, 3))
        bound = ran(case, ORACLE)
        beaten = shortfall(bound, {self.policy: own(case, self.policy)}, "kept")
        assert beaten.probability < SURE, (
            f"the oracle keeps {beaten.mean:.3f} fewer than {self.policy}"
        )

    @pytest.mark.parametrize("key", KEYS)
    def test_all_cases_together_are_no_worse(self, key: str) -> None:
        check_together(CASES, self.policy, key)

    @pytest.mark.parametrize("key", KEYS)
    @pytest.mark.parametrize("case", QUEUED, ids=str)
    def test_arq_is_no_worse_than_the_order_of_arrival(self, case: Case, key: str) -> None:
        check_arq([case], self.policy, key)

    @pytest.mark.parametrize("key", KEYS)
    def test_arq_is_no_worse_beside_pairs_that_were_measured(
        self, key: str, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        """There targets are not those of the best platform."""
        folder = tmp_path_factory.getbasetemp() / "drawn-tables"
        scenario = str(folder / "scenario.yaml") if folder.exists() else drawn_tables(folder)
        check_arq([Case(scenario, workloads=60, seeds=(1, 2, 3))], self.policy, key)

    def test_nothing_is_left_over_under_arq(self) -> None:
        left = {
            case.name: [run.idle for run in ran_both(case, self.policy)[1] if run.idle]
            for case in QUEUED
        }
        assert not {name: names for name, names in left.items() if names}

    @pytest.mark.parametrize("key", KEYS)
    def test_arq_is_no_worse_in_all_cases_together(self, key: str) -> None:
        check_arq(QUEUED, self.policy, key)
