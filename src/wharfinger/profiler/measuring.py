"""How a program's performance is measured: a manifest's ``measure`` section, or the flags for it.

Both become a whole manifest, so that the rules and the messages are the manifest's own. Every way
of docs/measure.md is read by the meter's readers, in this process, unsmoothed.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from wharfinger.engines.local.profiling.readings import Heard
from wharfinger.errors import InvalidInput
from wharfinger.manifest.loading import load_manifests
from wharfinger.model.performance import Quantity
from wharfinger.model.workload import Workload
from wharfinger.monitor.spec import (
    DEFAULT_PERCENTILE,
    WatchSpec,
    main_quantity,
    spec_of,
    wanted_quantities,
)
from wharfinger.monitor.watch import Watch
from wharfinger.profiler.program import OwnProcess

Section = dict[str, Any]
_AGAIN = 'for i in 1 2 3 4 5 6 7 8 9; do while "$@"; do :; done; sleep 0.5; done; exec "$@"'
"""A service may not be there yet when its load generator begins; one that goes on failing ends."""
_OTHERS = ("type", "target", "tolerance")
"""Beside ``measure``: what a manifest's numbers mean depends on these."""


def workload_of(command: Sequence[str], measure: Section, beside: Section, source: str) -> Workload:
    """The workload that a command and its ``measure`` are; ``source`` is who stated them.

    ``beside`` are further fields of ``spec``. Raises ``InvalidManifest``.
    """
    run = {**beside.get("run", {}), "command": list(command)}
    spec: Section = {**beside, "run": run}
    if measure:
        spec["measure"] = measure
    spec.setdefault("type", "latency-critical" if _serves(measure) else "batch")
    if spec["type"] == "latency-critical":
        spec.setdefault("target", _target(measure))
    document = {
        "apiVersion": "wharfinger.dev/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": "profiled"},
        "spec": spec,
    }
    here = str(Path.cwd())
    return load_manifests(json.dumps(document), source=source, working_directory=here)[0]


def _serves(measure: Section) -> bool:
    http = measure.get("http")
    return "load" in measure or (isinstance(http, Mapping) and http.get("kind") == "histogram")


def _target(measure: Section) -> Section:
    """Of a service without one: only which quantities it names counts here, not how much."""
    http = measure.get("http") or {}
    regexes = [(measure.get(way) or {}).get("regex") for way in ("load", "progress")]
    words = " ".join(str(regex) for regex in regexes if regex)
    is_histogram = http.get("kind") == "histogram"
    latency = {"percentile": http.get("percentile", DEFAULT_PERCENTILE), "below": "1s"}
    if "<latency_" not in words and not is_histogram:
        return {"throughput": "1/s"}
    told = (is_histogram and "percentile" not in http) or "<throughput>" in words
    return {"latency": latency} | ({"throughput": "1/s"} if told else {})


def read_measure(path: Path) -> tuple[Section, Section]:
    """``measure``, and what belongs to it, from a file: the section alone, or a manifest.

    Raises ``InvalidInput``.
    """
    place = f"--measure: {path}"
    try:
        document = yaml.safe_load(path.read_bytes())
    except (OSError, yaml.YAMLError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise InvalidInput(f"{place}: {reason}; give a file with a measure section") from None
    spec = document.get("spec", document) if isinstance(document, Mapping) else None
    if not isinstance(spec, Mapping):
        raise InvalidInput(f"{place}: no mapping; write e.g. progress: {{regex: 'done=(.*)'}}")
    if "measure" not in spec:
        if spec is not document:
            raise InvalidInput(f"{place}: the manifest has no spec.measure; write one")
        return dict(spec), {}
    return section_of({"spec": spec})


def section_of(manifest: Mapping[str, Any]) -> tuple[Section, Section]:
    """A whole manifest's ``measure``, and what belongs to it."""
    spec = manifest["spec"]
    beside = {key: spec[key] for key in _OTHERS if key in spec}
    ready = (spec.get("run") or {}).get("ready")
    return dict(spec.get("measure") or {}), beside | ({"run": {"ready": ready}} if ready else {})


def quantities_of(workload: Workload) -> tuple[Quantity, ...]:
    """Those that count: of the target, else what a plain number stands for."""
    stated = wanted_quantities(workload) or (main_quantity(workload),)
    return tuple(q for q in stated if q is not Quantity.REMAINING) or (Quantity.RATE,)


def has_measure(workload: Workload) -> bool:
    """Whether its manifest says how its performance is read."""
    measure = workload.measure
    ways = (measure.progress_regex, measure.http, measure.command, measure.load_command)
    return any(way is not None for way in ways)


class CommandReadings(Heard):
    """The numbers of one start of a program, as they were read.

    ``output`` and ``load_output`` are files of what it and its load generator print; of a workload
    that a manager runs ``run_dir`` and ``load_runs`` have them.
    """

    def __init__(
        self,
        workload: Workload,
        output: Path | None,
        load_output: Path | None,
        root_pid: int,
        run_dir: str = "",
        load_runs: str = "",
    ) -> None:
        super().__init__()
        loads = (load_runs or "its file") if workload.measure.load_command else ""
        spec = spec_of(WatchSpec("profiled", run_dir, load_runs=loads), workload)
        file = str(Path(workload.run.working_directory, spec.file)) if spec.file else ""
        spec = replace(
            spec,
            file=file or str(output or ""),
            load_runs=load_runs if spec.load_regex else "",
            load_file=str(load_output) if load_output and spec.load_regex else "",
            supervisor_pid=root_pid,
            env=dict(os.environ),
            alive=None,
        )
        self._watch = Watch(spec, hear=self._hear)

    @property
    def why_not_ready(self) -> str:
        """Empty once it is ready; what it says before is no performance."""
        return self._watch.health.why_not_ready

    def look(self) -> None:
        """Take in what there is."""
        self._watch.look_at_health()
        self._watch.read()

    def _hear(self, source: str, quantity: Quantity, at: float, value: float, counts: bool) -> None:
        if not self.why_not_ready:
            self.add(source, quantity, at, value, counts)

    def newest(self) -> dict[Quantity, float]:
        """The last number of each quantity that is a performance, and counts no work."""
        lasts = {q: self._of(q)[-1] for q in self.told()}
        return {q: value for q, (_, value, counts) in lasts.items() if not counts}

    def why_silent(self, quantity: Quantity) -> str:
        """Why there is no number of a quantity."""
        return self._watch.why_silent(quantity)

    def close(self) -> None:
        """Read no more."""
        self._watch.close()


def start_load(workload: Workload) -> OwnProcess:
    """The load generator, which starts again when it ends; it may use all CPUs that we may."""
    assert workload.measure.load_command is not None
    return OwnProcess(("/bin/sh", "-c", _AGAIN, "sh", *workload.measure.load_command))
