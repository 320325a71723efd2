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
    from wharfinger.profiler.unlike_cores import ProfiledOnKinds


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    words = "profiles, as `wharfinger profile -o json` wrote them"
    parser.add_argument("profiles", metavar="PROFILE.json", nargs="+", help=words)
    add = partial(add_option, parser)
    words = "the CPUs to share, e.g. 0-3; each takes two programs at most"
    add("--cpus LIST", words, read=cpu_numbers)
    words = (
        "how many servers to share instead (default: half as many as there are programs); or "
        "KIND=N,... of several kinds of cores, with a profile of each program on each kind"
    )
    add("--servers N", words, read=_servers)
    words = "output format (default: table)"
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help=words)


def run(arguments: argparse.Namespace) -> int:
    """Find the best pairs; status 3 where one causes more than its neighbor tolerates."""
    from wharfinger.ibench.pairing import common_sources, share  # noqa: PLC0415

    if isinstance(arguments.servers, dict):
        return _run_kinds(arguments)
    programs = [_scores(path) for path in arguments.profiles]
    if len(programs) < 2:
        raise InvalidInput(f"{arguments.profiles[0]}: one profile makes no pair; give two or more")
    places = _places(arguments, len(programs))
    mapped = share(programs, len(places))
    document = _document(mapped, programs, places, common_sources(programs))
    show(document, arguments.output, lambda: _text(document))
    return NOT_AS_EXPECTED if mapped.refusals else OK


def _servers(text: str) -> int | dict[str, int]:
    count = whole(1, 10_000)
    if "=" not in text:
        return int(count(text))
    kinds: dict[str, int] = {}
    for word in text.split(","):
        kind, _, number = word.partition("=")
        if not kind or kind in kinds:
            raise argparse.ArgumentTypeError(f"{word!r}: write each kind once, as big=2,little=2")
        kinds[kind] = int(count(number))
    return kinds


def _run_kinds(arguments: argparse.Namespace) -> int:
    from wharfinger.profiler.unlike_cores import share_kinds  # noqa: PLC0415

    if arguments.cpus is not None:
        raise InvalidInput("--cpus and --servers are given; give one")
    programs = _on_kinds(arguments.profiles, arguments.servers)
    mapped = share_kinds(programs, arguments.servers)
    numbers = dict.fromkeys(arguments.servers, 0)
    rows = []
    for group in mapped.groups:
        numbers[group.kind] += 1
        pair = group.pair
        who = dict.fromkeys((pair.first, pair.second))
        rows.append(
            {
                "name": f"{group.kind}-{numbers[group.kind]}",
                "programs": [programs[place].name for place in who],
                "distance": pair.distance,
                "loss": sum(programs[place].loss(group.kind) for place in who),
                "refused": [f"{programs[place].name}: {name}" for place, name in pair.refusals],
            }
        )
    document: Record = {
        "servers": rows,
        "distance": mapped.distance,
        "loss": mapped.loss,
        "bound": mapped.bound,
        "exact": mapped.exact,
        "refused": mapped.refusals,
    }
    show(document, arguments.output, lambda: _kinds_text(document))
    return NOT_AS_EXPECTED if mapped.refusals else OK


def _on_kinds(paths: list[str], kinds: dict[str, int]) -> "list[ProfiledOnKinds]":
    """By name; a program is measured against the kind where it performs best."""
    from wharfinger.profiler.unlike_cores import ProfiledOnKinds  # noqa: PLC0415

    told: dict[str, dict[str, tuple[Scores, float]]] = {}
    for path in paths:
        profile, scores = read_json(path, path), _scores(path)
        try:
            kind, baseline = str(profile["platform"]), profile["baseline"]
            value = float(baseline["value"])
            performance = 1 / value if baseline["quantity"] == "latency_seconds" else value
        except (KeyError, TypeError, ValueError, ZeroDivisionError):
            mend = "give what `wharfinger profile -o json` wrote"
            raise InvalidInput(f"{path}: it tells no platform or performance; {mend}") from None
        if kind in kinds:
            told.setdefault(scores.name, {})[kind] = (scores, performance)
    programs = []
    for name, on in told.items():
        best = max(performance for _, performance in on.values())
        relative = {kind: performance / best for kind, (_, performance) in on.items()}
        programs.append(
            ProfiledOnKinds(name, {k: scores for k, (scores, _) in on.items()}, relative)
        )
    if len(programs) < 2:
        there_are = ", ".join(kinds)
        raise InvalidInput(
            f"{len(programs)} programs have profiles on {there_are}; give two or more"
        )
    return programs


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


def _kinds_text(document: Record) -> str:
    columns = [*_COLUMNS[:3], column("LOSS", "loss", fmt.significant), _COLUMNS[3]]
    total = fmt.significant(document["distance"] + document["loss"])
    proof = "the least that there is"
    if not document["exact"]:
        proof = f"no mapping has less than {fmt.significant(document['bound'])}"
    lines = [
        table(document["servers"], columns),
        f"{total} points of distance and lost performance, {proof}",
    ]
    if document["refused"]:
        lines.append(_TOO_MUCH)
    return "\n".join(lines)


_TOO_MUCH = "! some cause more than their neighbor tolerates: give more servers"
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
        lines.append(_TOO_MUCH)
    return "\n".join(lines)
