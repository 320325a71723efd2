"""``wharfinger ibench validate``: the sources tried on this machine, as a table or a document."""

import argparse
import os
import platform
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from wharfinger.cli import format as fmt
from wharfinger.cli.main import NOT_AS_EXPECTED, OK
from wharfinger.cli.output import Column, Record, column, fields, section, show, table
from wharfinger.cli.progress import Progress, ended_in_order
from wharfinger.errors import InvalidInput

# Not imported at run time: help needs none of it.
if TYPE_CHECKING:
    from wharfinger.ibench.sources import SourceSetting
    from wharfinger.ibench.tracing import Confinement
    from wharfinger.ibench.validation import Bench, SourceValidation, Square
    from wharfinger.ibench.victims import VictimEffect

SLOWED_SHARE = 0.85
"""Of its rate alone that a neighbor of the same kind may keep at most, on the same CPU."""
OTHERS_SHARE = 0.2
"""Of a CPU that others have: from there a neighbor's rate alone says little."""
_LATE = "the time was over; validate fewer sources"


def run(arguments: argparse.Namespace, settings: "Sequence[SourceSetting]") -> int:
    """Try the sources, print what was found, draw it if asked to."""
    from wharfinger.catalog.quiet import CpuTimes, Disturbance  # noqa: PLC0415
    from wharfinger.ibench.validation import QUICK, WHOLE, Bench  # noqa: PLC0415

    report = _report_folder(arguments.report)
    began, before = time.monotonic(), CpuTimes.read()
    with ended_in_order(), Progress() as progress:
        bench = Bench(QUICK if arguments.quick else WHOLE, progress.tell)
        settings = [_validated(setting, bench.effort.held_bytes) for setting in settings]
        with ExitStack() as stack:
            for setting in settings:
                bench.validate(setting, stack)
            # Meanwhile the sources are at 0; what is left of the time is the pairs'.
            confined = {name: _confinement(name, bench) for name in bench.found}
            same, across = bench.independence(), _across(bench)
        victims = [] if arguments.sources else _victims(bench, settings)
    document: Record = {
        "sources": [source_row(each, confined[name]) for name, each in bench.found.items()],
        "independence": same,
        "independence_across_cpus": across,
        "victims": [victim_row(each) for each in victims],
        "machine": {
            **machine(settings),
            **asdict(Disturbance.between(before, CpuTimes.read())),
            "counters": {name: each.counter for name, each in bench.found.items() if each.counter},
            "quick": arguments.quick,
            "seconds": time.monotonic() - began,
        },
    }
    written = _draw(document, report)
    show(document, arguments.output, lambda: text_of(document, written))
    return NOT_AS_EXPECTED if any(map(problems_of, bench.found.values())) else OK


def _validated(setting: "SourceSetting", held_bytes: int) -> "SourceSetting":
    # As few CPUs as can be, so that source and neighbor are certain to meet on them.
    cpus = (setting.cpus or tuple(sorted(os.sched_getaffinity(0))))[: setting.source.cpus]
    if not setting.source.holds:
        return replace(setting, cpus=cpus)
    footprint, quota = setting.footprint or held_bytes, setting.quota or held_bytes
    return replace(setting, cpus=cpus, footprint=footprint, quota=quota)


def _across(bench: "Bench") -> "Square | None":
    """Where there is another CPU, and time for it."""
    used = {cpu for each in bench.running.values() for cpu in each.setting.cpus[:1]}
    others = sorted(os.sched_getaffinity(0) - used)
    if not others or not bench.effort.across or len(bench.running) < 2:
        return None
    return bench.independence_across(others)


def _confinement(name: str, bench: "Bench") -> "Confinement":
    from wharfinger.ibench.tracing import (  # noqa: PLC0415
        NOT_TRACED,
        TRACED,
        Confinement,
        confinement_of,
    )  # fmt: skip

    if name in NOT_TRACED or bench.found[name].reason:
        return Confinement(NOT_TRACED.get(name) or "the source has no signal here")
    if not bench.has_time(0.65):
        return Confinement(_LATE)
    bench.progress(f"{name}: traced by valgrind")
    return confinement_of(next(t for t in TRACED if t.name == name), bench.effort.traced_events)


def _victims(bench: "Bench", settings: "Sequence[SourceSetting]") -> "list[VictimEffect]":
    from wharfinger.ibench.victims import Duration, VictimPlace, effects  # noqa: PLC0415

    first = settings[0]
    duration = Duration(bench.effort.victim_rounds, bench.effort.victim_seconds)
    place = VictimPlace(first.cpus[0], first.directory, duration)
    return list(effects(place, bench.progress, lambda: bench.has_time(0.95)))


# --- the document ---------------------------------------------------------------------------


def problems_of(validation: "SourceValidation") -> list[str]:
    """What the source does not do although it says so."""
    problems = list(validation.problems)
    kept = _interval(validation.kept)
    quiet = validation.waited_share <= OTHERS_SHARE
    if kept is not None and quiet and min(kept["value"], kept["low"] or 1.0) > SLOWED_SHARE:
        problems.append(f"a neighbor keeps {kept['value']:.0%} of its performance beside it")
    return problems


