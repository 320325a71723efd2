"""A simulated server: its residents, and how its CPU is divided.

Called by ``cluster``. Allocations are limits (a cgroup's quota): none gets more than its own,
and no less, since policies never give away what is not there. Best-effort work shares what the
others leave.
"""

from typing import TYPE_CHECKING

from wharfinger.model.platform import Server

if TYPE_CHECKING:
    from wharfinger.simulator.cluster.runs import RunPart


class SimulatedServer:
    """One server.

    Attributes:
        server: As the engine reports it.
        platform: Its platform's name.
        cpu_millicpus: CPU that there is, and may be used.
        up: Whether it is there.
        parts: Of all that hold something there, in the order in which they came.
        used_millicpus: CPU that does something.
        measured: Its next measurement is in the loop.
        row: Its place among the servers that there ever were.
    """

    __slots__ = (
        "allocated_millicpus",
        "cpu_millicpus",
        "measured",
        "memory_allocated_bytes",
        "parts",
        "platform",
        "row",
        "server",
        "up",
        "used_millicpus",
    )

    def __init__(self, server: Server, row: int) -> None:
        self.server = server
        self.platform = server.platform.name
        # What a server promises beyond what it has is no CPU.
        self.cpu_millicpus = float(min(server.cpu_millicpus, server.platform.cpu_millicpus))
        self.row = row
        self.up = True
        self.parts: list[RunPart] = []
        self.used_millicpus = 0.0
        self.allocated_millicpus = 0
        self.memory_allocated_bytes = 0
        self.measured = False

    def hold(self, part: "RunPart") -> None:
        """One more holds what it was given."""
        self.parts.append(part)
        self.allocated_millicpus += part.allocation.cpu_millicpus
        self.memory_allocated_bytes += part.allocation.memory_bytes

    def release(self, part: "RunPart") -> None:
        """It holds nothing here any more."""
        self.parts.remove(part)
        self.allocated_millicpus -= part.allocation.cpu_millicpus
        self.memory_allocated_bytes -= part.allocation.memory_bytes


def share_out(capacity_millicpus: float, wanted: list[float]) -> list[float]:
    """CPU for those that share what is left: evenly, none more than it can use (water-filling).

    >>> share_out(1000.0, [100.0, 2000.0, 600.0])
    [100.0, 450.0, 450.0]
    """
    left, given = max(0.0, capacity_millicpus), [0.0] * len(wanted)
    order = sorted(range(len(wanted)), key=wanted.__getitem__)
    for taken, at in enumerate(order):
        given[at] = min(wanted[at], left / (len(order) - taken))
        left -= given[at]
    return given
