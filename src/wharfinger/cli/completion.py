"""``wharfinger completion``: a script that teaches a shell our commands, options and names.

The scripts only ask: at every Tab they call ``wharfinger completion --words``, which knows the
commands' own parsers, and asks the manager for names. Where that fails, nothing is suggested.
"""

import argparse
import importlib
import signal
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import FrameType

from wharfinger.cli.kinds import find_kind
from wharfinger.cli.main import COMMANDS, build_parser, find_command
from wharfinger.cli.options import connect

PATIENCE_SECONDS = 2.0
"""With a manager that does not answer; a user waits for the suggestions."""
Source = Callable[[dict[str, str]], Iterable[str]]
"""Words, by the values that are given before."""
FILES = ":files"
"""In the place of suggestions: the shell knows files itself."""

SEPARATOR = "\x1f"
"""Between the words that a script sends: no word has one."""

_BASH = """\
_wharfinger() {
    local words=("${COMP_WORDS[@]:1:COMP_CWORD}") IFS=$'\\x1f' line
    line="${words[*]}"
    IFS=$'\\n'
    COMPREPLY=($(wharfinger completion --words="$line" 2>/dev/null))
    if [[ ${COMPREPLY[0]-} == :files ]]; then
        COMPREPLY=()
        compopt -o default
    fi
}
complete -F _wharfinger wharfinger
"""
_ZSH = """\
#compdef wharfinger
_wharfinger() {
    local -a found
    found=("${(@f)$(wharfinger completion --words="${(pj:\\x1f:)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ $found[1] == :files ]]; then
        _files
    elif [[ -n $found[1] ]]; then
        compadd -- "${found[@]}"
    fi
}
if [[ $funcstack[1] == _wharfinger ]]; then _wharfinger; else compdef _wharfinger wharfinger; fi
"""
_FISH = """\
function __wharfinger_words
    set -l line (string join \\x1f -- (commandline -opc)[2..-1] (commandline -ct))
    set -l found (wharfinger completion --words="$line" 2>/dev/null)
    if test "$found[1]" = :files
        __fish_complete_path (commandline -ct)
    else if set -q found[1]
        printf '%s\\n' $found
    end
end
complete -c wharfinger -f -a '(__wharfinger_words)'
"""
_TCSH = """\
complete wharfinger 'n/-f/f/' 'n/--file/f/' 'n/--state/d/' \
'p@*@`wharfinger completion --line="$COMMAND_LINE"`@'
"""
SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH, "tcsh": _TCSH}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    words = "the shell; e.g. for bash: source <(wharfinger completion bash)"
    parser.add_argument("shell", nargs="?", choices=[*SCRIPTS], help=words)
    # For the scripts: the words after the program's name, or the whole line.
    for option in ("--words", "--line"):
        parser.add_argument(option, help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> None:
    """Print the script, or suggestions to one."""
    words: list[str] | None = None
    if arguments.words is not None:
        words = arguments.words.split(SEPARATOR)
    elif arguments.line is not None:
        words = arguments.line.split(" ")[1:]
    if words is None:
        shell = arguments.shell or _missing()
        sys.stdout.write(SCRIPTS[shell])
        return
    # Tcsh can't be told to look for files itself.
    found = [w for w in suggestions(words) if w != FILES or arguments.line is None]
    sys.stdout.write("".join(f"{word}\n" for word in found))


def _missing() -> str:
    from wharfinger.errors import InvalidInput  # noqa: PLC0415

    raise InvalidInput(f"completion: SHELL is missing; there are {', '.join(SCRIPTS)}")


def suggestions(words: list[str]) -> list[str]:
    """What the last of the words may become, sorted; ``[FILES]`` = a file."""
    # Bash cuts --option=value into three.
    words = [*words[:-1], ""] if words[-1] == "=" else words
    *before, last = [word for word in words if word != "="]
    prefix = ""
    if last.startswith("-") and "=" in last:
        option, _, last = last.partition("=")
        prefix, before = f"{option}=", [*before, option]
    command = find_command(before)
    if command is not None and command not in COMMANDS:
        return []
    with suppress(SystemExit):
        parser = build_parser([command] if command else [])
        found = _Call(parser, before).expected(last)
        return (
            found if found == [FILES] else sorted({prefix + w for w in found if w.startswith(last)})
        )
    return []


class _Call:
    """What a parser would expect after some words."""

    def __init__(self, parser: argparse.ArgumentParser, before: list[str]) -> None:
        self._parser = parser
        self._given: dict[str, str] = {}
        """The newest value of each option and argument, by its name."""
        self._values: list[str] = []
        self._option: argparse.Action | None = None
        for word in before:
            self._take(word)

    def _take(self, word: str) -> None:
        if self._option is not None:
            self._given[self._option.dest], self._option = word, None
        elif word.startswith("-"):
            name, equals, value = word.partition("=")
            option = self._options().get(name)
            if option is not None and option.nargs != 0:
                if equals:
                    self._given[option.dest] = value
                else:
                    self._option = option
        else:
            argument = self._argument()
            if isinstance(argument, argparse._SubParsersAction):
                self._parser = argument.choices.get(word, self._parser)
                self._values = []
            elif argument is not None:
                self._given[argument.dest] = word
                self._values.append(word)

    def _options(self) -> dict[str, argparse.Action]:
        return self._parser._option_string_actions

    def _argument(self) -> argparse.Action | None:
        """The positional argument that comes next; the last one may take several."""
        places = self._parser._get_positional_actions()
        at = len(self._values)
        if at < len(places):
            return places[at]
        return places[-1] if places and places[-1].nargs in ("*", "+") else None

    def expected(self, last: str) -> list[str]:
        """All words that may stand here, or ``[FILES]``."""
        if self._option is not None:
            return self._words_of(self._option)
        if last.startswith("-"):
            return [name for name in self._options() if name.startswith("--") or last == "-"]
        argument = self._argument()
        return [] if argument is None else self._words_of(argument)

    def _words_of(self, action: argparse.Action) -> list[str]:
        if action.choices is not None:
            return [str(choice) for choice in action.choices]
        placeholder = action.metavar if isinstance(action.metavar, str) else ""
        if any(word in placeholder for word in ("FILE", "DIR", ".csv", "COMMAND")):
            return [FILES]
        command = self._parser.prog.partition(" ")[2].partition(" ")[0]
        for key in ((command, action.dest), ("", action.dest)):
            if source := _SOURCES.get(key):
                return _quietly(source, self._given)
        return []


def _quietly(source: Source, given: dict[str, str]) -> list[str]:
    """The words of a source; none where it fails."""
    try:
        return list(source(given))
    except Exception:  # noqa: BLE001 - a line that is being written is no place for messages
        return []


def _names(kind: str, given: dict[str, str]) -> list[str]:
    """Of the manager that is meant, if it answers in time."""

    def give_up(_number: int, _frame: FrameType | None) -> None:
        raise TimeoutError

    managers = ("state", "server", "context", "token_file")
    meant = {key: value for key, value in given.items() if key in managers}
    former = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE_SECONDS)
    try:
        return [str(one["name"]) for one in connect(argparse.Namespace(**meant)).get(kind)]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)


