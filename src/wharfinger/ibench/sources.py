"""The table of sources, and whether this machine gives each a signal.

A source is one C file in ``native/ibench``, one line in ``native/ibench/sources.c`` and one
entry here. Who calls: the driver, the profiler's planner, ``wharfinger ibench list``.
"""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from wharfinger.errors import InvalidInput, Unavailable
from wharfinger.host.binaries import ibench_path
from wharfinger.model.interference import SharedResource

PROBE_SECONDS = 20.0
DEFAULT_FILE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Source:
    """A source of interference; ``intensity`` says what its intensity is a share of.

    ``uses_directory``: it works on a directory's file system, otherwise on CPUs alone.
    ``measures_maximum``: its intensity is a share of a rate that must be measured first.
    ``holds``: its intensity is a footprint, which it keeps from others while it lasts.
    ``options``: those of the command line that it reads beside, named as in ``SourceSetting``.
    ``cpus``: How many it needs at least.
    """

    resource: SharedResource
    about: str
    unit: str
    intensity: str
    uses_directory: bool = False
    measures_maximum: bool = False
    holds: bool = False
    options: tuple[str, ...] = ()
    cpus: int = 1

    @property
    def name(self) -> str:
        """As the command line knows it."""
        return self.resource.value

    @property
    def has_threads_of_all_cpus(self) -> bool:
        """Whether its threads may run on any of its CPUs, rather than one on each."""
        pooled = (SharedResource.NETWORK_BANDWIDTH, SharedResource.MEMORY_CAPACITY)
        return self.uses_directory or self.resource in pooled


_TIME, _OPERATIONS = "of each CPU's time", "operations/s"
SOURCES = (
    Source(
        resource=SharedResource.INTEGER,
        about="integer work on the same CPU",
        unit=_OPERATIONS,
        intensity=_TIME,
    ),
    Source(
        resource=SharedResource.FLOATING_POINT,
        about="scalar floating-point work on the same CPU",
        unit=_OPERATIONS,
        intensity=_TIME,
    ),
    Source(
        resource=SharedResource.VECTOR,
        about="work on 256-bit vectors on the same CPU",
        unit=_OPERATIONS,
        intensity=_TIME,
    ),
    Source(
        resource=SharedResource.L1_INSTRUCTION_CACHE,
        about="jumps between blocks of code",
        unit=_OPERATIONS,
        intensity="of the cache",
        options=("footprint",),
    ),
    Source(
        resource=SharedResource.L1_DATA_CACHE,
        about="reads of random lines",
        unit=_OPERATIONS,
        intensity="of the cache",
        options=("footprint",),
    ),
    Source(
        resource=SharedResource.TLB,
        about="reads of one line of random pages",
        unit=_OPERATIONS,
        intensity="of the entries",
        options=("footprint",),
    ),
    Source(
        resource=SharedResource.L2_CACHE,
        about="reads of random lines that pass the first level",
        unit=_OPERATIONS,
        intensity="of the cache",
        options=("footprint",),
    ),
    Source(
        resource=SharedResource.L2_BANDWIDTH,
        about="streams through half of the cache",
        unit="bytes/s",
        intensity=_TIME,
        options=("footprint",),
    ),
    Source(
        resource=SharedResource.LAST_LEVEL_CACHE,
        about="reads of random lines that pass the levels above",
        unit=_OPERATIONS,
        intensity="of the cache",
        options=("footprint",),
    ),
    Source(
        resource=SharedResource.LAST_LEVEL_CACHE_BANDWIDTH,
        about="streams through a quarter of the cache",
        unit="bytes/s",
        intensity=_TIME,
        options=("footprint",),
    ),
    Source(
        resource=SharedResource.PREFETCHER,
        about="unpredictable jumps in a small program",
        unit=_OPERATIONS,
        intensity=_TIME,
    ),
    Source(
        resource=SharedResource.INTERCONNECT,
        about="messages from each CPU to others",
        unit="messages/s",
        intensity="of each CPU's time, and of the CPUs written to",
        cpus=2,
    ),
    Source(
        resource=SharedResource.MEMORY_CAPACITY,
        about="random accesses to memory that it holds",
        unit="operations/s",
        intensity="of the memory that could be had",
        holds=True,
        options=("footprint", "stride"),
    ),
    Source(
        resource=SharedResource.MEMORY_BANDWIDTH,
        about="streams through memory",
        unit="bytes/s",
        intensity="of the rate it reaches at most",
        measures_maximum=True,
        options=("footprint",),
    ),
    Source(
        resource=SharedResource.STORAGE_CAPACITY,
        about="random block I/O in a file that it holds",
        unit="bytes/s",
        intensity="of its quota",
        uses_directory=True,
        holds=True,
        options=("quota",),
    ),
    Source(
        resource=SharedResource.STORAGE_BANDWIDTH,
        about="block I/O on the same file system",
        unit="bytes/s",
        intensity="of the rate it reaches at most",
        uses_directory=True,
        measures_maximum=True,
        options=("file-bytes",),
    ),
    Source(
        resource=SharedResource.NETWORK_BANDWIDTH,
        about="requests to a peer",
        unit="bytes/s",
        intensity="of the rate it reaches at most",
        measures_maximum=True,
        options=("peer",),
    ),
)

