"""What sources do to programs that are none, where the resource can be shared here.

Called by the validation. Each victim is alone and beside the source at 100 by turns. What needs
root or a tool that is not there is skipped with the reason. Namespaces and networks end with the
processes in them; control groups and files are removed at the end.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryFile

from wharfinger.errors import Unavailable
from wharfinger.host.binaries import ibench_path
from wharfinger.host.cgroups import find_hierarchies
from wharfinger.ibench import victim
from wharfinger.ibench.driver import RunningSource, start, started
from wharfinger.ibench.sampling import sample
from wharfinger.ibench.sources import SourceSetting, signal_here, source_named

MIB = 1 << 20
GROUP_BYTES_PER_SECOND = 64 * MIB
"""Of the shared block-I/O group."""
LINK_BITS_PER_SECOND = 400_000_000
GROUP_MEMORY_BYTES, READ_BYTES = 1536 * MIB, 1280 * MIB
"""Of a group, in which the source leaves a reserve of 1 GiB; and what the victim reads."""
READER_BYTES = 16 * MIB
_PORT = "7411"
_ANSWER_SECONDS = 20.0

Rates = Callable[[], float]
"""Measures the victim's rate once."""


@dataclass(frozen=True, slots=True)
class VictimEffect:
    """By turn what a victim kept of its rate, or the ``reason`` why it was not tried."""

    name: str
    source: str
    kept: tuple[float, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Duration:
    """How often a victim is tried alone and beside the source, and how long each."""

    rounds: int
    seconds: float


@dataclass(frozen=True, slots=True)
class VictimPlace:
    """Where: one CPU, and a directory on a disk."""

    cpu: int
    directory: Path
    duration: Duration


class _Skipped(Exception):
    """A victim can't be tried here; the words say why."""


def effects(
    place: VictimPlace, progress: Callable[[str], None], has_time: Callable[[], bool]
) -> Iterator[VictimEffect]:
    """All victims, one after the other."""
    for name, source, meet in _VICTIMS:
        if not has_time():
            yield VictimEffect(name, source, reason="the time was over; try fewer sources")
            continue
        progress(f"victim: {name}")
        try:
            with meet(place) as (running, rate):
                yield VictimEffect(name, source, tuple(_by_turns(running, rate, place.duration)))
        except _Skipped as why:
            yield VictimEffect(name, source, reason=str(why))
        except (Unavailable, OSError, subprocess.SubprocessError, ValueError) as error:
            yield VictimEffect(name, source, reason=str(error))


def _by_turns(running: RunningSource, rate: Rates, duration: Duration) -> Iterator[float]:
    for _ in range(duration.rounds):
        running.withdraw()
        alone = rate()
        running.set_intensity(100)
        beside = rate()
        if alone > 0:
            yield beside / alone


# --- how they meet --------------------------------------------------------------------------

Meeting = AbstractContextManager[tuple[RunningSource, Rates]]


@contextmanager
def _on_one_cpu(place: VictimPlace) -> Iterator[tuple[RunningSource, Rates]]:
    with ExitStack() as stack:
        process = stack.enter_context(_program(["hash"], place.cpu))
        running = stack.enter_context(start(_setting("integer", place)))
        yield running, lambda: _rate(process, place.duration.seconds)


@contextmanager
def _in_one_io_group(place: VictimPlace) -> Iterator[tuple[RunningSource, Rates]]:
    _need_root()
    setting = _setting("storage-bandwidth", place)
    _need_signal(setting)
    with ExitStack() as stack:
        group = stack.enter_context(_group("blkio", "io", "ibench-io"))
        _limit_io(group, place.directory)
        path = stack.enter_context(_file(place.directory, 64 * MIB))
        process = stack.enter_context(_program(["blocks", path], place.cpu, group))
        running = stack.enter_context(
            started(replace(setting, maximum_per_second=float(GROUP_BYTES_PER_SECOND)),
                    _entering(group))
        )  # fmt: skip
        yield running, lambda: _rate(process, place.duration.seconds)


@contextmanager
def _under_one_memory_limit(place: VictimPlace) -> Iterator[tuple[RunningSource, Rates]]:
    _need_root()
    if place.duration.rounds < 5:
        raise _Skipped("the victim's file is too large for --quick")
    with ExitStack() as stack:
        group = stack.enter_context(_group("memory", "memory", "ibench-memory"))
        _write(
            group, {"memory.limit_in_bytes": GROUP_MEMORY_BYTES, "memory.max": GROUP_MEMORY_BYTES}
        )
        path = stack.enter_context(_file(place.directory, READ_BYTES))
        process = stack.enter_context(_program(["cached", path], place.cpu, group))
        setting = replace(_setting("memory-capacity", place), footprint=None)
        running = stack.enter_context(started(setting, _entering(group)))

        def rate() -> float:
            _rate(process, place.duration.seconds)  # The page cache takes time to follow.
            return _rate(process, place.duration.seconds)

        yield running, rate


@contextmanager
def _over_a_shaped_link(place: VictimPlace) -> Iterator[tuple[RunningSource, Rates]]:
    _need_root()
    for tool in ("ip", "tc", "nsenter", "unshare"):
        if shutil.which(tool) is None:
            raise _Skipped(f"{tool} is not installed; install iproute2 and util-linux")
    with ExitStack() as stack:
        peer = [str(ibench_path()), "peer", "--listen", f":{_PORT}"]
        far = stack.enter_context(_held(["unshare", "--net", *peer]))
        near = stack.enter_context(_held(["unshare", "--net", "cat"]))
        for one in (far, near):
            _wait_for_namespace(one.pid)
        link = f"link add v0 type veth peer name v0 netns {near.pid}"
        _in_network(far.pid, f"ip {link}")
        for process, address in ((far, "10.199.0.1/30"), (near, "10.199.0.2/30")):
            _in_network(process.pid, f"ip addr add {address} dev v0")
            _in_network(process.pid, "ip link set v0 up")
            rate = f"rate {LINK_BITS_PER_SECOND}bit burst 64kb latency 20ms"
            _in_network(process.pid, f"tc qdisc add dev v0 root tbf {rate}")
        inside = ("nsenter", f"--net=/proc/{near.pid}/ns/net")
        process = stack.enter_context(
            _program(["ask", "10.199.0.1", _PORT], place.cpu, prefix=inside)
        )
        setting = replace(_setting("network-bandwidth", place), peer=f"10.199.0.1:{_PORT}")
        running = stack.enter_context(started(setting, inside))
        yield running, lambda: _rate(process, place.duration.seconds)


def _reader(name: str, footprint: int) -> Callable[[VictimPlace], Meeting]:
    """A source that reads is the victim, by its work for each second of CPU time."""

    @contextmanager
    def meet(place: VictimPlace) -> Iterator[tuple[RunningSource, Rates]]:
        setting = replace(_setting(name, place), footprint=footprint, report_seconds=1e6)
        _need_signal(setting)
        with start(setting) as reader, start(_setting("prefetcher", place)) as running:
            reader.set_intensity(100)

            def rate() -> float:
                (got,) = sample([reader], place.duration.seconds)
                return got.performance(by_cpu_time=True)

            yield running, rate

    return meet


_VICTIMS: Sequence[tuple[str, str, Callable[[VictimPlace], Meeting]]] = (
    ("hashing on the same CPU", "integer", _on_one_cpu),
    ("reads in a shared block-I/O group", "storage-bandwidth", _in_one_io_group),
    ("requests over a shaped link", "network-bandwidth", _over_a_shaped_link),
    (
        "sequential reader, by CPU time",
        "prefetcher",
        _reader("last-level-cache-bandwidth", 4 * READER_BYTES),
    ),
    ("random reader, by CPU time", "prefetcher", _reader("last-level-cache", READER_BYTES)),
    # The last, since its file takes the longest.
    ("cached reads under a memory limit", "memory-capacity", _under_one_memory_limit),
)


# --- what they need -------------------------------------------------------------------------


def _setting(name: str, place: VictimPlace) -> SourceSetting:
    return SourceSetting(source_named(name), (place.cpu,), place.directory)


def _need_root() -> None:
    if os.geteuid() != 0:
        raise _Skipped("needs root; run it as root")


def _need_signal(setting: SourceSetting) -> None:
    here = signal_here(setting)
    if not here.there:
        raise _Skipped(here.reason)


@contextmanager
def _group(v1: str, v2: str, name: str) -> Iterator[Path]:
    """A control group below our own, with that controller."""
    for hierarchy in find_hierarchies():
        controller = v1 if hierarchy.version == 1 else v2
        if controller not in hierarchy.controllers:
            continue
        path = hierarchy.own / f"{name}-{os.getpid()}"
        path.mkdir()
        try:
            yield path
        finally:
            _remove(path)
        return
    raise _Skipped(f"no control group with {v2} may be made here")


def _remove(group: Path) -> None:
    for _ in range(100):
        with suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.02)


