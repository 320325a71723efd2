"""What YAML means here, and what hostile YAML gets, with the C and the Python parser."""

import math
import tracemalloc

import pytest
import yaml

from wharfinger.errors import InvalidManifest
from wharfinger.manifest.problems import Problems
from wharfinger.manifest.reader import DEFAULT_LIMITS, DocumentLimits, read_documents
from wharfinger.manifest.tree import Mapping, Scalar

PARSERS = [
    pytest.param(
        False,
        id="c",
        marks=pytest.mark.skipif(not yaml.__with_libyaml__, reason="PyYAML has no libyaml here"),
    ),
    pytest.param(True, id="python"),
]


def plain(root):
    """A tree as Python values, without recursion being a concern at 32 levels."""
    if isinstance(root, Scalar):
        return root.value
    if isinstance(root, Mapping):
        return {key: plain(entry.node) for key, entry in root.entries.items()}
    return [plain(item) for item in root.items]


def read(text, pure, limits=DEFAULT_LIMITS):
    problems = Problems("f")
    roots = [plain(root) for root in read_documents(text, problems, limits, pure=pure)]
    problems.raise_if_any()
    return roots


def refused(text, pure, limits=DEFAULT_LIMITS):
    with pytest.raises(InvalidManifest) as error:
        read(text, pure, limits)
    for line in error.value.problems:
        assert "\n" not in line
        assert len(line) < 400
    return error.value.problems


@pytest.mark.parametrize("pure", PARSERS)
class TestMeanings:
    @pytest.mark.parametrize(
        ("text", "value"),
        [
            *((word, True) for word in ("true", "True", "TRUE", "!!bool true")),
            *((word, False) for word in ("false", "False", "FALSE")),
            *(
                (w, w)
                for w in ("yes", "No", "on", "OFF", "y", "tRUE", "1:30", "2024-01-01", "1_000")
            ),
            *((w, w) for w in ("0b11", "+0x1", "NaN", "inf", "1e", "+", ".", "<<", "=", "0o8")),
            *(("12", 12), ("-3", -3), ("+4", 4), ("0o17", 15), ("0x1F", 31), ("017", 17)),
            *(("1.5", 1.5), (".5", 0.5), ("1.", 1.0), ("1e3", 1000.0), ("-1E-2", -0.01)),
            *((".inf", math.inf), ("-.INF", -math.inf), ("1e999", math.inf)),
            *(("'5'", "5"), ('"true"', "true"), ("!!str 5", "5"), ("!!int '5'", 5)),
            ("!!float 1", 1.0),
            ("9" * 128, int("9" * 128)),
            ("9" * 129, "9" * 129),
        ],
    )
    def test_of_a_scalar(self, pure, text, value):
        (given,) = read(f"- {text}\n", pure)
        assert given == [value]
        assert type(given[0]) is type(value)

    @pytest.mark.parametrize("text", ["~", "null", "Null", "NULL", "", "!!null ''"])
    def test_of_nothing(self, pure, text):
        assert read(f"- {text}\n", pure) == [[None]]

    def test_of_not_a_number(self, pure):
        ((value,),) = read("[.nan]", pure)
        assert math.isnan(value)

    def test_json_with_tabs_and_a_byte_order_mark(self, pure):
        text = b'\xef\xbb\xbf{\n\t"a":\t[1, "\\u00e9"],\r\n\t"b": {"c": null}}\n'
        assert read(text, pure) == [{"a": [1, "é"], "b": {"c": None}}]

    def test_json_s_pairs_of_escapes_are_one_character(self, pure):
        text = r'{"a": "\ud83d\uDE00", "b": "\\ud83d\\ude00", "c": [-1.5e3, "\"", true]}'
        assert read(text, pure) == [
            {"a": "\U0001f600", "b": r"\ud83d\ude00", "c": [-1500.0, '"', True]}
        ]
        assert read(r"{'a': '\ud83d\ude00'}", pure) == [{"a": r"\ud83d\ude00"}]

    def test_empty_documents_are_skipped(self, pure):
        assert read("---\n---\na: 1\n...\n# nothing\n---\n~\n---\nb: 2\n", pure) == [
            {"a": 1},
            {"b": 2},
        ]

    def test_aliases_are_what_they_stand_for_until_the_document_ends(self, pure):
        assert read("a: &x [1]\nb: *x\n", pure) == [{"a": [1], "b": [1]}]
        (problem,) = refused("a: &x 1\n---\nb: *x\n", pure)
        assert problem.startswith("f:3: this is not YAML: ")

    def test_yaml_1_2_may_be_said(self, pure):
        assert read("%YAML 1.2\n---\na: no\n", pure) == [{"a": "no"}]


