"""Public conformance kits: hold your own policy or engine to what the core relies on.

* ``wharfinger.testing.engine``: ``engine_checks`` and ``check_engine`` for engines.
* ``wharfinger.testing.policy``: ``check_policy`` and ``check_admission``.
* ``wharfinger.testing.memory``: ``MemoryEngine``, a deterministic engine whose programs end
  as told, for tests of whatever stands above an engine.
* ``wharfinger.testing.faulty``: ``FaultyEngine``, which lets any engine fail on request.
"""

from wharfinger.testing.faulty import Faults, FaultyEngine
from wharfinger.testing.memory import MemoryCluster, MemoryEngine

__all__ = ["Faults", "FaultyEngine", "MemoryCluster", "MemoryEngine"]
