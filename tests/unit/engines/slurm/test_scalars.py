import pytest

from wharfinger.engines.slurm.client import scalars
from wharfinger.engines.slurm.client.hostlist import MAX_NAMES, expand


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (5, 5),
        (0, 0),
        ("17", 17),
        (2.0, 2),
        ({"set": True, "infinite": False, "number": 7}, 7),
        ({"set": False, "infinite": False, "number": 7}, None),
        ({"set": True, "infinite": True, "number": 0}, None),
        ({"number": {"number": 1}}, None),
        (None, None),
        (True, None),
        (-1, None),
        ("-1", None),
        ("", None),
        ("٣", None),
        (float("nan"), None),
        (float("inf"), None),
        (1e300, None),
        (0xFFFFFFFE, None),
        (0xFFFFFFFFFFFFFFFF, None),
        (10**400, None),
        ([1], None),
    ],
)
def test_number(value, expected):
    assert scalars.number(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("7:0", (7, None)),
        ("0:9", (0, 9)),
        (768, (3, None)),
        (9, (0, 9)),
        (
            {
                "return_code": {"set": True, "infinite": False, "number": 7},
                "signal": {"id": {"set": False, "infinite": False, "number": 0}, "name": ""},
            },
            (7, None),
        ),
        (
            {
                "return_code": {"set": False, "infinite": False, "number": 0},
                "signal": {"id": {"set": True, "infinite": False, "number": 9}, "name": "KILL"},
            },
            (0, 9),
        ),
        ({"return_code": None, "signal": "KILL"}, (None, None)),
        (None, (None, None)),
        ("x", (None, None)),
    ],
)
def test_exit_status(value, expected):
    assert scalars.exit_status(value) == expected


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("00:00:01", 1),
        ("1-02:03:04", 93784),
        ("02:03.400", 123.4),
        ("10:00:00", 36000),
        ("", None),
        ("UNLIMITED", None),
        (None, None),
    ],
)
def test_duration(value, seconds):
    assert scalars.duration(value) == seconds


def test_sizes_are_bytes():
    assert scalars.size("812K") == 812 * 1024
    assert scalars.size("1.50G") == 3 << 29
    assert scalars.size("4096") == 4096
    assert scalars.size("much") is None
    assert scalars.tracked("cpu=1,mem=1G,node=1", "mem") == 1 << 30
    assert scalars.tracked("cpu=1", "mem") is None


def test_a_text_is_cut_and_can_always_be_written():
    assert len(scalars.text("x" * (1 << 20))) == scalars.TEXT_LIMIT
    assert scalars.text("\ud800é").encode() == b"?\xc3\xa9"
    assert scalars.text(5) == ""


@pytest.mark.parametrize(
    ("names", "expanded"),
    [
        ("n1", ("n1",)),
        ("n[1-3]", ("n1", "n2", "n3")),
        ("n[01-02,10],login", ("n01", "n02", "n10", "login")),
        ("r[1-2]n[1-2]", ("r1n1", "r1n2", "r2n1", "r2n2")),
        ("n[1-2]-ib", ("n1-ib", "n2-ib")),
        ("", ()),
        ("(null)", ()),
        ("None assigned", ()),
        ("n[3-1]", ()),
        ("n[x]", ()),
        ("n[1-999999999]", ()),
        ("n[1-99999][1-99999]", ()),
    ],
)
def test_host_lists(names, expanded):
    assert expand(names) == expanded


def test_a_host_list_that_explodes_costs_nothing():
    assert expand(",".join(["n[1-99999]"] * 50)) == ()
    assert expand("[" * 100_000) == ()
    assert len(expand(f"n[1-{MAX_NAMES}]")) == MAX_NAMES