def _write(group: Path, values: dict[str, object]) -> None:
    """Those of the files that there are; at least one must be."""
    there = {name: value for name, value in values.items() if (group / name).exists()}
    if not there:
        raise _Skipped(f"the control group has no {' or '.join(values)}")
    for name, value in there.items():
        (group / name).write_text(str(value))


def _limit_io(group: Path, directory: Path) -> None:
    device = directory.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    partition = Path(f"/sys/dev/block/{number}")
    if (partition / "partition").exists():
        number = (partition.resolve().parent / "dev").read_text().strip()
    v1 = f"{number} {GROUP_BYTES_PER_SECOND}"
    v2 = f"{number} rbps={GROUP_BYTES_PER_SECOND} wbps={GROUP_BYTES_PER_SECOND}"
    _write(
        group,
        {
            "blkio.throttle.read_bps_device": v1,
            "blkio.throttle.write_bps_device": v1,
            "io.max": v2,
        },
    )


@contextmanager
def _file(directory: Path, size: int) -> Iterator[str]:
    """Written to the disk, without a name."""
    with TemporaryFile(dir=directory, buffering=0) as file:
        block = os.urandom(MIB)
        for _ in range(size // MIB):
            file.write(block)
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        yield f"/proc/{os.getpid()}/fd/{file.fileno()}"


def _entering(group: Path) -> tuple[str, ...]:
    return (sys.executable, "-I", victim.__file__, "enter", str(group / "cgroup.procs"), "--")


@contextmanager
def _program(
    arguments: list[str], cpu: int, group: Path | None = None, prefix: tuple[str, ...] = ()
) -> "Iterator[subprocess.Popen[bytes]]":
    command = [*prefix, sys.executable, "-I", victim.__file__, *arguments]
    if group is not None:
        command = [*_entering(group), *command]
    with _held(command) as process:
        os.sched_setaffinity(process.pid, [cpu])
        yield process


@contextmanager
def _held(command: list[str]) -> "Iterator[subprocess.Popen[bytes]]":
    """It ends with its input."""
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _rate(process: "subprocess.Popen[bytes]", seconds: float) -> float:
    begun, before = _done(process)
    time.sleep(seconds)
    ended, after = _done(process)
    return (after - before) / (ended - begun)


def _done(process: "subprocess.Popen[bytes]") -> tuple[float, int]:
    assert process.stdin is not None and process.stdout is not None
    with suppress(BrokenPipeError):
        process.stdin.write(b"\n")
        process.stdin.flush()
    line = process.stdout.readline()
    if not line:
        assert process.stderr is not None
        said = process.stderr.read().decode(errors="replace").strip().splitlines()
        raise Unavailable(f"the victim ended: {said[-1] if said else 'it said nothing'}")
    return time.monotonic(), int(line)


def _in_network(pid: int, command: str) -> None:
    argv = ["nsenter", f"--net=/proc/{pid}/ns/net", *command.split()]
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=_ANSWER_SECONDS, check=False
    )
    if done.returncode:
        raise _Skipped(f"{command}: {done.stderr.strip() or done.returncode}")


def _wait_for_namespace(pid: int) -> None:
    """Until it has a network of its own."""
    own, until = Path("/proc/self/ns/net").readlink(), time.monotonic() + _ANSWER_SECONDS
    while Path(f"/proc/{pid}/ns/net").readlink() == own:
        if time.monotonic() > until:
            raise _Skipped("no network namespace may be made here")
        time.sleep(0.01)
