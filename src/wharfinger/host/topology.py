"""Divides this machine into servers: sets of CPUs, each with a share of memory.

The machine is what the kernel lets *us* use of it: the CPUs of our affinity mask, no more CPU
time than our own cgroup's quota, no more memory than its limit. ``read_machine`` reads it; all
else is a pure function of the result.
"""

import os
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from typing import NamedTuple

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
# What manufacturers add to the name of a processor.
_NOISE = re.compile(r"\((?:r|tm)\)|@.*|\b(?:cpu|processor|\d+-core|with .*)\b", re.IGNORECASE)


class Cpu(NamedTuple):
    """One logical CPU; they sort such that those that share most are next to each other.

    ``cache`` and ``core`` are the lowest CPU numbers that share the last-level cache and the core.
    """

    node: int
    package: int
    cache: int
    core: int
    number: int


@dataclass(frozen=True, slots=True)
class Machine:
    """What the kernel lets us use; ``cpus`` are sorted, ``present`` are all online.

    ``node_bytes`` is the memory of each NUMA node of ``cpus``, ``memory_bytes`` what servers have
    of it after the reserve and our own limit.
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
    """A server of this machine, with its own CPUs and their NUMA nodes."""

    server: Server
    cpus: tuple[int, ...]
    memory_nodes: tuple[int, ...]


class _Part(NamedTuple):
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
    """This machine's servers; ``InvalidInput`` for a specification that does not fit it.

    ``None`` is one server per NUMA node, ``server0``, ``server1`` and so on. ``"2"``: as many, as
    equal as possible without splitting a core while there are enough cores, CPUs that share a
    last-level cache together. ``"big=0-3+6,small=4"``: these names with these CPUs, several ranges
    joined by ``+``; other CPUs stay unused. The rest is what this process has, where not given.
    """
    allowed = os.sched_getaffinity(0) if affinity is None else affinity
    own = own_limits(find_hierarchies()) if limits is None else limits
    machine = read_machine(sysfs, procfs, allowed, own)
    return _servers(machine, divide(machine, spec))


def read_machine(sysfs: Path, procfs: Path, allowed: Collection[int], limits: OwnLimits) -> Machine:
    """What the kernel says of the CPUs and memory that we may use."""
    devices = sysfs / "devices" / "system"
    nodes = _node_cpus(devices / "node")
    cpus = tuple(sorted(_read_cpu(devices / "cpu", number, nodes) for number in allowed))
    used = {cpu.node for cpu in cpus}
    sizes = {node: _meminfo_bytes(devices / "node" / f"node{node}" / "meminfo") for node in nodes}
    total = _meminfo_bytes(procfs / "meminfo")
    memory_bytes = total - max(int(total * RESERVED_FRACTION), RESERVED_BYTES)
    if sum(sizes.values()):  # memory of nodes that we have no CPU on is not ours
        memory_bytes = memory_bytes * sum(sizes[node] for node in used) // sum(sizes.values())
    if limits.memory_bytes is not None:
        memory_bytes = min(memory_bytes, limits.memory_bytes)
    return Machine(
        cpus=cpus,
        node_bytes={node: sizes[node] for node in sorted(used)},
        memory_bytes=max(0, memory_bytes),
        quota_millicpus=limits.cpu_millicpus,
        cpu_model=cpu_model(procfs),
        architecture=os.uname().machine,
        present=frozenset(allowed) | parse_cpus(read_text(devices / "cpu" / "online") or ""),
    )


def cpu_model(procfs: Path = Path("/proc")) -> str:
    """The processor's name; empty = unknown."""
    return _field(procfs / "cpuinfo", r"^model name\s*:\s*(.+)$")


def parse_cpus(text: str) -> frozenset[int]:
    """The kernel's list format as numbers.

    >>> sorted(parse_cpus("0-2,8"))
    [0, 1, 2, 8]
    """
    numbers: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if first.isdigit():
            numbers.update(range(int(first), int(last or first) + 1))
    return frozenset(numbers)


