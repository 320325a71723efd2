"""The manifest: workloads as users write them, in YAML or JSON.

The order of work: ``reader`` (bytes to trees, within limits), ``sections`` (trees to values by the
table in ``fields``), ``rules`` (between fields); ``output`` writes. Scenarios have a table of their
own and are read by the same engine. Importing this package imports neither YAML nor the table.
"""

from typing import TYPE_CHECKING

from wharfinger.errors import InvalidInput

if TYPE_CHECKING:
    from wharfinger.manifest.kinds import Json
    from wharfinger.model.workload import Workload

__all__ = ["json_schema", "load_manifests", "workload_to_manifest"]


def load_manifests(
    text: bytes | str, *, source: str = "<stdin>", working_directory: str
) -> "tuple[Workload, ...]":
    """Read all workloads of a manifest file.

    Args:
        text: YAML 1.2 or JSON in UTF-8, any number of documents.
        source: What messages call it, usually the file's name.
        working_directory: Absolute; what relative paths in it start from.

    Returns:
        At least one workload, in the file's order, their names unique.

    Raises:
        InvalidManifest: With all problems, up to 20 of them in words.
        InvalidInput: ``working_directory`` is not absolute.
    """
    from wharfinger.manifest.loading import load  # noqa: PLC0415 - see above

    if not working_directory.startswith("/") or "\0" in working_directory:
        raise InvalidInput(f"working directory {working_directory!r} is not an absolute path")
    return load(text, source=source, working_directory=working_directory)


def json_schema() -> "dict[str, Json]":
    """The JSON Schema (draft 2020-12) of one document of a manifest file."""
    from wharfinger.manifest.output import json_schema as build  # noqa: PLC0415 - see above

    return build()


def workload_to_manifest(workload: "Workload", *, redact: bool) -> "dict[str, Json]":
    """A workload in the manifest's form, for JSON or YAML; every default is written out.

    Args:
        workload: As ``load_manifests`` made it.
        redact: Replace the values of ``env`` by ``***``: for everything that is shown. Without
            it, loading the manifest gives an equal workload.
    """
    from wharfinger.manifest.output import write  # noqa: PLC0415 - see above

    return write(workload, redact=redact)
