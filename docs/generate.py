"""Draws the documentation's pictures and tables from the code. Run by scripts/generate-docs.

    python docs/generate.py            write everything (needs Graphviz's dot for the pictures)
    python docs/generate.py --check    say what is out of date, and exit with 1 if anything is

A picture is kept beside the graph that it was drawn from (``.dot``); the check compares
graphs, so it needs no Graphviz and does not depend on its version.
"""

import argparse
import configparser
import inspect
import itertools
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path

from wharfinger.core import events as ev
from wharfinger.core.lifecycle import ENDED, NEXT, ON_SERVER, TRANSITIONS, Phase
from wharfinger.core.pipeline import Core
from wharfinger.core.seams.estimation import Profiling
from wharfinger.model.decisions import Decision, ReasonCode, Stage
from wharfinger.model.performance import Quantity, Reading, Sample
from wharfinger.model.platform import Platform, Server
from wharfinger.model.profile import (
    PROFILED_SOURCES,
    Classification,
    Curve,
    Estimate,
    Measurements,
    ProfilingPlan,
)
from wharfinger.model.view import Capabilities, Request, View
from wharfinger.model.workload import Run, Target, Workload, WorkloadType
from wharfinger.policies.registry import (
    ADAPTATIONS,
    ADMISSIONS,
    CONTENTIONS,
    POLICIES,
    PROVISIONINGS,
    make_policy,
)

DOCS = Path(__file__).parent
PARTS = {
    "placement": {name: bundle.placement for name, bundle in POLICIES.items()},
    "admission": ADMISSIONS,
    "adaptation": ADAPTATIONS,
    "contention": CONTENTIONS,
    "provisioning": PROVISIONINGS,
}
HEAD = """digraph {name} {{
  // Made by docs/generate.py; do not edit.
  graph [fontname="Helvetica", rankdir={direction}, nodesep=0.3, ranksep=0.45, pad=0.2]
  node [fontname="Helvetica", fontsize=12, shape=box, style="rounded,filled", fillcolor=white]
  edge [fontname="Helvetica", fontsize=10, color="#555555", fontcolor="#333333"]
"""


def lifecycle_graph() -> str:
    """A workload's life, from the table that the manager moves workloads by.

    Edges that all phases on a server share leave the box around them; being revoked, which
    every live phase shares, is one dashed arrow.
    """
    head = HEAD.format(name="lifecycle", direction="TB")
    lines = [head.replace("graph [", "graph [compound=true, ")]
    lines.extend(f'  "{phase}" [fillcolor="{_fill(phase)}"]' for phase in Phase)
    inside = "; ".join(f'"{phase}"' for phase in Phase if phase in ON_SERVER)
    lines.append(f'  subgraph cluster_server {{ label="on a server"; color="#9db8d2"; {inside} }}')
    shared = {
        (edge.trigger, edge.target)
        for edge in TRANSITIONS
        if all(NEXT.get((phase, edge.trigger)) is edge.target for phase in ON_SERVER)
    }
    labels: dict[tuple[str, Phase], list[str]] = {}
    for edge in TRANSITIONS:
        if edge.target is Phase.REVOKED:
            continue
        source = "the box" if (edge.trigger, edge.target) in shared else edge.source
        triggers = labels.setdefault((source, edge.target), [])
        if edge.trigger not in triggers:
            triggers.append(edge.trigger)
    for (source, target), triggers in labels.items():
        tail = ', ltail="cluster_server"' if source == "the box" else ""
        node = Phase.ADJUSTING if source == "the box" else source
        lines.append(f'  "{node}" -> "{target}" [label="{", ".join(triggers)}"{tail}]')
    lines.append('  "any live phase" [shape=plaintext, style="", fontcolor="#555555"]')
    lines.append('  "any live phase" -> "revoked" [label="revoke", style=dashed]')
    return "\n".join([*lines, "}", ""])


def _fill(phase: Phase) -> str:
    return "#e8e8e8" if phase in ENDED else "#d6e6f5" if phase in ON_SERVER else "white"


