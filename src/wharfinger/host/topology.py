"""Divides this machine into servers: sets of CPUs, each with a share of memory.

By default one server per NUMA node; else as ``--servers`` says. Called once by the local
engine, which reports the servers with the conditions that ``cgroups`` found.

The machine is what the kernel lets *us* use of it: the CPUs of our affinity mask, no more CPU
time than our own cgroup's quota, no more memory than its limit. What the kernel says is read by
``read_machine``; everything after that is a pure function of it.
"""

import os
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from wharfinger.errors import InvalidInput
from wharfinger.host.cgroups import OwnLimits, find_hierarchies, own_limits
from wharfinger.host.cgroups.files import read_int, read_text
from wharfinger.model.platform import MILLICPUS_PER_CPU, Platform, Server

RESERVED_FRACTION = 0.05
RESERVED_BYTES = 256 * 1024**2
"""What the manager and the system keep of the machine's memory: the larger of the two."""

_PLACE = "--servers"
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_CPU_RANGE = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?")
_SAME_SIZE = 0.95
_SHOWN_CHARACTERS = 60
_GIBIBYTE = 1024**3
# What a maker writes around the name of a processor.
_NOISE = re.compile(r"\((?:r|tm)\)|@.*|\b(?:cpu|processor|\d+-core|with .*)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Cpu:
    """One logical CPU and what it shares.

    Attributes:
        number: As the kernel counts.
        node: Its NUMA node.
        package: Its socket.
        cache: The lowest CPU number among those that share its last-level cache.
        core: The lowest CPU number among its core's threads.
    """

    number: int
    node: int
    package: int
    cache: int
    core: int

    @property
    def place(self) -> tuple[int, int, int, int, int]:
        """Sorts CPUs so that those that share most stand next to each other."""
        return (self.node, self.package, self.cache, self.core, self.number)


@dataclass(frozen=True, slots=True)
class Machine:
    """What the kernel lets us use.

    Attributes:
        cpus: Those we may run on, in the order of ``Cpu.place``.
        node_bytes: Memory of each NUMA node that has one of ``cpus``.
        memory_bytes: What servers may give away of those nodes, reserve and own limit taken off.
        quota_millicpus: The quota on ourselves; ``None`` = none.
        cpu_model: The processor's own name; empty where it is not known.
        architecture: As ``uname -m`` says it.
        present: Every CPU that is online, also those we may not run on.
    """

    cpus: tuple[Cpu, ...]
    node_bytes: dict[int, int]
    memory_bytes: int
    quota_millicpus: int | None
    cpu_model: str
    architecture: str
    present: frozenset[int]


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A server of this machine.

    Attributes:
        server: As the engine reports it.
        cpus: The CPUs that are its own.
        memory_nodes: Their NUMA nodes.
    """

    server: Server
    cpus: tuple[int, ...]
    memory_nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Part:
    name: str
    cpus: tuple[Cpu, ...]


def discover_servers(
    spec: str | None = None,
    *,
    sysfs: Path = Path("/sys"),
    procfs: Path = Path("/proc"),
    affinity: Collection[int] | None = None,
    limits: OwnLimits | None = None,
) -> tuple[LocalServer, ...]:
    """This machine's servers.

    Args:
        spec: ``None``: one server per NUMA node, ``server0``, ``server1`` and so on. ``"2"``:
            as many, as even as can be without parting the threads of a core, neighbors in the
            last-level cache together. ``"big=0-3+6,small=4"``: these names with these CPUs,
            several ranges joined by ``+``; CPUs that are not named stay unused.
        sysfs: Where sysfs is mounted.
        procfs: Where procfs is mounted.
        affinity: CPUs that we may run on; ``None`` = our affinity mask.
        limits: What limits this process itself; ``None`` = what its cgroups say.

    Raises:
        InvalidInput: The specification can't be carried out on this machine; one line.
    """
    allowed = os.sched_getaffinity(0) if affinity is None else affinity
    own = own_limits(find_hierarchies()) if limits is None else limits
    machine = read_machine(sysfs, procfs, allowed, own)
    return _servers(machine, divide(machine, spec))


# --- what the kernel says ---------------------------------------------------------------


def read_machine(sysfs: Path, procfs: Path, allowed: Collection[int], limits: OwnLimits) -> Machine:
    """What the kernel says of the CPUs and memory that we may use."""
    devices = sysfs / "devices" / "system"
    nodes = _node_cpus(devices / "node")
    cpus = tuple(
        sorted(
            (_read_cpu(devices / "cpu", number, nodes) for number in allowed),
            key=lambda cpu: cpu.place,
        )
    )
    used = {cpu.node for cpu in cpus}
    sizes = {node: _meminfo_bytes(devices / "node" / f"node{node}" / "meminfo") for node in nodes}
    total = _meminfo_bytes(procfs / "meminfo")
    known = {node: size for node, size in sizes.items() if size}
    given = total - max(int(total * RESERVED_FRACTION), RESERVED_BYTES)
    if known and sum(known.values()):  # memory of nodes that we have no CPU on is not ours
        given = given * sum(known.get(node, 0) for node in used) // sum(known.values())
    if limits.memory_bytes is not None:
        given = min(given, limits.memory_bytes)
    return Machine(
        cpus=cpus,
        node_bytes={node: known.get(node, 0) for node in sorted(used)},
        memory_bytes=max(0, given),
        quota_millicpus=limits.cpu_millicpus,
        cpu_model=_cpu_model(procfs / "cpuinfo"),
        architecture=os.uname().machine,
        present=frozenset(allowed) | parse_cpus(read_text(devices / "cpu" / "online") or ""),
    )


def parse_cpus(text: str) -> frozenset[int]:
    """The kernel's list format, ``"0-3,8"``, as numbers.

    Example:
        >>> sorted(parse_cpus("0-2,8"))
        [0, 1, 2, 8]
    """
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if first.isdigit():
            found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def _node_cpus(folder: Path) -> dict[int, frozenset[int]]:
    """CPUs of each NUMA node; one node with number 0 where the kernel knows none."""
    nodes = {
        int(node.name[4:]): parse_cpus(read_text(node / "cpulist") or "")
        for node in folder.glob("node[0-9]*")
    }
    return nodes or {0: frozenset()}


def _read_cpu(folder: Path, number: int, nodes: dict[int, frozenset[int]]) -> Cpu:
    topology = folder / f"cpu{number}" / "topology"
    siblings = read_text(topology / "core_cpus_list") or read_text(
        topology / "thread_siblings_list"
    )
    package = read_int(topology / "physical_package_id")
    return Cpu(
        number=number,
        node=next((node for node, cpus in nodes.items() if number in cpus), min(nodes)),
        package=package if package is not None else 0,
        cache=min(_cache_sharers(folder / f"cpu{number}" / "cache"), default=0),
        core=min(parse_cpus(siblings or ""), default=number),
    )


def _cache_sharers(folder: Path) -> frozenset[int]:
    """The CPUs behind the last-level cache; empty where the kernel does not say."""
    caches = [
        (read_int(index / "level") or 0, read_text(index / "shared_cpu_list") or "")
        for index in folder.glob("index[0-9]*")
    ]
    return parse_cpus(max(caches)[1]) if caches else frozenset()


def _meminfo_bytes(path: Path) -> int:
    """``MemTotal`` in the machine's or a node's ``meminfo``; 0 where the kernel does not say."""
    found = re.search(r"MemTotal:\s*(\d+) kB", read_text(path) or "")
    return int(found[1]) * 1024 if found else 0


def _cpu_model(path: Path) -> str:
    found = re.search(r"^model name\s*:\s*(.+)$", read_text(path) or "", re.MULTILINE)
    return found[1].strip() if found else ""


# --- dividing it ------------------------------------------------------------------------


def divide(machine: Machine, spec: str | None) -> tuple[_Part, ...]:
    """The names and CPUs that ``spec`` asks for.

    Raises:
        InvalidInput: It can't be had on this machine.
    """
    if spec is None:
        return tuple(
            _Part(f"server{node}", tuple(cpu for cpu in machine.cpus if cpu.node == node))
            for node in machine.node_bytes
        )
    spec = spec.strip()
    if re.fullmatch(r"[0-9]+", spec):
        return _divide_evenly(machine.cpus, spec)
    return _divide_as_named(machine, spec)


def _divide_evenly(cpus: tuple[Cpu, ...], spec: str) -> tuple[_Part, ...]:
    count = int(spec) if len(spec) < 7 else len(cpus) + 1
    if count == 0:
        raise InvalidInput(f"{_PLACE} {spec}: there must be at least one server; use {_PLACE} 1")
    if count > len(cpus):
        raise InvalidInput(
            f"{_PLACE} {spec[:20]}: this process may run on {_counted(len(cpus))} and each server "
            f"needs one of its own; use {_PLACE} {len(cpus)}, or start the manager with more CPUs "
            "(taskset, cpuset)"
        )
    cores = _by_core(cpus)
    single: list[tuple[Cpu, ...]] = [(cpu,) for cpu in cpus]
    units = cores if len(cores) >= count else single
    return tuple(
        _Part(f"server{index}", tuple(cpu for unit in part for cpu in unit))
        for index, part in enumerate(_cut(units, count))
    )


def _by_core(cpus: tuple[Cpu, ...]) -> list[tuple[Cpu, ...]]:
    cores: dict[tuple[int, ...], list[Cpu]] = {}
    for cpu in cpus:
        cores.setdefault(cpu.place[:-1], []).append(cpu)
    return [tuple(core) for core in cores.values()]


def _cut(units: list[tuple[Cpu, ...]], count: int) -> Iterable[list[tuple[Cpu, ...]]]:
    """``count`` neighboring runs whose lengths differ by one at most."""
    edges = [index * len(units) // count for index in range(count + 1)]
    return [units[first:last] for first, last in pairwise(edges)]


def _divide_as_named(machine: Machine, spec: str) -> tuple[_Part, ...]:
    parts: list[_Part] = []
    owner: dict[int, str] = {}
    for item in spec.split(","):
        name, separator, ranges = (word.strip() for word in item.partition("="))
        if not separator or not _NAME.fullmatch(name):
            raise InvalidInput(
                f"{_PLACE} {_shown(spec)}: {_shown(item)} is not NAME=CPUS with a NAME of "
                f"letters, digits and inner . _ -; write e.g. 2 or big=0-3+6,small=4"
            )
        if any(part.name == name for part in parts):
            raise InvalidInput(
                f"{_PLACE} {_shown(spec)}: the name {name!r} is there twice; several ranges of one "
                f"server are joined by +, e.g. {name}=0-1+4"
            )
        numbers = _parse_ranges(spec, name, ranges)
        for number in sorted(numbers):
            _check_cpu(machine, spec, name, number, owner)
            owner[number] = name
        parts.append(_Part(name, tuple(cpu for cpu in machine.cpus if cpu.number in numbers)))
    return tuple(parts)


def _parse_ranges(spec: str, name: str, ranges: str) -> frozenset[int]:
    numbers: set[int] = set()
    for part in ranges.split("+"):
        found = _CPU_RANGE.fullmatch(part.strip())
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if first > last:
            raise InvalidInput(
                f"{_PLACE} {_shown(spec)}: {_shown(part)} is not a range of CPUs for "
                f"{name!r}; write a number or LOW-HIGH, several joined by +, e.g. {name}=0-3+6"
            )
        numbers.update(range(first, last + 1))
    return frozenset(numbers)


def _check_cpu(machine: Machine, spec: str, name: str, number: int, owner: dict[int, str]) -> None:
    allowed = {cpu.number for cpu in machine.cpus}
    if number in owner:
        raise InvalidInput(
            f"{_PLACE} {_shown(spec)}: CPU {number} is given to {owner[number]!r} and to {name!r}; "
            "give it to one of them"
        )
    if number not in machine.present:
        raise InvalidInput(
            f"{_PLACE} {_shown(spec)}: CPU {number} of {name!r} does not exist or is offline; "
            f"this process may use {_ranges(allowed)}"
        )
    if number not in allowed:
        raise InvalidInput(
            f"{_PLACE} {_shown(spec)}: this process may not run on CPU {number} of {name!r}; use "
            f"{_ranges(allowed)}, or start the manager with that CPU (taskset, cpuset)"
        )


def _ranges(numbers: Iterable[int]) -> str:
    """Numbers as ``--servers`` takes them: ``"0-3+6"``."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return "+".join(f"{low}" if low == high else f"{low}-{high}" for low, high in runs)


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…")


def _counted(cpus: int) -> str:
    return "1 CPU" if cpus == 1 else f"{cpus} CPUs"


# --- what each part is worth ------------------------------------------------------------


def _servers(machine: Machine, parts: tuple[_Part, ...]) -> tuple[LocalServer, ...]:
    memory = [_memory_bytes(machine, part) for part in parts]
    platforms = _platforms(machine, parts, memory)
    asked = sum(len(part.cpus) for part in parts) * MILLICPUS_PER_CPU
    quota = asked if machine.quota_millicpus is None else min(asked, machine.quota_millicpus)
    return tuple(
        LocalServer(
            server=Server(
                name=part.name,
                platform=platform,
                cpu_millicpus=platform.cpu_millicpus * quota // asked,
                memory_bytes=memory_bytes,
            ),
            cpus=tuple(sorted(cpu.number for cpu in part.cpus)),
            memory_nodes=tuple(sorted({cpu.node for cpu in part.cpus})),
        )
        for part, platform, memory_bytes in zip(parts, platforms, memory, strict=True)
    )


def _memory_bytes(machine: Machine, part: _Part) -> int:
    """Its share: of each node's memory as large a part as it has of the node's CPUs."""
    total = sum(machine.node_bytes.values())
    if total == 0:  # sizes of nodes are not known
        return machine.memory_bytes * len(part.cpus) // len(machine.cpus)
    share = 0.0
    for node, size in machine.node_bytes.items():
        mine = sum(cpu.node == node for cpu in part.cpus)
        share += size / total * mine / sum(cpu.node == node for cpu in machine.cpus)
    return int(machine.memory_bytes * share)


def _platforms(
    machine: Machine, parts: tuple[_Part, ...], memory: list[int]
) -> tuple[Platform, ...]:
    """Parts with as many CPUs and about as much memory are of one platform.

    NUMA nodes of one size differ by what the kernel took of each at boot. A platform has the
    memory of its largest server; memory is in the name only where CPUs alone don't tell.
    """
    model = _slug(machine.cpu_model) or machine.architecture.replace("_", "-")
    alike: dict[int, list[int]] = {}
    for part, size in zip(parts, memory, strict=True):
        alike.setdefault(len(part.cpus), []).append(size)
    platforms = []
    for part, size in zip(parts, memory, strict=True):
        cpus, sizes = len(part.cpus), alike[len(part.cpus)]
        name, largest = f"{model}-{cpus}cpu", max(sizes)
        if min(sizes) < _SAME_SIZE * largest:
            name, largest = f"{name}-{size / _GIBIBYTE:.3g}gib", size
        platforms.append(
            Platform(
                name=name,
                architecture=machine.architecture,
                cpu_model=machine.cpu_model,
                cpu_millicpus=cpus * MILLICPUS_PER_CPU,
                memory_bytes=largest,
            )
        )
    return tuple(platforms)


def _slug(cpu_model: str) -> str:
    """The processor's name as part of a platform's: ``"AMD EPYC 7B13"``, ``"amd-epyc-7b13"``."""
    return re.sub(r"[^a-z0-9]+", "-", _NOISE.sub(" ", cpu_model).lower()).strip("-")
