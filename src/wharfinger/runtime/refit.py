"""Learns from matrices in a process of its own: ``python -m wharfinger.runtime.refit``.

``runtime.learning`` starts it, at idle priority, so that the manager never waits for an estimator.
It reads the matrices in a directory and writes the model there, under a name that is a digest of
them: a model of that name is complete.
"""

import argparse
import ctypes
import hashlib
import os
import shutil
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from wharfinger.classification.classifier import Classifications
from wharfinger.classification.utility import Aspect, UtilityMatrix
from wharfinger.errors import InvalidInput
from wharfinger.estimators.recommender import Recommender
from wharfinger.estimators.registry import make_estimator
from wharfinger.files import recommenders
from wharfinger.files.utility_matrices import read_utility, write_utility

MODEL = "model-"
_PR_SET_PDEATHSIG = 1
Fitted = list[tuple[Aspect, Recommender]]


def write_matrices(matrices: Mapping[Aspect, UtilityMatrix], directory: Path) -> None:
    """Write these, each atomically, and remove others."""
    directory.mkdir(parents=True, exist_ok=True)
    for kind in Aspect:
        if kind not in matrices:
            (directory / f"{kind.value}.csv").unlink(missing_ok=True)
    for kind, matrix in matrices.items():
        new = directory / f"{kind.value}.csv.new"
        write_utility(matrix, new)
        new.replace(directory / f"{kind.value}.csv")


def read_matrices(directory: Path) -> dict[Aspect, UtilityMatrix]:
    """The matrices in a directory.

    Raises:
        InvalidInput: One is broken.
    """
    paths = {kind: directory / f"{kind.value}.csv" for kind in Aspect}
    return {kind: read_utility(kind, path) for kind, path in paths.items() if path.exists()}


def model_of(directory: Path, estimator: str) -> Path:
    """The path of the model of the matrices in a directory, whether it exists or not."""
    digest = hashlib.sha256(f"{estimator} {make_estimator(estimator).version}".encode())
    for path in sorted(directory.glob("*.csv")):
        digest.update(path.name.encode() + path.read_bytes())
    return directory / f"{MODEL}{digest.hexdigest()[:16]}"


def load(model: Path) -> Fitted:
    """The model's recommenders.

    Raises:
        InvalidInput: It is damaged, or another version's.
    """
    paths = sorted(model.glob("*.recommender"))
    return [(Aspect(path.name.partition("_")[0]), recommenders.load(path)) for path in paths]


def fit(directory: Path, estimator: str, seed: int = 0) -> Path:
    """Learn, and write the model; models of older matrices are removed."""
    model = model_of(directory, estimator)
    made = Classifications(read_matrices(directory), estimator, seed)
    new = directory / f"{MODEL}new-{os.getpid()}"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    for number, (kind, recommender) in enumerate(made.fit_all()):
        recommenders.save(recommender, new / f"{kind.value}_{number}.recommender")
    for old in directory.glob(f"{MODEL}*"):
        if old != new:
            shutil.rmtree(old, ignore_errors=True)
    new.replace(model)
    return model


def main() -> None:
    """The child's main program; it ends with the manager."""
    parser = argparse.ArgumentParser(prog="python -m wharfinger.runtime.refit")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--estimator", required=True)
    parser.add_argument("--manager", type=int, required=True, help="its process")
    given = parser.parse_args()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != given.manager:
        return  # It ended before that was asked for.
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    with suppress(OSError):
        os.nice(19)
    try:
        fit(given.directory, given.estimator)
    except InvalidInput as error:
        parser.exit(1, f"{error}\n")


if __name__ == "__main__":
    main()
