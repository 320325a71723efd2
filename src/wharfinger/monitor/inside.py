"""Reads an endpoint or a command's number, and probes, from within a sandbox's namespaces.

For the profiler. ``Inside`` starts this module as a process, which enters the namespaces of the
sandbox's process 1, drops the capabilities that the sandbox lacks, and reads with the meter's
readers. It ends with its parent, its commands with the sandbox. A process with threads (of a
library) can't enter, so it must import little.
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import count, takewhile

from wharfinger.files.atomic import closing_fd
from wharfinger.host.descriptors import call_libc
from wharfinger.model.performance import Quantity
from wharfinger.monitor.messages import Channel, attach, follow_parent, start_peer
from wharfinger.monitor.spec import WatchSpec
from wharfinger.monitor.watch import Watch

PERIOD_SECONDS, COMMAND_PERIOD_SECONDS = 0.1, 0.25
END_SECONDS = 5.0

Number = tuple[str, Quantity, float, float, bool]

_USER = 0x10000000
_OTHERS = 0x00020000 | 0x04000000 | 0x08000000 | 0x40000000 | 0x20000000
"""Mount, UTS, IPC, network, pid."""
_PR_CAPBSET_READ, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 23, 24, 38
_KEPT_CAPABILITIES = frozenset({0, 1, 3, 5, 6, 7, 10, 13})
"""Owners and modes of files, signals, becoming another user, low ports, raw sockets."""


class Inside:
    """The side outside; ``init_pid`` is process 1 of the namespaces."""

    def __init__(self, spec: WatchSpec, init_pid: int) -> None:
        self.trouble = ""
        self.why_not_ready = "not probed yet" if spec.ready or spec.reach else ""
        environment = {**os.environ, **spec.env}
        self._process, ours = start_peer(
            __name__, init_pid, env=environment, stderr=subprocess.DEVNULL
        )
        ours.setblocking(False)
        self._channel = Channel(ours)
        self._channel.send({"watch": spec.to_json()})

    def read(self) -> Sequence[Number]:
        """The numbers since the last call."""
        received: list[Number] = []
        with suppress(BlockingIOError):
            while message := self._channel.receive():
                self.trouble = message.get("trouble", "")
                self.why_not_ready = message.get("why_not_ready", self.why_not_ready)
                numbers = message.get("numbers", ())
                received += [(name, Quantity(what), *rest) for name, what, *rest in numbers]
            self.trouble = self.trouble or "the process that reads inside has ended"
        return received

    def close(self) -> None:
        """End it."""
        self._channel.close()
        self._process.kill()
        self._process.wait(END_SECONDS)


def enter(pid: int) -> None:
    """Enter a process's namespaces, and drop capabilities that reach beyond; ``OSError``."""
    own = os.readlink("/proc/self/ns/user") == os.readlink(f"/proc/{pid}/ns/user")  # noqa: PTH115 - no file
    with closing_fd(os.pidfd_open(pid)) as pidfd:
        call_libc("setns", pidfd, _OTHERS if own else _OTHERS | _USER)
    os.chdir("/")
    for capability in takewhile(_is_capability, count()):
        if capability not in _KEPT_CAPABILITIES:
            call_libc("prctl", _PR_CAPBSET_DROP, capability, 0, 0, 0)
    call_libc("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def _is_capability(number: int) -> bool:
    try:
        return call_libc("prctl", _PR_CAPBSET_READ, number) >= 0
    except OSError:
        return False


def _serve(channel: Channel, spec: WatchSpec) -> None:
    numbers: list[tuple[str, str, float, float, bool]] = []

    def hear(source: str, quantity: Quantity, at: float, value: float, counts: bool) -> None:
        numbers.append((source, quantity.value, at, value, counts))

    watch = Watch(spec, hear=hear)
    period_seconds = COMMAND_PERIOD_SECONDS if spec.command else PERIOD_SECONDS
    told = None
    while True:
        watch.look_at_health()
        watch.read()
        trouble, why = "" if numbers else watch.trouble, watch.health.why_not_ready
        if numbers or trouble or why != told:
            channel.send({"numbers": numbers, "trouble": trouble, "why_not_ready": why})
            numbers.clear()
            told = why
        time.sleep(period_seconds)


def main(descriptor: str, parent: str, init_pid: str) -> None:
    """The process's entry."""
    channel = attach(descriptor, parent)
    message = channel.receive()
    if message is None:
        return
    spec = WatchSpec.from_json(message["watch"])
    try:
        enter(int(init_pid))
    except OSError as error:
        channel.send({"trouble": f"cannot enter the copy's namespaces: {error.strerror}"})
        return
    # Only a child is in the pid namespace.
    child = os.fork()
    if child == 0:
        follow_parent()
        with suppress(BrokenPipeError):
            _serve(channel, spec)
        return
    channel.close()
    os.waitpid(child, 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
