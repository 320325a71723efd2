"""``wharfinger pair``: which profiled programs share a server's cores; needs no manager."""

import argparse
from functools import partial
from typing import TYPE_CHECKING, Any

from wharfinger.cli import format as fmt
from wharfinger.cli.main import NOT_AS_EXPECTED, OK
from wharfinger.cli.options import add_option
from wharfinger.cli.output import Record, column, show, table
from wharfinger.cli.profile import read_json
from wharfinger.cli.readers import cpu_numbers, whole
from wharfinger.errors import InvalidInput

if TYPE_CHECKING:
    from wharfinger.ibench.pairing import Mapped, Scores


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    words = "profiles, as `wharfinger profile -o json` wrote them"
    parser.add_argument("profiles", metavar="PROFILE.json", nargs="+", help=words)
    add = partial(add_option, parser)
    words = "the CPUs to share, e.g. 0-3; each takes two programs at most"
    add("--cpus LIST", words, read=cpu_numbers)
    words = "how many servers to share instead (default: half as many as there are programs)"
    add("--servers N", words, read=whole(1, 10_000))
    words = "output format (default: table)"
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help=words)


def run(arguments: argparse.Namespace) -> int:
    """Find the best pairs; status 3 where one causes more than its neighbor tolerates."""
    from wharfinger.ibench.pairing import common_sources, share  # noqa: PLC0415

    programs = [_scores(path) for path in arguments.profiles]
    if len(programs) < 2:
        raise InvalidInput(f"{arguments.profiles[0]}: one profile makes no pair; give two or more")
    places = _places(arguments, len(programs))
    mapped = share(programs, len(places))
    document = _document(mapped, programs, places, common_sources(programs))
    show(document, arguments.output, lambda: _text(document))
    return NOT_AS_EXPECTED if mapped.refusals else OK


def _places(arguments: argparse.Namespace, programs: int) -> list[str]:
    if arguments.cpus is not None and arguments.servers is not None:
        raise InvalidInput(f"--servers: {arguments.servers} and --cpus are given; give one")
    if arguments.cpus is None:
        count = int(arguments.servers or (programs + 1) // 2)
        return [f"server-{number}" for number in range(1, count + 1)]
    return [f"cpu-{number}" for number in arguments.cpus]


def _scores(path: str) -> "Scores":
    from wharfinger.ibench.pairing import Scores  # noqa: PLC0415

    profile = read_json(path, path)
    try:
        rows = {kind: _row(profile, kind) for kind in ("tolerated", "caused")}
        return Scores(str(profile["name"]), rows["tolerated"], rows["caused"])
    except (KeyError, TypeError):
        mend = "give what `wharfinger profile -o json` wrote"
        raise InvalidInput(f"{path}: it is no profile; {mend}") from None


def _row(profile: Any, kind: str) -> dict[str, float]:
    rows = profile["sources"]
    return {row["name"]: float(row[kind]["value"]) for row in rows if row[kind] is not None}


def _document(
    mapped: "Mapped", programs: "list[Scores]", places: list[str], sources: tuple[str, ...]
) -> Record:
    groups: list[Record] = [
        {
            "programs": [programs[pair.first].name, programs[pair.second].name],
            "distance": pair.distance,
            "refused": [f"{programs[who].name}: {source}" for who, source in pair.refusals],
        }
        for pair in mapped.pairs
    ]
    groups += [
        {"programs": [programs[place].name], "distance": 0.0, "refused": []}
        for place in mapped.alone
    ]
    return {
        "servers": [{"name": name, **group} for name, group in zip(places, groups, strict=False)],
        "sources": list(sources),
        "distance": mapped.distance,
        "bound": mapped.bound,
        "exact": mapped.exact,
        "refused": mapped.refusals,
    }


_COLUMNS = [
    column("SERVER", "name"),
    column("PROGRAMS"),
    column("DISTANCE", form=fmt.significant),
    column("TOLERATES TOO LITTLE", "refused"),
]


def _text(document: Record) -> str:
    proof = "the least that there is"
    if not document["exact"]:
        proof = f"no mapping has less than {fmt.significant(document['bound'])}"
    sources = ", ".join(document["sources"])
    lines = [
        table(document["servers"], _COLUMNS),
        f"distance {fmt.significant(document['distance'])} points, {proof}; by {sources}",
    ]
    if document["refused"]:
        lines.append("! some cause more than their neighbor tolerates: give more servers")
    return "\n".join(lines)
