"""What a manifest says of a workload's life: restarts, probes, time, arrays, order, schedules."""

import json
import re

import pytest

from wharfinger.errors import InvalidManifest
from wharfinger.manifest import load_manifests, workload_to_manifest
from wharfinger.model.workload import (
    After,
    ArrayMember,
    MissedRun,
    Probe,
    Reservation,
    Restart,
    RestartPolicy,
    Schedule,
)

JOB = """\
apiVersion: wharfinger.dev/v1alpha1
kind: Workload
metadata: {name: job}
spec:
  type: batch
  run: {command: [sh]}
"""
SERVICE = JOB.replace("type: batch", "type: latency-critical\n  target: {throughput: 1/s}")


def load(text):
    return load_manifests(text, source="f", working_directory="/w")


def job(spec="priority: 0", run="command: [sh]", name="job"):
    text = JOB.replace("{command: [sh]}", f"{{{run}}}").replace("name: job", f"name: {name}")
    return text + f"  {spec}\n"


def with_run(run):
    return job(run=f"command: [sh], {run}")


def problem_of(text):
    with pytest.raises(InvalidManifest) as refused:
        load(text)
    (problem,) = refused.value.problems
    return problem


def again(workload):
    """The workload read from what is written of it."""
    manifest = json.dumps(workload_to_manifest(workload, redact=False))
    (read,) = load_manifests(manifest, working_directory="/elsewhere")
    return read


def restart_of(text):
    (workload,) = load(text)
    return workload.run.restart


def test_services_are_restarted_after_failures_and_others_are_not():
    assert restart_of(SERVICE) == Restart(RestartPolicy.ON_FAILURE, 5, 1.0)
    assert restart_of(JOB).policy is RestartPolicy.NEVER
    assert restart_of(SERVICE.replace("[sh]", "[sh], restart: never")) == Restart(never_stated=True)


def test_never_is_told_from_nothing_also_when_it_is_written_back():
    for stated in ("restart: never", "restart: {policy: never}"):
        (never,) = load(with_run(stated))
        assert never.run.restart.never_stated
        assert (
            workload_to_manifest(never, redact=True)["spec"]["run"]["restart"]["policy"] == "never"
        )
    (unstated,) = load(JOB)
    assert not unstated.run.restart.never_stated
    assert "restart" not in workload_to_manifest(unstated, redact=True)["spec"]["run"]


def test_a_restart_policy_is_a_word_or_has_a_limit_and_a_delay():
    assert restart_of(with_run("restart: on-failure")) == Restart(RestartPolicy.ON_FAILURE)
    full = with_run("restart: {policy: always, limit: 3, backoff: 10s}")
    assert restart_of(full) == Restart(RestartPolicy.ALWAYS, 3, 10.0)
    (unlimited,) = load(with_run("restart: {policy: always, limit: unlimited}"))
    assert unlimited.run.restart.limit is None
    assert workload_to_manifest(unlimited, redact=True)["spec"]["run"]["restart"] == {
        "policy": "always",
        "backoff": "1s",
        "limit": "unlimited",
    }
    assert again(unlimited) == unlimited


def test_a_probe_says_in_one_way_how_it_looks():
    (service,) = load(
        with_run(
            "ready: {line: 'listening on [0-9]+'}, alive: {port: 7001, every: 5s, failures: 2}"
        )
    )
    assert service.run.ready == Probe(line="listening on [0-9]+")
    assert service.run.alive == Probe(port=7001, every_seconds=5.0, failures=2)
    assert again(service) == service