def layers_graph() -> str:
    """The layers, from the contract that import-linter enforces; lower ones import upper ones."""
    parser = configparser.ConfigParser()
    parser.read(DOCS.parent / ".importlinter")
    text = next(
        section["layers"]
        for section in map(parser.__getitem__, parser.sections())
        if section.get("type") == "layers"
    )
    rows = [re.findall(r"\w+", line) for line in text.splitlines() if line.strip()]
    installed = DOCS.parent / "src" / "wharfinger"
    lines = [HEAD.format(name="layers", direction="BT").replace("ranksep=0.45", "ranksep=0.12")]
    names = []
    for row in rows:
        present = [n for n in row if (installed / n).is_dir() or (installed / f"{n}.py").exists()]
        if present:
            names.append(" · ".join(present))
    lines.extend(f'  "{name}" [width=3.2]' for name in names)
    lines.extend(
        f'  "{lower}" -> "{upper}" [arrowsize=0.5]' for lower, upper in itertools.pairwise(names)
    )
    return "\n".join([*lines, "}", ""])


def loop_graph() -> str:
    """The structure: the core, the parts of its policy, the log, and the ports to the world."""
    return (
        HEAD.format(name="loop", direction="LR")
        + """  client [label="clients\\nsubmit, update, delete"]
  clock [label="clock\\nthe time that the core asked for"]
  policy [
    shape=note, style=filled
    label="policy: a bundle of parts\\nadmission, placement, contention,\\n\
adaptation, estimation, provisioning"
  ]
  core [fillcolor="#d6e6f5", label="core\\nstate = fold(events)"]
  store [label="store\\nevent log, snapshots", shape=cylinder, style=filled]
  engine [label="engine\\nports: engine, monitor, profiler"]
  services [label="services\\nports: classifier, provisioner, decider"]
  client -> core [label="requests"]
  clock -> core [label="time"]
  core -> policy [label="view, request"]
  policy -> core [label="answer with its decision"]
  core -> store [label="1  events: the cause and what was decided"]
  store -> client [label="2  on disk: acknowledged"]
  store -> engine [label="3  actions"]
  store -> services [label="3  actions"]
  engine -> core [label="reports"]
  services -> core [label="reports"]
}
"""
    )


GRAPHS = {"lifecycle": lifecycle_graph, "layers": layers_graph, "loop": loop_graph}


def walk() -> str:
    """One workload's way through a real core, as a table."""
    rows = [
        "| what comes in | what is logged with it | what is asked for |",
        "|---|---|---|",
    ]
    for event, step in _story():
        decided = ", ".join(f"`{type(e).__name__}`" for e in step.events[1:]) or "nothing more"
        asked = ", ".join(f"`{type(a).__name__}`" for a in step.actions) or "nothing"
        rows.append(f"| {_cell(event)} | {decided} | {asked} |")
    return "\n".join(rows)


class _Planner:
    """Plans two allocations and two sources on the first server."""

    name = "planner"

    def plan(self, request: Request, view: View) -> Profiling:
        decision = Decision(
            Stage.PROFILING, self.name, accepted=True, reason=ReasonCode.OK, message=""
        )
        plan = ProfilingPlan(view.names[0], (500, 1000), 2**26, PROFILED_SOURCES, 8.0)
        return Profiling(decision, plan)


def _story() -> Iterator[tuple[ev.Event, object]]:
    manager = Core(make_policy("quasar", estimation=_Planner()))
    platform = Platform("small", "x86_64", "", 2000, 4 * 2**30)
    rates = {500: 60.0, 1000: 110.0, 2000: 190.0}
    curve = Curve(tuple(rates), tuple(Estimate(rate, 0.05) for rate in rates.values()))
    workload = Workload(
        "encode",
        WorkloadType.BATCH,
        Run(("gzip", "-k", "data")),
        Target(rate_per_second=100.0),
    )

    def tell(event: ev.Report | ev.ClientRequest, now: float = 0.0) -> tuple[ev.Event, object]:
        return event, manager.handle(now, event)

    def measured(rate: float) -> ev.ServerMeasured:
        readings = {Quantity.RATE: Reading(rate, "progress lines"), Quantity.CPU: Reading(1.0, "")}
        return ev.ServerMeasured("s1", (Sample(manager.find("encode").key, readings),))

    yield tell(manager.started("a1b2", "", "local", Capabilities(measures=True, profiles=True)))
    yield tell(ev.ServerReported(Server("s1", platform, 2000, 4 * 2**30)))
    yield tell(ev.EngineSynced((), ("s1",)))
    yield tell(ev.WorkloadSubmitted(workload))
    key = manager.find("encode").key
    yield tell(ev.ProfilingFinished(key, Measurements()))
    classification = Classification("gaussian", "1", {Quantity.RATE: curve}, measured=5)
    yield tell(ev.WorkloadClassified(key, classification))
    key = manager.find("encode").key
    yield tell(ev.StartAccepted(key))
    yield tell(ev.WorkloadStarted(key, "pid 4711"))
    yield tell(measured(104.0), 30.0)
    yield tell(ev.WorkloadClassified(key, classification), 31.0)
    yield tell(measured(45.0), 32.0)
    yield tell(measured(45.0), 34.0)
    yield tell(ev.AllocationResized(key, manager.find("encode").planned))
    yield tell(ev.WorkloadFinished(key, 0, None, "exited"), 60.0)


