"""Compiled kernels behind plain functions.

Who calls: ``wharfinger.policies``, ``wharfinger.contention``, ``wharfinger.estimators``
(the fold-ins), and ``wharfinger.simulator`` (the event loop, the law of latency). The sources lie
outside the package, in ``native/``; each kernel has a ``.pyi`` here and a reference in Python or
NumPy.
"""

from wharfinger.native._conditional import Conditional
from wharfinger.native._contention import Contention
from wharfinger.native._events import EventLoop
from wharfinger.native._frozen import replaced
from wharfinger.native._harmony import HarmonyIndex
from wharfinger.native._hashed import HashedServers
from wharfinger.native._index import LoadIndex
from wharfinger.native._mixture import Mixtures
from wharfinger.native._pairs import pair_drops, pair_shortfalls
from wharfinger.native._quality import (
    OrderedRows,
    needed_quality,
    refresh_quality,
    tiers_with_room,
)
from wharfinger.native._queueing import beyond, longest, most_load
from wharfinger.native._scan import (
    closest_fits,
    count_room,
    free_on,
    least_loaded,
    next_in_turn,
    sizes_within,
)
from wharfinger.native._seats import press_residents, seat_residents, sum_losses
from wharfinger.native._sizing import (
    add_exceeded,
    first_enough,
    first_enough_on,
    judge_room,
    sum_drops,
)
from wharfinger.native._waits import (
    BusyCurve,
    Releases,
    ServerRooms,
    near_best,
    sample_ages,
    switch_after,
)

__all__ = [
    "BusyCurve",
    "Conditional",
    "Contention",
    "EventLoop",
    "HarmonyIndex",
    "HashedServers",
    "LoadIndex",
    "Mixtures",
    "OrderedRows",
    "Releases",
    "ServerRooms",
    "add_exceeded",
    "beyond",
    "closest_fits",
    "count_room",
    "first_enough",
    "first_enough_on",
    "free_on",
    "ibench_path",
    "judge_room",
    "least_loaded",
    "longest",
    "most_load",
    "near_best",
    "needed_quality",
    "next_in_turn",
    "pair_drops",
    "pair_shortfalls",
    "press_residents",
    "refresh_quality",
    "replaced",
    "sample_ages",
    "seat_residents",
    "sizes_within",
    "sum_drops",
    "sum_losses",
    "switch_after",
    "tiers_with_room",
]
