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
"""

from wharfinger.errors import InvalidInput

TRUE_PLATFORMS, TRUE_SCORES = "true-platforms", "true-scores"
TRUE_CONTENTION = "true-contention"
TRUE_SIZES, TRUE_SERVERS = "true-sizes", "true-servers"
NO_PROFILING, ONE_A_SERVER = "no-profiling", "one-a-server"
STATED, NO_REACTION = "stated", "no-reaction"
PIECES = {
    TRUE_PLATFORMS: True, TRUE_SCORES: True, TRUE_CONTENTION: True, TRUE_SIZES: True,
    TRUE_SERVERS: True, NO_PROFILING: True, ONE_A_SERVER: False, STATED: False, NO_REACTION: False,
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