@pytest.mark.parametrize("pure", PARSERS)
class TestRefusals:
    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("a: 1\nb: 2\na: 3\n", "f:3: key 'a' stands twice, here and in line 1; remove one"),
            ("1: x", "f:1: key '1' is not text; put it in quotes"),
            ("true: x", "f:1: key 'true' is not text; put it in quotes"),
            ("? [a]\n: x", "f:1: key a list is not text; put it in quotes"),
            ("a: !!python/object:os.x {}", "tag '!!python/object:os.x' is not allowed; remove it"),
            (
                "a: !local x",
                "tag '!local' is not allowed; remove it, or quote the text",
            ),
            ("a: !!set {b}", "tag '!!set' is not allowed; remove it"),
            ("a: !!int x", "'x' is not of the kind that its tag !!int says; remove the tag"),
            ("%YAML 1.1\n---\na: b", "%YAML 1.1 is not supported"),
            ("&a [*a]", "stands within what it means"),
            ("a: b: c", "a value with ': ' in it needs quotes"),
            ("a:\n\t- b", "f:2: this is not YAML"),
            ("{a: [", "this is not YAML"),
            ("'abc", "close the quote"),
            (b"a: b\nc: \xff\n", "f:2: byte 0xff is not UTF-8; save the file as UTF-8"),
            (b"\xff\xfea\0", "byte 0xff is not UTF-8"),
            ("a: b\r\nc: \x00", "f:2: character U+0000 may not stand in a manifest"),
            ("a: \x1b[2J", "character U+001B may not stand in a manifest"),
            ("a: '\u2028'", "character U+2028 may not stand in a manifest"),
            ("a: \udc80", "is not UTF-8"),
            ('a: "\\ud800"', "f"),
            ('a: "\\UFFFFFFFF"', "f"),
        ],
    )
    def test_one_clear_line_with_its_number(self, pure, text, problem):
        assert problem in refused(text, pure)[0]

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("[" * 5000, "nested more than 32 deep"),
            ("{a: " * 5000, "nested more than 32 deep"),
            ("- " * 5000, "nested more than 32 deep"),
            ("? " * 5000, "nested more than 32 deep"),
            ("[" * 31 + "&a [[]]" + "]" * 31, "nested more than 32 deep"),
            (
                "&a "
                + "[" * 20
                + "]" * 20
                + "\n--- \n- &b "
                + "[" * 20
                + "]" * 20
                + "\n- [[[[[[[[[[[[[*b]]]]]]]]]]]]]",
                "nested more than 32 deep",
            ),
            ("name: " + "a" * 10_000_000, "10000006 bytes are too many for a manifest"),
            ("name: " + "a" * 70_000, "(70000 characters) is too long"),
            ("a" * 70_000 + ": x", "(70000 characters) is too long"),
            ("a: &x 1\nb: [" + "*x," * 101 + "]", "more than 100 aliases"),
            pytest.param(
                "[" + "1," * 200_000 + "]", "more than 200000 values", marks=pytest.mark.slow
            ),
            ("%TAG !a! tag:x\n" * 101, "more than 100 %TAG directives"),
        ],
    )
    def test_what_is_too_much(self, pure, text, says):
        assert says in refused(text, pure)[0]

    def test_an_alias_bomb_costs_nothing(self, pure):
        bomb = "a0: &a0 [x]\n" + "".join(
            f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 11)
        )
        tracemalloc.start()
        try:
            (problem,) = refused(bomb, pure)
            _, peak_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert "more than 200000 values, aliases written out" in problem
        assert peak_bytes < 8 * 1024**2

    def test_limits_hold_to_the_last_unit(self, pure):
        limits = DocumentLimits(max_bytes=10, max_depth=2, max_nodes=3, max_scalar_chars=4)
        assert read("[[a]]", pure, limits) == [[["a"]]]
        assert read("[abcd, b]", pure, limits) == [["abcd", "b"]]
        assert read("# 8 chars\n", pure, limits) == []
        for text in ("[[[]]]", "[a,b,c]", "abcde", "# 9 charss\n"):
            refused(text, pure, limits)

    def test_documents_before_an_error_of_form_are_still_read(self, pure):
        problems = Problems("f")
        roots = [plain(root) for root in read_documents("a: 1\n---\n[", problems, pure=pure)]
        assert roots == [{"a": 1}]
        assert problems.count == 1
