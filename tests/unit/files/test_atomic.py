"""Files that appear whole, where an option says."""

from pathlib import Path

import pytest

from wharfinger.errors import InvalidInput
from wharfinger.files.atomic import check_output, write_whole


def test_an_option_means_the_target_of_a_link_and_no_other_writer_follows_one(
    tmp_path: Path,
) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_whole(check_output("--out", str(link)), b"new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    write_whole(link, b"newer")
    assert (link.is_symlink(), target.read_text()) == (False, "new")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("", "--out '': that is a directory; name a file"),
        (".", "--out '.': that is a directory; name a file"),
        ("/dev/null", "--out '/dev/null': that is no file; name one"),
        ("missing/x.json", "there is no directory .*missing; make it, or name another"),
    ],
)
def test_where_nothing_could_be_written_is_said_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match=words):
        check_output("--out", given)
