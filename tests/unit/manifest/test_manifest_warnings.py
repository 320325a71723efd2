"""What is accepted and probably not meant is told; what is usual is not."""

import shlex

import pytest

from wharfinger.errors import InvalidManifest
from wharfinger.manifest import load_manifests, load_manifests_with_warnings
from wharfinger.manifest.advice import buffering

HEAD = """\
apiVersion: wharfinger.dev/v1alpha1
kind: Workload
metadata: {name: job}
spec:
"""


def warnings_of(spec):
    text = HEAD + f"  {spec}\n"
    workloads, warnings = load_manifests_with_warnings(text, source="f", working_directory="/w")
    assert workloads == load_manifests(text, working_directory="/w")
    assert set(warnings) in (set(), {each.name for each in workloads})
    return list(warnings.get(workloads[0].name, ()))


def batch(spec="priority: 0", command="[sh]"):
    return warnings_of(f"type: batch\n  {spec}\n  run: {{command: {command}}}")


@pytest.mark.parametrize(
    ("section", "field", "value", "says"),
    [
        ("cost", "maxPerHour", "4.5", "keeps no bound on cost"),
    ],
)
def test_what_has_no_effect_yet_is_kept_with_a_warning(section, field, value, says):
    (warning,) = batch(f"{section}: {{{field}: {value}}}")
    assert warning == (
        f"f:6: spec.{section}.{field}: not-supported: this version {says}; "
        "it has no effect, remove it"
    )


def test_the_defaults_of_what_has_no_effect_are_no_warning():
    assert batch("scale: {gang: true, spread: zone, stateful: true, maxServers: 4}") == []


def test_a_target_that_nothing_measures_is_told():
    service = "type: latency-critical\n  target: {throughput: 5/s}\n  run: {command: [x]}"
    (warning,) = warnings_of(service)
    assert warning.startswith("f:6: spec.target: nothing measures it, so it is unknown whether it")
    assert warnings_of(service + "\n  measure: {http: {url: 'http://a'}}") == []
    (warning,) = batch("target: {rate: 5/s}")
    assert warning.startswith("f:6: spec.target.rate: nothing measures it")
    assert batch("target: {completionTime: 5m}") == []


THROUGHPUT, LATENCY = "throughput: 5/s", "latency: {percentile: 99, below: 5ms}"
HALVES = [
    (THROUGHPUT + ", " + LATENCY, "progress: {regex: 'rps=([0-9]+)'}", "latency"),
    (THROUGHPUT + ", " + LATENCY, "progress: {regex: '(?P<rate>[0-9]+)'}", "latency"),
    (THROUGHPUT + ", " + LATENCY, "http: {url: 'http://a', metric: x, kind: counter}", "latency"),
    (THROUGHPUT, "progress: {regex: '(?P<latency_ms>[0-9]+)'}", "throughput"),
    (LATENCY, "load: {command: [x], regex: '(?P<throughput>[0-9]+)'}", "latency"),
]
WHOLES = [
    (LATENCY, "progress: {regex: 'p99=([0-9.]+)'}"),
    (LATENCY, "http: {url: 'http://a'}"),
    (THROUGHPUT, "progress: {regex: '(?P<done>[0-9]+)'}"),
    (THROUGHPUT + ", " + LATENCY, "http: {url: 'http://a', metric: x, kind: histogram}"),
    (THROUGHPUT + ", " + LATENCY, "command: [x]"),
    (
        THROUGHPUT + ", " + LATENCY,
        "progress: {regex: '([0-9]+)'}, load: {command: [x], regex: '(?P<latency_s>.)'}",
    ),
]


def service(target, measure):
    head = f"type: latency-critical\n  target: {{{target}}}\n  run: {{command: [x]}}"
    return warnings_of(f"{head}\n  measure: {{{measure}}}")


@pytest.mark.parametrize(("target", "measure", "half"), HALVES)
def test_half_a_target_that_no_measure_tells_is_told(target, measure, half):
    (warning,) = service(target, measure)
    assert warning.startswith(f"f:6: spec.target.{half}: no measure tells it, so it is unknown")


@pytest.mark.parametrize(("target", "measure"), WHOLES)
def test_a_target_that_is_measured_or_may_be_is_no_warning(target, measure):
    assert service(target, measure) == []


def test_a_load_that_is_told_of_what_does_not_follow_it_is_told():
    measure = "measure: {progress: {regex: 'at=(?P<offered>[0-9]+) done=(?P<done>[0-9]+)'}}"
    (warning,) = batch(measure)
    assert warning == (
        "f:6: spec.measure.progress.regex: its group offered is read only of services with a bound "
        "on their latency; remove the group"
    )
    (warning,) = warnings_of(f"type: best-effort\n  {measure}\n  run: {{command: [sh]}}")
    assert "its group offered is read only" in warning
    service = "type: latency-critical\n  target: {%s}\n  run: {command: [x]}\n  measure: {load: "
    service += "{command: [y], regex: '(?P<offered>.) (?P<throughput>.) (?P<latency_ms>.)'}}"
    assert warnings_of(service % LATENCY) == []
    (warning,) = warnings_of(service % THROUGHPUT)
    assert "spec.measure.load.regex: its group offered is read only" in warning


