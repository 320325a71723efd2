"""The whole tree of errors; every one says whether trying again can help.

    WharfingerError
    ├── InvalidInput          what the user gave is wrong: value, place, mend
    │   ├── InvalidManifest   ... in a manifest: file, line, field
    │   └── NewerState        ... a state directory that a newer version wrote
    ├── Conflict              the call contradicts what the manager holds
    ├── NotFound              no such workload, server, kind
    ├── Unavailable           retryable: the manager, or something it needs, is not there now
    │   ├── OutOfSpace        no room on disk to keep a promise
    │   └── SlurmUnavailable  no answer from Slurm now
    ├── StoreDamaged          the event log is not what was written
    └── EngineFault           an engine could not do what it was asked
        ├── (retryable or not, as the instance says)
        └── SlurmRefused      Slurm's answer is no

A refusal (no server fits, the queue is full) is not an error: it is a value, see
``wharfinger.model.decisions``.
"""


class WharfingerError(Exception):
    """Root of the tree. ``retryable``: the same call may succeed later."""

    retryable = False


class InvalidInput(WharfingerError):
    """What the user gave is wrong; the message names the value, the place and the mend."""


class InvalidManifest(InvalidInput):
    """A manifest is wrong.

    Attributes:
        problems: One line each, ``file:line: field: what, and the mend``.
    """

    def __init__(self, problems: "list[str] | tuple[str, ...]") -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


class NewerState(InvalidInput):
    """A newer version wrote it, and this one does not understand all of it."""


class Conflict(WharfingerError):
    """The call contradicts what the manager holds, e.g. a name that is taken."""


class NotFound(WharfingerError):
    """Nothing of that kind has that name."""


class Unavailable(WharfingerError):
    """The manager, or something that it needs, cannot serve now."""

    retryable = True


class OutOfSpace(Unavailable):
    """There is no room on disk to keep the promise that an acknowledgement is."""


class SlurmUnavailable(Unavailable):
    """Slurm's controller, its accounting, munge or the network between gives no answer now."""


class StoreDamaged(WharfingerError):
    """The event log or a snapshot is not what was written.

    Attributes:
        last_whole_sequence: The last event that can be trusted.
    """

    def __init__(self, message: str, last_whole_sequence: int) -> None:
        self.last_whole_sequence = last_whole_sequence
        super().__init__(message)


class EngineFault(WharfingerError):
    """An engine could not do what it was asked."""

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        self.retryable = retryable
        super().__init__(message)


class SlurmRefused(EngineFault):
    """Slurm answered, and its answer is no: the message says to what, and why."""
