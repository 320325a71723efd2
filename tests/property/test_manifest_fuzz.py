"""Whatever the bytes, out come workloads or a short list of problems, and nothing else.

Each test prints how many inputs it tried and how many of them were valid: see ``pytest -rP``.
"""

import json
from collections import Counter
from pathlib import Path

import jsonschema
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.manifest_strategies import workloads
from wharfinger.errors import InvalidManifest
from wharfinger.manifest import json_schema, load_manifests, workload_to_manifest

EXAMPLES = [
    path.read_bytes()
    for path in sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.yaml"))
]
PIECES = [
    *(b"[", b"]", b"{", b"}", b"*a", b"&a ", b"!!int ", b"!x ", b"<<: ", b"---\n", b"...\n", b"\t"),
    *(b"%YAML 1.2\n", b"|\n", b">-\n", b"'", b'"', b"\\", b"\0", b"\xff", b"\xe2\x80\xa8", b"? "),
    *(
        b": ",
        b"- ",
        b", ",
        b".nan",
        b"-1",
        b"1e999",
        b"0x",
        b"~",
        b"null",
        b"true",
        b"#",
        b"\r",
        b"@",
    ),
    *(b"spec", b"\\ud800", b"9" * 5000, b"a" * 70_000, b"[" * 100, b"\xef\xbb\xbf"),
]
ENOUGH = 60
"""Inputs of which by chance alone all would hardly ever be valid, or none."""
pytestmark = pytest.mark.hypothesis  # each counts what it tries, so its property is within it


def outcome(text, *, pure=False):
    """Workloads, or ``None`` for a refusal that is fit to be shown."""
    try:
        workloads = load_manifests(text, source="f", working_directory="/w", pure=pure)
    except InvalidManifest as refused:
        assert 1 <= len(refused.problems) <= 21
        for line in refused.problems:
            assert line.startswith("f:")
            assert line.isprintable()
            assert len(line) < 600
        return None
    assert workloads
    for workload in workloads:
        json.dumps(workload_to_manifest(workload, redact=True), allow_nan=False)
    return workloads


def report(record_property, counts):
    """Say how much was tried, for people and for JUnit files."""
    record_property("examples", counts.total())
    print(f"{counts.total()} inputs tried, {counts['valid']} of them valid manifests")
    assert counts.total() > 0


def as_yaml(manifest):
    """YAML in quotes throughout: PyYAML's plain text is YAML 1.1's, where 08 needs none."""
    return yaml.safe_dump(manifest, default_style='"')


@st.composite
def mutated(draw):
    """A valid file with at most a few pieces cut out, doubled, exchanged or put in."""
    text = draw(st.sampled_from(EXAMPLES))
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 30)))
        piece = draw(st.sampled_from(PIECES) | st.binary(max_size=4) | st.just(text[start:end] * 2))
        text = text[:start] + piece + text[end:]
    return text


def test_arbitrary_bytes(record_property):
    counts = Counter()

    @given(
        st.binary(max_size=400)
        | st.text(max_size=200)
        | st.lists(st.sampled_from(PIECES)).map(b"".join)
    )
    def run(text):
        counts["valid" if outcome(text) else "refused"] += 1

    run()
    report(record_property, counts)


def test_mutated_manifests(record_property):
    counts = Counter()

    # So that each is there, even among a few: of what is drawn, a fifth is valid.
    @example(EXAMPLES[0])
    @example(b"[" + EXAMPLES[0])
    @given(mutated())
    def run(text):
        counts["valid" if outcome(text) else "refused"] += 1

    run()
    report(record_property, counts)
    assert counts["valid"]
    assert counts["refused"]


def test_both_parsers_read_the_same(record_property):
    counts = Counter()

    @given(mutated())
    def run(text):
        by_c, by_python = outcome(text), outcome(text, pure=True)
        counts["valid" if by_c else "refused"] += 1
        # Each knows a few forms that the other refuses; what both accept means the same.
        if by_c and by_python:
            assert by_c == by_python

    run()
    report(record_property, counts)


@pytest.mark.slow
def test_mutated_values_agree_with_the_schema(record_property):
    """What the loader accepts, the schema accepts."""
    validator = jsonschema.Draft202012Validator(json_schema())
    counts = Counter()
    values = (
        st.none() | st.booleans() | st.integers(-5, 2000) | st.floats() | st.text(max_size=5)
        | st.sampled_from(["1s", "5%", "2/s", "1Gi", "250m", "copy", "batch", "zone", "a-b"])
        | st.just([]) | st.just({}) | st.just(["a"]) | st.just({"A": "b"})
    )  # fmt: skip

    @given(workloads(), workloads(), st.data())
    def run(workload, other, data):
        manifest = workload_to_manifest(workload, redact=False)
        place, source = manifest, workload_to_manifest(other, redact=False)
        while True:
            key = data.draw(st.sampled_from(sorted(place)))
            nested = (
                isinstance(place[key], dict) and place[key] and isinstance(source.get(key), dict)
            )
            if not nested or data.draw(st.integers(0, 4)) == 0:
                break
            place, source = place[key], source[key]
        exchanged = key in source and data.draw(st.booleans())
        place[key] = source[key] if exchanged else data.draw(values)
        accepted = outcome(as_yaml(manifest))
        counts["valid" if accepted else "refused"] += 1
        if accepted:
            validator.validate(manifest)

    run()
    report(record_property, counts)
    if counts.total() >= ENOUGH:
        assert counts["valid"]
        assert counts["refused"]


@pytest.mark.slow
def test_a_workload_written_and_read_again_is_the_same(record_property):
    counts = Counter()

    @given(workloads())
    def run(workload):
        manifest = workload_to_manifest(workload, redact=False)
        texts = (json.dumps(manifest), json.dumps(manifest, ensure_ascii=False), as_yaml(manifest))
        for text in texts:
            if "\x7f" in text or any(
                0x80 <= ord(c) < 0xA0 or c in "\u2028\u2029\ufffe\uffff" for c in text
            ):
                continue  # no YAML, though JSON: such characters must be written as escapes
            assert load_manifests(text, working_directory="/elsewhere") == (workload,)
        hidden = workload_to_manifest(workload, redact=True)
        assert set(hidden["spec"]["run"].get("env", {}).values()) <= {"***"}
        counts["valid"] += 1

    run()
    report(record_property, counts)
