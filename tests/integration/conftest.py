from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.supervised import Run, Runs

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Real processes take real time: none of these tests is for the fast tier."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker("slow")


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    """Supervised runs; at the end none of their processes is left."""
    made = Runs(tmp_path)
    yield made
    made.clean_up()


@pytest.fixture
def run(runs: Runs) -> Run:
    return runs.new()
