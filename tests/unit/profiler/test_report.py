"""The document, its row for classify, and its sentences."""

from pathlib import Path

from wharfinger.files.matrices import read_matrix
from wharfinger.ibench.sources import SOURCES
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Entry
from wharfinger.profiler.report import (
    Document,
    calibrations_of,
    csv_of,
    document_of,
    sentences,
)
from wharfinger.profiling.crossing import CurveScore
from wharfinger.profiling.curves import sensitivity
from wharfinger.profiling.probing import ProbeCalibration, ProbeReading
from wharfinger.profiling.rounds import AlonePerformance, InterferenceProfile, Way

ABOUT = {"name": "a program", "command": ["a"], "pid": None, "cpus": [0]}


def a_document(*, slowed: bool = True) -> Document:
    baseline = AlonePerformance(Quantity.RATE, 100.0, 1.0, 0.03, 0.01, 20)
    profile = InterferenceProfile(0.05, SOURCES, baseline, Way.NUMBERS)
    ratio = 0.7 if slowed else 1.0
    noise = [0.01, -0.01] * 5
    told = [(at, 1 - (1 - ratio) * at / 100 + n) for at in (0.0, 20.0, 50.0, 100.0) for n in noise]
    profile.found[SharedResource.INTEGER] = sensitivity([told, told], 0.05)
    profile.caused[SharedResource.INTEGER] = CurveScore(0.0, (0.0, 0.0, 1.0))
    profile.shares[SharedResource.INTEGER] = Entry(60.0, 1.0)
    profile.shares[SharedResource.STORAGE_BANDWIDTH] = Entry(40.0, 1.0)
    readings = ((0.0, ProbeReading(10.0, 20.0)), (50.0, ProbeReading(5.0, 20.0)))
    profile.calibrations = {SharedResource.INTEGER: ProbeCalibration(readings)}
    profile.silent["tolerated/storage-bandwidth"] = "tmpfs is memory"
    return document_of(profile, ABOUT)


def test_each_source_has_its_row_and_each_missing_number_its_reason():
    rows = {row["name"]: row for row in a_document()["sources"]}
    assert rows["integer"]["tolerated"]["low"] < 16.7 < rows["integer"]["tolerated"]["high"]
    assert rows["storage-bandwidth"]["reason"] == "tmpfs is memory"


def test_a_share_stands_in_for_a_probe_and_checks_it():
    document = a_document()
    rows = {row["name"]: row for row in document["sources"]}
    assert (rows["integer"]["caused_by"], rows["integer"]["caused"]["value"]) == ("probe", 0.0)
    assert rows["integer"]["cross_check"]["disagrees"]
    assert any(line.startswith("On integer two ways disagree") for line in document["sentences"])
    assert rows["storage-bandwidth"]["caused_by"] == "io-share"
    assert rows["storage-bandwidth"]["cross_check"] is None


def test_a_calibration_is_read_from_the_profile_again():
    document = a_document()
    told = calibrations_of(document)[SharedResource.INTEGER]
    assert told.of_cpu_time() == [(0.0, 20.0), (50.0, 20.0)]


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
    assert 14 < values["tolerated/integer"] < 19
    assert values["caused/integer"] == 0.1
