"""What is learnt of workloads as they run: a row for each program, kept (Quasar 3.2).

When a workload ends, its measurements correct the row of its program. ``runtime.learning`` calls
this, keeps the rows, and learns from them beside the manager.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice, pairwise
from math import hypot, log, prod
from operator import attrgetter

from wharfinger.classification.utility import Aspect, UtilityMatrix, UtilityRow, corrected
from wharfinger.model.configuration import Configuration, Setting
from wharfinger.model.performance import PROXIES, Quantity, as_performance
from wharfinger.model.profile import Entry, Measurements
from wharfinger.model.programs import program_of
from wharfinger.model.workload import Workload

MIN_ENTRIES = 3
"""A row with fewer says nothing of a third column. With three, of half of the known programs, the
others are predicted 3% better (decision 0024)."""
MAX_ROWS = 500
"""Of those that were learnt; the ones that were corrected longest ago go first."""
_MIN_COLUMNS = 2
"""Of the known programs', that a learnt row must have something for."""
_MAX_APART, _BETWEEN_ERROR = 2.5, 0.05
"""Two amounts of CPU between which a third is interpolated, and how well."""
MAX_POINTS = 100.0
LEARNT = "learnt:"
"""Begins the names of these rows."""

Matrices = Mapping[Aspect, UtilityMatrix]


def row_name(command: Sequence[str]) -> str:
    """The same command has the same row, which does not reveal its words."""
    digest = hashlib.sha256("\0".join(command).encode()).hexdigest()[:12]
    return f"{LEARNT}{program_of(command)[:40]}-{digest}"


def learn(
    matrices: Matrices, workload: Workload, measurements: Measurements
) -> dict[Aspect, UtilityMatrix]:
    """The matrices that were learnt so far, with what was measured of one workload."""
    made = dict(matrices)
    name = row_name(workload.run.command)
    group = program_of(workload.run.command)
    for quantity, row in measurements.performance.items():
        entries = {
            Configuration(cpu).name: replace(e, value=as_performance(quantity, e.value))
            for cpu, e in row.items()
            if e.value > 0
        }
        if quantity not in PROXIES and len(entries) >= MIN_ENTRIES:
            suffix = "/latency" if quantity is Quantity.LATENCY else ""
            new = UtilityRow(group, workload.type, entries)
            made[Aspect.SCALE_UP] = _with_row(made, Aspect.SCALE_UP, name + suffix, new)
    across = _across_platforms(measurements)
    if len(across) >= MIN_ENTRIES:
        new = UtilityRow(group, workload.type, across)
        made[Aspect.HETEROGENEITY] = _with_row(made, Aspect.HETEROGENEITY, name, new)
    scored = {Aspect.TOLERATED: measurements.tolerated, Aspect.CAUSED: measurements.caused}
    for kind, scores in scored.items():
        valid = {str(s): e for s, e in scores.items() if not e.censored or e.value >= MAX_POINTS}
        if valid:  # A bound is no score.
            new = UtilityRow(group, workload.type, valid)
            made[kind] = _with_row(made, kind, name, new)
    return made


def _across_platforms(measurements: Measurements) -> dict[str, Entry]:
    """By platform, with the allocation that was measured on most of them; empty = on one only.

    Latencies and what several servers did together say nothing of a platform.
    """
    best: dict[str, Entry] = {}
    for quantity in (Quantity.RATE, Quantity.THROUGHPUT):
        for cpu, entry in measurements.performance.get(quantity, {}).items():
            entries = {measurements.platform: entry} if measurements.platform else {}
            for run in measurements.further.get(quantity, ()):
                if run.setting == Setting(run.setting.platform, Configuration(cpu)):
                    entries[run.setting.platform] = run.entry
            entries = {name: each for name, each in entries.items() if each.value > 0}
            if len(entries) > max(1, len(best)):
                best = entries
    return best


def _with_row(matrices: Matrices, kind: Aspect, name: str, new: UtilityRow) -> UtilityMatrix:
    """Its row corrected, as the newest; a performance row is moved to the level of now first."""
    matrix = matrices.get(kind) or UtilityMatrix(kind, (), {})
    old = matrix.rows.get(name)
    entries = dict(old.entries) if old else {}
    if not kind.is_score:
        entries = _moved(entries, new.entries)
    for column, entry in new.entries.items():
        entries[column] = corrected(
            entries.get(column), entry, kind.transform, matrix.half_life_seconds
        )
    kept = dict(matrix.rows)
    kept.pop(name, None)
    for oldest in list(islice(kept, max(0, len(kept) - MAX_ROWS + 1))):
        del kept[oldest]
    entries_of_others = map(attrgetter("entries"), kept.values())
    columns = tuple(dict.fromkeys(chain.from_iterable(entries_of_others)))
    return replace(matrix, rows=kept, columns=columns).with_row(name, replace(new, entries=entries))


def _moved(old: Mapping[str, Entry], new: Mapping[str, Entry]) -> dict[str, Entry]:
    """An older run may have had another input: how it gained from CPU is what is kept of it."""
    both = [column for column in old if column in new]
    if not both:
        return {} if old and new else dict(old)
    level = prod((new[c].value / old[c].value) ** (1 / len(both)) for c in both)
    return {column: replace(entry, value=entry.value * level) for column, entry in old.items()}


def joined(offline: Matrices, learnt: Matrices) -> dict[Aspect, UtilityMatrix]:
    """The known programs' matrices with the rows that were learnt, on the columns that they have.

    What lies between two measured amounts of CPU is taken for the column there.
    """
    made = dict(offline)
    for kind, matrix in learnt.items():
        if kind not in offline:
            continue
        rows = {
            name: replace(row, entries=_on_columns(kind, row.entries, offline[kind].columns))
            for name, row in matrix.rows.items()
        }
        told = {name: row for name, row in rows.items() if len(row.entries) >= _MIN_COLUMNS}
        made[kind] = replace(offline[kind], rows={**offline[kind].rows, **told})
    return made


def _on_columns(
    kind: Aspect, entries: Mapping[str, Entry], columns: Sequence[str]
) -> dict[str, Entry]:
    row = {column: entries[column] for column in columns if column in entries}
    if kind is not Aspect.SCALE_UP:
        return row
    by_cpu = {Configuration.parse(name).cpu_millicpus: entry for name, entry in entries.items()}
    measured = sorted(by_cpu.items(), key=lambda pair: pair[0])
    for column in columns:
        wanted = Configuration.parse(column)
        if column in row or wanted != Configuration(wanted.cpu_millicpus):
            continue
        for (below, low), (above, high) in pairwise(measured):
            if below < wanted.cpu_millicpus < above <= _MAX_APART * below:
                share = log(wanted.cpu_millicpus / below) / log(above / below)
                value = low.value * (high.value / low.value) ** share
                error = hypot(max(low.error, high.error), _BETWEEN_ERROR)
                row[column] = replace(low, value=value, error=error)
    return row
