"""Whether this machine has the memory for a run, asked before anything of it is drawn."""

import re
from pathlib import Path

from wharfinger.errors import InvalidInput
from wharfinger.host.cgroups import find_hierarchies, own_limits
from wharfinger.host.cgroups.files import read_text

FIXED_BYTES = 64 * 1024**2
WORKLOAD_BYTES = 4096
SERVER_BYTES = 1536
"""What runs under cheap policies take at least: measured with 11,000 workloads (3.3 KiB each) and
20,000 servers (1.3 KiB each)."""


def check_room(workloads: int, servers: int, available_bytes: int | None = None) -> None:
    """Raise ``InvalidInput``, which names what fits, where a run of so many can't be held.

    ``available_bytes``: of memory; ``None`` = what the kernel says is available.
    """
    if available_bytes is None:
        available_bytes = read_available_bytes()
    needed = FIXED_BYTES + workloads * WORKLOAD_BYTES + servers * SERVER_BYTES
    if available_bytes is None or needed <= available_bytes:
        return
    fits = [
        _fitting(available_bytes - FIXED_BYTES - servers * SERVER_BYTES, WORKLOAD_BYTES),
        _fitting(available_bytes - FIXED_BYTES - workloads * WORKLOAD_BYTES, SERVER_BYTES),
    ]
    # More of one than fits alone is not mended by fewer of the other.
    which = "--workloads" if workloads * WORKLOAD_BYTES >= servers * SERVER_BYTES else "--servers"
    most = fits[which == "--servers"]
    sizes = [f"{size / 2**30:,.1f}Gi" for size in (needed, available_bytes)]
    raise InvalidInput(
        f"{which}: {workloads} workloads on {servers} servers take at least {sizes[0]} of memory, "
        f"and {sizes[1]} are available; {f'at most {most} fit' if most else 'write fewer of both'}"
    )


def _fitting(left_bytes: int, each_bytes: int) -> int:
    """How many fit, to two digits."""
    most = max(0, left_bytes // each_bytes)
    unit = int(10 ** max(0, len(str(most)) - 2))
    return most // unit * unit


def read_available_bytes(procfs: Path = Path("/proc")) -> int | None:
    """Memory that this process may still take; ``None`` = the kernel does not say."""
    told = re.search(r"MemAvailable:\s*(\d+) kB", read_text(procfs / "meminfo") or "")
    limit = own_limits(find_hierarchies()).memory_bytes
    known = [int(told[1]) * 1024] if told else []
    return min([*known, *([] if limit is None else [limit])], default=None)
