"""A policy that is shown the load index answers as without it."""

from dataclasses import replace

import numpy as np
import pytest

from wharfinger.model.allocation import Allocation
from wharfinger.model.decisions import CANDIDATES_KEPT
from wharfinger.model.view import View
from wharfinger.native import LoadIndex
from wharfinger.policies.placement.common import _rejected
from wharfinger.policies.registry import POLICIES, make_policy
from wharfinger.testing.policy import questions

LOOKED_AT = 64
"""Servers that a record searches for misfits (docs/decisions/0027-load-index.md)."""


def indexed(view: View) -> View:
    index = LoadIndex()
    index.bind(
        view.cpu_capacity,
        view.cpu_allocated,
        view.memory_capacity,
        view.memory_allocated,
        view.accepting,
        len(view.names),
    )
    rows = {name: row for row, name in enumerate(view.names)}
    return replace(view, loads=index, rows=rows)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(POLICIES))
def test_places_and_refuses_with_the_same_record(name: str) -> None:
    policy = make_policy(name).placement
    for question in questions():
        plainly = policy.place(question.request, question.view)
        assert policy.place(question.request, indexed(question.view)) == plainly, str(question)


def test_a_record_names_misfits_of_the_first_servers_only() -> None:
    question = next(q for q in questions() if len(q.view.names) == 1)
    rows = LOOKED_AT + CANDIDATES_KEPT
    none, much = np.zeros(rows, dtype=np.int64), np.full(rows, 2**40, dtype=np.int64)
    accepting = np.ones(rows, dtype=np.uint8)
    accepting[LOOKED_AT - 1 :] = 0
    view = replace(
        question.view,
        names=tuple(f"server{row}" for row in range(rows)),
        cpu_capacity=much,
        cpu_allocated=none,
        memory_capacity=much,
        memory_allocated=none,
        accepting=accepting,
        residents=none,
    )
    request = replace(question.request, excluded=frozenset())
    found = _rejected(request, Allocation(1, 1), view, CANDIDATES_KEPT)
    assert [one.server for one in found] == [f"server{LOOKED_AT - 1}"]
