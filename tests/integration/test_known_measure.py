"""``wharfinger classify measure`` for real: programs in profiling copies, at every allocation."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.local import groups_of
from wharfinger.catalog.known_files import load_known
from wharfinger.engines.local import LocalEngine
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity


@pytest.fixture
def profiling(tmp_path: Path) -> None:
    engine = LocalEngine(tmp_path / "trial", servers="1")
    engine.open()
    try:
        if not engine.capabilities.profiles:
            pytest.skip("the local engine runs no profiling copies here")
    finally:
        engine.close()


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.usefixtures("profiling")
def test_programs_are_measured_and_nothing_is_left(tmp_path: Path):
    out = tmp_path / "known"
    command = [sys.executable, "-m", "wharfinger", "classify", "measure", "--out", str(out)]
    command += ["--only", "gzip,python-json", "--seconds", "0.5s", "--busy", "--provisional"]
    done = subprocess.run([*command, "-o", "json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    assert json.loads(done.stdout)["measured"] == ["gzip", "python-json"]
    known = load_known(out)
    for program in known.programs:
        entries = program.performance[Quantity.RATE]
        assert entries[100].value < entries[1000].value
        assert SharedResource.INTEGER in program.tolerated
        assert SharedResource.INTEGER in program.caused
    assert known.machine.provisional
    assert not (out / "work").exists()
    assert not groups_of(out / "work" / "engine")
    again = subprocess.run([*command, "-o", "json"], capture_output=True, text=True, check=False)
    assert json.loads(again.stdout)["kept"] == ["gzip", "python-json"]
