"""What the demo says at its end: to people, to programs, as a picture."""

import json
import sys

import pytest

from tests.unit.demo.conftest import result_of
from wharfinger.cli.demo_report import as_text
from wharfinger.demo.picture import draw
from wharfinger.demo.run import check_memory, picture_note
from wharfinger.errors import Unavailable


def test_the_tables_name_every_target_and_what_came_of_it(runs):
    text = as_text(result_of(*runs))
    lines = text.splitlines()
    assert next(line for line in lines if line.startswith("web ")).split()[-2:] == ["12", "s"]
    assert "1.10 (1.00-1.20)" in text
    assert "5 of 5 targets met" in text
    assert "0 of 5 targets met" in text
    assert "  12 s  web: raised from 0.3 to 0.45 CPU" in text
    assert "one thing could not be shown" in text
    assert "did better nowhere" in text


def test_what_the_baseline_does_better_is_said(runs):
    main, baseline = runs
    text = as_text(result_of(baseline, main))
    assert "web met its target" in text
    assert "compress was done after 15 s" in text


def test_json_has_what_is_promised(runs):
    found = json.loads(json.dumps(result_of(*runs)))
    assert found["policy"] == "quasar"
    assert found["utilization"] == pytest.approx(0.8)
    assert found["targeted_utilization"] == pytest.approx(0.5)
    assert found["machine_utilization"] == pytest.approx(1.0)
    assert [one["name"] for one in found["adjustments"]] == ["web"]
    assert found["baseline"]["policy"] == "least-loaded"
    assert set(found["baseline"]) <= set(found)
    mets = {w["name"]: w["met"] for w in found["workloads"]}
    assert mets["web"] is True
    assert mets["scan"] is None


@pytest.mark.slow
def test_a_picture_is_made(runs, tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "demo.png"
    draw(runs, path)
    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert path.stat().st_size > 20_000


def test_without_matplotlib_it_says_so_and_goes_on(runs, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    (why,) = picture_note(runs, tmp_path / "demo.png")
    assert "matplotlib is not installed" in why


def test_a_picture_that_cant_be_written_is_said_too(runs, tmp_path):
    pytest.importorskip("matplotlib")
    (why,) = picture_note(runs, tmp_path / "nowhere" / "demo.png")
    assert "No such file" in why


def test_a_machine_with_too_little_memory_is_refused():
    check_memory([{"memory_bytes": 2**30}, {"memory_bytes": 2**30}])
    with pytest.raises(Unavailable, match=r"too small.*for 5 of 8 programs of 192Mi"):
        check_memory([{"memory_bytes": 2**30}])
