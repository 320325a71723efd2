"""Matrices drawn from the physics, and what any matrix of performance is like.

``physics_matrices`` holds the two against matrices that were measured: how much of what programs
differ in is of few components, how much is left, and how far off estimators are from two entries.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wharfinger.estimators.evaluation import EvaluationPlan, evaluate
from wharfinger.estimators.matrix import Matrix, RowScale
from wharfinger.experiments.ground_truth import at
from wharfinger.files.matrices import read_matrix
from wharfinger.model.interference import SharedResource
from wharfinger.simulator.truth.ground_truth import TrueResident
from wharfinger.simulator.truth.physics.application import Application
from wharfinger.simulator.truth.physics.hardware import GIB, Hardware
from wharfinger.simulator.truth.physics.truth import Physics

COMPONENTS = (1, 2, 3, 5)
LEAST_CORES, LEAST_MEMORY = 4, 7 * GIB
"""Platforms with less than this run few of the programs as they are meant."""
INTENSITIES = (50.0, 100.0)
_MEASURED = 0.9
"""Of a column's rows that have a value; else it is left out where no holes may be."""


@dataclass(frozen=True, slots=True, eq=False)
class ProgramMatrix:
    """A matrix, and how its rows are to be taken.

    Attributes:
        matrix: Of performance, or of time.
        scale: What a row's level says.
        pairs: Columns bear rows' names.
    """

    matrix: Matrix
    scale: RowScale = RowScale.ARBITRARY
    pairs: bool = False


# --- drawn ----------------------------------------------------------------------------------


def of_platforms(truth: Physics, programs: Sequence[Application]) -> ProgramMatrix:
    """Programs by platforms: what each can do with a whole server."""
    large = [
        each
        for each in truth.hardware.values()
        if each.cores >= LEAST_CORES and each.memory_bytes > LEAST_MEMORY
    ]
    rows = {
        program.name: [truth.most(each.name, program.name) for each in large]
        for program in programs
    }
    able = {name: row for name, row in rows.items() if min(row) > 0}
    return ProgramMatrix(Matrix.of(able, [each.name for each in large]))


def of_pairs(truth: Physics, hardware: Hardware, programs: Sequence[Application]) -> ProgramMatrix:
    """Programs by neighbors: what each keeps beside each on half of a server's cores."""
    residents = [_on_half(hardware, program) for program in programs]
    rows = {
        one.application: [
            truth.rates(hardware.name, [one, other])[0] / truth.alone(hardware.name, one)
            for other in residents
        ]
        for one in residents
    }
    return ProgramMatrix(Matrix.of(rows, list(rows)), RowScale.NORMALISED, pairs=True)


def of_sources(
    truth: Physics, hardware: Hardware, programs: Sequence[Application]
) -> ProgramMatrix:
    """Programs by sources at middle and full intensity: what each keeps."""
    rows: dict[str, list[float]] = {}
    columns: list[str] = []
    for program in programs:
        one = _on_half(hardware, program)
        kept = dict(_beside_sources(truth, hardware, one))
        rows[program.name], columns = list(kept.values()), list(kept)
    return ProgramMatrix(Matrix.of(rows, columns), RowScale.NORMALISED)


def _beside_sources(
    truth: Physics, hardware: Hardware, one: TrueResident
) -> Iterator[tuple[str, float]]:
    alone = truth.alone(hardware.name, one)
    for resource in SharedResource:
        for intensity in INTENSITIES:
            source = truth.source(hardware.name, resource, intensity, one)
            if source is not None:
                kept = truth.rates(hardware.name, [one, source])[0] / alone
                yield f"{resource}@{intensity:g}", kept


def _on_half(hardware: Hardware, program: Application) -> TrueResident:
    return at(program, min(program.threads, hardware.cores // 2))


def measured(path: Path) -> ProgramMatrix:
    """A matrix in a file as ``classify evaluate`` reads it; pairs are known by their names."""
    matrix = read_matrix(path)
    pairs = len(set(matrix.rows) & set(matrix.columns)) > 1
    return ProgramMatrix(matrix, RowScale.NORMALISED if pairs else RowScale.ARBITRARY, pairs)


# --- what they are like ---------------------------------------------------------------------


def centred(matrix: Matrix) -> NDArray[np.float64]:
    """Logarithms without what rows and columns have in common, holes left out."""
    logs = matrix.transformed
    logs = logs[:, np.isfinite(logs).mean(axis=0) > _MEASURED]
    logs = logs[np.isfinite(logs).all(axis=1)]
    rows, columns = logs.mean(axis=1, keepdims=True), logs.mean(axis=0, keepdims=True)
    centred: NDArray[np.float64] = logs - rows - columns + logs.mean()
    return centred


def component_shares(matrix: Matrix) -> NDArray[np.float64]:
    """Cumulative shares of the variance of ``centred`` in its components, largest first."""
    squares = np.linalg.svd(centred(matrix), compute_uv=False) ** 2
    shares: NDArray[np.float64] = np.cumsum(squares) / squares.sum()
    return shares


def spread(matrix: Matrix) -> float:
    """Standard deviation of ``centred``: what rows and columns alone do not tell."""
    return float(centred(matrix).std())


def errors(of: ProgramMatrix, names: Sequence[str], repeats: int, seed: int) -> dict[str, float]:
    """Mean relative error of each estimator that is told two entries of a new row."""
    plan = EvaluationPlan(
        reveal=2,
        scale=of.scale,
        pairs=of.pairs,
        higher=True,
        repeats=repeats,
        seed=seed,
    )
    estimators = evaluate(of.matrix, names, plan).estimators
    return {name: estimators[name]["mean_relative_error"] for name in names}