SIBLING_SOURCES = frozenset(
    {SharedResource.INTEGER, SharedResource.FLOATING_POINT, SharedResource.VECTOR}
)
"""Which press on the units of a core, from another hardware thread of it, too."""


@dataclass(frozen=True, slots=True)
class SourceSetting:
    """Where a source exerts its pressure.

    Attributes:
        cpus: Those it is bound to; empty = all that this process may use.
        directory: Whose file system it works on; read by those that ``uses_directory``.
        file_bytes: Of the file that it works on, which has no name and leaves nothing.
        maximum_per_second: What intensity 100 stands for, where ``measures_maximum``; ``None`` =
            measured at each start, which takes 2 to 6 seconds of full pressure.
        footprint: Bytes of memory at most; ``None`` = as much as the source would take.
        stride: Bytes from one access to the next; ``None`` = random.
        quota: Bytes of storage at intensity 100; ``None`` = a tenth of what is free.
        peer: ``HOST:PORT`` of a ``wharfinger-ibench peer``; ``None`` = one of its own, on loopback.
    """

    source: Source
    cpus: tuple[int, ...] = ()
    directory: Path = Path()
    file_bytes: int = DEFAULT_FILE_BYTES
    maximum_per_second: float | None = None
    report_seconds: float = 1.0
    footprint: int | None = None
    stride: int | None = None
    quota: int | None = None
    peer: str | None = None

    def command(self, *options: str) -> tuple[str, ...]:
        """The program and its arguments."""
        command = [str(ibench_path()), self.source.name]
        command += ["--report-seconds", repr(float(self.report_seconds))]
        if self.cpus:
            command += ["--cpus", ",".join(map(str, sorted(set(self.cpus))))]
        if self.source.uses_directory:
            command += ["--directory", str(self.directory.absolute())]
        for name in self.source.options:
            value = getattr(self, name.replace("-", "_"))
            if value is not None:
                command += [f"--{name}", str(value)]
        if self.source.measures_maximum and self.maximum_per_second is not None:
            command += ["--maximum", repr(float(self.maximum_per_second))]
        return (*command, *options)


@dataclass(frozen=True, slots=True)
class Signal:
    """Whether a source can exert pressure here, and why not."""

    there: bool
    reason: str = ""


def source_named(name: str) -> Source:
    """The source of that name; raises ``InvalidInput``."""
    sources = {source.name: source for source in SOURCES}
    if name not in sources:
        raise InvalidInput(f"source: {name!r}; name one of: {', '.join(sources)}")
    return sources[name]


def signal_here(setting: SourceSetting) -> Signal:
    """Whether there is a signal, as the program itself says; exerts no pressure.

    Raises ``InvalidInput`` for a wrong setting, ``Unavailable`` if the program can't be run.
    """
    try:
        done = subprocess.run(
            setting.command("--probe"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{setting.source.name}: {error}") from error
    if done.returncode != 0:
        raise failure(done.returncode, done.stderr)
    answer = json.loads(done.stdout)
    return Signal(answer["signal"], answer["reason"])


BAD_CALL = 2


def failure(status: int, said: str) -> InvalidInput | Unavailable:
    """The error that the program's exit status and last words are."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    words = lines[-1].removeprefix("wharfinger-ibench: ") if lines else f"ended with {status}"
    return InvalidInput(words) if status == BAD_CALL else Unavailable(words)
