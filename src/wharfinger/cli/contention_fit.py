"""``wharfinger contention fit``: a model from measured sets, in a file."""

import argparse
from time import perf_counter

import numpy as np

from wharfinger.cli.output import Record, show
from wharfinger.errors import InvalidInput
from wharfinger.files.atomic import check_output
from wharfinger.files.contention_sets import read_measurements, save_model
from wharfinger.interference.measurements import ContentionMeasurements
from wharfinger.interference.model import InterferenceModel
from wharfinger.interference.registry import make_form


def run(arguments: argparse.Namespace) -> None:
    """Fit, write the file, say what it holds."""
    form = make_form(arguments.model)  # An unknown name is refused before anything is read.
    out = check_output("--out", arguments.out)
    measurements = read_measurements(arguments.measurements)
    if arguments.sample is not None:
        refuse_small_sample(measurements, arguments.sample)
        rng = np.random.default_rng(arguments.seed)
        measurements, _ = measurements.sampled(arguments.sample, rng)
    begin = perf_counter()
    model = InterferenceModel.fit(form, measurements)
    document = {
        "model": form.name,
        "file": arguments.out,
        "fit_seconds": perf_counter() - begin,
        "services": [
            {
                "name": each.setting.service,
                "platform": each.setting.platform,
                "class": each.setting.load_class,
                "neighbors": len(each.names),
                "singles_completed": int((~each.measured).sum()),
                "sets": {str(degree): len(table) for degree, table in each.sets.items()},
                "contention_unit": each.scale.unit,
            }
            for each in measurements.services
        ],
    }
    save_model(model, out)
    show(document, arguments.output, lambda: _text(document))


def refuse_small_sample(measurements: ContentionMeasurements, share: float) -> None:
    """Check that the share of some degree is a set.

    Raises:
        InvalidInput: It is less than one of every degree.
    """
    most = max((len(t) for each in measurements.services for t in each.sets.values()), default=0)
    if most == 0:
        raise InvalidInput(
            "no set of two neighbors or more was measured; add lines such as redis,mcf+lbm,0.9"
        )
    if most == 1:
        raise InvalidInput("--sample: each degree has one set; measure more")
    if share * most < 1:
        raise InvalidInput(
            f"--sample {share:g}: less than one of {most} sets; sample at least {1 / most:.2g}"
        )


def _text(document: Record) -> str:
    lines = [f"{document['model']} fitted in {document['fit_seconds']:.2g} s: {document['file']}"]
    for each in document["services"]:
        where = "/".join(filter(None, (each["platform"], each["name"], each["class"])))
        sets = ", ".join(f"{count} of {degree}" for degree, count in each["sets"].items())
        line = f"  {where}: {each['neighbors']} neighbors; sets: {sets or 'none'}"
        if each["singles_completed"]:
            line += f"; {each['singles_completed']} singles completed from other services"
        lines.append(line)
    return "\n".join(lines)
