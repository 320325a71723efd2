"""What a dry run expects, in words: what the workload would get now, and what else it could."""

from collections.abc import Sequence

from wharfinger.cli import format as fmt
from wharfinger.cli.decisions import sentence
from wharfinger.cli.output import Column, Record, column, indented, printable, table


def outlook_text(outlook: Record) -> str:
    """The allocation that would be chosen now, the cheapest others, and how sure each is."""
    lines = [f"if it were placed now ({printable(outlook['message'])})"]
    chosen, others = outlook["chosen"], outlook["others"]
    if chosen is None:
        lines.append(f"  not placed: {sentence(outlook['refusal'])}")
    options = [one for one in (chosen, *others) if one is not None]
    if outlook["attainable"] is False and options:
        best = max(options, key=lambda option: option["kept_probability"] or 0.0)
        lines.append(f"  the target cannot be kept; the best is {_in_words(best)}")
    if options:
        lines += [f"  {line}" for line in _options(options, chosen).splitlines()]
    return indented("\n".join(lines))


def _in_words(option: Record) -> str:
    mean, low, high = (fmt.percent(option["predicted"][key]) for key in ("mean", "low", "high"))
    return (
        f"{_given(option)}: {mean} of the target ({low} to {high}), "
        f"kept with {option['kept_probability']:.0%} probability"
    )


def _given(option: Record) -> str:
    return " and ".join(
        f"{_cpus(given)} CPU on {printable(given['name'])}" for given in option["servers"]
    )


def _cpus(given: Record) -> str:
    return "the rest of the" if given["best_effort"] else fmt.number(given["cpus"])


def _options(options: Sequence[Record], chosen: Record | None) -> str:
    predicted = [o["predicted"] for o in options if o["predicted"]]
    columns: list[Column] = [("ALLOCATION", _given)]
    if any(len(option["servers"]) > 1 for option in options):
        columns.append(column("CPU", "cpus", fmt.number))
    if predicted:
        sure = fmt.percent(predicted[0]["confidence"])
        columns += [
            ("OF TARGET", lambda option: _of(option, "mean")),
            (f"AT LEAST ({sure})", lambda option: _of(option, "low")),
            ("AT MOST", lambda option: _of(option, "high")),
            ("KEPT", _probability),
        ]
    columns.append(("", lambda option: "<- would be chosen" if option is chosen else ""))
    return table(options, columns)


def _of(option: Record, key: str) -> str:
    return fmt.percent(option["predicted"][key]) if option["predicted"] else fmt.NONE


def _probability(option: Record) -> str:
    likely = option["kept_probability"]
    return fmt.NONE if likely is None else fmt.percent(likely)
