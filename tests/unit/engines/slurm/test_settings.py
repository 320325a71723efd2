"""What an administrator states: each mistake gets one line with value, place and mend."""

import os
import pwd
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.fake_slurm import node
from wharfinger.engines.slurm.client.base import Accounting, Partition, Site
from wharfinger.engines.slurm.settings import (
    SlurmSettings,
    check_features,
    check_shared_dir,
    check_site,
    choose_partitions,
    read_sbatch_options,
)
from wharfinger.errors import InvalidInput

NODES = [node("n1", features=("a", "cpu:x")), node("n2", features=("b", "a"))]
MAIN = Partition("main", ("n1",), is_default=True, accepts=True)
OTHER = Partition("other", ("n2",), is_default=False, accepts=True)


def _site(year: int, month: int) -> Site:
    return Site((year, month), "c", Accounting.NONE, 300.0)


@pytest.mark.parametrize(
    ("check", "told"),
    [
        (lambda: check_site(_site(21, 8)), "this is Slurm 21.08; 22.05 or later is needed"),
        (lambda: choose_partitions(SlurmSettings(("x",)), [MAIN]), "'x': no such partition"),
        (lambda: choose_partitions(SlurmSettings(), [OTHER]), "name one of: other"),
        (lambda: choose_partitions(SlurmSettings(), []), "name one of: none"),
        (
            lambda: check_features(SlurmSettings(platform_features=("c",)), NODES),
            "'c': no node has it; their features are: a, b, cpu:x",
        ),
        (
            lambda: check_features(SlurmSettings(platform_features=("a", "b")), NODES),
            "node n2 has b and a, so its platform is not clear",
        ),
        (lambda: check_shared_dir(Path("here")), "begin it with '/'"),
        (lambda: check_shared_dir(Path("/no/such")), "does not exist; make a directory"),
        (lambda: check_shared_dir(Path("/etc/passwd")), "is no directory"),
        (lambda: read_sbatch_options(["a b=1"]), "write e.g. account=physics"),
        (lambda: read_sbatch_options(["nodelist=n1"]), "wharfinger sets that itself"),
        (lambda: read_sbatch_options(["--hold"]), "wharfinger sets that itself"),
    ],
)
def test_mistakes_get_one_line(check: Callable[[], object], told: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check()
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_users_of_jobs_are_told_by_name_and_number() -> None:
    own = str(os.geteuid())
    assert SlurmSettings().job_users() == {own, pwd.getpwuid(os.geteuid()).pw_name}
    assert SlurmSettings(sbatch={"uid": "root"}).job_users() == {"root", "0"}
    assert SlurmSettings(sbatch={"uid": "no such"}).job_users() == {"no such"}


def test_what_is_right_passes() -> None:
    check_site(_site(22, 5))
    assert choose_partitions(SlurmSettings(), [OTHER, MAIN]) == ("main",)
    assert choose_partitions(SlurmSettings(("other", "main")), [OTHER, MAIN]) == ("other", "main")
    check_features(SlurmSettings(platform_features=("b", "cpu:*")), NODES)
    assert read_sbatch_options(["--qos=low", "account = a"]) == {"qos": "low", "account": "a"}
