import socket
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
def port() -> Iterator[int]:
    """A free port, which no other process is given meanwhile; the test may listen on it."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield int(held.getsockname()[1])


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    """Supervised runs; at the end none of their processes is left."""
    made = Runs(tmp_path)
    yield made
    made.clean_up()


@pytest.fixture
def run(runs: Runs) -> Run:
    return runs.new()