def _cell(event: ev.Event) -> str:
    match event:
        case ev.WorkloadSubmitted(workload=workload):
            about = workload.name
        case ev.ServerMeasured(samples=(sample, *_)):
            about = f"{sample.readings[Quantity.RATE].value:.0f}/s of 100/s"
        case ev.WorkloadFinished(exit_code=code):
            about = f"exit code {code}"
        case _:
            about = ""
    return f"`{type(event).__name__}` {about}".strip()


def settings() -> str:
    """Every setting of every registered part, as a table."""
    found: dict[tuple[str, type], list[str]] = {}
    for kind, registered in PARTS.items():
        for name, part in registered.items():
            for group in _groups(part.settings) if part.settings else ():
                found.setdefault((kind, group), []).append(f"`{name}`")
    rows = ["| part | setting | default | meaning |", "|---|---|---|---|"]
    for (kind, group), names in found.items():
        document = inspect.getdoc(group) or ""
        told = dict(re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", document, re.MULTILINE))
        for each in fields(group):
            if not is_dataclass(getattr(group(), each.name)):
                meaning = " ".join(told[each.name].replace("``", "`").split())
                part = f"{kind} {', '.join(names)}"
                rows.append(f"| {part} | `{each.name}` | {each.default} | {meaning} |")
    return "\n".join(rows)


def _groups(group: type) -> Iterator[type]:
    """A dataclass of settings and those within it."""
    yield group
    for each in fields(group):
        if is_dataclass(value := getattr(group(), each.name)):
            yield from _groups(type(value))


def _with_table(name: str, table: Callable[[], str]) -> Callable[[str], str]:
    """A page with one of these tables as the code has it now."""

    def renew(text: str) -> str:
        begin, end = f"<!-- {name}: made by docs/generate.py -->", f"<!-- end of {name} -->"
        before, rest = text.split(begin)
        return f"{before}{begin}\n{table()}\n{end}{rest.split(end)[1]}"

    return renew


def _with_sources(text: str) -> str:
    """Each example as the file that the tests run has it."""

    def block(marker: re.Match[str]) -> str:
        source = (DOCS.parent / marker["path"]).read_text()
        return f"{marker['begin']}\n```python\n{source}```\n<!-- end of source -->"

    form = r"(?P<begin><!-- source: (?P<path>\S+) -->)\n.*?<!-- end of source -->"
    return re.sub(form, block, text, flags=re.DOTALL)


PAGES = {
    "architecture.md": _with_table("walk", walk),
    "policies.md": _with_table("settings", settings),
    "extending.md": _with_sources,
}


def outdated() -> list[Path]:
    """What differs from what the code says now."""
    found = [
        path
        for name, graph in GRAPHS.items()
        if not (path := DOCS / "pictures" / f"{name}.dot").exists() or path.read_text() != graph()
    ]
    return found + [
        DOCS / name
        for name, make in PAGES.items()
        if (DOCS / name).read_text() != make((DOCS / name).read_text())
    ]


def write() -> None:
    """Write graphs, pictures and tables."""
    dot = shutil.which("dot")
    if dot is None:
        sys.exit("generate: dot is missing; install it with: apt-get install graphviz")
    for name, graph in GRAPHS.items():
        source = DOCS / "pictures" / f"{name}.dot"
        source.write_text(graph())
        subprocess.run([dot, "-Tsvg", "-o", source.with_suffix(".svg"), source], check=True)
    for name, make in PAGES.items():
        page = DOCS / name
        page.write_text(make(page.read_text()))


def main() -> int:
    """Write, or check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say what is out of date")
    if not parser.parse_args().check:
        write()
        return 0
    old = outdated()
    for path in old:
        print(f"{path}: out of date; run scripts/generate-docs", file=sys.stderr)
    return 1 if old else 0


if __name__ == "__main__":
    sys.exit(main())
