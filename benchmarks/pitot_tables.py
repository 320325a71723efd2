"""Measured tables from the public measurements of Pitot (Huang et al., MLSys 2025).

Programs compiled to WebAssembly, alone and in sets of two to four, on some 23 devices under ten
runtimes; the data are those of github.com/WiseLabCMU/pitot. One runtime is taken, and each device
is a platform::

    git clone https://github.com/WiseLabCMU/pitot
    python -m benchmarks.pitot_tables pitot/data /tmp/pitot
    wharfinger simulate measured:/tmp/pitot --compare quasar,least-loaded,oracle --repeats 3

Nothing of the data is kept here. Times in nanoseconds become runs per second; of one that was
measured several times, the median.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from wharfinger.errors import InvalidInput
from wharfinger.experiments.comparison import write_rows
from wharfinger.simulator.truth.tables import GROUPS, ISOLATED, PAIRS

RUNTIME = "wasmtime-a"
NANOSECONDS = 1e9
SCENARIO = """\
# Programs of Pitot's measurements, each as often, on one server of each device.
apiVersion: wharfinger.dev/v1alpha1
kind: Scenario
metadata: {name: measured-pitot}
spec:
  servers:
SERVERS
  population:
    - name: job
      duration: {shape: lognormal, mean: 25m, sigma: 0.8, from: 2m, to: 4h}
  workloads: 300
  arrivals: {pattern: poisson, load: 0.5}
  targets: {of: random-platform, share: 0.9, kind: rate}
  engine: {fractionalCpu: false}
  maxServers: 1
"""
"""As ``measured:DIR`` has it without a scenario, with a server of each of the many platforms."""

Row = tuple[str, ...]


def convert(source: Path, target: Path, runtime: str = RUNTIME) -> dict[str, int]:
    """Write the tables and a scenario; how many rows of each file there are.

    Raises:
        InvalidInput: A file is missing, or has nothing of the runtime.
    """
    data = _load(source / "data.npz")
    names = [str(name).replace("/", "-").replace(":", "-") for name in data["n_workload"]]
    platforms = _platforms(data["n_platform"], runtime)
    alone = _rows(data, platforms, names)
    if not alone:
        there_are = ", ".join(sorted({str(n).partition(":")[0] for n in data["n_platform"]}))
        raise InvalidInput(f"--runtime {runtime!r}: nothing was measured; there are {there_are}")
    isolated = {(workload, platform): value for (platform, workload), value in alone.items()}
    target.mkdir(parents=True, exist_ok=True)
    tables = {ISOLATED: (("workload", "platform"), isolated)}
    known = {(platform, workload) for workload, platform in isolated}
    pairs = _rows(_load(source / "if2.npz"), platforms, names, 1)
    tables[PAIRS] = (
        ("platform", "workload", "beside"),
        {k: v for k, v in pairs.items() if _measured_alone(k, known)},
    )
    groups: dict[Row, float] = {}
    for beside in (2, 3):
        path = source / f"if{beside + 1}.npz"
        if path.exists():
            groups |= _rows(_load(path), platforms, names, beside)
    kept = {k: v for k, v in groups.items() if _measured_alone(k, known)}
    if kept:
        joined = {(*k[:2], " + ".join(k[2:])): v for k, v in kept.items()}
        tables[GROUPS] = (("platform", "workload", "beside"), joined)
    for name, (columns, rows) in tables.items():
        lines = ([*key, f"{value:.6g}"] for key, value in rows.items())
        write_rows(target / name, [[*columns, "performance"], *lines])
    servers = "\n".join(
        f"    - {{platform: {platform}, count: 1, cpus: 2}}"
        for platform in sorted({platform for _, platform in isolated})
    )
    (target / "scenario.yaml").write_text(SCENARIO.replace("SERVERS", servers))
    return {name: len(rows) for name, (_, rows) in tables.items()}


def _load(path: Path) -> Any:
    try:
        return np.load(path)
    except (OSError, ValueError, EOFError) as error:
        raise InvalidInput(f"{path}: {error}; name the folder data of a clone of pitot") from error


def _platforms(names: Iterable[object], runtime: str) -> dict[int, str]:
    """Devices by the index of their platform under the runtime."""
    parts = [str(name).partition(":") for name in names]
    return {at: device for at, (of, _, device) in enumerate(parts) if of == runtime}


def _rows(
    data: Any, platforms: dict[int, str], names: Sequence[str], beside: int = 0
) -> dict[Row, float]:
    """Runs per second by platform, workload and its sorted co-runners."""
    columns = [data["i_platform"], data["i_workload"]]
    columns += [data[f"i_interference{at}"] for at in range(beside)]
    times: dict[Row, list[float]] = defaultdict(list)
    for key, nanoseconds in zip(zip(*columns, strict=True), data["t"], strict=True):
        device = platforms.get(int(key[0]))
        if device is not None:
            own, *others = (names[int(each)] for each in key[1:])
            times[device, own, *sorted(others)].append(float(nanoseconds))
    return {key: NANOSECONDS / median(each) for key, each in times.items()}


def _measured_alone(key: Row, known: set[tuple[str, str]]) -> bool:
    return all((key[0], name) in known for name in key[1:])


def main() -> int:
    """Convert, and say how much there is."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("source", type=Path, help="the folder data of a clone of pitot")
    parser.add_argument("target", type=Path, help="where the tables are written")
    parser.add_argument("--runtime", default=RUNTIME, help=f"of the programs (default: {RUNTIME})")
    arguments = parser.parse_args()
    try:
        rows = convert(arguments.source, arguments.target, arguments.runtime)
    except InvalidInput as error:
        print(f"pitot_tables: {error}", file=sys.stderr)
        return 2
    for name, count in rows.items():
        print(f"{arguments.target / name}: {count} rows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
