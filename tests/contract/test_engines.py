"""Every engine keeps the promises of ``wharfinger.engines.base``."""

import os
from functools import partial
from pathlib import Path
from random import Random

import pytest

from wharfinger.engines.local import LocalEngine
from wharfinger.host.cgroups import discover
from wharfinger.testing import (
    EngineHarness,
    FaultyEngine,
    MemoryCluster,
    MemoryEngine,
    MemoryPrograms,
    ShellPrograms,
    engine_checks,
)
from wharfinger.testing.harness import EngineCheck
from wharfinger.testing.memory import make_server

every_check = pytest.mark.parametrize("check", engine_checks(), ids=lambda check: check.__name__)


def _elsewhere(cluster: MemoryCluster) -> MemoryEngine:
    if "b" not in cluster.servers:
        cluster.remove_server("a")
        cluster.put_server(make_server("b"))
    return MemoryEngine(cluster)


@every_check
def test_memory_engine(check: EngineCheck, tmp_path: Path) -> None:
    cluster = MemoryCluster()
    check(
        EngineHarness(
            tmp_path,
            lambda _state: MemoryEngine(cluster),
            MemoryPrograms(cluster),
            lambda _state: _elsewhere(cluster),
        )
    )


@every_check
def test_faulty_engine_without_faults(check: EngineCheck, tmp_path: Path) -> None:
    cluster = MemoryCluster()

    def make_engine(_state: Path) -> FaultyEngine:
        return FaultyEngine(lambda: MemoryEngine(cluster), Random(0))

    check(EngineHarness(tmp_path, make_engine, MemoryPrograms(cluster)))


@every_check
def test_local_engine(check: EngineCheck, tmp_path: Path) -> None:
    check(
        EngineHarness(
            tmp_path,
            lambda state: LocalEngine(state, servers="1"),
            ShellPrograms(tmp_path),
            lambda state: LocalEngine(state, servers=f"other={min(os.sched_getaffinity(0))}"),
        )
    )


@every_check
def test_local_engine_without_cgroups(
    check: EngineCheck, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = tmp_path / "nothing-is-mounted"
    nothing.touch()
    find_nothing = partial(discover, cgroup_file=nothing, mountinfo_file=nothing)
    monkeypatch.setattr("wharfinger.engines.local.engine.discover", find_nothing)
    check(EngineHarness(tmp_path, LocalEngine, ShellPrograms(tmp_path)))


@every_check
def test_faulty_local_engine_without_faults(check: EngineCheck, tmp_path: Path) -> None:
    def make_engine(state: Path) -> FaultyEngine:
        return FaultyEngine(lambda: LocalEngine(state), Random(0))

    check(EngineHarness(tmp_path, make_engine, ShellPrograms(tmp_path)))
