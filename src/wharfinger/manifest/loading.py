"""All workloads of a file: reading, parsing, rules, and names that are unique."""

from wharfinger.errors import InvalidInput
from wharfinger.manifest.fields import MANIFEST
from wharfinger.manifest.problems import Problems
from wharfinger.manifest.reader import read_documents
from wharfinger.manifest.rules import check_rules, complete
from wharfinger.manifest.sections import read_document
from wharfinger.model.workload import Workload

_NAME = "metadata.name"


def load_manifests(
    text: bytes | str, *, source: str = "<stdin>", working_directory: str, pure: bool = False
) -> tuple[Workload, ...]:
    """All workloads of a manifest file, at least one, in its order.

    Args:
        text: YAML 1.2 or JSON in UTF-8, any number of documents.
        source: What messages call it, usually the file's name.
        working_directory: Absolute; what relative paths in it start from.
        pure: As in ``read_documents``.

    Raises:
        InvalidManifest: With all problems, up to 20 of them in words.
        InvalidInput: ``working_directory`` is not absolute.
    """
    if not working_directory.startswith("/") or "\0" in working_directory:
        raise InvalidInput(f"working directory {working_directory!r} is not an absolute path")
    problems = Problems(source)
    lines: dict[object, int] = {}
    workloads: list[Workload] = []
    documents = 0
    for root in read_documents(text, problems, pure=pure):
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
