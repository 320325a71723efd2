"""What the profiler's process is told, and its line to the manager.

The job goes through sealed memory, since an environment may hold secrets.
"""

import os
import select
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from wharfinger.engines.supervised.copying import limit_seconds
from wharfinger.engines.supervised.machine import Launcher
from wharfinger.host.topology import LocalServer
from wharfinger.model.profile import ProfilingPlan
from wharfinger.model.workload import Workload
from wharfinger.monitor.messages import Channel, Message
from wharfinger.profiling.steps import NeighborFell


@dataclass(frozen=True, slots=True)
class ProfilingJob:
    """One plan to be run, on ``machine``, which has the plan's server alone.

    The worker makes ``directory``, for all that runs leave. A copy may write ``cap_bytes`` if there
    is room. ``maxima_per_second`` of sources were measured before, by source and device or CPUs.
    """

    key: str
    workload: Workload
    plan: ProfilingPlan
    machine: Launcher
    directory: Path
    cap_bytes: int
    maxima_per_second: dict[str, float]

    @property
    def server(self) -> LocalServer:
        """Where it runs."""
        return self.machine.servers[self.plan.server]

    @property
    def limit_seconds(self) -> float:
        """After these the profiler is killed."""
        return limit_seconds(self.plan)

    def encode(self) -> str:
        """As it is sent."""
        return msgspec.json.encode(self, enc_hook=os.fspath).decode()

    @classmethod
    def decode(cls, text: str) -> "ProfilingJob":
        """As it was sent."""
        return msgspec.json.decode(text, type=cls, dec_hook=lambda _type, path: Path(path))


class ManagerGone(Exception):
    """The manager has died."""


class Lifeline:
    """The worker's channel to the manager, at which it waits.

    Neighbors that fall below their targets come on it. Its break says that the manager is gone.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._injecting = False
        self._heard: list[Message] = []

    def tell(self, message: Message) -> None:
        """Send a message; raises ``ManagerGone``."""
        try:
            self._channel.send(message)
        except BrokenPipeError as error:
            raise ManagerGone from error

    def receive(self) -> Message:
        """The next message; raises ``ManagerGone`` if there will be none."""
        message = self._channel.receive()
        if message is None:
            raise ManagerGone
        return message

    def wait(self, seconds: float, *descriptors: int) -> bool:
        """Wait; whether one of the descriptors has become readable before the time was over.

        Raises ``ManagerGone``, and within :meth:`injecting` ``NeighborFell``.
        """
        poll = select.poll()
        for descriptor in (self._channel.fileno(), *descriptors):
            poll.register(descriptor, select.POLLIN)
        ready = {descriptor for descriptor, _ in poll.poll(max(0.0, seconds) * 1000)}
        if self._channel.fileno() in ready:
            message = self.receive()
            if "performance" in message:
                self._heard.append(message)
            fallen = str(message.get("fallen", ""))
            if fallen and self._injecting:  # Else it comes too late: the source is gone.
                raise NeighborFell(fallen)
        return bool(ready.intersection(descriptors))

    def hear(self, seconds: float) -> Message | None:
        """The next reading of the workload that is probed; ``None`` = none within the time.

        Raises as :meth:`wait`.
        """
        until = time.monotonic() + seconds
        while not self._heard and (left := until - time.monotonic()) > 0:
            self.wait(left)
        return self._heard.pop(0) if self._heard else None

    def forget(self) -> None:
        """Drop the readings that were not heard yet: they are of before."""
        self._heard.clear()

    @contextmanager
    def injecting(self, *, everywhere: bool) -> Iterator[None]:
        """Within it neighbors may be slowed, everywhere or on the workload's server."""
        self.tell({"injecting": True, "everywhere": everywhere})
        self._injecting = True
        try:
            yield
        finally:
            self._injecting = False
            self.tell({"injecting": False})
