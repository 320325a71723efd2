"""Every field of the manifest is read by something that acts on it: none is accepted in vain."""

import re
from functools import cache
from itertools import chain
from pathlib import Path

import wharfinger
from wharfinger.manifest.fields import MANIFEST
from wharfinger.manifest.kinds import Field
from wharfinger.manifest.sections import Section, rows

PACKAGE = Path(wharfinger.__file__).parent
READERS = {
    "metadata.name": "core/cluster_state.py",
    "metadata.labels": "service/routes_workloads.py",  # Workloads are listed by them.
    "spec.type": "classification/planner.py",
    "spec.target.throughput": "classification/prediction.py",
    "spec.target.latency.percentile": "simulator/truth/queueing.py",
    "spec.target.latency.below": "classification/prediction.py",
    "spec.target.completionTime": "classification/prediction.py",
    "spec.target.rate": "classification/prediction.py",
    "spec.tolerance": "policies/adaptation/slack.py",
    "spec.onMiss": "policies/placement/quasar.py",
    "spec.adapt": "core/residents.py",
    "spec.priority": "core/queues.py",
    "spec.requires": "core/residents.py",
    "spec.scale.maxServers": "policies/placement/several.py",
    "spec.scale.stateful": "core/residency.py",
    "spec.scale.gang": "core/pools.py",
    "spec.scale.spread": "core/pools.py",
    "spec.resources.cpu": "model/view.py",
    "spec.resources.memory": "model/view.py",
    "spec.profile.mode": "classification/planner.py",
    "spec.profile.seconds": "classification/planner.py",
}
"""Who reads a field by its attribute; of ``run``, ``measure`` and the like see ``ATTRIBUTES``."""
UNREAD = {"spec.cost.maxPerHour"}
"""Accepted with the warning ``not-supported``."""
CONSTANT = {"apiVersion", "kind", "metadata.generateName"}


def fields_in(section: Section, make, path: str = "") -> dict[str, str | None]:
    """Path of each field, and the attribute that keeps it."""
    found: dict[str, str | None] = {}
    for row in rows(section, make):
        where = f"{path}.{row.name}" if path else row.name
        if isinstance(row.part, Field):
            found[where] = row.attribute
        else:
            found |= fields_in(row.part, row.make, where)
    return found


FIELDS = fields_in(MANIFEST, MANIFEST.make)


@cache
def _read() -> dict[str, set[str]]:
    """Names that each file reads as attributes or in patterns, by the file's name.

    Those files apart that only make, check and write workloads.
    """
    beside = ("manifest", "model/workload.py", "testing", "simulator/scenario", "experiments")
    paths = {path.relative_to(PACKAGE).as_posix(): path for path in PACKAGE.rglob("*.py")}
    read = re.compile(r"\.(?=(\w+))|(?=\"(\w+)\")|\b(?=(\w+)=\w+\))")
    return {
        name: set(filter(None, chain.from_iterable(read.findall(path.read_text()))))
        for name, path in paths.items()
        if not name.startswith(beside)
    }


def _readers(attribute: str) -> set[str]:
    """Files that read an attribute, by its name or in a pattern."""
    return {name for name, read in _read().items() if attribute in read}


def test_every_field_is_read_by_something_beside_the_manifest() -> None:
    unread = {
        path
        for path, attribute in FIELDS.items()
        if attribute is not None and not _readers(attribute)
    }
    assert unread == UNREAD


def test_those_that_decide_where_it_goes_are_read_where_it_is_said() -> None:
    assert READERS.keys() <= FIELDS.keys()
    wrong = {path: name for path, name in READERS.items() if name not in _readers(FIELDS[path])}
    assert not wrong
    named = set(READERS) | UNREAD | CONSTANT
    others = {path for path in FIELDS if path not in named}
    told = ("spec.run.", "spec.measure.", "spec.after.", "spec.schedule.", "spec.array.")
    rest = {path for path in others if not path.startswith(told)}
    assert rest == {"spec.expectedDuration", "spec.waiting.within", "spec.ttlAfterFinished"}


def test_what_no_part_reads_is_warned_about() -> None:
    section, *names = MANIFEST, *["spec", "cost", "maxPerHour"]
    for name in names[:-1]:
        section = section.fields[name]
    assert section.fields[names[-1]].not_supported