@pytest.mark.parametrize(
    ("run", "says"),
    [
        ("restart: sometimes", "spec.run.restart: 'sometimes' is not one of never, on-failure"),
        ("restart: {limit: 3}", "spec.run.restart.policy: is missing; write e.g. policy: on-"),
        ("restart: {policy: always, limit: none}", "'none' is text; write a bare number such as 5"),
        ("restart: {policy: always, limit: -1}", "'-1' is not a whole number from 0 to"),
        ("ready: {}", "states none of port, http, command, line; write exactly one"),
        ("ready: {every: 2s}", "states none of port, http, command, line; write exactly one"),
        ("ready: {port: 80, line: x}", "states port and line of port, http"),
        ("ready: {port: 99999}", "'99999' is not a whole number from 1 to 65535"),
        ("ready: {port: 80, every: 1ms}", "spec.run.ready.every: is too often; write at least 100"),
        ("ready: {line: '('}", "is not a regular expression"),
        ("ready: {line: ''}", "'' matches every line"),
        ("ready: 80", "spec.run.ready: '80' is a number, not a mapping; write a mapping of port"),
        ("alive: {line: x}", "spec.run.alive: unknown field 'line'"),
        ("stopSignal: SIGTERM", "'SIGTERM' is not one of TERM, INT"),
        ("stopSignal: SIGTERM", "did you mean TERM?"),
        ("stopSignal: STOP", "spec.run.stopSignal: 'STOP' is not one of"),
        ("timeLimit: 60", "spec.run.timeLimit: '60' has no unit"),
        ("user: 0", "spec.run.user: '0' is a number to YAML"),
        ("user: 'a:b'", "'a:b' is not a user; write a user's name, e.g. www-data"),
    ],
)
def test_a_wrong_run_is_named_with_its_mend(run, says):
    problem = problem_of(with_run(run))
    assert problem.startswith("f:6: spec.run")
    assert says in problem


def test_time_limit_signal_and_user_are_kept():
    (limited,) = load(with_run("timeLimit: 2h, stopSignal: QUIT, user: www-data"))
    run = limited.run
    assert (run.time_limit_seconds, run.stop_signal, run.user) == (7200.0, "QUIT", "www-data")
    assert again(limited) == limited
    (plain,) = load(JOB)
    assert "user" not in workload_to_manifest(plain, redact=True)["spec"]["run"]


def test_records_are_kept_for_a_week_or_as_stated_or_for_ever():
    kept = [
        load(job(spec))[0]
        for spec in ("priority: 0", "ttlAfterFinished: 1h", "ttlAfterFinished: forever")
    ]
    assert [each.ttl_after_finished_seconds for each in kept] == [604_800.0, 3600.0, None]
    written = [workload_to_manifest(each, redact=True)["spec"] for each in kept]
    assert [spec["ttlAfterFinished"] for spec in written] == ["7d", "1h", "forever"]
    assert [again(each) for each in kept] == kept


def test_resources_that_are_not_stated_begin_small_and_are_not_written():
    (neither,), (cpu,), (both,) = (
        load(job(spec))
        for spec in (
            "priority: 0",
            "resources: {cpu: 2}",
            "resources: {cpu: 250m, memory: 512Mi}",
        )
    )
    assert neither.reservation == Reservation(250, 512 * 1024**2, True, True)
    assert cpu.reservation == Reservation(2000, 512 * 1024**2, False, True)
    assert both.reservation == Reservation(250, 512 * 1024**2)
    assert "resources" not in workload_to_manifest(neither, redact=True)["spec"]
    assert workload_to_manifest(cpu, redact=True)["spec"]["resources"] == {"cpu": "2"}
    assert [again(each) for each in (neither, cpu, both)] == [neither, cpu, both]


# --- names and arrays -----------------------------------------------------------------------


def test_a_generated_name_has_five_random_characters():
    text = JOB.replace("name: job", "generateName: report-")
    names = {each.name for _ in range(20) for each in load(f"{text}---\n{text}")}
    assert len(names) == 40
    assert all(re.fullmatch("report-[a-z0-9]{5}", name) for name in names)


def test_a_name_is_stated_or_generated():
    both = JOB.replace("name: job", "name: job, generateName: job-")
    assert "metadata.generateName: stands beside name; remove one" in problem_of(both)
    neither = JOB.replace("{name: job}", "{labels: {a: b}}")
    assert "metadata.name: is missing; write e.g. name: cache-1" in problem_of(neither)
    long = JOB.replace("name: job", f"generateName: {'a' * 59}")
    assert "is too long; at most 58 characters" in problem_of(long)


