"""Quasar's detection of phases: those found as performance falls, and those found by sampling.

Source: Quasar 4.1: 94% of the changes reactively; 78% by sampling 20% of the active workloads every
10 minutes, with 8% false positives. Its programs are of SPEC, PARSEC, Hadoop and memcached; here
they are those of ``paragon-local-phases``, since other scenarios have no phases. What counts as a
phase and as found is as in ``paragon_table4``.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from wharfinger.experiments.paragon_table4 import MODES, PARAGON_TABLE4, look

SAMPLED = "phases.share=0.2,phases.period_seconds=600"
QUASAR_MODES: Mapping[str, str] = {
    "reactive": MODES["reactive"],
    "pre-emptive": f"{MODES['pre-emptive']},{SAMPLED}",
}

QUASAR_PHASES = replace(
    PARAGON_TABLE4,
    name="quasar-phases",
    about="phases of running workloads that are found reactively, and by sampling a fifth of them "
    "every ten minutes",
    source="Quasar 4.1",
    measure=partial(look, modes=QUASAR_MODES, policy="quasar"),
    published={
        "reactive/found": 0.94,
        "pre-emptive/found": 0.78,
        "pre-emptive/false-alarms": 0.08,
    },
    notes=(
        *PARAGON_TABLE4.notes[:-1],
        "Published for SPEC, PARSEC, Hadoop and memcached; here the programs of paragon-table4.",
        "What is missed is the policy's: each phase that is counted shows in what it measures.",
    ),
)
