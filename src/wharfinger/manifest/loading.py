"""All workloads of a file: reading, parsing, rules, and names that are unique."""

from wharfinger.manifest.fields import MANIFEST
from wharfinger.manifest.problems import Problems
from wharfinger.manifest.reader import DEFAULT_LIMITS, DocumentLimits, read_documents
from wharfinger.manifest.rules import check_rules, complete
from wharfinger.manifest.sections import read_document
from wharfinger.model.workload import Workload

_NAME = "metadata.name"


def load(
    text: bytes | str,
    *,
    source: str,
    working_directory: str,
    limits: DocumentLimits = DEFAULT_LIMITS,
    pure: bool = False,
) -> tuple[Workload, ...]:
    """As ``wharfinger.manifest.load_manifests``; tests choose limits and parser."""
    problems = Problems(source)
    lines: dict[object, int] = {}
    workloads: list[Workload] = []
    documents = 0
    for root in read_documents(text, problems, limits, pure=pure):
        documents += 1
        document = read_document(root, MANIFEST, problems, working_directory)
        check_rules(document)
        if _NAME in document.values:
            name, line = document.values[_NAME], document.lines[_NAME]
            if (first := lines.setdefault(name, line)) != line:
                where = f"{name!r} is also the name in line {first}"
                document.wrong(_NAME, f"{where}; give one of the two another name")
        if "" in document.values:
            workloads.append(complete(Workload(**document.values[""]), document))
    if not documents and not problems.count:
        problems.add(0, "", "no manifest in it; it begins with apiVersion, kind, metadata, spec")
    problems.raise_if_any()
    return tuple(workloads)
