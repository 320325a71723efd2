"""What the demo says at its end: to people, to programs, as a picture."""

import json
import sys
from dataclasses import replace

import pytest

from wharfinger.demo.picture import draw
from wharfinger.demo.report import as_json, as_text
from wharfinger.demo.run import with_picture


def test_the_tables_name_every_target_and_what_came_of_it(report):
    text = as_text(report)
    lines = text.splitlines()
    assert next(line for line in lines if line.startswith("web ")).split()[-2:] == ["12", "s"]
    assert "1.10 (1.00-1.20)" in text
    assert "5 of 5 targets met" in text
    assert "0 of 5 targets met" in text
    assert "  12 s  web: 300m CPU become 450m" in text
    assert "one thing could not be shown" in text
    assert "did better nowhere" in text


def test_what_the_baseline_does_better_is_said(report):
    turned = replace(report, main=report.baseline, baseline=report.main)
    text = as_text(turned)
    assert "web met its target" in text
    assert "compress was done after 15 s" in text
    assert not turned.passed


def test_json_has_what_is_promised(report):
    found = json.loads(json.dumps(as_json(report)))
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


def test_a_picture_is_made(report, tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "demo.png"
    assert draw(report, path)
    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert path.stat().st_size > 20_000


def test_without_matplotlib_it_says_so_and_goes_on(report, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    found = with_picture(report, tmp_path / "demo.png")
    assert found.picture is None
    assert "matplotlib is not installed" in as_text(found)


def test_a_picture_that_cant_be_written_is_said_too(report, tmp_path):
    pytest.importorskip("matplotlib")
    found = with_picture(report, tmp_path / "nowhere" / "demo.png")
    assert found.picture is None
    assert "No such file" in as_text(found)
