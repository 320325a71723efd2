from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.supervised import Run, Runs


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    """Supervised runs; at the end none of their processes is left."""
    made = Runs(tmp_path)
    yield made
    made.clean_up()


@pytest.fixture
def run(runs: Runs) -> Run:
    return runs.new()
