"""What is said of each server that a decision has compared."""

from wharfinger.cli.decisions import reasons


def _candidate(server: str, kept: float, **numbers: float) -> dict:
    told = {"kept_probability": kept, "cpu_free_millicpus": 2000.0, **numbers}
    return {"name": server, "score": round(1 - kept, 2), "reason": "ok", "numbers": told}


def _decision(*candidates: dict) -> dict:
    return {
        "stage": "placement",
        "decided_by": "paragon",
        "decided_at": 0.0,
        "accepted": True,
        "reason": "ok",
        "message": "a keeps most targets in expectation",
        "would_change": "",
        "considered": len(candidates),
        "candidates": list(candidates),
        "numbers": {"cpu_needed_millicpus": 1000.0},
        "predicted": None,
    }


def test_a_server_that_is_less_likely_to_keep_the_target_says_by_how_much():
    told = "\n".join(reasons(_decision(_candidate("a", 0.813), _candidate("b", 0.62))))
    assert "chosen" in told
    assert "could be, but keeps the target with 62% probability, not 81%" in told


def test_servers_that_keep_it_as_surely_are_as_good():
    told = "\n".join(reasons(_decision(_candidate("a", 0.813), _candidate("b", 0.81))))
    assert "just as good; the first is taken" in told


def test_each_of_several_servers_says_what_it_gets_and_gives():
    parts = [
        _candidate(name, 0.4, cpu_given_millicpus=cpu, predicted_share=share)
        for name, cpu, share in (("a", 4000.0, 0.7), ("b", 2000.0, 0.35))
    ]
    told = reasons(_decision(*parts, _candidate("c", 0.4)))
    header, first, second, third = told[-4:]
    assert "GIVEN CPU" in header
    assert [line.split()[1:3] for line in (first, second)] == [["4", "70%"], ["2", "35%"]]
    assert first.endswith("chosen")
    assert second.endswith("chosen")
    assert not third.endswith("chosen")
