"""``wharfinger contention predict``: what a service keeps beside sets of neighbors."""

import argparse

from wharfinger.cli.output import Record, column, show, table
from wharfinger.errors import InvalidInput, NotFound
from wharfinger.files.contention_sets import load_model, parse_set
from wharfinger.interference.model import InterferenceModel

UNKNOWN = "unknown"


def run(arguments: argparse.Namespace) -> None:
    """Predict each set, and print it."""
    sets = [parse_set(text) for text in arguments.batch]
    model = load_model(arguments.model)
    platform, load_class = arguments.platform or "", getattr(arguments, "class") or ""
    try:
        setting = model.setting(arguments.ls, platform, load_class)
    except NotFound as error:
        raise InvalidInput(f"--ls: {error}") from None
    predictions = model.predict(setting, sets)
    low, high = predictions.interval_90()
    rows = zip(
        sets,
        predictions.performance.tolist(),
        low.tolist(),
        high.tolist(),
        predictions.contention.tolist(),
        predictions.unsafe(arguments.qos).tolist(),
        predictions.drops.tolist(),
        strict=True,
    )
    document = [
        {
            "name": "+".join(one),
            "ls": setting.service,
            "performance": _known(performance),
            "performance_low": _known(least),
            "performance_high": _known(most),
            "contention": _known(contention),
            "contention_unit": predictions.scale.unit,
            "qos": arguments.qos,
            "unsafe_probability": unsafe,
            "note": _note(model, one, arguments, drop),
        }
        for one, performance, least, most, contention, unsafe, drop in rows
    ]
    show(document, arguments.output, lambda: _text(document))


def _known(value: float) -> float | None:
    return value if value == value else None  # noqa: PLR0124 - NaN


def _note(
    model: InterferenceModel, one: tuple[str, ...], arguments: argparse.Namespace, drop: float
) -> str:
    setting = model.setting(
        arguments.ls, arguments.platform or "", getattr(arguments, "class") or ""
    )
    missing = [name for name in one if name not in model.services[setting].names]
    if missing:
        return f"{missing[0]} was never measured"
    if _known(drop) is None:
        return "beyond what was measured"
    measured = model.degrees[setting]
    if len(one) not in measured:
        return f"{len(one)} neighbors were never measured, at most {max(measured)}"
    return ""


def _percent(value: float) -> str:
    return f"{100 * value:.1f}%"


def _text(document: list[Record]) -> str:
    def interval(row: Record) -> str:
        if row["performance_low"] is None:
            return UNKNOWN
        return f"{_percent(row['performance_low'])} to {_percent(row['performance_high'])}"

    def performance(row: Record) -> str:
        return UNKNOWN if row["performance"] is None else _percent(row["performance"])

    def contention(row: Record) -> str:
        if row["contention"] is None:
            return UNKNOWN
        if row["contention_unit"] == "bytes":
            return f"{row['contention'] / 2**20:.2f}Mi"
        # No -0.
        return f"{row['contention'] + 0.0:.3g}"

    unsafe = f"UNSAFE AT {100 * document[0]['qos']:g}%"
    return table(
        document,
        [
            column("BATCH", "name"),
            ("PERFORMANCE", performance),
            ("90% INTERVAL", interval),
            ("CONTENTION", contention),
            column(unsafe, "unsafe_probability", "{:.3f}".format),
            column("NOTE"),
        ],
    )
