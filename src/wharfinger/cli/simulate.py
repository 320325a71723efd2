"""``wharfinger simulate``: a scenario under one policy, or several on the same draws."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wharfinger.cli.format import Column, fields, show, table
from wharfinger.cli.main import OK
from wharfinger.cli.options import add_output, add_parts
from wharfinger.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wharfinger.experiments.comparison import Comparison
    from wharfinger.simulator.run import RunSpec, Simulation

REPEATS = 7
_SHARES = ("_fraction", "_mean", "_p5", "_relative")
_NOT_SHARES = ("servers_used_mean",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    add = parser.add_argument
    add("scenario", metavar="SCENARIO", nargs="?", help="a file, or a name; see --list")
    add("--list", action="store_true", help="list the scenarios that are shipped")
    add(
        "--policy",
        metavar="NAME",
        help="places and sizes: NAME or NAME[SETTING=VALUE,...] (default: quasar)",
    )
    add(
        "--compare",
        metavar="P,Q,...",
        help="several policies on identical draws, the first "
        "being what the others are held against",
    )
    add(
        "--repeats", type=_positive, metavar="N", help=f"seeds of a comparison (default: {REPEATS})"
    )
    add(
        "--processes",
        type=_positive,
        metavar="N",
        help="runs of a comparison at a time (default: one for each CPU)",
    )
    add_parts(parser)
    add("--seed", type=int, default=0, help="the same gives the same run (default: 0)")
    add("--regime", metavar="NAME", help="calibration of the physics (default: the scenario's)")
    add("--servers", type=_positive, metavar="N", help="so many, in the scenario's proportions")
    add("--workloads", type=_positive, metavar="N", help="so many of them")
    add(
        "--confidence",
        type=float,
        default=0.8,
        metavar="P",
        help="with which a target must be reached (default: 0.8)",
    )
    add("--record", type=Path, metavar="FILE", help="write the run's log, for replay")
    add("--explain", metavar="WORKLOAD", help="say why a workload was where it was")
    add(
        "--plots",
        type=Path,
        metavar="DIR",
        help="draw performance, utilisation, cores and latency as PNG and SVG",
    )
    add_output(parser)


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    """Simulate and print."""
    # Every process of a comparison is to have one thread; NumPy looks when it is imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if arguments.list:
        return _list(arguments)
    _check(arguments)
    return _compare(arguments) if arguments.compare else _one(arguments)


def _check(arguments: argparse.Namespace) -> None:
    if not arguments.scenario:
        raise InvalidInput("SCENARIO is missing; name a file, or one of simulate --list")
    if not arguments.compare and (arguments.repeats or arguments.processes):
        raise InvalidInput("--repeats and --processes go with --compare; add it, or drop them")
    if arguments.compare and arguments.policy:
        raise InvalidInput("--policy and --compare exclude one another; name all with --compare")
    if arguments.compare and (arguments.record or arguments.explain):
        raise InvalidInput("--record and --explain are for one run; give --policy, not --compare")
    if not 0.5 <= arguments.confidence < 1:
        raise InvalidInput(
            f"--confidence: {arguments.confidence:g} is not a probability from 0.5 to below 1"
        )
    if arguments.plots:
        from wharfinger.experiments import plots  # noqa: PLC0415 - only where it is needed

        plots.check()
        try:
            arguments.plots.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInput(
                f"--plots {arguments.plots}: {error.strerror}; name a directory"
            ) from error


def _list(arguments: argparse.Namespace) -> int:
    from wharfinger.simulator.scenario.scenario_files import shipped  # noqa: PLC0415 - as above

    found = [{"name": name, "description": words} for name, words in shipped().items()]
    columns: list[Column] = [
        ("NAME", lambda each: each["name"]),
        ("DESCRIPTION", lambda each: each["description"]),
    ]
    show(found, arguments.output, lambda: table(found, columns))
    return OK


def _spec(arguments: argparse.Namespace, policy: str) -> "RunSpec":
    from wharfinger.policies.registry import split_spec  # noqa: PLC0415 - as above
    from wharfinger.simulator.policies import policies  # noqa: PLC0415 - as above
    from wharfinger.simulator.run import RunSpec  # noqa: PLC0415 - as above

    option = "--compare" if arguments.compare else "--policy"
    if split_spec(policy, option)[0] not in policies():
        raise InvalidInput(
            f"{option}: {policy!r} is not a policy; there are {', '.join(policies())}"
        )
    return RunSpec(
        scenario=arguments.scenario,
        policy=policy,
        admission=arguments.admission,
        adaptation=arguments.adaptation,
        contention=arguments.contention,
        seed=arguments.seed,
        regime=arguments.regime,
        servers=arguments.servers,
        workloads=arguments.workloads,
        confidence=arguments.confidence,
        series=arguments.plots is not None,
        record=arguments.record,
        explain=arguments.explain or "",
    )


# --- one run ----------------------------------------------------------------------------------


def _one(arguments: argparse.Namespace) -> int:
    from wharfinger.cli.progress import Progress  # noqa: PLC0415 - as above
    from wharfinger.simulator.run import prepare  # noqa: PLC0415 - as above

    spec = _spec(arguments, arguments.policy or "quasar")
    simulation = prepare(spec)
    with Progress(f"simulating {Path(spec.scenario).stem}") as progress:
        outcome = simulation.run(progress.share)
    document: dict[str, Any] = {
        "name": outcome.scenario,
        "policy": outcome.policy,
        "admission": outcome.admission,
        "seed": outcome.seed,
        **outcome.summary,
    }
    document["notes"] = list(outcome.notes)
    told = _explanation(simulation, spec.explain) if spec.explain else None
    if told is not None:
        document["explanation"] = told
    if arguments.plots:
        from wharfinger.experiments import comparison  # noqa: PLC0415 - as above

        kept = comparison.kept_of(outcome, comparison.RunGroup("", (), _DRAWN))
        alone = comparison.summarise([(spec.policy, [kept])])
        document["files"] = _draw(arguments.plots, alone, outcome.scenario)
    show(document, arguments.output, lambda: _text(document, arguments.output == "wide"))
    return OK


def _explanation(simulation: "Simulation", name: str) -> dict[str, Any]:
    from wharfinger.service.records import explanation  # noqa: PLC0415 - as above

    record = simulation.manager.find(name)
    return explanation(simulation.manager, record, simulation.loop.now).as_json()


def _text(document: dict[str, Any], wide: bool) -> str:
    head = ("name", "policy", "admission", "seed")
    rest = {k: v for k, v in document.items() if k not in (*head, *_APART)}
    words = [f"{document['name']} under {document['policy']}, seed {document['seed']}"]
    words.append(fields([(_label(key), _value(key, value)) for key, value in rest.items()]))
    if document.get("explanation"):
        from wharfinger.cli.explain import explanation_text  # noqa: PLC0415 - as above

        words.append(explanation_text(document["explanation"], wide=wide))
    lines = [f"note: {note}" for note in document["notes"]]
    lines += [f"wrote {file}" for file in document.get("files", [])]
    return "\n\n".join([*words, *(["\n".join(lines)] if lines else [])])


_APART = ("explanation", "files", "notes")
"""Of the document: shown behind its numbers."""


def _label(key: str) -> str:
    """``wait_seconds_p99`` as people read it."""
    for unit in ("_fraction", "_relative"):
        key = key.removesuffix(unit)
    return key.replace("_", " ")


def _value(key: str, value: Any) -> str:
    from wharfinger.cli import format as fmt  # noqa: PLC0415 - as above

    if value is None:
        return "-"
    if "seconds" in key and "microseconds" not in key:
        return fmt.duration(value)
    if key.endswith("bytes"):
        return fmt.size(value)
    if key.endswith(_SHARES) and key not in _NOT_SHARES:
        return f"{value:.1%}"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


# --- several ----------------------------------------------------------------------------------


def _compare(arguments: argparse.Namespace) -> int:
    from wharfinger.cli.progress import Progress  # noqa: PLC0415 - as above
    from wharfinger.experiments.comparison import RunGroup, as_json, compare  # noqa: PLC0415
    from wharfinger.policies.registry import split_specs  # noqa: PLC0415 - as above
    from wharfinger.simulator.run import prepare, run  # noqa: PLC0415 - as above

    names = split_specs(arguments.compare)
    if len(set(names)) < len(names):
        raise InvalidInput(f"--compare: {arguments.compare!r} names a policy twice")
    specs = [_spec(arguments, name) for name in names]
    prepare(specs[0])  # What is wrong with the scenario is said here, once.
    words = f"comparing {len(names)} policies"
    with Progress(words) as progress:
        repeats = arguments.repeats or REPEATS
        group = RunGroup(arguments.scenario, specs, _DRAWN if arguments.plots else ())
        (found,) = compare(run, [group], repeats, arguments.processes, progress.count)
    documents = as_json(found)
    files: list[str] = []
    if arguments.plots:
        files = _draw(arguments.plots, found, Path(arguments.scenario).stem)
    show(documents, arguments.output, lambda: _compared(documents, arguments.output, files))
    return OK


def _compared(documents: "Sequence[dict[str, Any]]", output: str, files: "Sequence[str]") -> str:
    from wharfinger.cli.comparison import as_text  # noqa: PLC0415 - as above

    written = [f"wrote {file}" for file in files]
    return "\n\n".join([as_text(documents, output), *(["\n".join(written)] if written else [])])


# --- pictures ---------------------------------------------------------------------------------


_DRAWN = ("performance",)
"""Of each workload's fate."""


def _draw(directory: Path, runs: "Comparison", scenario: str) -> list[str]:
    from wharfinger.experiments import plots  # noqa: PLC0415 - as above

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
        written = [
            path for name, figure in drawn.items() for path in plots.save(figure, directory / name)
        ]
    except OSError as error:
        raise InvalidInput(f"--plots {directory}: {error.strerror}; name another") from error
    return [str(path) for path in written]
