"""Which sources of interference a profile has, by name or by set; and what each is a feature of.

Sets are those of ``model.source_sets``.
"""

from wharfinger.errors import InvalidInput
from wharfinger.ibench.sources import SOURCES, Source
from wharfinger.model.source_sets import SETS

ALL = "all"
FEATURES = {
    "memory-capacity": "more memory",
    "memory-bandwidth": "more memory channels, or faster memory",
    "storage-capacity": "more storage",
    "storage-bandwidth": "faster storage",
    "network-bandwidth": "a faster network interface",
    "last-level-cache": "a larger last-level cache",
    "last-level-cache-bandwidth": "a last-level cache with more bandwidth",
    "l2-cache": "a larger L2 cache",
    "l2-bandwidth": "an L2 cache with more bandwidth",
    "l1-instruction-cache": "a larger L1 instruction cache",
    "l1-data-cache": "a larger L1 data cache",
    "tlb": "a larger TLB, or huge pages",
    "integer": "more or faster cores",
    "floating-point": "more or faster cores",
    "vector": "cores with wider or more vector units",
    "prefetcher": "better prefetchers",
    "interconnect": "a faster interconnect between cores",
}
"""On what to spend where a program contends for a resource (dissertation 5.5.2)."""


def choose(text: str) -> tuple[Source, ...]:
    """What a list of sources and sets, with commas between, stands for; else ``InvalidInput``.

    >>> [source.name for source in choose("integer,storage-bandwidth")]
    ['integer', 'storage-bandwidth']
    """
    by_name = {source.name: source for source in SOURCES}
    names: dict[str, bool] = {}
    for word in text.split(","):
        if word == ALL:
            names |= dict.fromkeys(by_name, True)
        elif word in SETS:
            names |= dict.fromkeys((resource.value for resource in SETS[word]), True)
        elif word in by_name:
            names[word] = True
        else:
            there_are = f"sources: {', '.join(by_name)}; sets: {', '.join((*SETS, ALL))}"
            raise InvalidInput(f"--sources: {word!r} is neither a source nor a set; {there_are}")
    return tuple(by_name[name] for name in names)
