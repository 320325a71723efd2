"""Policies with a piece of the truth, for accounts of what each piece is worth: the words for it.

``true-platforms+true-scores+paragon`` is ``paragon`` whose classifications have true performance on
each platform, alone, and scores of interference measured without noise against all sources.
``true-contention`` says what neighbors really take of one another (``true_contention``), where they
have what they can use. ``true-sizes`` is performance by CPU on the platform that was classified,
``true-servers`` that on several servers over that on one, there too. ``no-profiling`` classifies
at once, with nothing but such truth.

No truth, but in the same place: ``one-a-server`` places on empty servers only; ``no-reaction``
changes nothing that runs; ``stated+autoscale`` is given what users reserve, who err, in the place
of what their workloads need. ``informed`` and ``policies`` do what the words say.

``whole-cpus``, ``fractional-cpus``, ``no-resize``, ``resize`` and ``no-suspend`` say what the
engine under it can do, whatever the scenario says (``engine_under``).
"""

from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

from wharfinger.errors import InvalidInput
from wharfinger.model.view import Resize
from wharfinger.simulator.scenario.setup import EngineAbility

TRUE_PLATFORMS, TRUE_SCORES = "true-platforms", "true-scores"
TRUE_CONTENTION = "true-contention"
TRUE_SIZES, TRUE_SERVERS = "true-sizes", "true-servers"
NO_PROFILING, ONE_A_SERVER = "no-profiling", "one-a-server"
STATED, NO_REACTION = "stated", "no-reaction"
WHOLE_CPUS, FRACTIONAL_CPUS = "whole-cpus", "fractional-cpus"
NO_RESIZE, RESIZE, NO_SUSPEND = "no-resize", "resize", "no-suspend"
ENGINE_WORDS: dict[str, dict[str, Any]] = {
    WHOLE_CPUS: {"fractional_cpu": False},
    FRACTIONAL_CPUS: {"fractional_cpu": True},
    NO_RESIZE: {"resize": Resize.NONE},
    RESIZE: {"resize": Resize.ANY},
    NO_SUSPEND: {"suspend": False},
}
"""What each sets of an ``EngineAbility``."""
PIECES = {
    TRUE_PLATFORMS: True, TRUE_SCORES: True, TRUE_CONTENTION: True, TRUE_SIZES: True,
    TRUE_SERVERS: True, NO_PROFILING: True, ONE_A_SERVER: False, STATED: False, NO_REACTION: False,
    **dict.fromkeys(ENGINE_WORDS, False),
}  # fmt: skip
"""All words that may stand before a policy's name; whether each is about the truth."""


def informed(policy: str, *words: str) -> str:
    """The policy with these pieces.

    >>> informed("paragon", TRUE_SCORES, NO_PROFILING)
    'true-scores+no-profiling+paragon'
    """
    return "+".join([*words, policy])


def words_of(policy: str, option: str = "--policy") -> tuple[frozenset[str], str]:
    """The pieces before a policy's name, and the rest.

    Raises:
        InvalidInput: There is no such piece; the message begins with ``option``.

    >>> words_of("one-a-server+paragon[confidence=0.5]")
    (frozenset({'one-a-server'}), 'paragon[confidence=0.5]')
    """
    head, bracket, settings = policy.partition("[")
    *words, name = head.split("+")
    for word in words:
        if word not in PIECES:
            raise InvalidInput(
                f"{option}: {word!r} in {policy!r} is no word before a policy's name; "
                f"there are {', '.join(PIECES)}"
            )
    return frozenset(words), name + bracket + settings


def engine_under(words: AbstractSet[str], engine: EngineAbility) -> EngineAbility:
    """What the engine can do under a policy with these pieces.

    Raises:
        InvalidInput: Two of them contradict one another.

    >>> engine_under({"whole-cpus", "paragon"}, EngineAbility()).fractional_cpu
    False
    """
    told: dict[str, tuple[str, Any]] = {}
    for word, values in ENGINE_WORDS.items():
        for name, value in values.items() if word in words else ():
            before, _ = told.setdefault(name, (word, value))
            if before != word:
                raise InvalidInput(f"{before} and {word} contradict one another; write one")
    return replace(engine, **{name: value for name, (_, value) in told.items()})
