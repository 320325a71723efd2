"""The document, its row for classify, and its sentences."""

from pathlib import Path

from wharfinger.files.matrices import read_matrix
from wharfinger.ibench.ramp import CurvePoint
from wharfinger.ibench.sources import SOURCES
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Entry
from wharfinger.profiler.curves import Found, sensitivity
from wharfinger.profiler.report import Document, csv_of, document_of, sentences
from wharfinger.profiler.rounds import AlonePerformance, InterferenceProfile
from wharfinger.profiler.session import Way

ABOUT = {"name": "a program", "command": ["a"], "pid": None, "cpus": [0]}


def a_document(*, slowed: bool = True) -> Document:
    baseline = AlonePerformance(Quantity.RATE, 100.0, 1.0, 0.03, 0.01, 20)
    profile = InterferenceProfile(0.05, SOURCES, baseline, Way.NUMBERS)
    ratio = 0.7 if slowed else 1.0
    points = (CurvePoint(100.0, ratio, 0.005, 6),)
    found = Found(25.0 if slowed else 100.0, 10.0, 1.0, not slowed, points)
    profile.found[SharedResource.INTEGER] = sensitivity([found, found], 0.05)
    profile.caused[SharedResource.INTEGER] = Entry(0.0, 1.0)
    profile.silent["tolerated/storage-bandwidth"] = "tmpfs is memory"
    return document_of(profile, ABOUT)


def test_each_source_has_its_row_and_each_missing_number_its_reason():
    rows = {row["name"]: row for row in a_document()["sources"]}
    assert rows["integer"]["tolerated"]["low"] < 25 < rows["integer"]["tolerated"]["high"]
    assert rows["storage-bandwidth"]["reason"] == "tmpfs is memory"


def test_sentences_name_what_to_spend_on():
    assert a_document()["sentences"][-1].startswith("Spend on more or faster cores: integer")
    assert "nothing here says" in a_document(slowed=False)["sentences"][-1]


def test_where_cpu_time_explains_the_drop_no_other_feature_is_advised():
    document = a_document()
    (integer,) = (row for row in document["sources"] if row["name"] == "integer")
    for name, low in (("network-bandwidth", 3.0), ("tlb", 60.0)):
        (row,) = (row for row in document["sources"] if row["name"] == name)
        score = {"value": low + 1, "low": low, "high": low + 2}
        row |= {"verdict": "slowed", "tolerated": score}
    alone = sentences(document)[-1]
    assert alone.startswith("Spend on a faster network interface")
    integer["tolerated"] |= {"low": 4.0}
    assert sentences(document)[-1] == (
        "Spend on more or faster cores: integer is what it minds most "
        "(network-bandwidth can't be told apart from it)."
    )


def test_classify_reads_the_row(tmp_path: Path):
    path = tmp_path / "row.csv"
    path.write_text(csv_of(a_document()))
    matrix = read_matrix(path)
    assert matrix.rows == ("a program",)
    values = dict(zip(matrix.columns, matrix.values[0], strict=True))
    assert values["tolerated/integer"] == 25.0
    assert values["caused/integer"] == 0.1
