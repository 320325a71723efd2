"""Policies by name: every part can be exchanged and told its settings, and a log names them all."""

from dataclasses import asdict

import pytest

from wharfinger.core.seams.policy import Policy
from wharfinger.errors import InvalidInput
from wharfinger.policies.admission.fifo import Fifo, FifoSettings
from wharfinger.policies.placement.least_loaded import LeastLoaded
from wharfinger.policies.registry import (
    ADAPTATIONS,
    ADMISSIONS,
    CONTENTIONS,
    POLICIES,
    Bundle,
    Part,
    make_policy,
    policy_in,
    split_specs,
)


@pytest.mark.parametrize("policy", POLICIES)
def test_every_part_of_every_policy_can_be_exchanged(policy: str) -> None:
    for admission in ADMISSIONS:
        for adaptation in ADAPTATIONS:
            for contention in CONTENTIONS:
                made = make_policy(
                    policy, admission=admission, adaptation=adaptation, contention=contention
                )
                assert made.contention is not None
                names = made.admission.name, made.adaptation.name, made.contention.name
                assert names == (admission, adaptation, contention)


def test_settings_go_to_the_part_that_has_them() -> None:
    made = make_policy(
        "quasar[confidence=0.9,max_waiting=7]",
        adaptation="by-target[spare_seconds=99]",
        contention="combined[min_score=5]",
    )
    settings = made.settings()
    assert settings["placement"]["sizing"]["confidence"] == 0.9
    assert settings["admission"]["max_waiting"] == 7
    assert settings["adaptation"]["spare_seconds"] == 99
    assert settings["contention"]["sources"]["min_score"] == 5


@pytest.mark.parametrize(
    ("told", "complaint"),
    [
        ("idle_share=2", "setting idle_share=2: give a number from 0 to 1"),
        ("hopeless=3", "setting hopeless=3: give a number from 0 to 1"),
        ("placement.sources=99", "setting sources=99: give a number from 0 to 17"),
        ("probes=few", "paragon: probes='few' is none; write auto, all, or a number of platforms"),
        ("phases.share=1.5", "setting phases.share=1.5: give a number from 0 to 1"),
        ("placed_again=2", "setting placed_again=2: give a number from 0 to 1"),
        ("phases.period_seconds=0", "setting phases.period_seconds=0: give a number, 1 or more"),
        ("short_seconds=-1", "setting short_seconds=-1: give a number, 0 or more"),
        ("bound=-1", "setting bound=-1: give a number, 1 or more"),
        ("performance_weight=nan", "setting performance_weight=nan: give a number, 0 or more"),
        ("violated_seconds=inf", "setting violated_seconds=inf: give a number, 0 or more"),
        *(
            (
                f"{name}={value}",
                f"setting demand.{name}={value}: give a number from 0 to 1",
            )
            for name in ("noise_newest_share", "held_newest_share")
            for value in ("-1", "5", "nan")
        ),
    ],
)
def test_a_number_out_of_range_is_refused(told: str, complaint: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        make_policy(f"paragon[{told}]")
    assert str(caught.value) == complaint


def test_a_name_that_several_have_is_not_taken_for_all_of_them() -> None:
    with pytest.raises(InvalidInput) as caught:
        make_policy("quasar[min_step=0.1]")
    paths = ("placement.sizing.min_step", "placement.resizing.min_step")
    assert " or ".join(paths) in str(caught.value)
    for path in (*paths, "sizing.min_step"):
        group = path.split(".")[-2]
        before, after = make_policy("quasar"), make_policy(f"quasar[{path}=0.1]")
        told = after.settings()["placement"]
        assert told[group].pop("min_step") == 0.1
        wanted = before.settings()["placement"]
        del wanted[group]["min_step"]
        assert told == wanted


def test_feedback_follows_targets_as_it_is_told() -> None:
    told = make_policy("feedback[margin=1.3]").settings()["placement"]
    assert told["margin"] == 1.3


def test_a_bundle_may_have_its_parts_instead_of_naming_them() -> None:
    bundle = Bundle(Part(LeastLoaded), admission=Part(Fifo, FifoSettings))
    made = make_policy("mine[max_waiting=3]", extra={"mine": bundle})
    assert made.admission.settings == FifoSettings(3)


@pytest.mark.parametrize(
    ("exchanged", "said"),
    [
        ({"admission": "fifo[most=1]"}, "'most' is not a setting; there are max_waiting"),
        ({"adaptation": "by-load[most=1]"}, "'most' is not a setting; "),
        ({"contention": "none[most=1]"}, "'most' is not a setting; there are none"),
        ({"contention": "by-luck"}, "there are none, by-source, by-pair, by-set, combined"),
        ({"contention": "combined[sources.max_unfit=1]"}, "is not a setting"),
        ({"provisioning": "by-luck"}, "there is none"),
        ({"admission": "fifo[max_waiting=many]"}, "is not a whole number; write e.g. max_waiting="),
        ({"admission": "arq[queues=2,queues=3]"}, "'queues' stands twice"),
        ({"admission": "fifo[max_waiting"}, "no closing bracket"),
    ],
)
def test_what_there_is_not_is_refused_with_what_there_is(
    exchanged: dict[str, str], said: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        make_policy("least-loaded", **exchanged)  # type: ignore[arg-type]
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "made",
    [
        *(make_policy(name) for name in POLICIES),
        make_policy("least-loaded", contention="by-pair", admission="fifo[max_waiting=3]"),
        make_policy("quasar[confidence=0.95,placement.busy=0.6]", adaptation="by-load[busy=0.5]"),
    ],
    ids=lambda made: made.name,
)
def test_a_log_names_the_policy_that_led_it(made: Policy) -> None:
    again = policy_in(made.name, made.settings())
    assert again.settings() == made.settings()
    assert again.name == made.name
    if made.contention is not None and made.contention.settings is not None:
        assert again.contention is not None
        assert asdict(again.contention.settings) == asdict(made.contention.settings)


def test_several_are_split_outside_brackets() -> None:
    assert split_specs("quasar,quasar[confidence=0.9,busy=1], sparrow") == [
        "quasar",
        "quasar[confidence=0.9,busy=1]",
        "sparrow",
    ]


def test_a_bundle_may_say_what_other_parts_do_best_with_it() -> None:
    platforms = {
        spec: make_policy(spec, admission=admission).settings()["admission"]["platforms"]
        for spec, admission in (("quasar", "arq"), ("paragon", "arq"))
    }
    assert platforms == {"quasar": "any", "paragon": "suitable"}
    told = make_policy("quasar", admission="arq[platforms=suitable]")
    assert told.settings()["admission"]["platforms"] == "suitable"
