"""Which sources of interference a study tells apart, by the study's name.

Called by what profiles or reports by source. Sources: Paragon Table II, iBench (dissertation 5.3).
"""

from collections.abc import Mapping
from types import MappingProxyType

from wharfinger.model.interference import SharedResource as R

PARAGON = (
    R.MEMORY_CAPACITY,
    R.MEMORY_BANDWIDTH,
    R.LAST_LEVEL_CACHE,
    R.LAST_LEVEL_CACHE_BANDWIDTH,
    R.L1_INSTRUCTION_CACHE,
    R.L1_DATA_CACHE,
    R.TLB,
    R.INTEGER,
    R.FLOATING_POINT,
    R.VECTOR,
    R.NETWORK_BANDWIDTH,
    R.STORAGE_BANDWIDTH,
)
"""The ten of Table II; its core is the worst of integer, floating point and vector."""
IBENCH = (
    R.MEMORY_CAPACITY,
    R.MEMORY_BANDWIDTH,
    R.STORAGE_CAPACITY,
    R.STORAGE_BANDWIDTH,
    R.NETWORK_BANDWIDTH,
    R.LAST_LEVEL_CACHE,
    R.LAST_LEVEL_CACHE_BANDWIDTH,
    R.L2_CACHE,
    R.L2_BANDWIDTH,
    R.L1_INSTRUCTION_CACHE,
    R.L1_DATA_CACHE,
    R.TLB,
    R.INTEGER,
    R.FLOATING_POINT,
    R.PREFETCHER,
    R.INTERCONNECT,
    R.VECTOR,
)
"""SoI 1 to 15 in that order, and behind 6 and 7 theirs for the second level of cache."""
SETS: Mapping[str, tuple[R, ...]] = MappingProxyType({"paragon": PARAGON, "ibench": IBENCH})