def test_an_array_is_a_workload_for_each_index():
    run = "command: [sh, -c, 'echo $WHARFINGER_ARRAY_INDEX'], env: {A: b}"
    members = load(job("array: 1,3,7-9%2", run=run, name="sweep"))
    assert [each.name for each in members] == [f"sweep-{index}" for index in (1, 3, 7, 8, 9)]
    assert members[2].array == ArrayMember("sweep", 7, 2)
    assert members[2].run.env == {
        "A": "b",
        "WHARFINGER_ARRAY_INDEX": "7",
        "WHARFINGER_ARRAY_NAME": "sweep",
    }
    assert tuple(again(each) for each in members) == members
    assert workload_to_manifest(members[2], redact=True)["spec"]["array"] == {
        "name": "sweep",
        "index": 7,
        "atOnce": 2,
    }


def test_an_array_without_a_bound_runs_at_once():
    members = load(job("array: 0-99"))
    assert len(members) == 100
    assert {each.array.at_once for each in members} == {None}


def test_an_array_may_have_a_generated_name():
    text = job("array: 1-3").replace("name: job", "generateName: sweep-")
    members = load(text)
    (name,) = {each.array.name for each in members}
    assert re.fullmatch("sweep-[a-z0-9]{5}", name)
    assert [each.name for each in members] == [f"{name}-{index}" for index in (1, 2, 3)]


@pytest.mark.parametrize(
    ("array", "says"),
    [
        ("100", "'100' is one index, not an array; write 1-100 for 100 of them"),
        ("a-b", "'a-b' is not an array's indexes; write e.g. 1-100"),
        ("1-100%0", "'1-100%0' is not an array's indexes"),
        ("9-1", "'9-1' goes backwards; write 1-9"),
        ("'1-5,3'", "'1-5,3' names an index twice; write each once"),
        ("0-10000", "'0-10000' has more than 10000 members; write several arrays"),
        ("'1,9999999'", "index 9999999 is too large; write at most 1000000"),
        ("{name: sweep, index: 7}", "a member of this index is named sweep-7; for a new array"),
        ("[1, 2]", "spec.array: a list, not a mapping"),
    ],
)
def test_a_wrong_array_is_refused(array, says):
    problem = problem_of(job(f"array: {array}"))
    assert problem.startswith("f:7: spec.array")
    assert says in problem


def test_the_arrays_of_a_file_have_ten_thousand_members_together():
    text = "---\n".join(job("array: 1-6000", name=name) for name in ("a", "b", "c"))
    assert "spec.array: the file's arrays have more than 10000 members" in problem_of(text)
    assert len(load(job("array: 1-10000"))) == 10_000


def test_names_of_members_are_names_like_others():
    long = job("array: 1-100", name="a" * 60)
    assert "metadata.name: its member " + "a" * 60 + "-100 has a name of 64" in problem_of(long)
    twice = f"{job(name='job-7')}---\n{job('array: 1-9')}"
    assert "'job-7' is also the name in line 3; give one of the two" in problem_of(twice)
    same = f"{job()}---\n{job('array: 1-9')}"
    assert "'job' is also the name in line 3" in problem_of(same)
    member = job("array: {name: job, index: 2}", name="job-2")
    assert "'job' is also the name in line 3" in problem_of(f"{job()}---\n{member}")
    assert "'job' is also the name in line 3" in problem_of(
        f"{member}---\n{job()}".replace("name: job-2}", "name: job-2}")
    )


def test_members_written_one_by_one_are_read_together():
    members = load(job("array: 1-3", name="sweep"))
    documents = [json.dumps(workload_to_manifest(each, redact=False)) for each in members]
    assert load("\n---\n".join(documents)) == members


# --- order and time -------------------------------------------------------------------------


def test_a_workload_waits_for_others():
    (load_step,) = load(job("after: {completed: [extract], ended: [a, b], ready: [db-1]}"))
    assert load_step.after == After(("extract",), ("a", "b"), ("db-1",))
    assert again(load_step) == load_step


@pytest.mark.parametrize(
    ("after", "says"),
    [
        ("{}", "spec.after: is empty; write e.g. completed: [extract]"),
        ("{completed: []}", "the list has 0 items; write 1 to 100"),
        ("{completed: a}", "must be a list, this is text; write e.g. [extract, load]"),
        ("{completed: [A]}", "spec.after.completed[0]: 'A' is not a name"),
        ("{ready: [a, b, a]}", "spec.after.ready[2]: 'a' stands twice; remove one"),
        ("{completed: [job]}", "spec.after: job waits for job: none of them would ever start"),
        ("[a]", "spec.after: a list, not a mapping; write a mapping of completed, ended, ready"),
    ],
)
def test_a_wrong_order_is_refused(after, says):
    problem = problem_of(job(f"after: {after}"))
    assert problem.startswith("f:7: spec.after")
    assert says in problem


