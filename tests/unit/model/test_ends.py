"""Ends are told by the names that manuals use, with the mend where there is one."""

import signal

from wharfinger.model.ends import describe_end, signal_name


def test_signals_have_the_names_of_this_machine() -> None:
    for known in signal.Signals:
        if known < signal.SIGRTMIN:
            assert getattr(signal, signal_name(known)) == known
    assert signal_name(64) == "signal 64"
    assert signal_name(0) == "signal 0"


def test_an_end_for_lack_of_memory_has_the_limit_and_the_mend() -> None:
    told = describe_end("out-of-memory", 137, None, 512 << 20)
    assert "limit of 512Mi" in told
    assert "exit status 137" in told
    assert "state resources.memory" in told
    assert "its limit;" in describe_end("out-of-memory", None, 9)


def test_other_ends_name_status_or_signal() -> None:
    assert describe_end("exited", 2, None) == "exit status 2"
    assert describe_end("killed", None, 6) == "killed by SIGABRT"
    assert describe_end("not-alive", None, 15) == "not-alive, killed by SIGTERM"
