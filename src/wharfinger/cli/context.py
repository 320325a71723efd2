"""``wharfinger context``: names for managers, and which of them is meant where none is given."""

import argparse
import os
from pathlib import Path

from wharfinger.cli.addresses import RemoteAddress
from wharfinger.cli.contexts import LOCAL, Contexts, read_contexts, write_contexts
from wharfinger.cli.options import add_option, add_output
from wharfinger.cli.output import column, show, table
from wharfinger.errors import Conflict, InvalidInput, NotFound
from wharfinger.service.listening import read_token


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("action", choices=["list", "use", "add", "remove"], help="what to do")
    parser.add_argument("name", metavar="NAME", nargs="?", help="of a context; not for list")
    add_option(parser, "--server URL", "add: of a manager on TCP, e.g. http://10.0.0.5:7777")
    add_option(parser, "--token-file FILE", "add: with the token for it, mode 0600")
    words = "add: the state directory of a manager on this machine"
    parser.add_argument("--state", metavar="DIR", default=argparse.SUPPRESS, help=words)
    add_output(parser)


def run(arguments: argparse.Namespace) -> None:
    """List or change the contexts."""
    current, contexts = read_contexts(os.environ)
    action, name = arguments.action, arguments.name
    if (action == "list") != (name is None):
        wants = "takes no NAME" if name else "needs a NAME"
        raise InvalidInput(f"context {action} {wants}")
    if action == "list":
        _list(current, contexts, arguments.output)
        return
    if action == "add":
        contexts[name] = _made(name, contexts, arguments)
    elif name not in (contexts if action == "remove" else {LOCAL, *contexts}):
        raise NotFound(f"no context {name!r}; there are {', '.join([LOCAL, *contexts])}")
    elif action == "remove":
        del contexts[name]
        current = LOCAL if current == name else current
    else:
        current = name
    write_contexts(current, contexts)
    done = {"add": "added", "remove": "removed", "use": "is used from now on"}[action]
    show({"name": name, "outcome": action}, arguments.output, lambda: f"context/{name} {done}")


def _list(current: str, contexts: Contexts, output: str) -> None:
    every: Contexts = {LOCAL: {}, **contexts}
    rows = [
        {"name": name, "current": name == current}
        | {"server": one.get("server"), "state": one.get("state")}
        | {"token_file": one.get("tokenFile")}
        for name, one in every.items()
    ]
    columns = [
        column("CURRENT", form=lambda current: "*" if current else ""),
        column("NAME"),
        ("MANAGER", lambda row: row["server"] or row["state"] or "the user's own state directory"),
        column("TOKEN FILE"),
    ]
    show(rows, output, lambda: table(rows, columns))


def _made(name: str, contexts: Contexts, arguments: argparse.Namespace) -> dict[str, str]:
    server, state = arguments.server, getattr(arguments, "state", None)
    if name in (LOCAL, *contexts):
        raise Conflict(f"context {name!r} is there already; remove it first, or take another name")
    if bool(server) == bool(state):
        raise InvalidInput("context add: give --server URL, or else --state DIR")
    if state:
        if arguments.token_file:
            raise InvalidInput("--token-file is for --server; leave it out")
        return {"state": str(Path(state).absolute())}
    RemoteAddress(server)
    if not arguments.token_file:
        return {"server": server}
    file = Path(arguments.token_file).absolute()
    read_token(file)
    return {"server": server, "tokenFile": str(file)}
