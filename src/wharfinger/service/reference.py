"""The API's description: the OpenAPI document, and a page of it that loads nothing from anywhere.

``routes_manager`` serves both. Beside what FastAPI makes of the routes, the document has the
manifest's JSON Schema, which bodies refer to.
"""

import json
from collections.abc import Iterator
from html import escape
from typing import Any

from fastapi import FastAPI

from wharfinger.manifest import json_schema

MANIFEST = {"$ref": "#/components/schemas/Manifest"}

_STYLE = (
    "body{font:15px/1.45 sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
    "code{background:#eee;padding:0 .2em}td{padding:.1em 1em .1em 0;vertical-align:top}"
)


def document_of(app: FastAPI) -> bytes:
    """The OpenAPI document, as JSON."""
    document = app.openapi()
    manifest = {key: value for key, value in json_schema().items() if key != "$schema"}
    document["components"]["schemas"]["Manifest"] = manifest
    return json.dumps(document).encode()


def page_of(app: FastAPI) -> bytes:
    """Every call with its parameters, as HTML without scripts."""
    document = json.loads(document_of(app))
    head = f"wharfinger {document['info']['version']}: the API"
    lines = [
        f'<!doctype html><meta charset="utf-8"><title>{escape(head)}</title>',
        f"<style>{_STYLE}</style><h1>{escape(head)}</h1>",
        '<p>Every key of every answer is in the document <a href="openapi.json">openapi.json</a>.',
    ]
    for path, calls in document["paths"].items():
        for method, call in calls.items():
            lines += _call(method.upper(), path, call)
    return "\n".join(lines).encode()


def _call(method: str, path: str, call: dict[str, Any]) -> Iterator[str]:
    yield f"<h2><code>{method} {escape(path)}</code></h2><p>{escape(call['description'])}</p>"
    rows = [
        (one["name"], one.get("description", ""), one["schema"])
        for one in call.get("parameters", ())
        if one["in"] == "query"
    ]
    if rows:
        yield "<table>"
        for name, description, schema in rows:
            default = f" (default: {schema['default']})" if "default" in schema else ""
            yield f"<tr><td><code>{escape(name)}</code><td>{escape(description + default)}"
        yield "</table>"
    if "requestBody" in call:
        kinds = ", ".join(call["requestBody"]["content"])
        about = call["requestBody"].get("description", "")
        yield f"<p>Body: <code>{escape(kinds)}</code> {escape(about)}</p>"
