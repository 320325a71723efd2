"""Who may use a state directory, and who has it."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from wharfinger.errors import Conflict, InvalidInput
from wharfinger.runtime.state_directory import StateDirectory, default_state_directory


def test_it_is_made_and_closed_to_others(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path / "deep" / "state")
    assert stat.S_IMODE(directory.path.stat().st_mode) == 0o700


def test_one_that_is_open_to_others_is_closed(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o755)
    assert stat.S_IMODE(StateDirectory(tmp_path / "state").path.stat().st_mode) == 0o700


def test_a_directory_with_other_things_in_it_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir(mode=0o755)
    (tmp_path / "precious" / "file").touch()
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    for name, mode in (("precious", 0o755), ("shared", 0o1777)):
        with pytest.raises(InvalidInput, match="holds other things"):
            StateDirectory(tmp_path / name)
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == mode
    assert [path.name for path in (tmp_path / "precious").iterdir()] == ["file"]


def test_a_state_is_taken_again(tmp_path: Path) -> None:
    first = StateDirectory(tmp_path / "state")
    first.lock()
    first.unlock()
    (tmp_path / "state" / "runs").mkdir()
    StateDirectory(tmp_path / "state").lock()


def test_a_file_or_a_foreign_directory_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="--state"):
        StateDirectory(tmp_path / "file")
    if os.geteuid() != 0:
        with pytest.raises(InvalidInput, match="belongs to uid 0"):
            StateDirectory(Path("/"))
    else:
        foreign = tmp_path / "foreign"
        foreign.mkdir()
        os.chown(foreign, 12345, 12345)
        with pytest.raises(InvalidInput, match="belongs to uid 12345"):
            StateDirectory(foreign)


def test_a_live_holder_is_named_and_a_dead_one_followed(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from wharfinger.runtime.state_directory import StateDirectory\n"
        "directory = StateDirectory(Path(sys.argv[1])); directory.lock()\n"
        "print('locked', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "state")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        directory = StateDirectory(tmp_path / "state")
        with pytest.raises(Conflict, match=f"pid {holder.pid}"):
            directory.lock()
        holder.kill()
    directory.lock()
    assert (directory.path / "lock").read_text() == f"{os.getpid()}\n"
    directory.unlock()
    StateDirectory(tmp_path / "state").lock()


def test_where_it_lies_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHARFINGER_STATE", "/given")
    assert default_state_directory() == Path("/given")
    monkeypatch.delenv("WHARFINGER_STATE")
    monkeypatch.setenv("XDG_STATE_HOME", "/xdg")
    assert default_state_directory() == Path("/xdg/wharfinger")
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert default_state_directory() == Path("/home/somebody/.local/state/wharfinger")
