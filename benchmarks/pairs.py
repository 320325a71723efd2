"""How well slow-downs between pairs are predicted for programs that nobody has run before.

    python -m benchmarks.pairs DIRECTORY/*.slowdown.csv --output pairs.json

One group of programs at a time is held out: its rows and its columns. Of each program in it two
entries of the row and two of the column are told, beside the references that ``PairModel`` chooses
of the others; predicted are all others, with the known programs. Errors are of logarithms, and
relative. Beside it: the mean over known rows (columns), which needs nothing of the new program; and
that, shifted by what the two entries say.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks._harness import report
from wharfinger.contention.pairs import PairModel, Seen
from wharfinger.files.matrices import read_matrix

Array = np.ndarray
REFERENCES = 2
NOBODY = ""


def relative_of(path: Path) -> tuple[list[str], list[str], Array]:
    """Names, groups and performance of row beside column over that of row alone."""
    matrix = read_matrix(path)
    place = {name: at for at, name in enumerate(matrix.columns)}
    names = [name for name in matrix.rows if name in place]
    rows = [matrix.rows.index(name) for name in names]
    values = matrix.values[np.ix_(rows, [place[name] for name in names])]
    return names, [matrix.groups[at] for at in rows], 1.0 / values


def held_out(path: Path) -> dict[str, Mapping[str, float]]:
    """Errors by estimator."""
    names, groups, relative = relative_of(path)
    errors: dict[str, list[float]] = {}
    drops: dict[str, list[float]] = {}
    for group in dict.fromkeys(groups):
        known = [at for at, each in enumerate(groups) if each != group]
        inner = relative[np.ix_(known, known)]
        model = PairModel.fit([names[at] for at in known], {NOBODY: inner})
        chosen = [known[[names[k] for k in known].index(n)] for n in model.references(REFERENCES)]
        rest = [at for at in known if at not in chosen]
        logs = np.log(inner)
        for new in (at for at, each in enumerate(groups) if each == group):
            for estimator, guess in guesses(model, names, known, chosen, logs, relative, new):
                for at in rest:
                    for told, true in zip(
                        guess(at), (relative[new, at], relative[at, new]), strict=True
                    ):
                        if np.isfinite(true) and true > 0:
                            drops.setdefault(estimator, []).append(abs(np.log(told / true)))
                            errors.setdefault(estimator, []).append(abs(told - true) / true)
    return {
        name: {
            "mean_absolute_log_error": float(np.mean(drops[name])),
            "mean_relative_error": float(np.mean(errors[name])),
        }
        for name in errors
    }


Guess = Callable[[int], tuple[float, float]]


def guesses(
    model: PairModel,
    names: Sequence[str],
    known: Sequence[int],
    chosen: Sequence[int],
    logs: Array,
    relative: Array,
    new: int,
) -> list[tuple[str, Guess]]:
    """Each gives, for a known program, the new one's performance beside it, and its beside that."""
    seen = [at for at in chosen if relative[new, at] > 0 and relative[at, new] > 0]
    beside = {names[at]: float(relative[new, at]) for at in seen}
    upon = {names[at]: float(relative[at, new]) for at in seen}
    found = model.predict(Seen(beside, upon))[NOBODY]
    others = {at: model.of(names[at])[NOBODY] for at in known}
    place = {at: k for k, at in enumerate(known)}
    columns, rows = np.nanmean(logs, axis=0), np.nanmean(logs, axis=1)
    shift_row = np.mean([np.log(beside[names[at]]) - columns[place[at]] for at in seen] or [0.0])
    shift_column = np.mean([np.log(upon[names[at]]) - rows[place[at]] for at in seen] or [0.0])

    def pairs(at: int) -> tuple[float, float]:
        return found.beside(others[at]).mean, others[at].beside(found).mean

    def means(at: int) -> tuple[float, float]:
        return float(np.exp(columns[place[at]])), float(np.exp(rows[place[at]]))

    def shifted(at: int) -> tuple[float, float]:
        mean_row, mean_column = means(at)
        return mean_row * float(np.exp(shift_row)), mean_column * float(np.exp(shift_column))

    return [("pairs", pairs), ("means", means), ("shifted-means", shifted)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    options.rounds, options.seed = 1, 0
    results = [{"name": path.name, "estimators": held_out(path)} for path in options.files]
    report("pairs", options, results)


if __name__ == "__main__":
    main()
