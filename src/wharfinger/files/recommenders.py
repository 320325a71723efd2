"""Recommenders to files and back: the same predictions, to the last bit, without learning.

NumPy's own format without pickles, so that a file from elsewhere can do nothing but be wrong.
"""

import io
import json
import zipfile
from pathlib import Path

import msgspec
import numpy as np

from wharfinger.errors import InvalidInput
from wharfinger.estimators.matrix import Matrix, RowScale, Transform
from wharfinger.estimators.recommender import Calibration, Recommender
from wharfinger.estimators.registry import make_estimator
from wharfinger.files.atomic import write_whole
from wharfinger.model.arrays import Array

FORMAT = 1
PREFIX = "learned."
_DAMAGE = (
    ValueError,
    KeyError,
    TypeError,
    EOFError,
    OSError,
    zipfile.BadZipFile,
    msgspec.ValidationError,
)


def to_bytes(recommender: Recommender) -> bytes:
    """All that is needed to predict and to continue learning."""
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
    """The inverse of ``to_bytes``; ``InvalidInput`` for damage or another version."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(arrays["header"].tobytes())
        return _rebuild(header, arrays, place)
    except _DAMAGE as error:
        raise InvalidInput(f"{place} is damaged ({error}); fit it again") from None


def _rebuild(header: dict[str, object], arrays: dict[str, Array], place: str) -> Recommender:
    estimator = make_estimator(str(header["estimator"]))
    stated = header["format"], header["version"]
    if stated != (FORMAT, estimator.version):
        raise InvalidInput(
            f"{place} is of format and version {stated}, this is {(FORMAT, estimator.version)}; "
            "fit it again"
        )
    rows, columns, groups = (
        msgspec.convert(header[key], tuple[str, ...]) for key in ("rows", "columns", "groups")
    )
    matrix = Matrix(rows, columns, groups, arrays["values"], Transform(str(header["transform"])))
    learned = estimator.restore(
        {name.removeprefix(PREFIX): a for name, a in arrays.items() if name.startswith(PREFIX)}
    )
    factors = msgspec.convert(header["factors"], tuple[float, ...])
    calibration = Calibration(factors, arrays["unmeasured"])
    scale, seed = RowScale(str(header["scale"])), int(str(header["seed"]))
    return Recommender(estimator, matrix, scale, seed, learned, calibration)


def save(recommender: Recommender, path: Path | str) -> None:
    """Write a file; concurrent readers see the old one or the new one."""
    write_whole(Path(path), to_bytes(recommender))


def load(path: Path | str) -> Recommender:
    """Read such a file; ``InvalidInput``: it can't be read, is damaged, or another version's."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror}; name a saved recommender") from None
    return from_bytes(data, str(path))
