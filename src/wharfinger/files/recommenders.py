"""Recommenders to files and back: the same predictions, to the last bit, without learning.

NumPy's own format without pickles, so that a file from elsewhere can do nothing but be wrong.
"""

import io
import json
import zipfile
from pathlib import Path

import numpy as np

from wharfinger.errors import InvalidInput
from wharfinger.estimators.matrix import Matrix, RowScale, Transform
from wharfinger.estimators.recommender import Calibration, Recommender
from wharfinger.estimators.registry import make_estimator
from wharfinger.files.atomic import write_whole
from wharfinger.model.arrays import Array

FORMAT = 1
PREFIX = "learned."


def to_bytes(recommender: Recommender) -> bytes:
    """All that is needed to predict and to learn on."""
    matrix = recommender.matrix
    header = {
        "format": FORMAT,
        "estimator": recommender.estimator.name,
        "version": recommender.estimator.version,
        "scale": recommender.scale,
        "seed": recommender.seed,
        "transform": matrix.transform,
        "rows": matrix.rows,
        "columns": matrix.columns,
        "groups": matrix.groups,
        "factors": recommender.calibration.factors,
    }
    arrays: dict[str, Array] = {
        "values": matrix.values,
        "unmeasured": recommender.calibration.unmeasured,
    }
    arrays |= {PREFIX + name: a for name, a in recommender.learned.arrays().items()}
    buffer = io.BytesIO()
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    np.savez_compressed(buffer, allow_pickle=False, header=text, **arrays)
    return buffer.getvalue()


def from_bytes(data: bytes, place: str = "the recommender") -> Recommender:
    """The inverse of ``to_bytes``.

    Raises:
        InvalidInput: The bytes are damaged, or another version's.
    """
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(arrays["header"].tobytes())
        return _rebuild(header, arrays, place)
    except (ValueError, KeyError, TypeError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise InvalidInput(f"{place} is damaged ({error}); fit it again") from None


def _rebuild(header: dict[str, object], arrays: dict[str, Array], place: str) -> Recommender:
    estimator = make_estimator(str(header["estimator"]))
    stated = header["format"], header["version"]
    if stated != (FORMAT, estimator.version):
        raise InvalidInput(
            f"{place} is of format and version {stated}, this is {(FORMAT, estimator.version)}; "
            "fit it again"
        )
    rows, columns, groups = (_names(header[key]) for key in ("rows", "columns", "groups"))
    matrix = Matrix(rows, columns, groups, arrays["values"], Transform(str(header["transform"])))
    learned = estimator.restore(
        {name.removeprefix(PREFIX): a for name, a in arrays.items() if name.startswith(PREFIX)}
    )
    factors = tuple(float(f) for f in _list(header["factors"]))
    calibration = Calibration(factors, arrays["unmeasured"])
    scale, seed = RowScale(str(header["scale"])), int(str(header["seed"]))
    return Recommender(estimator, matrix, scale, seed, learned, calibration)


def _list(value: object) -> list[str | float]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is no list")
    return value


def _names(value: object) -> tuple[str, ...]:
    return tuple(str(name) for name in _list(value))


def save(recommender: Recommender, path: Path | str) -> None:
    """Write a file; whoever reads meanwhile sees the old one or the new one.

    Raises:
        OSError: It can't be written.
    """
    write_whole(Path(path), to_bytes(recommender))


def load(path: Path | str) -> Recommender:
    """Read such a file.

    Raises:
        InvalidInput: It can't be read, is damaged, or another version's.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror}; name a saved recommender") from None
    return from_bytes(data, str(path))
