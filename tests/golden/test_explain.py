"""What operators read of workloads in every situation, letter by letter.

After a change that is meant, ``python -m tests.golden.test_explain`` writes the files anew; read
what has changed before you commit it.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.stories import STORIES, Story, rate, relieved, suspended, would_disturb
from wharfinger.cli import describe, submit, top
from wharfinger.cli.explain import explanation_text
from wharfinger.cli.format import table
from wharfinger.cli.tables import columns
from wharfinger.service import history, records
from wharfinger.store.base import LogEntry

GOLDEN = Path(__file__).parent / "explain"
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


def _workloads() -> str:
    story, _ = relieved()
    known = story.manager.state.workloads.values()
    rows = [records.workload(r, story.now).model_dump(mode="json", by_alias=True) for r in known]
    return table(rows, columns("workloads", "wide"))


def _described() -> str:
    story, name = relieved()
    return describe.workload_text(story.explain(name)["workload"])


def _described_server() -> str:
    story, _ = relieved()
    server = records.server_detail(story.manager, "server0", story.now)
    assert server is not None
    return describe.server_text(server.model_dump(mode="json", by_alias=True))


def _events() -> str:
    story, _ = relieved()
    names = {str(record.uid): name for name, record in story.manager.state.workloads.items()}
    entries = [
        LogEntry(at, time, kind, payload)
        for at, (time, kind, payload) in enumerate(story.log, start=1)
        if kind != "ServerMeasured"
    ]
    events = [history.event(entry, names).model_dump(mode="json") for entry in entries]
    return table(events, columns("events", "table"))


def _dry_run() -> str:
    story = Story()
    decisions = [
        records.decision(made).model_dump(mode="json")
        for made in story.manager.preview(rate("encode", 120.0), story.now)
    ]
    preview = {"name": "encode", "created": True, "decisions": decisions}
    return submit.previews_text([preview])


PAGES: dict[str, Callable[[], str]] = {
    **{name: lambda name=name: _explained(name) for name in STORIES},  # type: ignore[misc] # bound now
    "resized-wide": lambda: _explained("resized", wide=True),
    "top": _usage,
    "top-wide": lambda: _usage(wide=True),
    "get-servers-wide": _servers,
    "get-workloads-wide": _workloads,
    "get-events": _events,
    "describe-workload": _described,
    "describe-server": _described_server,
    "submit-dry-run": _dry_run,
}


@pytest.mark.parametrize("name", PAGES)
def test_what_is_printed_is_what_was_looked_at(name: str) -> None:
    assert PAGES[name]() + "\n" == (GOLDEN / f"{name}.txt").read_text()


def test_the_pages_examples_are_what_is_printed() -> None:
    page = (Path(__file__).parents[2] / "docs" / "explain.md").read_text()
    shown = [part.partition("```")[0] for part in page.split("```text\n")[1:]]
    assert shown
    for example in shown:
        command, _, output = example.partition("\n")
        assert command.startswith("$ wharfinger ")
        assert output in {text() + "\n" for text in PAGES.values()}, command


def test_top_keeps_to_its_width_and_cuts_what_it_must() -> None:
    story, _ = suspended()
    (_, shown), *_ = story.usage().values()
    long = {
        **shown,
        "name": "a-workload-with-a-rather-long-name-" * 2,
        "neighbours": [f"neighbour-number-{n}" for n in range(9)],
        "cpus_used": 0.3,
    }
    lines = top.rows_text([long]).splitlines()
    assert max(map(len, lines)) <= WIDEST_TOP
    assert "…" in lines[1]
    assert "200/s" in lines[1]
    assert "75% !" in lines[1]


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for name, text in PAGES.items():
        (GOLDEN / f"{name}.txt").write_text(text() + "\n")
    sys.stdout.write(f"{len(PAGES)} pages in {GOLDEN}\n")