def _workloads(given: dict[str, str]) -> list[str]:
    return _names("workloads", given)


def _servers(given: dict[str, str]) -> list[str]:
    return _names("servers", given)


def _of_kind(given: dict[str, str]) -> list[str]:
    kind = find_kind(given.get("what", given.get("kind", "")))
    if kind == "status":
        return []
    return _workloads(given) if kind == "events" else _names(kind or "workloads", given)


def _described(given: dict[str, str]) -> list[str]:
    """Kinds, and, where none is given yet, names."""
    if given.get("kind"):
        return _of_kind(given)
    return ["workload", "server", *_workloads(given), *_servers(given)]


def _kinds(_given: dict[str, str]) -> Iterable[str]:
    from wharfinger.cli.kinds import KINDS  # noqa: PLC0415 - only where it is needed

    return KINDS


def _phases(_given: dict[str, str]) -> list[str]:
    from wharfinger.cli.selecting import phases  # noqa: PLC0415 - only where it is needed

    return phases()


def _adapts(_given: dict[str, str]) -> list[str]:
    from wharfinger.model.workload import Adapt  # noqa: PLC0415 - only where it is needed

    return [each.value for each in Adapt]


def _registered(module: str, registry: str) -> Callable[[dict[str, str]], list[str]]:
    """The names in a table or of a function of ours, which is imported when it is asked for."""

    def names(_given: dict[str, str]) -> list[str]:
        found = getattr(importlib.import_module(f"wharfinger.{module}"), registry)
        return list(found() if callable(found) else found)

    return names


def _contexts(_given: dict[str, str]) -> list[str]:
    import os  # noqa: PLC0415

    contexts = importlib.import_module("wharfinger.cli.contexts")
    return [contexts.LOCAL, *contexts.read_contexts(os.environ)[1]]


def _formats(_given: dict[str, str]) -> list[str]:
    from wharfinger.cli.readers import OUTPUTS, TEMPLATE  # noqa: PLC0415

    return [*OUTPUTS, "name", TEMPLATE]


_SOURCES: dict[tuple[str, str], Source] = {
    ("get", "what"): _kinds,
    ("get", "names"): _of_kind,
    ("describe", "kind"): _described,
    ("describe", "name"): _of_kind,
    ("context", "name"): _contexts,
    ("experiment", "name"): _registered("experiments.registry", "EXPERIMENTS"),
    ("up", "policy"): _registered("policies.registry", "POLICIES"),
    ("", "name"): _workloads,
    ("", "names"): _workloads,
    ("", "workload"): _workloads,
    ("", "explain"): _workloads,
    ("cordon", "names"): _servers,
    ("drain", "names"): _servers,
    ("uncordon", "names"): _servers,
    ("", "phase"): _phases,
    ("", "adapt"): _adapts,
    ("", "output"): _formats,
    ("", "context"): _contexts,
    ("", "scenario"): _registered("simulator.scenario.scenario_files", "shipped"),
    ("", "policy"): _registered("simulator.policies", "policies"),
    ("", "compare"): _registered("simulator.policies", "policies"),
    ("", "admission"): _registered("policies.registry", "ADMISSIONS"),
    ("", "adaptation"): _registered("policies.registry", "ADAPTATIONS"),
    ("", "contention"): _registered("policies.registry", "CONTENTIONS"),
    ("ibench", "sources"): _registered("ibench.sources", "SOURCES"),
}
"""Where the words for an argument come from, by command (empty = any) and the argument's name."""
