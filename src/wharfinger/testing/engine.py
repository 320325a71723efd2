"""Checks that hold an engine to the promises of ``wharfinger.engines.base``.

Each check is a function of an ``EngineHarness`` that raises ``AssertionError`` with one line.
Run them one by one in your own tests, so that each stands for itself::

    @pytest.mark.parametrize("check", engine_checks(), ids=lambda check: check.__name__)
    def test_my_engine_keeps_its_promises(check, tmp_path):
        check(EngineHarness(tmp_path, MyEngine, ShellPrograms(tmp_path)))

or all at once::

    >>> from wharfinger.testing import MemoryCluster, MemoryEngine, MemoryPrograms
    >>> from wharfinger.testing import EngineHarness, check_engine
    >>> def harness(directory):
    ...     cluster = MemoryCluster()
    ...     make_engine = lambda state: MemoryEngine(cluster)
    ...     return EngineHarness(directory, make_engine, MemoryPrograms(cluster))
    >>> check_engine(harness)["a_server_that_leaves_while_something_starts"]
    'this harness has no remove_servers'

What a harness can't make happen is not passed over in silence: pytest shows that check as
skipped, and ``check_engine`` returns it with the reason.
"""

import tempfile
import unittest
from collections.abc import Callable
from pathlib import Path

from wharfinger.testing import run_checks, start_checks
from wharfinger.testing.harness import EngineCheck, EngineHarness


def engine_checks() -> tuple[EngineCheck, ...]:
    """Every check, in the order of their dependence: what fails first explains the rest."""
    return (*start_checks.CHECKS, *run_checks.CHECKS)


def check_engine(make_harness: Callable[[Path], EngineHarness]) -> dict[str, str]:
    """Run every check, each on a fresh harness in a directory of its own.

    Args:
        make_harness: Is given an empty directory.

    Returns:
        What could not be checked: the check's name, and why.

    Raises:
        AssertionError: The first promise that is not kept, with the check's name.
    """
    skipped: dict[str, str] = {}
    for check in engine_checks():
        with tempfile.TemporaryDirectory(prefix="check-engine-") as directory:
            try:
                check(make_harness(Path(directory)))
            except AssertionError as error:
                raise AssertionError(f"{check.__name__}: {error}") from error
            except unittest.SkipTest as reason:
                skipped[check.__name__] = str(reason)
    return skipped
