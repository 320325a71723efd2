"""The keeper of a cluster's daemons, as far as no daemon is needed."""

from pathlib import Path

import pytest

from wharfinger.demo.slurm import keeper
from wharfinger.errors import EngineFault
from wharfinger.host.cgroups import Group, Limits


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


def test_nodes_weigh_as_much_as_they_are_beside_each_other(tmp_path: Path) -> None:
    keeping = keeper._Keeping(tmp_path)
    for name, millicpus in (("n1", 400), ("n2", 100)):
        path = tmp_path / "base" / name / "node"
        path.mkdir(parents=True)
        for directory in (path, path.parent, path.parent.parent):
            (directory / "cpu.shares").write_text("1024")
        keeping._groups[name] = Group({"cpu": path})
        keeping._limits[name] = Limits(millicpus, best_effort=False, memory_bytes=1)
    keeping._weigh()
    read = lambda *parts: int(tmp_path.joinpath("base", *parts, "cpu.shares").read_text())  # noqa: E731
    assert read("n1") == pytest.approx(4 * read("n2"), rel=0.01)
    assert read() == 1024, "beside the rest of the machine, which is another's to say"
