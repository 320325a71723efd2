"""What the tables of fields say to others: manifests written back, and JSON Schema.

``describe`` and the API write workloads, ``wharfinger schema`` prints the JSON Schema (draft
2020-12); ``scripts/generate-manifest-docs`` writes the reference pages from the same tables.
"""

from wharfinger.manifest.fields import ALIVE, MANIFEST, METADATA, READY, SPEC
from wharfinger.manifest.kinds import REDACTED, Field, Json
from wharfinger.manifest.rules import PROBE_WAYS, one_of, schema_rules
from wharfinger.manifest.sections import FieldRow, Maker, Section, rows
from wharfinger.model.workload import Workload

_RULES: dict[Section, dict[str, Json]] = {
    SPEC: {"allOf": schema_rules()},
    METADATA: {"oneOf": one_of("name", "generateName")},
    READY: {"oneOf": one_of(*PROBE_WAYS)},
    ALIVE: {"oneOf": one_of(*PROBE_WAYS[:-1])},
}
"""What JSON Schema says of the fields of a section together."""

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def workload_to_manifest(workload: Workload, *, redact: bool) -> dict[str, Json]:
    """A workload in the manifest's form, for JSON or YAML.

    Every default is written, so that a reader need not know those of the version that the workload
    was submitted to; resources that were not stated are left out. ``redact``, for all that is
    shown, replaces the values of ``env`` by ``***``; without it, loading the manifest gives an
    equal workload.
    """
    return _written(MANIFEST, MANIFEST.make, workload, redact=redact)


def _written(section: Section, make: Maker, holder: object, *, redact: bool) -> dict[str, Json]:
    written: dict[str, Json] = {}
    for row in rows(section, make):
        part = row.part
        value = holder if row.attribute is None else getattr(holder, row.attribute)
        if part.unstated and getattr(holder, part.unstated):
            continue
        if value is None and not (isinstance(part, Field) and part.kind.word):
            continue
        if isinstance(part, Section):
            text: Json = _written(part, row.make, value, redact=redact)
        else:
            text = part.kind.write(value)
            if redact and part.kind.secret and isinstance(text, dict):
                text = dict.fromkeys(text, REDACTED)
        if text not in ({}, None):
            written[row.name] = text
    return written


def json_schema() -> dict[str, Json]:
    """The JSON Schema (draft 2020-12) of one document of a manifest file.

    Only ``load_manifests`` checks sizes of files, duplicates and the last few rules.
    """
    schema = _section_schema(MANIFEST, MANIFEST.make)
    return {"$schema": _DIALECT, "title": "wharfinger workload", **schema}


def _section_schema(section: Section, make: Maker) -> dict[str, Json]:
    listed = rows(section, make)
    described: dict[str, Json] = {"description": section.doc}
    schema: dict[str, Json] = {"type": "object", **_RULES.get(section, {})}
    required: list[Json] = [row.name for row in listed if row.required]
    if required:
        schema["required"] = required
    schema["properties"] = {row.name: _row_schema(row) for row in listed}
    schema["additionalProperties"] = False
    if section.short is not None:
        schema = {"anyOf": [schema, dict(section.short.schema)]}
    return described | ({"type": "array", "items": schema} if section.many else schema)


def _row_schema(row: FieldRow) -> dict[str, Json]:
    part = row.part
    if isinstance(part, Section):
        return _section_schema(part, row.make)
    default = written_default(row, part)
    schema: dict[str, Json] = {"description": part.doc, **part.kind.schema}
    return schema if default is None else {**schema, "default": default}


def written_default(row: FieldRow, part: Field) -> Json:
    """A field's default as a manifest writes it; ``None`` = it has none, or one in words."""
    return None if part.default or row.default is None else part.kind.write(row.default)
