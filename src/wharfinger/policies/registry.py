"""Every policy by name, as a bundle of parts: a new one is a line here, a new part also a file.

Settings follow in brackets, ``quasar[confidence=0.9]``; one that several parts have is named by its
path, ``quasar[adaptation.busy=0.8]``. Only this module asks for a policy's name.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from difflib import get_close_matches
from enum import StrEnum
from math import inf
from typing import Any

from wharfinger.contention.by_pair import ByPair, PairSettings
from wharfinger.contention.by_set import BySet, SetSettings
from wharfinger.contention.by_source import BySource, SourceSettings
from wharfinger.contention.combined import Combined, CombinedSettings
from wharfinger.contention.none import NoContention
from wharfinger.core.seams.estimation import ProfilingPlanner
from wharfinger.core.seams.policy import Policy
from wharfinger.errors import InvalidInput
from wharfinger.model.interference import SharedResource
from wharfinger.policies.adaptation.by_target import ByLoad, ByProfile, ByTarget
from wharfinger.policies.adaptation.slack import TargetSettings
from wharfinger.policies.admission.arq import MOST_QUEUES, Arq, ArqSettings, Platforms
from wharfinger.policies.admission.fifo import Fifo, FifoSettings
from wharfinger.policies.placement.autoscale import Autoscale
from wharfinger.policies.placement.backfill import BackfillPlacement, BackfillSettings, EasySettings
from wharfinger.policies.placement.ibench import IBench, IBenchSettings
from wharfinger.policies.placement.least_loaded import LeastLoaded, ReservationPlacement
from wharfinger.policies.placement.paragon import Paragon, ParagonSettings
from wharfinger.policies.placement.paragon_oblivious import (
    HeterogeneityOblivious,
    HeterogeneityObliviousSettings,
    InterferenceOblivious,
)
from wharfinger.policies.placement.pythia import Pythia, PythiaSettings
from wharfinger.policies.placement.quasar import Quasar, QuasarSettings
from wharfinger.policies.placement.random_choice import DrawSettings, RandomChoice
from wharfinger.policies.placement.resizing import Feedback, ResizeSettings
from wharfinger.policies.placement.round_robin import RoundRobin
from wharfinger.policies.placement.sparrow import Sparrow

MOST = {
    **dict.fromkeys(("share", "confidence", "tolerance", "hopeless"), 1),
    **dict.fromkeys(("start_first", "placed_again"), 1),
    "sources": len(SharedResource),
    "queues": MOST_QUEUES,
}
"""The most that settings may be whose names end so."""
LEAST = {"bound": 1, "queues": 1, "period_seconds": 1}
"""The least that settings may be whose names end so; of others 0."""
LISTED = 20
"""Of more settings the nearest names are told."""


@dataclass(frozen=True, slots=True)
class Part:
    """What makes a part of a policy, and the frozen dataclass of its settings, if it has some."""

    make: Callable[..., Any]
    settings: type | None = None

    def made(self, told: Mapping[str, Any]) -> Any:
        """The part, under these settings, by their paths."""
        return self.make(_under(self.settings(), told)) if self.settings else self.make()

    def defaults(self) -> dict[str, Any]:
        """Every setting by its path: ``busy``; ``sizing.confidence`` in a part of the settings."""
        return dict(_leaves(asdict(self.settings()))) if self.settings else {}


@dataclass(frozen=True, slots=True)
class Bundle:
    """A policy, as it is registered: its placement, and its other parts or their names.

    Attributes:
        contention: Empty = its placement asks none, and nothing is kept.
        provisioning: Empty = the servers that are there.
        estimates: Whether it predicts: only then workloads are profiled and classified.
        takes_stated: Whether a simulation gives it the reservations that users state, which err.
        does_no_harm: Whether it claims to do no worse than least-loaded and random, which
            ``tests/contract/does_no_harm.py`` holds it to.
        defaults: Settings for those parts that have them, where nothing else is told: what does
            best with this placement.
    """

    placement: Part
    admission: str | Part = "fifo"
    adaptation: str | Part = "by-target"
    contention: str | Part = ""
    provisioning: str | Part = ""
    estimates: bool = False
    needs_measurements: bool = False
    takes_stated: bool = False
    does_no_harm: bool = False
    defaults: Mapping[str, Any] = field(default_factory=dict)


POLICIES: dict[str, Bundle] = {
    "quasar": Bundle(
        Part(Quasar, QuasarSettings),
        contention="combined",
        estimates=True,
        needs_measurements=True,
        does_no_harm=True,
        defaults={"platforms": Platforms.ANY},
    ),
    "paragon": Bundle(
        Part(Paragon, ParagonSettings), contention="combined", estimates=True, does_no_harm=True
    ),
    "heterogeneity-oblivious": Bundle(
        Part(HeterogeneityOblivious, HeterogeneityObliviousSettings),
        contention="combined",
        estimates=True,
    ),
    "interference-oblivious": Bundle(Part(InterferenceOblivious), estimates=True),
    "pythia": Bundle(Part(Pythia, PythiaSettings), contention="by-set"),
    "ibench": Bundle(
        Part(IBench, IBenchSettings),
        adaptation="by-profile",
        contention="by-source",
        estimates=True,
        needs_measurements=True,
    ),
    "least-loaded": Bundle(Part(LeastLoaded)),
    "round-robin": Bundle(Part(RoundRobin)),
    "feedback": Bundle(Part(Feedback, ResizeSettings), needs_measurements=True),
    "autoscale": Bundle(Part(Autoscale), adaptation="by-load", needs_measurements=True),
    "random": Bundle(Part(RandomChoice, DrawSettings)),
    "reservation": Bundle(Part(ReservationPlacement), takes_stated=True),
    "backfill": Bundle(
        Part(BackfillPlacement, BackfillSettings),
        admission=Part(Fifo, EasySettings),
        takes_stated=True,
    ),
    "sparrow": Bundle(Part(Sparrow, DrawSettings)),
}
ADMISSIONS: dict[str, Part] = {"fifo": Part(Fifo, FifoSettings), "arq": Part(Arq, ArqSettings)}
ADAPTATIONS: dict[str, Part] = {
    "by-target": Part(ByTarget, TargetSettings),
    "by-load": Part(ByLoad, TargetSettings),
    "by-profile": Part(ByProfile, TargetSettings),
}
CONTENTIONS: dict[str, Part] = {
    "none": Part(NoContention),
    "by-source": Part(BySource, SourceSettings),
    "by-pair": Part(ByPair, PairSettings),
    "by-set": Part(BySet, SetSettings),
    "combined": Part(Combined, CombinedSettings),
}
PROVISIONINGS: dict[str, Part] = {}
_REGISTRIES: dict[str, dict[str, Part]] = {
    "admission": ADMISSIONS,
    "adaptation": ADAPTATIONS,
    "contention": CONTENTIONS,
    "provisioning": PROVISIONINGS,
}


def bundle_of(spec: str, extra: Mapping[str, Bundle] | None = None) -> Bundle:
    """What is registered under a policy's name, perhaps in ``extra``; settings are ignored.

    Raises:
        InvalidInput: There is no such policy.
    """
    name, _ = split_spec(spec, "--policy")
    policies = {**POLICIES, **(extra or {})}
    if name not in policies:
        raise InvalidInput(f"--policy: {name!r} is not a policy; there are {', '.join(policies)}")
    return policies[name]


def make_policy(
    spec: str,
    *,
    admission: str = "",
    adaptation: str = "",
    contention: str = "",
    provisioning: str = "",
    estimation: ProfilingPlanner | None = None,
    defaults: Mapping[str, Any] | None = None,
    extra: Mapping[str, Bundle] | None = None,
) -> Policy:
    """The policy of a name, perhaps with settings in brackets: ``quasar[confidence=0.9]``.

    A part that is named replaces the bundle's. ``defaults`` are settings for those parts that have
    them, where the names say nothing else; ``extra`` are further policies.

    Raises:
        InvalidInput: There is no such policy, part or setting.
    """
    bundle = bundle_of(spec, extra)
    exchanged = dict(
        zip(_REGISTRIES, (admission, adaptation, contention, provisioning), strict=True)
    )
    parts = {"placement": bundle.placement}
    for kind, named in exchanged.items():
        if part := _part(named or getattr(bundle, kind), kind):
            parts[kind] = part
    settings = _settings(spec, split_spec(spec, "--policy")[1], parts)
    for kind, named in exchanged.items():
        if kind in parts:
            told = split_spec(named, f"--{kind}")[1]
            settings[kind].update(_settings(named, told, {kind: parts[kind]})[kind])
    for kind, part in parts.items():
        for key, value in {**bundle.defaults, **(defaults or {})}.items():
            for path in _ending(key, part.defaults()):
                settings[kind].setdefault(path, value)
    made = {kind: part.made(settings[kind]) for kind, part in parts.items()}
    return Policy(
        name=spec, estimation=estimation, needs_measurements=bundle.needs_measurements, **made
    )


def policy_in(spec: str, logged: Mapping[str, Mapping[str, Any]]) -> Policy:
    """The policy that a log was led by, from its name and ``Policy.settings`` in the log.

    Raises:
        InvalidInput: There is no such policy, part or setting any more.
    """
    specs: dict[str, Any] = {
        kind: _spec_of(logged[kind], kind) for kind in _REGISTRIES if kind in logged
    }
    own = {**logged["placement"], "name": split_spec(spec, "--policy")[0]}
    return replace(make_policy(_spec_of(own, "placement"), **specs), name=spec)


def _spec_of(part: Mapping[str, Any], kind: str) -> str:
    told = (f"{kind}.{path}={value}" for path, value in _leaves(part) if path != "name")
    return f"{part['name']}[{','.join(told)}]"


def _leaves(values: Mapping[str, Any], within: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{within}{name}.")
        else:
            yield within + name, value


def _part(named: str | Part, kind: str) -> Part | None:
    if isinstance(named, Part) or not named:
        return named or None
    name, _ = split_spec(named, f"--{kind}")
    registered = _REGISTRIES[kind]
    if name not in registered:
        there_are = f"there are {', '.join(registered)}" if registered else "there is none"
        article = "an" if kind.startswith("a") else "a"
        raise InvalidInput(f"--{kind}: {name!r} is not {article} {kind}; {there_are}")
    return registered[name]


def split_specs(text: str) -> list[str]:
    """A list of policies, split at the commas outside brackets.

    >>> split_specs("quasar[confidence=0.9,seed=1], least-loaded")
    ['quasar[confidence=0.9,seed=1]', 'least-loaded']
    """
    specs, depth = [""], 0
    for character in text:
        depth += (character == "[") - (character == "]")
        if character == "," and depth == 0:
            specs.append("")
        else:
            specs[-1] += character
    return [spec.strip() for spec in specs if spec.strip()]


def split_spec(spec: str, option: str) -> tuple[str, dict[str, str]]:
    """A name and the settings behind it.

    Raises:
        InvalidInput: It is not of the form ``name[setting=value,...]``.

    >>> split_spec("quasar[confidence=0.9]", "--policy")
    ('quasar', {'confidence': '0.9'})
    """
    name, bracket, rest = spec.strip().partition("[")
    if not bracket:
        return name, {}
    if not rest.endswith("]"):
        mend = f"write {name}[setting=value]"
        raise InvalidInput(f"{option}: {spec!r} has no closing bracket; {mend}")
    told: dict[str, str] = {}
    for each in filter(None, (part.strip() for part in rest[:-1].split(","))):
        key, equals, value = each.partition("=")
        if not equals:
            raise InvalidInput(f"{option}: {each!r} in {spec!r} is not of the form setting=value")
        if key.strip() in told:
            mend = "give it once"
            raise InvalidInput(f"{option}: {key.strip()!r} stands twice in {spec!r}; {mend}")
        told[key.strip()] = value.strip()
    return name, told


def _settings(
    spec: str, told: Mapping[str, str], parts: Mapping[str, Part]
) -> dict[str, dict[str, Any]]:
    """Settings by part, from text. A name stands for the one path that ends with it."""
    settings: dict[str, dict[str, Any]] = {kind: {} for kind in parts}
    defaults = {
        f"{kind}.{path}": (kind, path, value)
        for kind, part in parts.items()
        for path, value in part.defaults().items()
    }
    for key, text in told.items():
        having = _ending(key, defaults)
        if len(having) > 1:
            several = " or ".join(having)
            raise InvalidInput(f"{spec}: setting {key!r} could be {several}; name one")
        if not having:
            names = list(dict.fromkeys(path.rpartition(".")[2] for path in defaults))
            there = f"there are {', '.join(names) or 'none'}"
            if len(names) > LISTED:
                near = ", ".join(get_close_matches(key.rpartition(".")[2], names, cutoff=0.5))
                there = "docs/policies.md has all"
                there = f"near it are {near}; {there}" if near else there
            has_it = ", ".join(_having(key))
            owned = f" here, but of {has_it}" if has_it else ""
            raise InvalidInput(f"{spec}: {key!r} is not a setting{owned}; {there}")
        kind, path, default = defaults[having[0]]
        settings[kind][path] = _value(default, key, text, spec)
    return settings


def _having(setting: str) -> list[str]:
    """Names of the policies and parts that have a setting of this name."""
    placements = {name: bundle.placement for name, bundle in POLICIES.items()}
    registered = (placements, *_REGISTRIES.values())
    every = (each for parts in registered for each in parts.items())
    return [name for name, part in every if _ending(setting, part.defaults())]


def _ending(name: str, paths: Iterable[str]) -> list[str]:
    """Paths that end with a name; or that begin with its first word and end with the rest."""
    ending = [path for path in paths if f".{path}".endswith(f".{name}")]
    head, _, rest = name.partition(".")
    return ending or [p for p in paths if p.startswith(f"{head}.") and p.endswith(f".{rest}")]


def _under(settings: Any, told: Mapping[str, Any], within: str = "") -> Any:
    changed = {}
    for each in fields(settings):
        value, path = getattr(settings, each.name), within + each.name
        if is_dataclass(value):
            changed[each.name] = _under(value, told, f"{path}.")
        elif path in told:
            changed[each.name] = _within_range(path, told[path])
    return replace(settings, **changed)


def _within_range(path: str, value: Any) -> Any:
    """The value; no number is negative or infinite, and some are limited by their names."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    name = path.rpartition(".")[2]
    most = next((most for end, most in MOST.items() if name.endswith(end)), inf)
    least = next((least for end, least in LEAST.items() if name.endswith(end)), 0)
    if not (least <= value <= most and value < inf):
        mend = f"give a number, {least} or more"
        mend = mend if most == inf else f"give a number from {least} to {most}"
        raise InvalidInput(f"setting {path}={value:g}: {mend}")
    return value


def _value(default: Any, name: str, text: str, spec: str) -> Any:
    try:
        if isinstance(default, bool):
            return {"true": True, "false": False}[text.lower()]
        return type(default)(text)
    except (ValueError, KeyError) as error:
        kinds = {bool: "true or false", int: "a whole number", float: "a number"}
        kind = kinds.get(type(default), "a word")
        if isinstance(default, int | float) and not isinstance(default, bool):
            kind = f"{kind}; write e.g. {name}={default}"
        if isinstance(default, StrEnum):
            kind = f"one of {', '.join(type(default))}"
        raise InvalidInput(f"{spec}: {name}={text!r} is not {kind}") from error