def _node_cpus(folder: Path) -> dict[int, frozenset[int]]:
    nodes = {
        int(node.name[4:]): parse_cpus(read_text(node / "cpulist") or "")
        for node in folder.glob("node[0-9]*")
    }
    return nodes or {0: frozenset()}  # a kernel without NUMA


def siblings_of(
    cpus: Iterable[int], allowed: Collection[int], sysfs: Path = Path("/sys")
) -> tuple[int, ...]:
    """The other hardware threads of these CPUs' cores; raises ``InvalidInput`` without any."""
    found: set[int] = set()
    own = set(cpus)
    for number in sorted(own):
        threads = _threads_of(sysfs / "devices" / "system" / "cpu", number)
        others = threads - own
        place = f"--sibling: CPU {number}"
        if threads <= {number}:
            mend = "leave it out on a machine without SMT"
            raise InvalidInput(f"{place} has its core alone; {mend}")
        if not others:
            mend = "name one CPU of each core with --cpus"
            raise InvalidInput(f"{place}: all hardware threads of its core are named; {mend}")
        if not others <= set(allowed):
            raise InvalidInput(f"{place}: its sibling {format_cpus(others)} may not be used here")
        found |= others
    return tuple(sorted(found))


def _threads_of(folder: Path, number: int) -> frozenset[int]:
    topology = folder / f"cpu{number}" / "topology"
    siblings = (read_text(topology / f"{name}_list") for name in ("core_cpus", "thread_siblings"))
    return parse_cpus(next(filter(None, siblings), ""))


def _read_cpu(folder: Path, number: int, nodes: dict[int, frozenset[int]]) -> Cpu:
    topology = folder / f"cpu{number}" / "topology"
    return Cpu(
        node=next((node for node, cpus in nodes.items() if number in cpus), min(nodes)),
        package=read_int(topology / "physical_package_id") or 0,
        cache=min(_cache_sharers(folder / f"cpu{number}" / "cache"), default=0),
        core=min(_threads_of(folder, number), default=number),
        number=number,
    )


def _cache_sharers(folder: Path) -> frozenset[int]:
    caches = [
        (read_int(index / "level") or 0, read_text(index / "shared_cpu_list") or "")
        for index in folder.glob("index[0-9]*")
    ]
    return parse_cpus(max(caches)[1]) if caches else frozenset()


def _meminfo_bytes(path: Path) -> int:
    """``MemTotal`` of the machine or a node; 0 where the kernel does not say."""
    return int(_field(path, r"MemTotal:\s*(\d+) kB") or 0) * 1024


def _field(path: Path, pattern: str) -> str:
    match = re.search(pattern, read_text(path) or "", re.MULTILINE)
    return match[1].strip() if match else ""


def divide(machine: Machine, spec: str | None) -> tuple[_Part, ...]:
    """The names and CPUs that ``spec`` asks for, as ``discover_servers`` has it."""
    if spec is None:
        return tuple(
            _Part(f"server{node}", tuple(cpu for cpu in machine.cpus if cpu.node == node))
            for node in machine.node_bytes
        )
    spec = spec.strip()
    if re.fullmatch(r"[0-9]+", spec):
        return _divide_evenly(machine.cpus, spec)
    try:
        return _divide_as_named(machine, spec)
    except InvalidInput as error:
        raise InvalidInput(f"{_PLACE} {_shown(spec)}: {error}") from None


