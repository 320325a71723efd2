"""The keeper of a cluster's daemons, as far as no daemon is needed."""

from pathlib import Path

import pytest

from wharfinger.demo.slurm import keeper
from wharfinger.errors import EngineFault


class _Group:
    def __init__(self, *, busy: bool) -> None:
        self.busy, self.removed = busy, False

    def kill_all(self) -> None:
        pass

    def remove(self) -> None:
        if self.busy:
            raise EngineFault("a process does not end")
        self.removed = True


def test_a_group_that_stays_does_not_keep_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "descendants", lambda pid: set())
    directory = tmp_path / "cluster"
    directory.mkdir()
    keeping = keeper._Keeping(directory)
    groups = {"n1": _Group(busy=True), "n2": _Group(busy=False)}
    keeping._groups.update(groups)  # type: ignore[arg-type]
    keeping.end()
    assert groups["n2"].removed
    assert not directory.exists()
