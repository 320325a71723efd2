"""Which sources of interference plans can name on a machine, and how far each reaches.

Called by engines, when they open and when they carry plans out. A source stands for a neighbor that
a workload may get: where neighbors can't press, it has no signal, whatever it could take.
"""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from types import MappingProxyType

from wharfinger.errors import InvalidInput, Unavailable
from wharfinger.ibench.sources import SOURCES, SourceSetting, signal_here, source_named
from wharfinger.model.interference import OF_A_CORE, SharedResource

BEYOND_CPUS = frozenset(SharedResource) - OF_A_CORE
"""What these take is taken from all servers of the machine, not only from those on their CPUs."""
NOT_IN_PLANS: Mapping[SharedResource, str] = MappingProxyType(
    {
        SharedResource.MEMORY_CAPACITY: "each workload has its own memory, which no neighbor takes",
        SharedResource.STORAGE_CAPACITY: "it would fill the storage that others are given",
        SharedResource.NETWORK_BANDWIDTH: "a peer on loopback takes nothing of a network's link",
    }
)
"""Those that have no signal in a plan, and why."""
IN_PLANS = tuple(each.resource for each in SOURCES if each.resource not in NOT_IN_PLANS)
_AT_ONCE = 8
"""Probes of a source wait more than they work."""


def injectable(
    servers: Iterable[tuple[int, ...]], directory: Path
) -> tuple[tuple[SharedResource, ...], dict[SharedResource, str]]:
    """Sources that have a signal on the CPUs of each server, and why the others are left out."""
    missing = dict(NOT_IN_PLANS)
    asked = [
        (resource, SourceSetting(source_named(resource.value), cpus, directory))
        for cpus, resource in product(dict.fromkeys(servers), IN_PLANS)
    ]
    with ThreadPoolExecutor(_AT_ONCE) as probing:
        reasons = probing.map(_why_not, (setting for _, setting in asked))
        for (resource, _), reason in zip(asked, reasons, strict=True):
            if reason:
                missing.setdefault(resource, reason)
    return tuple(each for each in IN_PLANS if each not in missing), missing


def _why_not(setting: SourceSetting) -> str:
    """Why a source has no signal there; empty = it has."""
    try:
        signal = signal_here(setting)
    except (InvalidInput, Unavailable) as error:
        return str(error)
    return "" if signal.there else signal.reason
