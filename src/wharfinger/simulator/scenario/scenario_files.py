"""Scenarios by their names on the command line; files are read as strictly as manifests."""

import re
from dataclasses import replace
from pathlib import Path

from wharfinger.errors import InvalidInput
from wharfinger.manifest.kinds import closest
from wharfinger.manifest.problems import Problems
from wharfinger.manifest.reader import read_documents
from wharfinger.manifest.sections import Document, read_document
from wharfinger.model.units import quoted
from wharfinger.simulator.scenario.arrivals import Arrivals, Pattern
from wharfinger.simulator.scenario.distributions import Distribution, Shape
from wharfinger.simulator.scenario.scenario_types import (
    SCENARIO,
    MeasuredTruth,
    PopulationClass,
    Scenario,
)
from wharfinger.simulator.scenario.setup import EngineAbility
from wharfinger.simulator.scenario.swf import SwfTrace
from wharfinger.simulator.scenario.targets import Share, TargetKind, TargetOf, Targets
from wharfinger.simulator.scenario.trace_population import slug
from wharfinger.simulator.scenario.traces import CsvTrace
from wharfinger.simulator.truth.physics.regimes import find_regime

MEASURED, TRACE = "measured:", "trace:"
SHIPPED = Path(__file__).parent / "scenarios"
_OWN = "scenario.yaml"  # in a directory of tables, or of a trace, whose columns it names
_DEFAULT_MAPPING = "openb"  # shipped, for a directory without its own
_DESCRIPTION = re.compile(r"^\s+description:\s*(.+?)\s*$", re.MULTILINE)


def load_scenario(text: str) -> Scenario:
    """A scenario by its name, or from a YAML file.

    ``measured:DIR`` are measured tables, ``trace:DIR`` is a trace in a directory, ``trace:FILE`` in
    the Standard Workload Format; any other name is that of a shipped scenario.

    Raises:
        InvalidInput: It does not exist, or is wrong: file, line, field, value, mend.
    """
    if text.startswith(MEASURED):
        return measured_scenario(text.removeprefix(MEASURED))
    if text.startswith(TRACE):
        return _trace_scenario(text.removeprefix(TRACE))
    path = Path(text)
    if path.is_file():
        return _scenario_file(path)
    if text in shipped():
        return _scenario_file(SHIPPED / f"{text}.yaml")
    raise InvalidInput(f"no scenario {quoted(text)}: {_mend(text)}")


def in_regime(scenario: Scenario, name: str | None) -> Scenario:
    """The scenario in another regime of the physics; ``None`` = as it is.

    Raises:
        InvalidInput: There is no such regime, or the scenario has no physics.
    """
    if name is None:
        return scenario
    if not scenario.is_physical:
        raise InvalidInput(f"--regime: {scenario.name} has no physics; leave it out")
    return replace(scenario, regime=find_regime(name).name)


def shipped() -> dict[str, str]:
    """Descriptions of the shipped scenarios by name."""
    descriptions = {}
    for path in sorted(SHIPPED.glob("*.yaml")):
        described = _DESCRIPTION.search(path.read_text(encoding="utf-8"))
        descriptions[path.stem] = described[1] if described else ""
    return descriptions


def _scenario_file(path: Path) -> Scenario:
    try:
        text = path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror}; name a scenario's file") from None
    directory = path.resolve().parent
    scenario = read_scenario(text, source=str(path), directory=directory)
    trace = scenario.trace
    if isinstance(trace, CsvTrace) and not trace.directory and (directory / trace.jobs).is_file():
        return replace(scenario, trace=replace(trace, directory=str(directory)))
    return scenario


