"""``wharfinger simulate``: a scenario under one policy, or several on the same draws."""

import argparse
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wharfinger.cli import comparison
from wharfinger.cli import format as fmt
from wharfinger.cli.explain import explanation_text
from wharfinger.cli.options import add_option, add_output, add_parts, refuse
from wharfinger.cli.output import Record, column, fields, show, table
from wharfinger.cli.progress import Progress
from wharfinger.cli.readers import number, probability, whole
from wharfinger.errors import InvalidInput
from wharfinger.simulator.pieces import PIECES, words_of

# Imported by the functions that need it: help needs none of it, and it takes long.
if TYPE_CHECKING:
    from wharfinger.experiments.comparison import Comparison
    from wharfinger.simulator.run import RunSpec

REPEATS = 7
_OF_THE_RUN = (
    "scenario", "admission", "adaptation", "contention", "seed", "regime", "servers", "workloads",
    "scale", "confidence", "record",
)  # fmt: skip
"""Options that ``RunSpec`` takes under these names."""
_DRAWN = ("performance",)
"""Fields of each workload's result that pictures need."""
_APART = ("explanation", "files", "notes")
"""Keys of the document that are printed after its numbers."""
_SHARES = ("_fraction", "_mean", "_p5", "_relative")
_NOT_SHARES = ("servers_used_mean",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    words = "a file, or a name; see --list"
    parser.add_argument("scenario", metavar="SCENARIO", nargs="?", help=words)
    add = partial(add_option, parser)
    add("--list", "list the scenarios that are shipped")
    words = "places and sizes: NAME or NAME[SETTING=VALUE,...] (default: quasar); words may stand "
    words += f"before it, each followed by +, to tell it a truth or stop it: {', '.join(PIECES)}"
    add("--policy NAME", words)
    words = "several policies on the same draws; the others are compared with the first"
    add("--compare P,Q,...", words)
    add("--repeats N", f"seeds of a comparison (default: {REPEATS})", read=whole(1))
    words = "runs of a comparison at a time (default: one for each CPU)"
    add("--processes N", words, read=whole(1))
    add_parts(parser)
    add("--seed N", "the same seed gives the same run", "0", int)
    add("--regime NAME", "calibration of the physics (default: the scenario's)")
    add("--servers N", "number of servers, in the scenario's proportions", read=whole(1))
    add("--workloads N", "number of workloads", read=whole(1))
    words = "factor of servers, workloads and the rate of arrivals, e.g. 0.2; the load stays"
    add("--scale F", words, "1", number(0.0001, 1000, "a factor from 0.0001 to 1000"))
    add("--confidence P", "with which a target must be reached", "0.8", probability)
    add("--record FILE", "write the run's log, for replay", read=Path)
    add("--explain WORKLOAD", "say why a workload was where it was")
    add("--plots DIR", "draw performance, utilization, cores, latency as PNG and SVG", read=Path)
    add_output(parser)


def run(arguments: argparse.Namespace) -> None:
    """Simulate and print."""
    # Every process of a comparison is to have one thread; NumPy looks when it is imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if arguments.list:
        _list(arguments)
        return
    _check(arguments)
    if arguments.compare:
        _compare(arguments)
    else:
        _one(arguments)


def _check(arguments: argparse.Namespace) -> None:
    if not arguments.scenario:
        raise InvalidInput("SCENARIO is missing; name a file, or one of simulate --list")
    if arguments.compare:
        one_run = ["--policy", "--record", "--explain"]
        refuse(arguments, one_run, "is for one run, without --compare")
    else:
        refuse(arguments, ["--repeats", "--processes"], "is for --compare")
    if arguments.plots:
        from wharfinger.experiments import plots  # noqa: PLC0415

        plots.check()
        try:
            arguments.plots.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            message = f"--plots {arguments.plots}: {error.strerror}; name a directory"
            raise InvalidInput(message) from error


def _list(arguments: argparse.Namespace) -> None:
    from wharfinger.simulator.scenario.scenario_files import shipped  # noqa: PLC0415

    rows = [{"name": name, "description": words} for name, words in shipped().items()]
    show(rows, arguments.output, lambda: table(rows, [column("NAME"), column("DESCRIPTION")]))


def _spec(arguments: argparse.Namespace, policy: str) -> "RunSpec":
    from wharfinger.policies.registry import POLICIES, make_policy, split_spec  # noqa: PLC0415
    from wharfinger.simulator.policies import ORACLE, policies  # noqa: PLC0415
    from wharfinger.simulator.run import RunSpec  # noqa: PLC0415

    option = "--compare" if arguments.compare else "--policy"
    named = words_of(policy, option)[1]
    name = split_spec(named, option)[0]
    if name in POLICIES:  # Wrong settings are told before anything runs.
        make_policy(
            named,
            admission="" if arguments.admission == ORACLE else arguments.admission or "",
            adaptation=arguments.adaptation or "",
            contention=arguments.contention or "",
        )
    elif name not in policies():
        there_are = ", ".join(policies())
        raise InvalidInput(f"{option}: {named!r} is not a policy; there are {there_are}")
    return RunSpec(
        policy=policy,
        series=arguments.plots is not None,
        explain=arguments.explain or "",
        **{name: getattr(arguments, name) for name in _OF_THE_RUN},
    )


def _one(arguments: argparse.Namespace) -> None:
    from wharfinger.simulator.run import prepare  # noqa: PLC0415

    spec = _spec(arguments, arguments.policy or "quasar")
    simulation = prepare(spec)
    with Progress(f"simulating {Path(spec.scenario).stem}") as progress:
        outcome = simulation.run(progress.share)
    document: Record = {
        "name": outcome.scenario,
        "policy": spec.policy,
        "admission": outcome.admission,
        "seed": outcome.seed,
        **outcome.summary,
        "notes": list(outcome.notes),
    }
    if spec.explain:
        from wharfinger.service.explanations import explanation  # noqa: PLC0415

        record = simulation.manager.find(spec.explain)
        explained = explanation(simulation.manager, record, simulation.loop.now)
        document["explanation"] = explained.as_json()
    if arguments.plots:
        from wharfinger.experiments.comparison import RunGroup, kept_of, summarise  # noqa: PLC0415

        kept = kept_of(outcome, RunGroup("", (), _DRAWN))
        alone = summarise([(spec.policy, [kept])])
        document["files"] = _draw(arguments.plots, alone, outcome.scenario)
    show(document, arguments.output, lambda: _text(document, wide=arguments.output == "wide"))


def _text(document: Record, *, wide: bool) -> str:
    head = ("name", "policy", "admission", "seed")
    numbers = {k: v for k, v in document.items() if k not in (*head, *_APART)}
    parts = [f"{document['name']} under {document['policy']}, seed {document['seed']}"]
    parts.append(fields([(_label(key), _value(key, value)) for key, value in numbers.items()]))
    if document.get("explanation"):
        parts.append(explanation_text(document["explanation"], wide=wide))
    notes = [f"note: {note}" for note in document["notes"]]
    return _with_files(parts, document.get("files", []), notes)


def _label(key: str) -> str:
    for unit in ("_fraction", "_relative"):
        key = key.removesuffix(unit)
    return key.replace("_", " ")


def _value(key: str, value: Any) -> str:
    if value is None:
        return fmt.NONE
    if "seconds" in key and "microseconds" not in key:
        return fmt.duration(value)
    if key.endswith("bytes"):
        return fmt.size(value)
    if key.endswith(_SHARES) and key not in _NOT_SHARES:
        return f"{value:.1%}"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def _with_files(parts: list[str], files: Sequence[str], notes: Sequence[str] = ()) -> str:
    lines = [*notes, *(f"wrote {file}" for file in files)]
    return "\n\n".join([*parts, "\n".join(lines)] if lines else parts)


def _compare(arguments: argparse.Namespace) -> None:
    from wharfinger.experiments.comparison import RunGroup, as_json, compare  # noqa: PLC0415
    from wharfinger.policies.registry import split_specs  # noqa: PLC0415
    from wharfinger.simulator.run import prepare, run_in_turn  # noqa: PLC0415

    names = split_specs(arguments.compare)
    if len(set(names)) < len(names):
        raise InvalidInput(f"--compare: {arguments.compare!r} names a policy twice")
    specs = [_spec(arguments, name) for name in names]
    prepare(specs[0])  # What is wrong with the scenario is said here, once.
    group = RunGroup(arguments.scenario, specs, _DRAWN if arguments.plots else ())
    with Progress(f"comparing {len(names)} policies") as progress:
        repeats = arguments.repeats or REPEATS
        (runs,) = compare(run_in_turn, [group], repeats, arguments.processes, progress.count)
    documents, files = as_json(runs), []
    if arguments.plots:
        files = _draw(arguments.plots, runs, Path(arguments.scenario).stem)
    output = arguments.output
    show(documents, output, lambda: _with_files([comparison.as_text(documents, output)], files))


def _draw(directory: Path, runs: "Comparison", scenario: str) -> list[str]:
    from wharfinger.experiments import plots  # noqa: PLC0415

    performance = {policy.name: policy.values(*_DRAWN) for policy in runs.policies}
    series = runs.series()
    drawn = {
        "performance": plots.ranked(performance, f"{scenario}: performance of each workload"),
        "utilization": plots.utilization(series, f"{scenario}: CPU used, server by server"),
        "cores": plots.cores(series, f"{scenario}: CPUs required, allocated and used"),
    }
    if any(one.bounds_seconds for one in series.values()):
        title = f"{scenario}: latency of services against their bounds"
        drawn["latency"] = plots.latency(series, title)
    try:
        paths = [
            path for name, figure in drawn.items() for path in plots.save(figure, directory / name)
        ]
    except OSError as error:
        raise InvalidInput(f"--plots {directory}: {error.strerror}; name another") from error
    return [str(path) for path in paths]
