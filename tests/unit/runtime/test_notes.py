"""An engine's notes last, whole, whatever kills the manager."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from wharfinger.errors import StoreDamaged
from wharfinger.runtime.notes import NOTES_FILE, StoredNotes


def test_notes_last_and_are_each_engines_own(tmp_path: Path) -> None:
    notes = StoredNotes(tmp_path, "slurm")
    notes.put({"b": "1", "a": "é\n"})
    notes.put({"b": "2"})
    notes.put({"gone": "x"})
    notes.delete("gone", "never-there")
    notes.close()
    other = StoredNotes(tmp_path, "other")
    assert other.items() == {}
    other.close()
    again = StoredNotes(tmp_path, "slurm")
    assert list(again.items().items()) == [("a", "é\n"), ("b", "2")]
    assert (again.get("b"), again.get("gone")) == ("2", None)
    again.close()


_WRITER = """
import sys
from pathlib import Path
from wharfinger.runtime.notes import StoredNotes
notes = StoredNotes(Path(sys.argv[1]), "e")
for number in range(10**6):
    notes.put({"x": str(number), "y": str(number), f"k{number % 50}": "v" * 100})
    print(number, flush=True)
"""


def test_what_was_written_is_there_after_a_kill(tmp_path: Path) -> None:
    for round_number in range(3):
        writer = subprocess.Popen(
            [sys.executable, "-c", _WRITER, tmp_path], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        for _ in range(20 * (round_number + 1)):
            last = writer.stdout.readline()
        os.kill(writer.pid, signal.SIGKILL)
        told = writer.stdout.read().split()
        writer.wait()
        writer.stdout.close()
        notes = StoredNotes(tmp_path, "e")
        assert int(notes.get("x") or -1) >= int((told or [last])[-1])
        assert notes.get("x") == notes.get("y")
        notes.close()


def test_a_damaged_file_gets_one_line(tmp_path: Path) -> None:
    (tmp_path / NOTES_FILE).write_bytes(b"no database " * 100)
    with pytest.raises(StoreDamaged) as caught:
        StoredNotes(tmp_path, "e")
    assert NOTES_FILE in str(caught.value)
    assert "\n" not in str(caught.value)
