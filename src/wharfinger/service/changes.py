"""What differs between two versions of a workload, field by field, as their manifests state it.

Called by the routes for dry runs.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import Field

from wharfinger.manifest import workload_to_manifest
from wharfinger.model.workload import Workload
from wharfinger.service.models import ApiModel


class FieldChange(ApiModel):
    """One field of the manifest that differs."""

    name: str = Field(description="The field, e.g. `spec.target.latency.below`.")
    before: Any = Field(serialization_alias="from", description="`null` = it was not stated.")
    to: Any = Field(description="`null` = it is not stated any more.")


def changes(before: Workload, after: Workload) -> list[FieldChange]:
    """The fields that differ, in the manifest's order; values of ``env`` are hidden."""
    stated, shown = (
        [dict(_fields(workload_to_manifest(each, redact=hide))) for each in (before, after)]
        for hide in (False, True)
    )
    return [
        FieldChange(name=name, before=shown[0].get(name), to=shown[1].get(name))
        for name in {**stated[0], **stated[1]}
        if stated[0].get(name) != stated[1].get(name)
    ]


def _fields(document: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Every field with its path.

    >>> dict(_fields({"a": 1, "b": {"c": [2, 3]}}))
    {'a': 1, 'b.c': [2, 3]}
    """
    for key, value in document.items():
        if isinstance(value, Mapping):
            yield from _fields(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value
