"""Commands stand in for Slurm's: what is run, with what, and what becomes of its complaints."""

import os
import stat
from pathlib import Path

import pytest

from wharfinger.engines.slurm.client.client import CommandClient, site_of
from wharfinger.engines.slurm.client.commands import (
    SlurmCommands,
    SlurmLacksJson,
    fault_of,
    first_line,
)
from wharfinger.engines.slurm.client.versions import check_version, read_version
from wharfinger.errors import SlurmRefused, SlurmUnavailable

CONFIG = "SLURM_VERSION           = 22.05.8\nClusterName = c\nMinJobAge = 300 sec\n"


@pytest.fixture
def bin_dir(tmp_path: Path) -> Path:
    directory = tmp_path / "bin"
    directory.mkdir()
    put(directory, "scontrol", f"printf '%s' '{CONFIG}'")
    return directory


def put(directory: Path, name: str, body: str) -> None:
    file = directory / name
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)


def client(directory: Path, timeout_seconds: float = 60.0) -> CommandClient:
    return CommandClient({"PATH": f"{directory}:/usr/bin:/bin", "OUT": str(directory)},
                         timeout_seconds)  # fmt: skip


@pytest.mark.parametrize(
    ("complaint", "kind", "mend"),
    [
        ("slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
         SlurmUnavailable, "slurmctld"),
        ("sbatch: error: Batch job submission failed: Socket timed out on send/recv operation",
         SlurmUnavailable, "slurmctld"),
        ("sbatch: error: If munged is up, restart\nsbatch: error: Munge encode failed: Failed to",
         SlurmUnavailable, "Munge encode failed"),
        ("slurm_load_jobs error: Slurm backup controller in standby mode",
         SlurmUnavailable, "may pass"),
        ("sacct: error: Problem talking to the database: Connection refused slurmdbd",
         SlurmUnavailable, "slurmdbd"),
        ("sbatch: error: invalid partition specified: nope", SlurmRefused, "sinfo"),
        ("slurm_update error: Access/permission denied", SlurmRefused, "Operator"),
        ("squeue: error: Incompatible versions of client and server code",
         SlurmRefused, "controller's version"),
        ("squeue: unrecognized option '--json'", SlurmRefused, "22.05"),
        ("squeue: fatal: JSON plugin load failure: Plugin not found", SlurmLacksJson, "json-c"),
        ("scontrol: error: whatever this is", SlurmRefused, "whatever this is"),
        ("", SlurmRefused, "without a word"),
    ],
)  # fmt: skip
def test_each_complaint_is_one_clear_line(complaint, kind, mend):
    fault = fault_of("sbatch", complaint)
    assert type(fault) is kind
    assert fault.retryable is (kind is SlurmUnavailable)
    assert mend in str(fault)
    assert len(str(fault).splitlines()) == 1


def test_a_hostile_complaint_stays_one_line():
    said = first_line("sbatch: error: \x1b[31mno\x07" + "x" * 5000)
    assert said.isprintable()
    assert len(said) == 300


def test_without_slurm_the_package_is_named(tmp_path: Path):
    with pytest.raises(SlurmRefused, match=r"scontrol: no such command.*apt-get install"):
        CommandClient({"PATH": str(tmp_path)}).jobs()


def test_a_configuration_that_is_not_there_is_named(bin_dir: Path):
    with pytest.raises(SlurmRefused, match="SLURM_CONF=/nowhere: no such file"):
        CommandClient({"PATH": str(bin_dir), "SLURM_CONF": "/nowhere"}).site()


def test_a_version_that_is_too_old_is_refused():
    with pytest.raises(SlurmRefused, match=r"Slurm 21\.08 is too old: use 22\.05 or newer"):
        check_version((21, 8))
    with pytest.raises(SlurmRefused, match="too old"):
        site_of(b"SLURM_VERSION = 20.11.9\n")
    with pytest.raises(SlurmUnavailable, match="no SLURM_VERSION"):
        site_of(b"\xff\x00")


@pytest.mark.parametrize(
    ("words", "version"),
    [
        ("slurm-wlm 22.05.8", (22, 5)),
        ("slurm 24.11.7", (24, 11)),
        ("25.05.0-0rc1", (25, 5)),
        ("", None),
        ("slurm", None),
        ("slurm x.y", None),
    ],
)
def test_versions_are_read(words, version):
    assert read_version(words) == version


def test_no_answer_in_time(bin_dir: Path):
    put(bin_dir, "squeue", "exec sleep 60")
    commands = SlurmCommands({"PATH": f"{bin_dir}:/usr/bin:/bin"}, timeout_seconds=0.2)
    with pytest.raises(SlurmUnavailable, match=r"squeue: no answer within 0\.2 s"):
        commands.run("squeue")