def test_workloads_of_a_file_that_wait_for_each_other_are_refused():
    first = job("after: {ended: [b]}", name="a")
    second = job("array: 1-2\n  after: {completed: [c]}", name="b")
    third = job("after: {ready: [a-x, a]}", name="c")
    assert re.search(
        "spec.after: . waits for . waits for . waits for .: none of them would ever start",
        problem_of("---\n".join((first, second, third))),
    )
    member = first.replace("[b]", "[b-2]")
    assert "none of them" in problem_of("---\n".join((member, second, third)))
    assert len(load("---\n".join((second, third.replace("a-x, a", "a-x"))))) == 3


def test_a_member_may_wait_for_another_but_not_for_the_array():
    def member(index, after):
        spec = f"array: {{name: job, index: {index}}}\n  after: {{completed: [{after}]}}"
        return job(spec, name=f"job-{index}")

    assert load(member(2, "job-1"))
    assert "none of them would ever start" in problem_of(member(2, "job"))
    assert "none of them would ever start" in problem_of(
        job("array: 1-2\n  after: {ended: [job-1]}")
    )


def test_a_schedule_is_a_cron_expression_or_says_more():
    (nightly,) = load(job("schedule: 0 2 * * *"))
    assert nightly.schedule == Schedule("0 2 * * *")
    (berlin,) = load(
        job("schedule: {cron: '*/15 8-18 * * MON-FRI', timeZone: Europe/Berlin, missed: skip}")
    )
    assert berlin.schedule == Schedule("*/15 8-18 * * MON-FRI", "Europe/Berlin", MissedRun.SKIP)
    assert [again(each) for each in (nightly, berlin)] == [nightly, berlin]


@pytest.mark.parametrize(
    ("schedule", "says"),
    [
        ("0 2 * *", "'0 2 * *' has 4 fields, not minute, hour, day of month, month and day of"),
        ("0 0 2 * * *", "'0 0 2 * * *' has 6 fields"),
        ("61 * * * *", "'61 * * * *' is not a cron expression: its minute is wrong; write e.g."),
        ("0 0 * * FOO", "its day of week is wrong"),
        ("'0 0 * * 0,٣'", "is not a cron expression; write"),
        ("0 0 31 2 *", "its day of month is wrong"),
        ("0 0 31 6,11 *", "its day of month is wrong"),
        ("'@daily'", "'@daily' is not known; write '0 0 * * *'"),
        ("'" + "0," * 200 + "0 * * * *'", "is too long; at most 200 characters"),
        ("5", "spec.schedule: '5' is a number to YAML; put it in quotes"),
        ("{cron: 0 2 * * *, timeZone: Berlin}", "'Berlin' is not a time zone; did you mean Europe"),
        ("{cron: 0 2 * * *, timeZone: europe/berlin}", "did you mean Europe/Berlin?"),
        ("{cron: 0 2 * * *, timeZone: America}", "'America' is not a time zone"),
        ("{cron: 0 2 * * *, timeZone: ../../etc/passwd}", "is not a time zone"),
        ("{cron: 0 2 * * *, missed: ignore}", "'ignore' is not one of run, skip; write run"),
        ("{timeZone: UTC}", "spec.schedule.cron: is missing; write e.g. cron: 0 2 * * *"),
    ],
)
def test_a_wrong_schedule_is_refused(schedule, says):
    problem = problem_of(job(f"schedule: {schedule}"))
    assert problem.startswith("f:7: spec.schedule")
    assert says in problem


def test_a_day_that_never_comes_is_refused_where_both_days_must_match():
    assert "names a day that never comes" in problem_of(job("schedule: '0 0 */8 * MON#5'"))


def test_the_expected_duration_is_kept():
    (expected,) = load(job("expectedDuration: 1h30m"))
    assert expected.expected_seconds == 5400.0
    assert again(expected) == expected
