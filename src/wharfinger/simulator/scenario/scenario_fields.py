"""The table of a scenario's fields, the one place that says what a scenario may hold.

The fields stand at the dataclasses that keep them, from ``scenario_types.Scenario`` on.
``scenario_files`` reads by the table and ``scripts/generate-manifest-docs`` describes it.
"""

from wharfinger.manifest.fields import document
from wharfinger.manifest.kinds import NAME
from wharfinger.manifest.sections import Section, fields_of
from wharfinger.simulator.scenario.scenario_kinds import TEXT
from wharfinger.simulator.scenario.scenario_types import Scenario

_METADATA = Section(
    "Which scenario it is.",
    {"name": NAME("Of the scenario."), "description": TEXT("In one line.", default="none")},
    required=True,
)
_SPEC = Section("The cluster, and what comes to it.", fields_of(Scenario), required=True)
SCENARIO = document(
    "Scenario", "A simulated cluster, and what comes to it.", _METADATA, _SPEC, Scenario
)
