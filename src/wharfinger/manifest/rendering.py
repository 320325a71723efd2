"""From a workload back to a manifest, for ``describe`` and the API.

Everything that applies is written, defaults included, so that a reader sees what holds and
need not know the defaults of the version that took the workload in.
"""

from wharfinger.manifest.fields import MANIFEST, Field, Section
from wharfinger.manifest.kinds import REDACTED, Json
from wharfinger.model.workload import Workload


def write(workload: Workload, *, redact: bool) -> dict[str, Json]:
    """Write a workload in the manifest's form, as values that JSON and YAML can hold.

    Args:
        workload: As ``load_manifests`` made it.
        redact: Replace the values of ``env`` by ``***``: for everything that is shown.

    Returns:
        A manifest; without ``redact``, loading it again gives an equal workload.
    """
    return _section(MANIFEST, workload, redact=redact)


def _section(section: Section, holder: object, *, redact: bool) -> dict[str, Json]:
    """A section's fields, those left out that hold nothing."""
    written: dict[str, Json] = {}
    for part in section.fields:
        value = holder if part.attribute is None else getattr(holder, part.attribute)
        if value is None:
            continue
        if isinstance(part, Field):
            text = _value(part, value, redact=redact)
        else:
            text = _section(part, value, redact=redact)
        if text not in ({}, None):
            written[part.name] = text
    return written


def _value(part: Field, value: object, *, redact: bool) -> Json:
    text = part.kind.write(value)
    if redact and part.kind.secret and isinstance(text, dict):
        return dict.fromkeys(text, REDACTED)
    return text