def test_arguments_go_through_no_shell_and_the_script_by_input(bin_dir: Path):
    put(bin_dir, "sbatch", 'printf "%s\\0" "$@" >"$OUT/args"; cat >"$OUT/script"; echo "12;c"')
    script = "#!/bin/sh\necho '$(touch /tmp/x)' \udcff\n"
    options = {"job-name": "a b\n$(reboot)", "comment": "`id`;\"'", "requeue": ""}
    assert client(bin_dir).submit(script, options) == 12
    given = (bin_dir / "args").read_bytes().decode().split("\0")
    assert given == [
        "--hold",
        "--parsable",
        "--job-name=a b\n$(reboot)",
        "--comment=`id`;\"'",
        "--requeue",
        "",
    ]
    assert (bin_dir / "script").read_bytes() == os.fsencode(script)


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.submit("echo no shebang", {}),
        lambda c: c.submit("#!/bin/sh\n", {"job name": "x"}),
        lambda c: c.submit("#!/bin/sh\n", {"--wrap": "x"}),
        lambda c: c.submit("#!/bin/sh\n", {"comment": "zero\0byte"}),
        lambda c: c.update(1, {"Name=x Comment": "y"}),
        lambda c: c.signal([1], "USR1 --full"),
        lambda c: c.update_all({1: {"Comment": "two words"}}),
        lambda c: c.update_all({1: {"ReqNodeList": "n1\nshutdown"}}),
        lambda c: c.update_all({1: {"ReqNodeList": '"n1'}}),
    ],
)
def test_what_would_not_be_understood_as_it_is_meant_is_refused(bin_dir: Path, call):
    put(bin_dir, "sbatch", "echo 12")
    with pytest.raises(SlurmRefused) as refused:
        call(client(bin_dir))
    assert len(str(refused.value).splitlines()) == 1


def test_what_is_asked_in_many_lines_has_a_time_limit_for_each_few(bin_dir: Path):
    put(
        bin_dir,
        "scontrol",
        """echo >>"$OUT/calls"
while read -r verb what number file; do
    [ "$number" = 3 ] && { echo "Invalid job id" >&2; continue; }
    echo "$verb $what" >>"$OUT/lines"
    [ "$file" ] && echo "#!$number" >"$file"
done
true
""",
    )
    scripts = client(bin_dir).scripts(range(150))
    assert scripts == {number: f"#!{number}\n" for number in range(150) if number != 3}
    assert (bin_dir / "calls").read_text().count("\n") == 3
    (bin_dir / "lines").unlink()
    client(bin_dir).update_all({number: {"ReqNodeList": "n1"} for number in range(150)})
    assert (bin_dir / "calls").read_text().count("\n") == 6
    assert len((bin_dir / "lines").read_text().splitlines()) == 150


def test_sbatch_that_tells_no_id_may_have_submitted(bin_dir: Path):
    put(bin_dir, "sbatch", "echo surprise")
    with pytest.raises(SlurmUnavailable, match="look for the job"):
        client(bin_dir).submit("#!/bin/sh\n", {})


def test_the_callers_environment_is_not_handed_on(bin_dir: Path, monkeypatch):
    monkeypatch.setenv("SBATCH_PARTITION", "elsewhere")
    monkeypatch.setenv("SQUEUE_USERS", "nobody")
    monkeypatch.setenv("SECRET_TOKEN", "x")
    put(bin_dir, "squeue", 'env >"$OUT/env"; printf \'{"jobs": []}\'')
    assert list(client(bin_dir).jobs()) == []
    names = {line.partition("=")[0] for line in (bin_dir / "env").read_text().splitlines()}
    assert not names & {"SBATCH_PARTITION", "SQUEUE_USERS", "SECRET_TOKEN"}


def test_cancelling_what_has_ended_is_no_error_and_the_rest_is(bin_dir: Path):
    put(
        bin_dir,
        "scancel",
        "echo 'scancel: error: Kill job error on job id 7: Invalid job id specified' >&2\n"
        'case "$*" in *8*) echo "scancel: error: Kill job error on job id 8: Access/permission '
        'denied" >&2;; esac\nexit 1',
    )
    client(bin_dir).cancel([7])
    with pytest.raises(SlurmRefused, match="permission denied"):
        client(bin_dir).cancel([7, 8])


def test_long_lists_of_jobs_go_in_parts(bin_dir: Path):
    put(bin_dir, "scontrol", f"printf '%s' '{CONFIG}'; echo \"$1 $2\" >>\"$OUT/calls\"")
    client(bin_dir).release(list(range(1, 2501)))
    calls = (bin_dir / "calls").read_text().splitlines()
    assert [call.split()[0] for call in calls] == ["release"] * 3
    assert sum(len(call.split()[1].split(",")) for call in calls) == 2500


def test_output_that_is_no_text_is_passed_on(bin_dir: Path):
    put(bin_dir, "squeue", r"printf '\377\376'")
    commands = SlurmCommands({"PATH": f"{bin_dir}:/usr/bin:/bin"})
    assert commands.run("squeue") == b"\xff\xfe"
    with pytest.raises(SlurmUnavailable, match="no JSON"):
        client(bin_dir).jobs()
