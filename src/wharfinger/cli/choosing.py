"""Which workloads a command is for: by name, by an array's name, by label, or all."""

import argparse
from typing import TYPE_CHECKING

from wharfinger.cli.options import add_option
from wharfinger.cli.waiting import fetch
from wharfinger.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from wharfinger.cli.client import Client


def add_choice(parser: argparse.ArgumentParser) -> None:
    """Names, and ``-l``."""
    parser.add_argument("names", metavar="NAME", nargs="*", help="workloads, or arrays of them")
    add_option(parser, "-l --selector KEY=VALUE ...", "all with this label; repeatable")


def chosen(client: "Client", arguments: argparse.Namespace) -> list[str]:
    """The names of the workloads that are meant, in the place of an array's its members'.

    Raises:
        InvalidInput: Both or neither of names and labels are given.
        NotFound: There is no workload or array of a name, or none has the labels.
    """
    names, labels = list(dict.fromkeys(arguments.names)), arguments.selector
    if bool(names) == bool(labels):
        raise InvalidInput(f"{arguments.command}: name workloads, or give labels with -l KEY=VALUE")
    if labels:
        labeled = [one["name"] for one in client.get("workloads", query={"label": labels})]
        if not labeled:
            raise NotFound(f"no workload has the label {' and '.join(labels)}")
        return labeled
    found = fetch(client, names)
    members = {name: [name] if name in found else list(fetch(client, [name])) for name in names}
    for name, there in members.items():
        if not there:
            raise NotFound(f"no workload {name!r}")
    return list(dict.fromkeys(one for there in members.values() for one in there))
