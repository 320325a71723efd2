"""All workloads of a file: reading, parsing, rules, arrays, and names that are unique."""

from collections.abc import Iterator

from wharfinger.errors import InvalidInput
from wharfinger.manifest.advice import advise
from wharfinger.manifest.arrays import ArrayRange, members
from wharfinger.manifest.fields import MANIFEST
from wharfinger.manifest.names import FileNames
from wharfinger.manifest.problems import Problems
from wharfinger.manifest.reader import read_documents
from wharfinger.manifest.rules import check_rules, complete
from wharfinger.manifest.sections import Document, read_document
from wharfinger.model.workload import Workload


def load_manifests(
    text: bytes | str, *, source: str = "<stdin>", working_directory: str, pure: bool = False
) -> tuple[Workload, ...]:
    """All workloads of a manifest file, at least one, in its order; an array's one by one.

    Args:
        text: YAML 1.2 or JSON in UTF-8, any number of documents.
        source: What messages call it, usually the file's name.
        working_directory: Absolute; what relative paths in it start from.
        pure: As in ``read_documents``.

    Raises:
        InvalidManifest: With all problems, up to 20 of them in words.
        InvalidInput: ``working_directory`` is not absolute.
    """
    return load_manifests_with_warnings(
        text, source=source, working_directory=working_directory, pure=pure
    )[0]


def load_manifests_with_warnings(
    text: bytes | str, *, source: str = "<stdin>", working_directory: str, pure: bool = False
) -> tuple[tuple[Workload, ...], dict[str, tuple[str, ...]]]:
    """As ``load_manifests``, and by workload what is accepted and probably not meant.

    Each warning is a line with place, field and mend; workloads without any are left out. The
    members of an array share those of their document.
    """
    if not working_directory.startswith("/") or "\0" in working_directory:
        raise InvalidInput(f"working directory {working_directory!r} is not an absolute path")
    problems = Problems(source)
    names = FileNames()
    read: list[tuple[str | None, Document]] = []
    for root in read_documents(text, problems, pure=pure):
        document = read_document(root, MANIFEST, problems, working_directory)
        check_rules(document)
        read.append((names.take(document), document))
    if not read and not problems.count:
        problems.add(0, "", "no manifest in it; it begins with apiVersion, kind, metadata, spec")
    names.check_dependencies()
    problems.raise_if_any()
    workloads: list[Workload] = []
    warnings: dict[str, tuple[str, ...]] = {}
    for name, document in read:
        made = [*_workloads(name, document)]
        workloads += made
        if document.warnings:
            warnings |= dict.fromkeys((each.name for each in made), tuple(document.warnings))
    return tuple(workloads), warnings


def _workloads(name: str | None, document: Document) -> Iterator[Workload]:
    """What a document without problems stands for."""
    attributes = document.values[""] | {"name": name}
    array = attributes.get("array")
    if isinstance(array, ArrayRange):
        attributes["array"] = None
    workload = complete(Workload(**attributes), document)
    advise(workload, document)
    return members(workload, array) if isinstance(array, ArrayRange) else iter([workload])
