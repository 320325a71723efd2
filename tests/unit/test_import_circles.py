"""No module of the package imports itself by way of others; what only types need is left out."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import wharfinger

ROOT = Path(wharfinger.__file__).parent


def imported(node: ast.AST) -> Iterator[str]:
    """Names that are imported anywhere below, also in functions."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.ImportFrom) and child.module and not child.level:
            yield child.module
            yield from (f"{child.module}.{alias.name}" for alias in child.names)
        elif isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        yield from imported(child)


@pytest.mark.long
def test_no_module_imports_itself_by_way_of_others() -> None:
    files = {
        ".".join(("wharfinger", *path.relative_to(ROOT).with_suffix("").parts)): path
        for path in ROOT.rglob("*.py")
        if path.stem != "__init__"
    }
    graph = {name: set(imported(ast.parse(path.read_text()))) for name, path in files.items()}
    # Raises CycleError, which names the circle.
    order = tuple(
        TopologicalSorter({name: graph[name] & graph.keys() for name in graph}).static_order()
    )
    assert len(order) == len(files) > 100
