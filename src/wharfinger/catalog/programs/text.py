"""Work on text in Python itself: patterns, JSON, word counts, templates, an interpreter's loop."""

import difflib
import json
import re
import sys
from collections import Counter
from string import Template

from wharfinger.catalog.programs.steps import Step, run_one_of, sample_text


def _regex() -> Step:
    text = sample_text(300_000).decode() * 4
    pattern = re.compile(r"\b(\w*(?:ro|ten)\w*)\s+(\w+)\.?\s+(?=\w*a)")
    return lambda _number: [match.groups() for match in pattern.finditer(text)]


def _json() -> Step:
    words = sample_text(60_000).decode().split()
    record = [{"id": i, "name": w, "tags": words[i : i + 3]} for i, w in enumerate(words)]
    return lambda _number: json.loads(json.dumps(record, indent=1))


def _words() -> Step:
    text = sample_text(1_500_000).decode()
    return lambda _number: Counter(text.split()).most_common(50)


def _template() -> Step:
    page = Template("<tr><td>$name</td><td>$count</td><td>$share %</td></tr>")
    words = sample_text(120_000).decode().split()
    rows = [{"name": w, "count": i, "share": i / 100} for i, w in enumerate(words)]
    return lambda _number: "\n".join(page.substitute(row) for row in rows)


def _diff() -> Step:
    old = sample_text(100_000).decode().split(".\n")
    new = [line for number, line in enumerate(old) if number % 7] + old[:20]
    return lambda _number: "\n".join(difflib.unified_diff(old * 4, new * 4))


def _primes() -> Step:
    return lambda _number: sum(
        all(n % d for d in range(2, int(n**0.5) + 1)) for n in range(2, 22_000)
    )


KINDS = {
    "regex": _regex,
    "json": _json,
    "words": _words,
    "template": _template,
    "diff": _diff,
    "primes": _primes,
}

if __name__ == "__main__":
    sys.exit(run_one_of("text", "Work on text.", "kind", KINDS))
