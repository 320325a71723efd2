"""Every engine keeps the promises of ``wharfinger.engines.base``."""

import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.support.local import take_cgroups_away
from wharfinger.engines.base import Engine
from wharfinger.engines.local import LocalEngine
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

MakeEngine = Callable[[], Engine]

every_check = pytest.mark.parametrize("check", engine_checks(), ids=lambda check: check.__name__)


ELSEWHERE = f"other={min(os.sched_getaffinity(0))}"
"""The same machine under another name."""


def _memory_harness(directory: Path, wrap: Callable[[MakeEngine], Engine]) -> EngineHarness:
    cluster = MemoryCluster(profiles=True)

    def remove_servers() -> None:
        if "b" not in cluster.servers:
            cluster.remove_server("a")
            cluster.put_server(make_server("b"))

    def make_elsewhere(_state: Path) -> Engine:
        remove_servers()
        return wrap(lambda: MemoryEngine(cluster))

    return EngineHarness(
        directory,
        lambda _state: wrap(lambda: MemoryEngine(cluster)),
        MemoryPrograms(cluster),
        make_elsewhere,
        lambda _engine: remove_servers(),
    )


def _local_harness(directory: Path, wrap: Callable[[MakeEngine], Engine]) -> EngineHarness:
    def remove_servers(engine: Engine) -> None:
        local = engine.inner if isinstance(engine, FaultyEngine) else engine
        assert isinstance(local, LocalEngine)
        local.refresh(ELSEWHERE)

    return EngineHarness(
        directory,
        lambda state: wrap(lambda: LocalEngine(state, servers="1")),
        ShellPrograms(directory),
        lambda state: wrap(lambda: LocalEngine(state, servers=ELSEWHERE)),
        remove_servers,
    )


def _bare(make_engine: MakeEngine) -> Engine:
    return make_engine()


def _faulty(make_engine: MakeEngine) -> Engine:
    return FaultyEngine(make_engine, Random(0))


@every_check
def test_memory_engine(check: EngineCheck, tmp_path: Path) -> None:
    check(_memory_harness(tmp_path, _bare))


@every_check
def test_faulty_engine_without_faults(check: EngineCheck, tmp_path: Path) -> None:
    check(_memory_harness(tmp_path, _faulty))


@every_check
def test_local_engine(check: EngineCheck, tmp_path: Path) -> None:
    check(_local_harness(tmp_path, _bare))


@every_check
def test_local_engine_without_cgroups(
    check: EngineCheck, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_cgroups_away(tmp_path, monkeypatch)
    check(_local_harness(tmp_path, _bare))


@every_check
def test_faulty_local_engine_without_faults(check: EngineCheck, tmp_path: Path) -> None:
    check(_local_harness(tmp_path, _faulty))
