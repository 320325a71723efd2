"""All workloads of a file: reading, parsing, meaning, and names that stand once."""

from wharfinger.manifest.fields import MANIFEST
from wharfinger.manifest.problems import Problems
from wharfinger.manifest.reader import DEFAULT_LIMITS, DocumentLimits, read_documents
from wharfinger.manifest.rules import check_rules, complete
from wharfinger.manifest.sections import Document, read_document
from wharfinger.model.workload import Workload


def load(
    text: bytes | str,
    *,
    source: str,
    working_directory: str,
    limits: DocumentLimits = DEFAULT_LIMITS,
    pure: bool = False,
) -> tuple[Workload, ...]:
    """As ``wharfinger.manifest.load_manifests``; the tests choose limits and parser.

    Raises:
        InvalidManifest: With all problems.
    """
    problems = Problems(source)
    names: dict[object, int] = {}
    workloads: list[Workload] = []
    documents = 0
    for root in read_documents(text, problems, limits, pure=pure):
        documents += 1
        document = read_document(root, MANIFEST, problems, working_directory)
        check_rules(document)
        _check_name(document, names)
        if "" in document.values:
            workloads.append(complete(Workload(**document.values[""]), document))
    if not documents and not problems.count:
        problems.add(0, "", "no manifest in it; it begins with apiVersion, kind, metadata, spec")
    problems.raise_if_any()
    return tuple(workloads)


def _check_name(document: Document, names: dict[object, int]) -> None:
    """Refuse a name that an earlier document of the file has."""
    path = "metadata.name"
    name = document.values.get(path)
    if name is None:
        return
    line = document.lines[path]
    first = names.setdefault(name, line)
    if first != line:
        message = f"{name!r} is also the name in line {first}; give one of the two another name"
        document.wrong(path, message)