def read_scenario(text: bytes | str, *, source: str, directory: Path) -> Scenario:
    """A scenario from YAML 1.2 or JSON in UTF-8, one document, which messages call ``source``.

    Relative paths start from the directory, which is absolute.

    Raises:
        InvalidManifest: With all that is wrong.
    """
    problems = Problems(source, strict=True)
    roots = list(read_documents(text, problems))
    problems.raise_if_any()
    if len(roots) != 1:
        problems.add(0, "", f"{len(roots)} documents; a scenario is one, with apiVersion and kind")
        problems.raise_if_any()
    document = read_document(roots[0], SCENARIO, problems, str(directory))
    _check_meaning(document)
    problems.raise_if_any()
    try:
        return Scenario(**document.values[""])
    except InvalidInput as error:
        document.wrong("spec", str(error))
        problems.raise_if_any()
        raise


def _check_meaning(document: Document) -> None:
    lines = document.lines
    if {"spec.trace.csv", "spec.trace.swf"} <= lines.keys():
        document.wrong("spec.trace.swf", "a trace is either csv or swf; remove one")
    if "spec.trace" in lines:
        for name in ("arrivals", "workloads"):
            if f"spec.{name}" in lines:
                document.wrong(f"spec.{name}", "a trace has its own; remove it, or the trace")
    classes = document.values.get("spec.population")
    counted = isinstance(classes, tuple) and any(
        isinstance(each, PopulationClass) and each.count is not None for each in classes
    )
    if counted and "spec.workloads" in lines:
        document.wrong("spec.workloads", "the classes have counts; remove it, or write shares")


def _mend(text: str) -> str:
    names = [*shipped(), MEASURED, TRACE]
    if text.endswith((".yaml", ".yml")) or "/" in text:
        return "there is no such file; check the path"
    near = closest(text, names)
    if near:
        return f"did you mean {near}?"
    return f"write a file, {MEASURED}DIR, {TRACE}DIR, or one that `simulate --list` shows"


def measured_scenario(directory: str) -> Scenario:
    """Measured tables: by the ``scenario.yaml`` that lies with them, or from their rows alone.

    Without that file: pairs were measured, so a server has room for two: two CPUs, and each
    workload takes one. The load is half of that, one workload per server: a good placement can
    avoid all pairs with much contention, a bad one has some.
    """
    own = Path(directory) / _OWN
    if own.is_file():
        scenario = _scenario_file(own)
        if scenario.measured is not None:
            return scenario
        if scenario.is_physical or scenario.trace is not None:
            raise InvalidInput(
                f"{own}: its truth is not these tables; write truth: {{measured: .}}"
            )
        return replace(scenario, truth=MeasuredTruth(str(own.resolve().parent)))
    return Scenario(
        f"measured-{slug(Path(directory).resolve().name)}",
        "workloads and platforms of measured tables, two to a server",
        truth=MeasuredTruth(directory),
        population=(
            PopulationClass(
                "job", duration=Distribution(Shape.LOGNORMAL, 1500.0, 0.8, 120.0, 14_400.0)
            ),
        ),
        workloads=300,
        arrivals=Arrivals(Pattern.POISSON, load=0.5),
        targets=Targets(TargetOf.RANDOM_PLATFORM, Share(0.9, 0.9), TargetKind.RATE),
        engine=EngineAbility(fractional_cpu=False),
        max_servers=1,
    )


def _trace_scenario(where: str) -> Scenario:
    path = Path(where)
    if path.is_dir():
        own = path / _OWN
        scenario = _scenario_file(own if own.is_file() else SHIPPED / f"{_DEFAULT_MAPPING}.yaml")
        if not isinstance(scenario.trace, CsvTrace):
            raise InvalidInput(f"{own}: it has no trace in CSV; write spec.trace.csv")
        return replace(scenario, trace=replace(scenario.trace, directory=str(path)))
    if not path.is_file():
        raise InvalidInput(f"{where}: does not exist; name a directory, or an SWF file")
    return Scenario(
        slug(path.name.split(".")[0]),
        "a trace in the Standard Workload Format",
        trace=SwfTrace(str(path)),
        targets=Targets(kind=TargetKind.COMPLETION_TIME),
        reservations=None,
    )
