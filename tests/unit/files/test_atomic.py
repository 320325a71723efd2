"""Files that appear whole, where an option says."""

import os
import stat
import threading
from pathlib import Path

import pytest

from wharfinger.errors import InvalidInput
from wharfinger.files.atomic import check_output, write_whole


def test_the_target_of_a_link_is_replaced(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_whole(link, b"new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_what_is_no_file_is_written_to(tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe", list[bytes]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_whole(pipe, b"new")
    reader.join()
    assert read == [b"new"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("", "--out '': that is a directory; name a file"),
        (".", "--out '.': that is a directory; name a file"),
        ("missing/x.json", "there is no directory .*missing; make it, or name another"),
    ],
)
def test_where_nothing_could_be_written_is_said_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match=words):
        check_output("--out", given)
