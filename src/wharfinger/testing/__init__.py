"""Public conformance kits: hold your own policy, estimator or engine to what the core relies on.

* ``check_engine``, ``engine_checks``, ``EngineHarness``: for engines.
* ``check_policy``, ``check_admission``, ``check_adaptation``, ``check_contention``,
  ``check_provisioning``: for the parts of policies.
* ``check_recommender``: for estimators.
* ``check_interference``: for forms of the model of many neighbors.
* ``MemoryEngine``: a deterministic engine whose programs end as told, for tests of whatever
  stands above an engine.
* ``FaultyEngine``: lets any engine fail on request, within what engines may do.
"""

from wharfinger.testing.adaptation import check_adaptation
from wharfinger.testing.contention import check_contention
from wharfinger.testing.engine import check_engine, engine_checks
from wharfinger.testing.faulty import EngineFaults, FaultyEngine
from wharfinger.testing.harness import EngineHarness, Programs, ShellPrograms
from wharfinger.testing.interference import check_interference
from wharfinger.testing.memory import MemoryCluster, MemoryEngine, MemoryPrograms
from wharfinger.testing.policy import check_admission, check_policy, check_provisioning
from wharfinger.testing.recommender import check_recommender

__all__ = [
    "EngineFaults",
    "EngineHarness",
    "FaultyEngine",
    "MemoryCluster",
    "MemoryEngine",
    "MemoryPrograms",
    "Programs",
    "ShellPrograms",
    "check_adaptation",
    "check_admission",
    "check_contention",
    "check_engine",
    "check_interference",
    "check_policy",
    "check_provisioning",
    "check_recommender",
    "engine_checks",
]
