"""Which sources of interference a study tells apart, by name.

Called by what profiles or reports by source. Sources: Paragon Table II, iBench (dissertation 5.3).
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from wharfinger.errors import InvalidInput
from wharfinger.model.interference import SharedResource

R = SharedResource
SourceSet = Mapping[str, tuple[SharedResource, ...]]
"""Sources by the name that the study has for them; several are told as one, the worst of them."""


def _each(*sources: SharedResource) -> SourceSet:
    return MappingProxyType({source.value: (source,) for source in sources})


PARAGON: SourceSet = MappingProxyType(
    {
        **_each(
            R.MEMORY_CAPACITY,
            R.MEMORY_BANDWIDTH,
            R.LAST_LEVEL_CACHE,
            R.LAST_LEVEL_CACHE_BANDWIDTH,
            R.L1_INSTRUCTION_CACHE,
            R.L1_DATA_CACHE,
            R.TLB,
        ),
        "core": (R.INTEGER, R.FLOATING_POINT, R.VECTOR),
        **_each(R.NETWORK_BANDWIDTH, R.STORAGE_BANDWIDTH),
    }
)
"""The ten of Table II."""
IBENCH = _each(
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
SETS: Mapping[str, SourceSet] = MappingProxyType({"paragon": PARAGON, "ibench": IBENCH})


def set_named(name: str) -> SourceSet:
    """The set of that name; raises ``InvalidInput``.

    >>> len(set_named("paragon")), len(set_named("ibench"))
    (10, 17)
    """
    if name not in SETS:
        raise InvalidInput(f"set of sources: {name!r}; name one of: {', '.join(SETS)}")
    return SETS[name]


def worst_tolerated(sources: SourceSet, scores: Mapping[SharedResource, float]) -> dict[str, float]:
    """The least that is tolerated of each, 0 to 100; without those that nothing is known of.

    >>> worst_tolerated(PARAGON, {R.INTEGER: 40.0, R.VECTOR: 30.0, R.TLB: 90.0})
    {'tlb': 90.0, 'core': 30.0}
    """
    return {name: min(known) for name, known in _known(sources, scores)}


def worst_caused(sources: SourceSet, scores: Mapping[SharedResource, float]) -> dict[str, float]:
    """The most that is caused of each; as :func:`worst_tolerated`."""
    return {name: max(known) for name, known in _known(sources, scores)}


def _known(
    sources: SourceSet, scores: Mapping[SharedResource, float]
) -> list[tuple[str, Sequence[float]]]:
    told = [(name, [scores[s] for s in group if s in scores]) for name, group in sources.items()]
    return [(name, known) for name, known in told if known]
