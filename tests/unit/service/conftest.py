from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.api import Api


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    api = Api(tmp_path)
    yield api
    api.close()
