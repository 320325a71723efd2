"""Run directories on the shared directory: whole, or not there."""

import shutil
from pathlib import Path

import pytest

from tests.support.cluster import workload
from wharfinger.engines.notes import MemoryNotes
from wharfinger.engines.slurm.runs import RunDirectories, StartOrder
from wharfinger.engines.slurm.settings import SlurmSettings
from wharfinger.engines.slurm.start_notes import StartNotes
from wharfinger.model.allocation import Allocation, Placement

IDENTITY = "0123456789ab"
KEY = "job-1"


def _opened(shared: Path) -> RunDirectories:
    settings = SlurmSettings(shared_dir=shared)
    directories = RunDirectories(StartNotes(MemoryNotes()), settings, IDENTITY, frozenset())
    directories.prepare()
    return directories


def test_a_removal_that_a_crash_cuts_short_is_finished_by_the_next_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    directories = _opened(tmp_path)
    placements = (Placement("n1", Allocation(1000, 64 << 20)),)
    directories.make(StartOrder(KEY, workload("job"), placements))
    with monkeypatch.context() as crash:
        crash.setattr(shutil, "rmtree", lambda *_args, **_kwargs: None)
        directories.remove(KEY)
    home = directories.home(KEY)
    assert home is not None
    assert not home.exists()
    assert len([path for path in home.parent.iterdir() if KEY in path.name]) == 1
    _opened(tmp_path)
    assert not [path for path in home.parent.iterdir() if KEY in path.name]
