"""The manifest's JSON Schema (draft 2020-12), from the table of fields.

``wharfinger schema`` prints it, for editors and for other programs' checks. It says what a
schema can say; sizes of files, duplicates and the last few rules are ``load_manifests``'s.
"""

from wharfinger.manifest.fields import MANIFEST, SPEC, Field, Maker, Section, default_of
from wharfinger.manifest.kinds import Json
from wharfinger.manifest.meaning import schema_rules

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Json]:
    """The JSON Schema of one document of a manifest file."""
    return {"$schema": _DIALECT, "title": "wharfinger workload", **_section(MANIFEST, None)}


def _section(section: Section, around: Maker) -> dict[str, Json]:
    make = section.make or around
    properties: dict[str, Json] = {}
    for part in section.fields:
        properties[part.name] = (
            _field(make, part) if isinstance(part, Field) else _section(part, make)
        )
    required: list[Json] = [part.name for part in section.fields if part.required]
    schema: dict[str, Json] = {"description": section.doc, "type": "object"}
    if section is SPEC:
        schema["allOf"] = schema_rules()
    if required:
        schema["required"] = required
    schema |= {"properties": properties, "additionalProperties": False}
    if section.short is not None:
        schema = {"anyOf": [schema, dict(section.short.schema)]}
    return {"type": "array", "items": schema} if section.many else schema


def _field(make: Maker, part: Field) -> dict[str, Json]:
    schema: dict[str, Json] = {"description": part.doc, **part.kind.schema}
    default = written_default(make, part)
    if default is not None:
        schema["default"] = default
    return schema


def written_default(make: Maker, part: Field) -> Json:
    """A field's default as a manifest writes it; ``None`` where it has none, or one in words.

    Args:
        make: Of its section; one without an object of its own keeps its fields in the one around.
        part: The field.
    """
    default = None if part.default else default_of(make, part.attribute)
    return None if default is None else part.kind.write(default)
