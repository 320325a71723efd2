"""The catalog: data that hold together, inputs that are the same everywhere."""

import json
import random
import re
import sys
from pathlib import Path

import pytest

import wharfinger.catalog.programs
from tests.support import slow
from wharfinger.catalog import listing
from wharfinger.catalog.inputs import MAKERS, make_input
from wharfinger.catalog.listing import Category
from wharfinger.errors import InvalidInput
from wharfinger.manifest import load_manifests, workload_to_manifest

DEMO = {"compress", "database", "digest", "http_service", "keyvalue_service", "numeric"}
DEMO |= {"sorting", "text"}


def test_there_are_enough_and_each_once():
    names = [program.name for program in listing.PROGRAMS]
    assert len(names) >= 40
    assert len(set(names)) == len(names)
    assert {program.kind for program in listing.PROGRAMS} == set(Category)
    assert sum(program.threads > 1 for program in listing.PROGRAMS) >= 5


@pytest.mark.parametrize("program", listing.PROGRAMS, ids=lambda program: program.name)
def test_each_is_a_workload_that_can_be_handed_in(program, tmp_path: Path):
    workload = program.workload(tmp_path)
    (read,) = load_manifests(
        json.dumps(workload_to_manifest(workload, redact=False)), working_directory=str(tmp_path)
    )
    assert read == workload
    assert set(program.inputs) <= MAKERS.keys()


def test_rows_of_one_binary_are_of_one_group():
    """By what tells a program from others, not by what each of them needs."""
    for one in listing.PROGRAMS:
        for other in listing.PROGRAMS:
            if one.marks[:1] == other.marks[:1] and one.kind is not Category.SERVICE:
                assert one.group == other.group or other.kind is Category.SERVICE


def test_no_program_is_the_demos_own():
    modules = {path.stem for path in Path(wharfinger.catalog.programs.__file__).parent.glob("*.py")}
    assert modules >= DEMO
    for program in listing.PROGRAMS:
        run = re.findall(r"wharfinger\.programs\.(\w+)", " ".join(program.command))
        assert not DEMO & set(run)


@pytest.mark.parametrize(
    ("command", "groups"),
    [
        ("python3 -m wharfinger.catalog.programs.compress --algorithm lzma", {"xz"}),
        ("python3 -m wharfinger.catalog.programs.database --work insert", {"sqlite"}),
        ("python3 -m wharfinger.catalog.programs.numeric --kernel matmul", {"numpy-matmul"}),
        ("python3 -m wharfinger.catalog.programs.text --kind json", {"python-json"}),
        ("python3 -m wharfinger.catalog.programs.sorting", {"sort"}),
        ("/usr/bin/bzip2 -k file", {"bzip2"}),
        ("my-own-program", set()),
    ],
)
def test_a_command_is_recognised_by_its_words(command: str, groups: set[str]):
    assert listing.groups_run_by(command.split()) == groups


def test_each_program_is_recognised_as_its_own_group(tmp_path: Path):
    for program in listing.PROGRAMS:
        command = program.workload(tmp_path).run.command
        assert program.group in listing.groups_run_by(command), program.name


LARGE = {"document", "words.txt.gz"}


@pytest.mark.long
@pytest.mark.parametrize("name", [*sorted(MAKERS.keys() - LARGE), *slow(sorted(LARGE))])
def test_the_same_seed_makes_the_same_input(tmp_path: Path, name: str):
    random.seed(0)
    first = contents(make_input(name, directory(tmp_path, "a"), 7))
    random.seed(1)
    assert first == contents(make_input(name, directory(tmp_path, "b"), 7))
    assert first


def directory(parent: Path, name: str) -> Path:
    path = parent / name
    path.mkdir()
    return path


def contents(path: Path) -> dict[str, bytes]:
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    return {str(file.relative_to(path.parent)): file.read_bytes() for file in files}


def test_what_a_killed_run_left_is_made_anew(tmp_path: Path):
    (tmp_path / "tree.part" / "half").mkdir(parents=True)
    (tmp_path / "tree.part" / "half" / "file").write_text("half")
    tree = make_input("tree", tmp_path, 1)
    assert not (tree / "half").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"tree"}


def test_a_digest_does_not_depend_on_the_machine(monkeypatch: pytest.MonkeyPatch):
    before = [program.digest for program in listing.PROGRAMS]
    monkeypatch.setattr(sys, "executable", "/elsewhere/python")
    assert before == [program.digest for program in listing.PROGRAMS]
    assert len(set(before)) == len(before)


def test_an_unknown_name_is_refused():
    with pytest.raises(InvalidInput, match="'gzp' is not in the catalog"):
        listing.chosen(["gzp"])
    with pytest.raises(InvalidInput, match=r"'nothing.txt'"):
        make_input("nothing.txt", Path(), 1)


def test_what_is_missing_is_named_by_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("PATH", str(tmp_path))
    (redis,) = listing.chosen(["redis"])
    assert redis.missing() == ("redis-server",)
