"""How programs end, in words for people."""

from wharfinger.model.units import format_bytes

CANNOT_RUN = "its program can't be started: "
"""Begins the reason of a ``ProfilingFailed`` whose program will not start anywhere here."""

OUT_OF_MEMORY = "out-of-memory"

NODE_FAILURE = "node-failure"
EVICTIONS = (NODE_FAILURE, "preempted", "requeued", "drained")
"""Why an engine takes a workload off: its server failed, others needed the room, an operator or the
engine itself put it back in line, its server is taken out of service."""


def eviction_word(reason: str) -> str:
    """The stable word with which the reason of an eviction begins; ``evicted`` = another.

    >>> eviction_word("node-failure: n3 does not answer"), eviction_word("who knows")
    ('node-failure', 'evicted')
    """
    word = reason.partition(":")[0].strip()
    return word if word in EVICTIONS else "evicted"


# Linux's, of 1 on; the same on x86 and Arm.
_SIGNALS = (
    *("HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2"),
    *("PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG"),
    *("XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS"),
)


def signal_name(number: int) -> str:
    """A signal's name, or its number where it has none.

    >>> signal_name(9), signal_name(99)
    ('SIGKILL', 'signal 99')
    """
    named = 0 < number <= len(_SIGNALS)
    return f"SIG{_SIGNALS[number - 1]}" if named else f"signal {number}"


def describe_end(
    reason: str, exit_code: int | None, signal: int | None, memory_bytes: int = 0
) -> str:
    """The end of a program, and what to do where that is known.

    ``reason`` is the event's stable word; ``memory_bytes`` was its limit, 0 = unknown.

    >>> describe_end("exited", 3, None)
    'exit status 3'
    >>> describe_end("killed", None, 11)
    'killed by SIGSEGV'
    >>> describe_end("out-of-memory", None, 9, 512 << 20)
    'out of memory: it reached its limit of 512Mi; state resources.memory, or let it be measured'
    """
    if reason == OUT_OF_MEMORY:
        limit = f"its limit of {format_bytes(memory_bytes)}" if memory_bytes else "its limit"
        passed_on = "" if exit_code is None else f" (exit status {exit_code})"
        mend = "state resources.memory, or let it be measured"
        return f"out of memory: it reached {limit}{passed_on}; {mend}"
    how = f"exit status {exit_code}" if signal is None else f"killed by {signal_name(signal)}"
    return how if reason in {"exited", "killed"} else f"{reason}, {how}"
