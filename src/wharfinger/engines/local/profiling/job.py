"""What the profiler's process is told: the plan, and what the engine knows that it needs.

Sent by ``client`` in sealed memory, since an environment may hold secrets; read by ``worker``.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from wharfinger.engines.local.start import OpenFiles
from wharfinger.host.cgroups import CgroupControl
from wharfinger.host.topology import LocalServer
from wharfinger.model.profile import ProfilingPlan
from wharfinger.model.workload import Workload

LIMIT_SECONDS = 90.0
"""For all that is not measuring: copies set up and cleared away, a device's maximum measured."""


@dataclass(frozen=True, slots=True)
class ProfilingJob:
    """One plan to be run.

    Attributes:
        key: The core's.
        workload: What is copied.
        plan: What is to be measured.
        server: Where.
        control: The engine's cgroups.
        directory: Of all that the plan's runs leave while they run; made by the worker.
        open_files: Limits of the program.
        cap_bytes: How much a copy may write at most, if there is as much room.
        maxima_per_second: Of the storage source, by device number, as measured before.
    """

    key: str
    workload: Workload
    plan: ProfilingPlan
    server: LocalServer
    control: CgroupControl
    directory: Path
    open_files: OpenFiles
    cap_bytes: int
    maxima_per_second: dict[int, float]

    @property
    def limit_seconds(self) -> float:
        """After these the profiler is killed."""
        return 2 * self.plan.seconds + LIMIT_SECONDS

    def encode(self) -> str:
        """As it is sent."""
        return msgspec.json.encode(self, enc_hook=_encode).decode()

    @classmethod
    def decode(cls, text: str) -> "ProfilingJob":
        """As it was sent."""
        return msgspec.json.decode(text, type=cls, dec_hook=_decode)


def _encode(value: Any) -> str:
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(type(value))


def _decode(kind: type, value: Any) -> Path:
    if kind is Path:
        return Path(value)
    raise NotImplementedError(kind)
