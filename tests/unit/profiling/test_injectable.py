"""What can be injected on a machine, and why the rest is not."""

from pathlib import Path

import pytest

from wharfinger.errors import Unavailable
from wharfinger.ibench.sources import Signal, SourceSetting
from wharfinger.model.interference import OF_A_CORE, SharedResource
from wharfinger.profiling import injectable as module
from wharfinger.profiling.injectable import BEYOND_CPUS, IN_PLANS, NOT_IN_PLANS, injectable

INTERCONNECT, TLB = SharedResource.INTERCONNECT, SharedResource.TLB


def test_a_source_is_named_that_has_a_signal_on_every_server(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def signal(setting: SourceSetting) -> Signal:
        if setting.source.resource is TLB:
            raise Unavailable("tlb: it can't be run")
        is_there = setting.source.cpus <= len(setting.cpus)
        return Signal(is_there, "" if is_there else "one CPU")

    monkeypatch.setattr(module, "signal_here", signal)
    named, missing = injectable([(0, 1), (2,), (3,)], tmp_path)
    assert set(named) == set(IN_PLANS) - {INTERCONNECT, TLB}
    assert missing == NOT_IN_PLANS | {INTERCONNECT: "one CPU", TLB: "tlb: it can't be run"}
    assert INTERCONNECT in injectable([(0, 1)], tmp_path)[0]


def test_every_source_is_in_plans_or_says_why_not() -> None:
    assert set(IN_PLANS) | set(NOT_IN_PLANS) == set(SharedResource)
    assert not set(IN_PLANS) & set(NOT_IN_PLANS)
    assert set(SharedResource) == BEYOND_CPUS | OF_A_CORE


def test_on_this_machine(tmp_path: Path) -> None:
    named, missing = injectable([(0,)], tmp_path)
    assert SharedResource.INTEGER in named
    assert all(missing[source] for source in set(SharedResource) - set(named))