def source_row(validation: "SourceValidation", confinement: "Confinement") -> Record:
    """One source's part of the document; ``reason`` also says what is wrong, or can't be told."""
    line, told = validation.line, problems_of(validation)
    if validation.untold:
        told.append(f"others had the CPU at {validation.untold} of {len(validation.points)} points")
    return {
        "name": validation.source.name,
        "available": not validation.reason,
        "reason": validation.reason or "; ".join(told) or None,
        "points": [{**asdict(point), "tells": point.tells} for point in validation.points],
        "slope": line and line.slope,
        "r_squared": line and line.r_squared,
        "max_deviation_points": line and line.max_deviation_points,
        "kept_share": _interval(validation.kept),
        "confinement": {
            "told": not confinement.reason,
            "reason": confinement.reason or confinement.why_not or None,
            "level": confinement.own or None,
            "confined": confinement.is_confined,
            "taken_per_sent_on": confinement.taken_per_sent_on,
            "levels": [asdict(level) for level in confinement.levels],
        },
    }


def victim_row(effect: "VictimEffect") -> Record:
    """What one victim kept of its rate, and whether that is an effect at all."""
    kept = _interval(effect.kept)
    signal = None
    if kept is not None and kept["low"] is not None:
        signal = not kept["low"] <= 1.0 <= kept["high"]
    return {
        "name": effect.name,
        "source": effect.source,
        "kept_share": kept,
        "signal": signal,
        "reason": effect.reason or (None if signal else "no signal: the interval holds zero"),
    }


def _interval(values: Sequence[float]) -> Record | None:
    from wharfinger.experiments.statistics import interval  # noqa: PLC0415

    found = interval(values)
    return None if found is None else {"value": found.mean, "low": found.low, "high": found.high}


def machine(settings: "Sequence[SourceSetting]") -> Record:
    """What the figures are of."""
    cpus = sorted(os.sched_getaffinity(0))
    caches = Path("/sys/devices/system/cpu", f"cpu{cpus[0]}", "cache")
    return {
        "processor": _processor(),
        "architecture": platform.machine(),
        "kernel": platform.release(),
        "cpus": len(cpus),
        "cpus_used": sorted({cpu for setting in settings for cpu in setting.cpus}),
        "caches": {
            f"L{_read(index / 'level')} {_read(index / 'type').lower()}": _read(index / "size")
            for index in sorted(caches.glob("index*"))
        },
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return "?"


def _processor() -> str | None:
    for line in _read(Path("/proc/cpuinfo")).splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "CPU part"):
            return value.strip()
    return None


# --- pictures -------------------------------------------------------------------------------


def _report_folder(text: str | None) -> Path | None:
    """Checked before minutes are spent."""
    if text is None:
        return None
    from wharfinger.experiments import plots  # noqa: PLC0415

    folder = Path(text)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        usable = os.access(folder, os.W_OK)
    except (OSError, ValueError):
        usable = False
    if not usable:
        raise InvalidInput(f"--report: {text!r} is no directory to write in; name another")
    plots.check()
    return folder


def _draw(document: Record, folder: Path | None) -> list[Path]:
    if folder is None:
        return []
    from wharfinger.experiments.ibench_pictures import draw  # noqa: PLC0415

    return draw(document, folder)


# --- for people -----------------------------------------------------------------------------


def _share(value: float) -> str:
    return f"{value:.0%}"


def _kept_text(kept: Record) -> str:
    if kept["low"] is None:
        return _share(kept["value"])
    half = (kept["high"] - kept["low"]) / 2
    return f"{kept['value']:.0%} ± {100 * half:.0f}"


def _confinement_text(told: Mapping[str, object]) -> str:
    if not told["told"]:
        return fmt.NONE
    if not told["confined"]:
        return f"no: {told['reason']}"
    ratio = told["taken_per_sent_on"]
    ratio_text = f", {ratio:.0f} taken for one sent on" if isinstance(ratio, float) else ""
    return f"{told['level']}{ratio_text}"


_COLUMNS: list[Column] = [
    column("SOURCE", "name"),
    column("AVAILABLE", form=fmt.yes_no),
    column("SLOPE", form="{:.3f}".format),
    column("R²", "r_squared", "{:.4f}".format),
    column("LARGEST DEVIATION", "max_deviation_points", "{:.1f}".format),
    column("LIKE NEIGHBOR KEEPS", "kept_share", _kept_text),
    column("CONFINED TO", "confinement", _confinement_text),
    column("REASON"),
]
_VICTIM_COLUMNS: list[Column] = [
    column("VICTIM", "name"),
    column("SOURCE"),
    column("KEEPS", "kept_share", _kept_text),
    column("REASON"),
]


def text_of(document: Record, written: Sequence[Path]) -> str:
    """One row for each source, then the pairs, the victims and the machine."""
    from wharfinger.ibench.validation import mild_share  # noqa: PLC0415

    parts = [table(document["sources"], _COLUMNS)]
    pairs = []
    for where, key in (("same CPU", "independence"), ("two CPUs", "independence_across_cpus")):
        share = mild_share(document[key] or {})
        if share is not None:
            pairs.append((f"pairs on the {where}" if key == "independence" else f"pairs on {where}",
                          f"{share:.0%} keep at least 0.9 of their own rate"))  # fmt: skip
    if pairs:
        parts.append(fields(pairs))
    if document["victims"]:
        parts.append(table(document["victims"], _VICTIM_COLUMNS))
    told = document["machine"]
    words = [
        f"{told['processor']}, {told['cpus']} CPUs, kernel {told['kernel']}",
        f"CPUs busy {told['busy_share']:.0%}, taken by the hypervisor {told['steal_share']:.0%}",
        f"took {told['seconds']:.0f} s",
    ]
    untold = {
        row["confinement"]["reason"]
        for row in document["sources"]
        if not row["confinement"]["told"] and "install" in (row["confinement"]["reason"] or "")
    }
    parts.append(section("machine", [*words, *sorted(untold), *map(str, written)]))
    return "\n\n".join(parts)
