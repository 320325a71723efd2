"""What operators read of workloads in every situation, letter by letter.

Each page is kept once: in docs/explain.md where that shows it, else in a file. After a change that
is meant, ``python -m tests.golden.test_explain`` writes both anew; read what has changed before you
commit it.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.stories import (
    STORIES,
    Story,
    classified,
    like,
    measured,
    overloaded,
    rate,
    relieved,
    suspended,
    would_disturb,
)
from wharfinger.cli import describe, get, submit, top
from wharfinger.cli.explain import explanation_text
from wharfinger.cli.get import MEASUREMENTS
from wharfinger.cli.output import table
from wharfinger.cli.tables import columns
from wharfinger.core.outlook import measurements_like, outlook
from wharfinger.service import cluster, explanations, history, workloads
from wharfinger.service.outlooks import Basis, from_type, shown
from wharfinger.store.base import LogEntry

GOLDEN = Path(__file__).parent / "explain"
DOCUMENT = Path(__file__).parents[2] / "docs" / "explain.md"
EXAMPLE = re.compile(r"(?<=<!-- page: )(\S+)( -->\n```text\n\$ [^\n]*\n)(.*?)(?=```)", re.DOTALL)
WIDEST_TOP = 100


def _explained(name: str, *, wide: bool = False) -> str:
    story, workload = STORIES[name]()
    return explanation_text(story.explain(workload), wide=wide)


def _usage(*, wide: bool = False) -> str:
    story, _ = suspended()
    rows = [{**shown, "cpus_used": 0.31} for _, shown in story.usage().values()]
    return top.rows_text(rows, wide=wide)


def _servers() -> str:
    story, _ = would_disturb()
    return table(story.servers(), columns("servers", "wide"))


def _queues() -> str:
    return get.text(overloaded().queues(), "queues", "wide")


def _workloads() -> str:
    story, _ = relieved()
    known = story.manager.state.workloads.values()
    rows = [workloads.workload(r, story.now).as_json() for r in known]
    return table(rows, columns("workloads", "wide"))


def _described() -> str:
    story, name = relieved()
    return describe.describe_workload(story.explain(name)["workload"])


def _described_server() -> str:
    story, _ = relieved()
    server = cluster.server_detail(story.manager, "server0", story.now)
    assert server is not None
    return describe.describe_server(server.as_json())


def _events() -> str:
    story, _ = relieved()
    names = {str(record.uid): name for name, record in story.manager.state.workloads.items()}
    entries = [
        LogEntry(at, time, kind, payload)
        for at, (time, kind, payload) in enumerate(story.log, start=1)
        if kind not in MEASUREMENTS
    ]
    events = [history.event(entry, names).as_json() for entry in entries]
    return table(events, columns("events", "table"))


def _dry_run(known: bool = False) -> str:
    story, wanted = Story(), rate("encode", 120.0)
    what, basis, why = like(), Basis.TYPE, from_type(wanted)
    if known:
        story.submit(rate("decode", 90.0))
        story.profile("decode", classified(), measured())
        what, basis = classified(), Basis.SAME_PROGRAM
        _, why = measurements_like(story.manager, wanted, story.now)
    made = story.manager.preview(wanted, story.now)
    decisions = [explanations.decision(one).as_json() for one in made]
    expected = outlook(story.manager, wanted, story.now, what)
    assert expected is not None
    submitted = {"name": "encode", "outcome": "created", "run": 1, "created": True}
    told = shown(expected, wanted, basis, why).as_json()
    preview = {**submitted, "warnings": [], "decisions": decisions, "outlook": told}
    return submit.previews_text([preview])


PAGES: dict[str, Callable[[], str]] = {
    **{name: lambda name=name: _explained(name) for name in STORIES},  # type: ignore[misc] # bound now
    "resized-wide": lambda: _explained("resized", wide=True),
    "top": _usage,
    "top-wide": lambda: _usage(wide=True),
    "get-servers-wide": _servers,
    "get-queues-wide": _queues,
    "get-workloads-wide": _workloads,
    "get-events": _events,
    "describe-workload": _described,
    "describe-server": _described_server,
    "submit-dry-run": _dry_run,
    "submit-dry-run-known": lambda: _dry_run(known=True),
}


def kept_pages() -> dict[str, str]:
    """Every page as it is kept, by name."""
    documented = {match[1]: match[3] for match in EXAMPLE.finditer(DOCUMENT.read_text())}
    return {page.stem: page.read_text() for page in GOLDEN.iterdir()} | documented


@pytest.mark.parametrize("name", PAGES)
def test_what_is_printed_is_what_was_looked_at(name: str) -> None:
    assert PAGES[name]() + "\n" == kept_pages()[name]


def test_each_page_is_kept_once() -> None:
    text = DOCUMENT.read_text()
    documented = {match[1] for match in EXAMPLE.finditer(text)}
    assert len(documented) == text.count("```text")
    assert sorted([*documented, *(page.stem for page in GOLDEN.iterdir())]) == sorted(PAGES)


def test_top_keeps_to_its_width_and_cuts_what_it_must() -> None:
    story, _ = suspended()
    (_, shown), *_ = story.usage().values()
    long = {
        **shown,
        "name": "a-workload-with-a-rather-long-name-" * 2,
        "co_runners": [f"neighbour-number-{n}" for n in range(9)],
        "cpus_used": 0.3,
    }
    lines = top.rows_text([long]).splitlines()
    assert max(map(len, lines)) <= WIDEST_TOP
    assert "…" in lines[1]
    assert "200/s" in lines[1]
    assert "75% !" in lines[1]


def _told(name: str, **changed: object) -> str:
    story, workload = STORIES[name]()
    explanation = story.explain(workload)
    return explanation_text({**explanation, "workload": {**explanation["workload"], **changed}})


def test_what_its_user_or_its_schedule_wants_is_told_first() -> None:
    paused = _told("waiting-for-room", paused=True)
    assert paused.startswith("third waits: it is suspended by its user.\n")
    assert "Why it waits" not in paused
    due = _told("waiting-for-room", due_at="2026-11-23T02:00:00.000Z", reason="scheduled")
    assert due.startswith("third waits for its schedule: 2026-11-23 02:00:00Z.\n")
    unready = _told("placed", ready=False)
    assert "runs on server0, but is not ready" in unready
    resumes = _told("suspended", paused=True)
    assert "Resumes:    wharfinger resume filler" in resumes


def test_top_tells_who_is_throttled() -> None:
    story, _ = suspended()
    (_, shown), *_ = story.usage().values()
    throttled = {"name": "throttled_share", "value": 0.42, "source": "CPU quota", "trusted": False}
    row = {**shown, "cpus_used": 0.3, "measured": [*shown["measured"], throttled]}
    header, line = top.rows_text([row]).splitlines()
    assert line[header.index("THROTTLED") :].split()[0] == "42%"
    assert "CPU quota" not in top.rows_text([row], wide=True)


if __name__ == "__main__":
    pages = {name: text() + "\n" for name, text in PAGES.items()}
    document = DOCUMENT.read_text()
    DOCUMENT.write_text(
        EXAMPLE.sub(lambda match: match[1] + match[2] + pages.pop(match[1]), document)
    )
    for name, text in pages.items():
        (GOLDEN / f"{name}.txt").write_text(text)
    sys.stdout.write(f"{len(pages)} pages in {GOLDEN}, {len(PAGES) - len(pages)} in {DOCUMENT}\n")
