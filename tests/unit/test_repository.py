"""What holds for the repository as a whole: sizes, versions, layers, clean build files."""

import ast
import configparser
import fnmatch
import os
import re
import statistics
from collections.abc import Iterator
from importlib.metadata import version
from itertools import product
from pathlib import Path

import pytest

import wharfinger

ROOT = Path(__file__).parents[2]
PROGRAM_SUFFIXES = {".py", ".pyi", ".pyx", ".pxd", ".c", ".h", ".sh"}


def ignored_names() -> set[str]:
    lines = (ROOT / ".gitignore").read_text().split()
    return {".git", *(line.strip("/") for line in lines)}


def repository_files() -> Iterator[Path]:
    """Every file that is the project's own: those that .gitignore does not name."""
    ignored = ignored_names()

    def ours(name: str) -> bool:
        return not any(fnmatch.fnmatch(name, pattern) for pattern in ignored)

    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if ours(name) and not is_environment(folder, name)]
        yield from (Path(folder, name) for name in files if ours(name))


def is_environment(folder: str, name: str) -> bool:
    return Path(folder, name, "pyvenv.cfg").exists()


FILES = sorted(repository_files())
TESTS = [path for path in FILES if path.is_relative_to(ROOT / "tests") and path.suffix == ".py"]
SOURCES = [path for path in FILES if path.is_relative_to(ROOT / "src") and path.suffix == ".py"]


def test_the_version_is_said_in_one_voice():
    stated = (ROOT / "VERSION").read_text().strip()
    assert wharfinger.__version__ == stated
    assert version("wharfinger") == stated


def test_what_is_installed_is_what_lies_in_src():
    installed = Path(wharfinger.__file__).parent
    assert {path.relative_to(installed) for path in installed.rglob("*.py")} == {
        path.relative_to(ROOT / "src/wharfinger") for path in SOURCES
    }


def linted_layers() -> list[str]:
    """Lowest first; without ``__main__``, which only names the command."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / ".importlinter")
    layers = parser["importlinter:layers"]["layers"].split()
    return [name.strip("()") for name in reversed(layers) if name != "(__main__)"]


def documented_layers() -> list[str]:
    """What stands in the first column of the table of layers."""
    page = (ROOT / "docs/architecture.md").read_text()
    section = page.partition("\n## Layers\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\|([^|]*)\|", section, re.MULTILINE)
    return re.findall(r"`(\w+)(?:/|\.py)`", " ".join(cells))


def test_the_layers_in_the_docs_are_the_layers_that_are_checked():
    documented = documented_layers()
    assert documented == [name for name in linted_layers() if name in documented]
    assert packages() <= set(documented)


def packages() -> set[str]:
    names = {path.stem for path in (ROOT / "src/wharfinger").iterdir() if is_module(path)}
    return names - {"__init__", "__main__"}


def is_module(path: Path) -> bool:
    return path.suffix == ".py" or (path / "__init__.py").exists()


def test_no_file_names_a_path_of_one_machine():
    somewhere = re.compile(rf"(?<![\w.$}}])/({'work'}|tmp/{'h'})/".encode())
    found = [str(path) for path in FILES if somewhere.search(path.read_bytes())]
    assert not found


def test_files_are_short():
    programs = [path for path in FILES if path.suffix in PROGRAM_SUFFIXES]
    lengths = {str(path.relative_to(ROOT)): path.read_text().count("\n") for path in programs}
    assert not {name: lines for name, lines in lengths.items() if lines >= 800}


MAX_NAMES, MAX_METHODS = 12, 20
VOCABULARIES = {
    "core/actions.py": "every action that there is, each a line or two",
    "core/events.py": "every event that there is, each a line or two",
    "model/units.py": "every unit, what reads and what writes it",
    "model/workload.py": "all that a manifest states",
    "testing/engine.py": "every promise of an engine, a registered check each",
}
"""Modules that are one list of many small things."""


def public(body: list[ast.stmt]) -> list[str]:
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    names = dict.fromkeys(node.name for node in body if isinstance(node, kinds))
    return [name for name in names if not name.startswith("_")]


@pytest.mark.slow
def test_modules_and_classes_offer_few_names():
    crowded = {}
    for path in SOURCES:
        place = str(path.relative_to(ROOT / "src/wharfinger"))
        tree = ast.parse(path.read_text())
        if place not in VOCABULARIES and len(public(tree.body)) > MAX_NAMES:
            crowded[place] = public(tree.body)
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and len(public(node.body)) > MAX_METHODS:
                crowded[f"{place}: {node.name}"] = public(node.body)
    assert not crowded


@pytest.mark.slow
def test_a_class_name_stands_for_one_thing():
    places: dict[str, list[str]] = {}
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert not {name: files for name, files in places.items() if len(files) > 1}


def function_lengths() -> dict[str, int]:
    """Lines of each function in src/, without its docstring."""
    lengths = {}
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                place = f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
                lengths[place] = code_lines(node)
    return lengths


def code_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first = node.body[0]
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    if ast.get_docstring(node) is not None:
        lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    return lines


@pytest.mark.slow
def test_functions_are_short():
    lengths = function_lengths()
    assert statistics.median(lengths.values()) < 10
    longest = sorted(lengths, key=lambda place: -lengths[place])[:10]
    ninetieth = statistics.quantiles(lengths.values(), n=10)[-1]
    assert ninetieth < 35, f"the longest: {longest}"


def tiers() -> dict[str, str]:
    """The tests that each tier selects, by their marks."""
    script = (ROOT / "scripts/test").read_text()
    return dict(re.findall(r"^ +(\w+)\) marks=\"(.+?)\"", script, re.MULTILINE))


def test_every_test_runs_in_some_tier():
    for slow, long, hypothesis in product((False, True), repeat=3):
        marked = {"slow": slow, "long": long, "hypothesis": hypothesis}
        runs = {tier: eval(marks, {}, marked) for tier, marks in tiers().items()}
        assert runs == {
            "fast": not (slow or long),
            "ordinary": not long,
            "long": long or hypothesis,
        }


def test_what_runs_alone_is_integration():
    """The fast tier runs nothing alone, and all of that folder is too slow for it."""
    mark = f"mark.{'alone'}"
    found = [path for path in TESTS if mark in path.read_text()]
    assert all("integration" in path.parts for path in found)


def test_every_file_with_tests_is_found_by_its_name():
    begins = re.compile(r"^(async )?def test_|^class Test", re.MULTILINE)
    assert all(path.name.startswith("test_") for path in TESTS if begins.search(path.read_text()))


def test_builds_carry_no_machine_flags():
    build_files = [
        path
        for path in FILES
        if path.name in {"meson.build", "meson_options.txt", "pyproject.toml"}
        or path.suffix == ".ini"
        or path.parent == ROOT / "scripts"
    ]
    flag = re.compile(r"-m(arch|cpu|tune|avx\w*|sse\w*)\b")
    for path in build_files:
        code = "\n".join(line.partition("#")[0] for line in path.read_text().splitlines())
        assert not flag.search(code), f"{path} has a flag that ties the build to a machine"


def test_every_decision_is_in_the_index():
    folder = ROOT / "docs/decisions"
    index = re.findall(r"^- \[\d{4}\]\((\S+)\)", (folder / "README.md").read_text(), re.MULTILINE)
    assert index == sorted(path.name for path in folder.glob("0*.md") if path.name[:4] != "0000")
