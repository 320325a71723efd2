"""The documentation says what the code says."""

import argparse
import functools
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.documents import blocks, shown_commands
from wharfinger.cli.main import COMMANDS, build_parser, find_command
from wharfinger.model.decisions import ReasonCode

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMANDED = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
"""Pages whose commands are to be typed; decisions tell what was."""
COMMANDED.remove(ROOT / "docs/cli.md")


@pytest.mark.slow
def test_pictures_and_tables_are_those_of_the_code() -> None:
    check = [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text())
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (page.parent / link).exists()] == []


COMMAND = re.compile(r"^\s*(\$ |(wharfinger [a-z]|python -m benchmarks|scripts/[a-z]))")
PRINTED = "<!-- page: "
"""Before a block that tests/golden/test_explain.py prints."""


@pytest.mark.parametrize("page", COMMANDED, ids=lambda page: page.name)
def test_commands_stand_in_console_blocks(page: Path) -> None:
    """There tests/integration/test_documents.py finds them."""
    lines = page.read_text().splitlines()
    strays = [
        line
        for begin, language, block in blocks(page.read_text())
        if language != "console" and not lines[begin - 3].startswith(PRINTED)
        for line in block
        if COMMAND.match(line)
    ]
    indented = [line for line in lines if line.startswith("    ") and COMMAND.match(line)]
    assert strays + [line for line in indented if line not in strays] == []


def test_troubleshooting_names_every_reason() -> None:
    page = (ROOT / "docs/troubleshooting.md").read_text()
    moved = {ReasonCode.PLACED_FOR_TARGET, ReasonCode.PLACED_AGAIN}
    done = {ReasonCode.OK, ReasonCode.NOT_SUPPORTED, *moved}
    assert [code for code in ReasonCode if code not in done and f"`{code}`" not in page] == []


def spans(text: str) -> set[str]:
    """Calls of wharfinger that stand in code spans and console blocks."""
    inline = re.findall(r"`(wharfinger [a-z][^`\n]*)`", text)
    return {
        *inline,
        *(s.command for s in shown_commands(text) if s.command.startswith("wharfinger")),
    }


@pytest.mark.parametrize("page", [*COMMANDED, ROOT / "docs/cli.md"], ids=lambda page: page.name)
def test_commands_and_options_exist(page: Path) -> None:
    unknown = []
    for call in spans(page.read_text()):
        words = call.partition(" -- ")[0].partition(" #")[0].split()
        command = find_command(words[1:])
        if command not in COMMANDS:
            unknown.append(call)
            continue
        help_text = options_of(command)
        options = [word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)]
        unknown += [f"{call}: {option}" for option in options if option not in help_text]
    assert unknown == []


@functools.cache
def options_of(command: str) -> set[str]:
    """All options of a command and its actions, and those before any command."""
    found, parsers = set[str](), [build_parser([command])]
    while parsers:
        for action in parsers.pop()._actions:
            found.update(action.option_strings)
            if isinstance(action, argparse._SubParsersAction):
                parsers += [
                    p
                    for name, p in action.choices.items()
                    if name not in COMMANDS or name == command
                ]
    return found