def _divide_evenly(cpus: tuple[Cpu, ...], spec: str) -> tuple[_Part, ...]:
    count = int(spec) if len(spec) < 7 else len(cpus) + 1
    if count == 0:
        raise InvalidInput(f"{_PLACE} {spec}: there must be at least one server; use {_PLACE} 1")
    if count > len(cpus):
        have = "1 CPU" if len(cpus) == 1 else f"{len(cpus)} CPUs"
        raise InvalidInput(
            f"{_PLACE} {spec[:20]}: this process may run on {have} and each server "
            f"needs one of its own; use {_PLACE} {len(cpus)}, or start the manager with more CPUs "
            "(taskset, cpuset)"
        )
    units = [tuple(core) for _, core in groupby(cpus, key=lambda cpu: cpu[:-1])]
    if len(units) < count:
        units = [(cpu,) for cpu in cpus]
    edges = [index * len(units) // count for index in range(count + 1)]
    return tuple(
        _Part(f"server{index}", tuple(cpu for unit in units[first:last] for cpu in unit))
        for index, (first, last) in enumerate(pairwise(edges))
    )


def _divide_as_named(machine: Machine, spec: str) -> tuple[_Part, ...]:
    parts: list[_Part] = []
    owner: dict[int, str] = {}
    for item in spec.split(","):
        name, separator, ranges = (word.strip() for word in item.partition("="))
        if not separator or not _NAME.fullmatch(name):
            raise InvalidInput(
                f"{_shown(item)} is not NAME=CPUS with a NAME of letters, digits and inner . _ -; "
                "write e.g. 2 or big=0-3+6,small=4"
            )
        if any(part.name == name for part in parts):
            raise InvalidInput(
                f"the name {name!r} is there twice; several ranges of one server are joined by +, "
                f"e.g. {name}=0-1+4"
            )
        numbers = _parse_ranges(name, ranges)
        for number in sorted(numbers):
            _check_cpu(machine, name, number, owner)
            owner[number] = name
        parts.append(_Part(name, tuple(cpu for cpu in machine.cpus if cpu.number in numbers)))
    return tuple(parts)


def _parse_ranges(name: str, ranges: str) -> frozenset[int]:
    numbers: set[int] = set()
    for part in ranges.split("+"):
        match = _CPU_RANGE.fullmatch(part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last:
            raise InvalidInput(
                f"{_shown(part)} is not a range of CPUs for {name!r}; write a number or LOW-HIGH, "
                f"several joined by +, e.g. {name}=0-3+6"
            )
        numbers.update(range(first, last + 1))
    return frozenset(numbers)


def _check_cpu(machine: Machine, name: str, number: int, owner: dict[int, str]) -> None:
    allowed = {cpu.number for cpu in machine.cpus}
    if number in owner:
        both = f"to {owner[number]!r} and to {name!r}"
        raise InvalidInput(f"CPU {number} is given {both}; give it to one of them")
    if number not in machine.present:
        raise InvalidInput(
            f"CPU {number} of {name!r} does not exist or is offline; "
            f"this process may use {format_cpus(allowed)}"
        )
    if number not in allowed:
        raise InvalidInput(
            f"this process may not run on CPU {number} of {name!r}; use "
            f"{format_cpus(allowed)}, or start the manager with that CPU (taskset, cpuset)"
        )


def format_cpus(numbers: Iterable[int]) -> str:
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
    """Its share of each node's memory, in proportion to its share of the node's CPUs."""
    total = sum(machine.node_bytes.values())
    if total == 0:  # the nodes' sizes are unknown
        return machine.memory_bytes * len(part.cpus) // len(machine.cpus)
    share = 0.0
    for node, size in machine.node_bytes.items():
        mine = sum(cpu.node == node for cpu in part.cpus)
        share += size / total * mine / sum(cpu.node == node for cpu in machine.cpus)
    return int(machine.memory_bytes * share)


def _platforms(
    machine: Machine, parts: tuple[_Part, ...], memory: list[int]
) -> tuple[Platform, ...]:
    """Each part's platform, with the memory of its largest server, in the name where that differs.

    NUMA nodes of one size differ by what the kernel took of each at boot: about as much is equal.
    """
    model = slug(machine.cpu_model) or machine.architecture.replace("_", "-")
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


def slug(cpu_model: str) -> str:
    """``"AMD EPYC 7B13 64-Core Processor"`` as ``"amd-epyc-7b13"``."""
    return re.sub(r"[^a-z0-9]+", "-", _NOISE.sub(" ", cpu_model).lower()).strip("-")
