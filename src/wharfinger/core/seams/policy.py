"""A policy: a named bundle of parts, and every setting of theirs."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from wharfinger.core.seams.adaptation import AdaptationPolicy
from wharfinger.core.seams.admission import AdmissionPolicy
from wharfinger.core.seams.contention import ContentionModel
from wharfinger.core.seams.estimation import ProfilingNeeds, ProfilingPlanner
from wharfinger.core.seams.placement import PlacementPolicy
from wharfinger.core.seams.provisioning import ProvisioningPolicy

Settings = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Policy:
    """What a core decides by.

    Attributes:
        name: As the user named it, including settings in brackets.
        contention: ``None`` = its placement needs no contention model.
        estimation: ``None`` = nothing is profiled or classified.
        provisioning: ``None`` = servers are neither acquired nor released.
        needs_measurements: Whether measurements of running workloads change its decisions; if not,
            a simulated engine, for which measuring is not free, may leave them out.
    """

    name: str
    placement: PlacementPolicy
    admission: AdmissionPolicy
    adaptation: AdaptationPolicy
    contention: ContentionModel | None = None
    estimation: ProfilingPlanner | None = None
    provisioning: ProvisioningPolicy | None = None
    needs_measurements: bool = True

    @property
    def profiling(self) -> ProfilingNeeds:
        """What its placement wants to be measured."""
        needs = getattr(self.placement, "profiling", None)
        return needs if isinstance(needs, ProfilingNeeds) else ProfilingNeeds()

    def settings(self) -> dict[str, Settings]:
        """Every setting by part, for the log."""
        return {
            kind: {"name": part.name, **(asdict(part.settings) if part.settings else {})}
            for kind in ("placement", "admission", "adaptation", "contention", "provisioning")
            if (part := getattr(self, kind)) is not None
        }
