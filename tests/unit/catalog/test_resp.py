"""Redis' protocol, read from a stream in any pieces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.catalog.programs import resp
from wharfinger.catalog.programs.keyvalue_service import Commands, KeyValueStore


@given(
    st.lists(st.lists(st.binary(max_size=30), min_size=1, max_size=4), max_size=5),
    st.integers(1, 20),
)
def test_commands_come_out_as_they_went_in_however_they_are_cut(commands, size):
    stream = b"".join(resp.command(*words) for words in commands)
    reader, found = resp.Reader(), []
    for at in range(0, len(stream), size):
        reader.feed(stream[at : at + size])
        while (words := reader.command()) is not None:
            found.append(words)
    assert found == commands


@pytest.mark.parametrize(
    "stream", [b"*1\r\n+OK\r\n", b"*-5\r\n", b"*1\r\n$99999999999\r\n", b"x" * 70_000]
)
def test_what_is_no_command_is_refused(stream):
    reader = resp.Reader()
    reader.feed(stream)
    with pytest.raises(resp.ProtocolError):
        reader.command()


def ask(*words):
    return Commands(KeyValueStore()).answer([word.encode() for word in words])


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("ping",), b"+PONG\r\n"),
        (("get", "nothing"), b"$-1\r\n"),
        (("get",), b"-ERR wrong number of arguments for 'get' command\r\n"),
        (("flood",), b"-ERR unknown command 'FLOOD'\r\n"),
        (("set", "a", "b", "ex", "0"), b"-ERR invalid expire time in 'set' command\r\n"),
        (("set", "a", "b", "xx"), b"$-1\r\n"),
        (("incrby", "a", "x"), b"-ERR value is not an integer or out of range\r\n"),
        (("mset", "a", "b", "c"), b"-ERR wrong number of arguments for 'mset' command\r\n"),
        (("config", "get", "save"), b"*0\r\n"),
        (("select", "3"), b"-ERR DB index is out of range\r\n"),
    ],
)
def test_answers(words, answer):
    assert ask(*words) == answer


def test_values_lapse_and_count():
    commands = Commands(KeyValueStore())
    assert commands.answer([b"SET", b"a", b"5", b"PX", b"100000"]) == b"+OK\r\n"
    assert commands.answer([b"INCR", b"a"]) == b":6\r\n"
    assert commands.answer([b"SET", b"a", b"1", b"NX"]) == b"$-1\r\n"
    assert commands.answer([b"DEL", b"a", b"b"]) == b":1\r\n"
    assert commands.answer([b"DBSIZE"]) == b":0\r\n"