def test_a_percentile_written_as_a_fraction_is_refused():
    target = "target: {latency: {percentile: 0.99, below: 5ms}}"
    text = HEAD + f"  type: latency-critical\n  {target}\n  run: {{command: [x]}}\n"
    with pytest.raises(InvalidManifest) as refused:
        load_manifests(text, source="f", working_directory="/w")
    (problem,) = refused.value.problems
    assert problem == (
        "f:6: spec.target.latency.percentile: '0.99' is a fraction, not a percentile; "
        "write 99 for p99"
    )


def test_a_time_limit_below_the_expected_duration_is_told():
    text = "type: batch\n  expectedDuration: 2h\n  run: {command: [x], timeLimit: 90m}"
    (warning,) = warnings_of(text)
    assert warning == (
        "f:7: spec.run.timeLimit: 1h30m is less than expectedDuration 2h: "
        "it would be stopped early; raise the limit"
    )


def test_a_job_that_never_completes_is_told():
    (warning,) = warnings_of("type: batch\n  run: {command: [x], restart: always}")
    assert "spec.run.restart: always: a batch workload is started again after success" in warning


def test_the_members_of_an_array_share_its_warnings():
    text = HEAD + "  type: batch\n  array: 1-3\n  run: {command: [x]}\n  cost: {maxPerHour: 1}\n"
    text += "---\n" + text.replace("job", "other").replace("\n  cost: {maxPerHour: 1}", "")
    workloads, warnings = load_manifests_with_warnings(text, working_directory="/w")
    assert len(workloads) == 6
    assert list(warnings) == ["job-1", "job-2", "job-3"]


BUFFERING = [
    ("grep rps", "grep --line-buffered"),
    ("sed s/a/b/", "sed -u"),
    ("cut -d, -f1", "stdbuf -oL cut"),
    ("tr a b", "stdbuf -oL tr"),
    ("awk '{print $1}'", "fflush()"),
    ("mawk '{print $1}'", "fflush()"),
    ("/usr/bin/python3.11 bench.py", "python -u"),
    ("python3 -c 'print(1)'", "python -u"),
    ("python3 -Ic 'print(1)'", "python -u"),
]
FLUSHING = [
    "grep --line-buffered rps",
    "grep -c rps",
    "sed -u s/a/b/",
    "sed -nu s/a/b/p",
    "awk '{print $1; fflush()}'",
    "mawk -W interactive '{print $1}'",
    "stdbuf -oL cut -d, -f1",
    "python3 -u bench.py",
    "python3 -uc 'print(1)'",
    "python3 -c 'print(1, flush=True)'",
    "python3 -m my.bench",
    "python3 --version",
    "redis-benchmark -l",
]


def words(command):
    return shlex.split(command)


@pytest.mark.parametrize(("command", "mend"), BUFFERING)
def test_a_program_that_keeps_its_lines_is_known(command, mend):
    assert mend in buffering(words(command), {})


@pytest.mark.parametrize("command", FLUSHING)
def test_a_program_that_may_not_is_left_alone(command):
    assert buffering(words(command), {}) == ""


def test_python_may_be_told_by_its_environment():
    assert buffering(["python3", "x.py"], {"PYTHONUNBUFFERED": "1"}) == ""


def test_buffering_matters_only_where_lines_are_read():
    read = "measure: {progress: {regex: 'done=([0-9]+)'}}"
    (warning,) = batch(read, "[python3, work.py]")
    assert warning == (
        "f:7: spec.run.command: python3 may keep its lines in a buffer, unseen by measure; "
        "write python -u, or flush after each line"
    )
    assert batch("priority: 0", "[python3, work.py]") == []
    in_file = "measure: {progress: {regex: 'done=([0-9]+)', file: out}}"
    assert batch(in_file, "[python3, work.py]") == []
    (warning,) = batch(read, "[sh, -c, 'ping localhost | grep -o time=.* | tee log']")
    assert "spec.run.command: grep may keep its lines in a buffer" in warning
    for unclear in ("for i in 1 2; do sed s/a/b/; done", "cut -f1 > out", "echo `tr a b`", "a |"):
        assert batch(read, f'[sh, -c, "{unclear}"]') == []


def test_the_load_generator_s_lines_are_those_that_count():
    load = "load: {command: [sh, -c, 'bench | tr , .'], regex: '(?P<throughput>[0-9.]+)'}"
    service = "type: latency-critical\n  target: {throughput: 5/s}\n  run: {command: [python3, a]}"
    (warning,) = warnings_of(f"{service}\n  measure: {{{load}}}")
    assert warning.startswith("f:8: spec.measure.load.command: tr may keep its lines in a buffer")
