"""Manifests as users write them: what comes out, and every problem with line and mend."""

import subprocess
import sys
from dataclasses import replace

import pytest

from wharfinger.errors import InvalidInput, InvalidManifest
from wharfinger.manifest import load_manifests, workload_to_manifest
from wharfinger.model.workload import (
    LatencyBound,
    Measure,
    Profile,
    ProfileMode,
    Reservation,
    Restart,
    RestartPolicy,
    Run,
    Scale,
    Spread,
    Target,
    Workload,
    WorkloadType,
)

CACHE = r"""
apiVersion: wharfinger.dev/v1alpha1
kind: Workload
metadata: {name: cache, labels: {team: web}}
spec:
  type: latency-critical
  target: {throughput: 40000/s, latency: {percentile: 99, below: 2ms}}
  tolerance: 5%
  priority: 10
  scale: {maxServers: 8, stateful: false, gang: false}
  resources: {cpu: 2, memory: 4Gi}
  profile: {mode: copy, seconds: 8}
  run: {command: [redis-server, --port, "7001"], env: {A: secret}, workingDir: ., stopGrace: 3s}
  measure:
    progress: {regex: 'ops=(\d+)'}
    load: {command: [redis-benchmark, -p, "7001", -l]}
""".lstrip()

JOB = """
apiVersion: wharfinger.dev/v1alpha1
kind: Workload
metadata: {name: job}
spec:
  type: batch
  run: {command: [sh]}
""".lstrip()


DURATION_MEND = "is not a duration; write e.g. 2ms, 1.5s or 1h30m"
LIST_MEND = 'is text, not a list; write e.g. [sh, -c, "echo $HOME"], one item per argument'


def load(text, **options):
    return load_manifests(text, source="f.yaml", working_directory="/home/me", **options)


def problems_of(text):
    with pytest.raises(InvalidManifest) as refused:
        load(text)
    for line in refused.value.problems:
        assert "\n" not in line
        assert len(line) < 400
    return list(refused.value.problems)


def job_with(spec, kind="batch", run="run: {command: [sh]}"):
    return JOB.split("  type:")[0] + f"  type: {kind}\n  {spec}\n  {run}\n"


def test_the_design_s_example_is_read_in_full():
    (cache,) = load(CACHE)
    assert cache == Workload(
        name="cache",
        type=WorkloadType.LATENCY_CRITICAL,
        run=Run(
            ("redis-server", "--port", "7001"),
            {"A": "secret"},
            "/home/me",
            3.0,
            restart=Restart(RestartPolicy.ON_FAILURE, 5, 1.0),
        ),
        target=Target(throughput_per_second=40000.0, latency=LatencyBound(99.0, 0.002)),
        tolerance=0.05,
        priority=10,
        scale=Scale(max_servers=8),
        reservation=Reservation(2000, 4 * 1024**3),
        profile=Profile(ProfileMode.COPY, 8.0),
        measure=Measure(r"ops=(\d+)", ("redis-benchmark", "-p", "7001", "-l")),
        labels={"team": "web"},
        ttl_after_finished_seconds=7 * 86_400,
    )


def test_what_is_left_out_has_the_documented_default():
    (job,) = load(JOB)
    assert job.target is None
    assert job.reservation == Reservation(250, 512 * 1024**2, True, True)
    assert job.run == Run(("sh",), {}, "/home/me", 10.0)
    assert job.run.restart == Restart(RestartPolicy.NEVER)
    assert job.ttl_after_finished_seconds == 7 * 86_400
    assert job.profile == Profile(ProfileMode.COPY, 8.0)
    (spare,) = load(job_with("priority: -1", kind="best-effort"))
    assert spare.profile.mode is ProfileMode.NONE, "nothing tells how a copy would do"
    (told,) = load(job_with("measure: {progress: {regex: 'n=([0-9]+)'}}", kind="best-effort"))
    assert told.profile.mode is ProfileMode.COPY


@pytest.mark.parametrize(
    ("written", "directory"),
    [
        (".", "/home/me"),
        ("./a//b/.", "/home/me/a/b"),
        ("../x", "/home/me/../x"),
        ("/srv", "/srv"),
        ("/", "/"),
    ],
)
def test_relative_directories_start_where_the_user_is(written, directory):
    (job,) = load(job_with("priority: 0", run=f"run: {{command: [sh], workingDir: {written}}}"))
    assert job.run.working_directory == directory


def test_many_documents_keep_their_order():
    text = "---\n".join(JOB.replace("job", f"job-{n}") for n in range(5))
    assert [job.name for job in load(text.encode())] == [f"job-{n}" for n in range(5)]


def test_all_problems_of_all_documents_come_at_once():
    first = (
        CACHE.replace("2ms", "2 parsecs")
        .replace("maxServers", "max_servers")
        .replace("40000/s", "-1/s")
        .replace("profile:", "profiles:")
    )
    second = JOB.replace("command: [sh]", "command: sh -c x").replace("batch", "bacth")
    assert problems_of(first + "---\n" + second) == [
        f"f.yaml:{line}"
        for line in (
            "6: spec.target.throughput: '-1/s' is not a rate; write e.g. 40000/s, 40k/s or 3M/min",
            f"6: spec.target.latency.below: '2 parsecs' {DURATION_MEND}",
            "9: spec.scale: unknown field 'max_servers'; did you mean maxServers?",
            "11: spec: unknown field 'profiles'; did you mean profile?",
            f"21: spec.type: 'bacth' is not one of {', '.join(WorkloadType)}; did you mean batch?",
            f"22: spec.run.command: 'sh -c x' {LIST_MEND}",
        )
    ]


def test_only_twenty_problems_are_told_and_the_rest_counted():
    lines = problems_of(JOB + "".join(f"  x{n}: 1\n" for n in range(50_000)))
    assert len(lines) == 21
    assert lines[-1] == "f.yaml: and 49980 more"


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("priority: 1.5", "spec.priority: '1.5' is not a whole number from -1000000 to 1000000"),
        ("priority: high", "spec.priority: 'high' is text; write a bare number such as 10"),
        ("priority: .nan", "'.nan' is not a whole number"),
        ("priority: true", "'true' is not a number"),
        ("priority: [1]", "spec.priority: a list is given; write one value"),
        ("priority:", "spec.priority: is empty; write a value or remove the line"),
        ("scale:", "spec.scale: is empty; write one of maxServers, stateful"),
        ("scale: 8", "spec.scale: '8' is a number, not a mapping"),
        ("tolerance: 100%", "'100%' would tolerate anything; write less than 100%"),
        ("tolerance: -0.1", "'-0.1' is not a fraction"),
        ("tolerance: .nan", "'.nan' is not a fraction"),
        ("tolerance: 1e999", "'1e999' is out of range"),
        ("target: {completionTime: 600}", "'600' has no unit; write e.g. 600s or 600ms"),
        ("target: {completionTime: -1s}", "'-1s' is not a duration"),
        ("target: {completionTime: .nan}", "'.nan' is not a duration"),
        ("target: {rate: 1e999/s}", "spec.target.rate: '1e999/s' is out of range"),
        ("target: {rate: 5}", "'5' says no period; write e.g. 5/s"),
        ("target: {}", "spec.target: is empty; a batch workload states completionTime or rate"),
        ("target: {rate: 1/s, completionTime: 1s}", "not both; remove one"),
        ("target: {throughput: 1/s}", "spec.target.throughput: a batch workload states"),
        ("scale: {stateful: yes}", "'yes' is not true or false; write true or false"),
        ("scale: {maxServers: 0}", "'0' is not a whole number from 1 to 100000"),
        ("scale: {MaxServers: 2}", "unknown field 'MaxServers'; did you mean maxServers?"),
        ("maxServers: 2", "unknown field 'maxServers'; it belongs to spec.scale"),
        ("zzz: 2", "unknown field 'zzz'; the fields here are type, target"),
        ("<<: {type: batch}", "YAML 1.2 has no merge keys"),
        ("resources: {cpu: 0.0001}", "'0.0001' is finer than a thousandth"),
        ("resources: {memory: 4}", "'4' is 4 bytes; write at least 1Mi, e.g. 512Mi"),
        ("resources: {memory: 4GB}", "'4GB' is not a size"),
        ("measure: {progress: {regex: '(.)', total: 0}}", "'0' is not a number from 1e-09"),
        ("profile: {seconds: 8s}", "'8s' is text; write a bare number such as 8"),
        ("profile: {mode: Copy}", "'Copy' is not one of copy, live, none; did you mean copy?"),
        ("measure: {progress: {regex: 'ops='}}", "has no group; put the number in parentheses"),
        ("measure: {progress: {regex: '(ops'}}", "is not a regular expression (missing )"),
        (f"measure: {{progress: {{regex: '{'(' * 250}{')' * 250}a**'}}}}", "is not a regular"),
        (f"measure: {{progress: {{regex: '{'(a)' * 300}'}}}}", "is too long; at most 512"),
        (
            "measure: {progress: {regex: '(?P<latency>.)'}}",
            "has an unknown group 'latency'; did you mean latency_",
        ),
        (
            "measure: {progress: {regex: '(?P<speed>[0-9]+)'}}",
            "has an unknown group 'speed'; name it one of done, rate, throughput",
        ),
        ("measure: {http: {url: 'http://a:99999/m'}}", "no port from 1 to 65535, but '99999'"),
        ("measure: {http: {url: 'http://a:0/m'}}", "no port from 1 to 65535, but '0'"),
        ("measure: {http: {url: 'ftp://a/m'}}", "'ftp://a/m' is not an http or https URL; write"),
        (
            "measure: {http: {url: 'http://a', kind: histogram}}",
            "spec.measure.http.kind: histogram: it needs its metric; write e.g. metric: http_",
        ),
        (
            "measure: {http: {url: 'http://a', kind: histogram, metric: 'x_bucket{a=\"b\"}'}}",
            "a histogram is named without _bucket",
        ),
        (
            "measure: {http: {url: 'http://a', metric: x, percentile: 50}}",
            "spec.measure.http.percentile: only a histogram has percentiles",
        ),
        (
            "measure: {progress: {regex: '(.)', kind: gauge, total: 5}}",
            "spec.measure.progress.total: nothing says how much of it is done",
        ),
        (
            "measure: {progress: {regex: '(?P<rate>.)', total: 5}}",
            "spec.measure.progress.total: nothing says how much of it is done",
        ),
        ("measure: {load: {command: [x]}}", "spec.measure.load: a batch workload serves no load"),
        (
            "expectedDuration: 10m\n  target: {completionTime: 5m}",
            "spec.expectedDuration: 10m is longer than target.completionTime 5m; lower it",
        ),
        (
            "waiting: {within: 5m}\n  target: {completionTime: 5m}",
            "spec.waiting.within: 5m leaves no time to run within target.completionTime 5m; lower",
        ),
        (
            "waiting: {within: 3m}\n  expectedDuration: 10m\n  target: {completionTime: 12m}",
            (
                "spec.waiting.within: 3m and expectedDuration 10m are longer than "
                "target.completionTime 12m; lower it to 2m, or raise the target"
            ),
        ),
        (
            (
                "waiting: {within: 2m}\n  expectedDuration: 1m\n  target: {rate: 1/s}\n"
                "  tolerance: 10%\n  measure: {progress: {regex: '(.)', total: 90}}"
            ),
            (
                "spec.waiting.within: 2m leaves no time to run within the 1m40s that "
                "progress.total 90 takes at target.rate less its tolerance; lower it, or lower "
                "the target"
            ),
        ),
        (
            (
                "waiting: {within: 50s}\n  expectedDuration: 1m\n  target: {rate: 1/s}\n"
                "  tolerance: 10%\n  measure: {progress: {regex: '(.)', total: 90}}"
            ),
            (
                "spec.waiting.within: 50s and expectedDuration 1m are longer than the 1m40s that "
                "progress.total 90 takes at target.rate less its tolerance; lower it to 40s, or "
                "lower the target"
            ),
        ),
        ("waiting: {within: -3s}", "spec.waiting.within:"),
    ],
)
def test_a_wrong_field_is_named_with_its_line_and_mend(spec, says):
    (problem,) = problems_of(job_with(spec))
    assert problem.startswith("f.yaml:6: spec")
    assert says in problem


def test_the_default_of_what_is_not_supported_says_nothing_and_is_accepted():
    (job,) = load(job_with("scale: {gang: false, stateful: false}"))
    assert job.scale == Scale()


def test_a_workload_of_an_earlier_version_is_still_shown_in_full():
    (job,) = load(JOB)
    scale = Scale(2, stateful=True, gang=True, spread=Spread.ZONE)
    spec = workload_to_manifest(replace(job, scale=scale, max_cost_per_hour=4.5), redact=True)[
        "spec"
    ]
    assert spec["scale"] == {"maxServers": 2, "stateful": True, "gang": True, "spread": "zone"}
    assert spec["cost"] == {"maxPerHour": 4.5}


@pytest.mark.parametrize(
    ("run", "says"),
    [
        ("{}", 'spec.run.command: is missing; write e.g. command: [sh, -c, "exit 0"]'),
        ("{command: []}", "the list has 0 items; write the program"),
        ("{command: ['']}", "spec.run.command[0]: '' is not a program"),
        ("{command: [sleep, 5]}", "spec.run.command[1]: '5' is a number to YAML; put it in quotes"),
        ("{command: [echo, ~]}", "spec.run.command[1]: '~' must be text, this is empty"),
        ('{command: ["a\\0b"]}', "has a NUL character in it; remove it"),
        ('{command: [a], env: {A: "x\\0"}}', "spec.run.env.A: the value has a NUL character"),
        ("{command: [a], env: {A=B: x}}", "spec.run.env: 'A=B' is not a valid key"),
        ("{command: [a], env: [A]}", "spec.run.env: must be a mapping, this is a list"),
        ('{command: [a], workingDir: "a\\0"}', "has a NUL character"),
        ("{command: [a], workingDir: ~}", "spec.run.workingDir: "),
        ("{command: [a], workingDir: ~/x}", "~ is not expanded; write the directory in full"),
        ("{command: [a], stopGrace: 10}", "'10' has no unit"),
        ("{command: [a], comand: b}", "unknown field 'comand'; did you mean command?"),
    ],
)
def test_a_program_that_can_t_be_run_is_refused(run, says):
    (problem,) = problems_of(job_with("priority: 0", run=f"run: {run}"))
    assert problem.startswith("f.yaml:7: spec.run")
    assert says in problem


@pytest.mark.parametrize(
    ("kind", "spec", "says"),
    [
        ("latency-critical", "priority: 0", "spec.target: is missing; a latency-critical"),
        ("latency-critical", "target: {rate: 1/s}", "states throughput or latency; write that"),
        ("latency-critical", "target: {latency: {below: 1s}}", "latency.percentile: is missing"),
        (
            "latency-critical",
            "target: {latency: {percentile: 100, below: 1s}}",
            "'100' is not a number between 0 and 100",
        ),
        ("best-effort", "target: {rate: 1/s}", "a best-effort workload has no target"),
        ("best-effort", "profile: {mode: copy}", "nothing tells how a copy does; write"),
        ("single-node", "scale: {maxServers: 2}", "2 servers for a single-node workload"),
    ],
)
def test_fields_that_contradict_each_other_are_refused(kind, spec, says):
    (problem,) = problems_of(job_with(spec, kind=kind))
    assert says in problem


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("a" * 60_000, "(60000 characters) is too long; at most 63 characters"),
        ("Cache", "'Cache' is not a name; use a-z, 0-9 and -"),
        ("-a", "is not a name"),
        ("../x", "is not a name"),
        ("a.b", "is not a name"),
        ("5", "'5' is a number to YAML; put it in quotes"),
        ("''", "'' is not a name"),
        ("[a]", "must be text, this is a list"),
    ],
)
def test_a_name_is_a_dns_label(name, says):
    (problem,) = problems_of(JOB.replace("name: job", f"name: {name}"))
    assert problem.startswith("f.yaml:3: metadata.name: ")
    assert says in problem


def test_a_name_that_stands_twice_is_refused_with_both_lines():
    (problem,) = problems_of(JOB + "---\n" + JOB)
    assert problem == (
        "f.yaml:10: metadata.name: 'job' is also the name in line 3; "
        "give one of the two another name"
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "f.yaml: no manifest in it"),
        ("# only this\n---\n", "f.yaml: no manifest in it"),
        ("hello", "f.yaml:1: 'hello' is text, not a mapping"),
        ("[]", "f.yaml:1: a list, not a mapping"),
        (
            JOB.replace("v1alpha1", "v1"),
            "'wharfinger.dev/v1' is not known; did you mean wharfinger.dev/",
        ),
        (JOB.replace("Workload", "Pod"), "'Pod' is not known; write Workload"),
    ],
)
def test_what_is_no_manifest_at_all(text, says):
    assert says in problems_of(text)[0]


def test_labels_are_few_short_text():
    many = ", ".join(f"l{n}: x" for n in range(65))
    for labels, says in (
        (many, "65 entries are too many; at most 64"),
        ("a: 5", "metadata.labels.a: '5' is a number to YAML"),
        ("a b: x", "'a b' is not a valid key"),
        (f"a: {'x' * 64}", "is too long; at most 63"),
    ):
        (problem,) = problems_of(JOB.replace("name: job", f"name: job, labels: {{{labels}}}"))
        assert says in problem


def test_more_than_the_kernel_starts_is_refused():
    arguments = ", ".join(["&x " + "a" * 60_000, *["*x"] * 20])
    (problem,) = problems_of(JOB.replace("[sh]", f"[{arguments}]"))
    assert "spec.run: command and env are" in problem


def test_no_message_shows_a_secret():
    text = JOB.replace("[sh]", '[sh], env: {TOKEN: 12345, PIN: [67890], KEY: "hunter2\\0"}')
    lines = "\n".join(problems_of(text))
    assert lines.count("\n") == 2
    for secret in ("12345", "67890", "hunter2"):
        assert secret not in lines


def test_a_workload_is_shown_in_full_but_for_its_secrets():
    (cache,) = load(CACHE)
    shown = workload_to_manifest(cache, redact=True)
    assert shown["metadata"] == {"name": "cache", "labels": {"team": "web"}}
    spec = shown["spec"]
    assert spec["target"] == {
        "throughput": "40k/s",
        "latency": {"percentile": 99, "below": "2ms"},
    }
    assert spec["tolerance"] == "5%"
    assert spec["resources"] == {"cpu": "2", "memory": "4Gi"}
    assert spec["ttlAfterFinished"] == "7d"
    assert spec["run"] == {
        "command": ["redis-server", "--port", "7001"],
        "env": {"A": "***"},
        "workingDir": "/home/me",
        "restart": {"policy": "on-failure", "backoff": "1s", "limit": 5},
        "stopSignal": "TERM",
        "stopGrace": "3s",
        "restartable": False,
    }
    assert "secret" not in str(shown)
    assert workload_to_manifest(cache, redact=False)["spec"]["run"]["env"] == {"A": "secret"}


def test_the_directory_to_start_from_must_be_absolute():
    with pytest.raises(InvalidInput, match="'here' is not an absolute path"):
        load_manifests(JOB, working_directory="here")


def test_a_source_with_a_line_break_stays_on_one_line():
    with pytest.raises(InvalidManifest) as refused:
        load_manifests("", source="a\nb", working_directory="/")
    assert refused.value.problems[0].startswith(r"'a\nb': no manifest")


def test_clients_that_only_import_it_pay_for_nothing_heavy():
    script = (
        "import sys; before = set(sys.modules); import wharfinger.manifest, "
        "wharfinger.model.units; print(*sorted(set(sys.modules) - before))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    heavy = {
        "cronsim",
        "zoneinfo",
        "yaml",
        "msgspec",
        "numpy",
        "pydantic",
        "difflib",
        "decimal",
        "fractions",
    }
    assert not heavy & {name.partition(".")[0] for name in loaded}


@pytest.mark.parametrize(
    "url",
    [
        "http://me:s3cret@host:80/metrics",
        "https://me:s3c/ret@host/",
        "me:s3cret@host",
        "HTTP://me:s3cret@host",
        "ftp://s3cret@host",
        f"http://me:s3cret@host/{'a' * 600}",
    ],
)
def test_a_password_in_a_url_is_the_reason_and_is_not_told(url):
    (problem,) = problems_of(job_with(f"measure: {{http: {{url: '{url}'}}}}"))
    assert "s3c" not in problem
    assert "***@host" in problem
    assert "password" in problem or "too long" in problem


def test_a_load_that_nothing_reads_is_refused():
    service = JOB_SERVICE.replace("MEASURE", "load: {command: [x]}")
    (problem,) = problems_of(service)
    assert "spec.measure.load: nothing reads its report; write its regex" in problem
    for read in ("load: {command: [x], regex: '(.)'}", "load: {command: [x]}, command: [y]"):
        load(JOB_SERVICE.replace("MEASURE", read))


JOB_SERVICE = """\
apiVersion: wharfinger.dev/v1alpha1
kind: Workload
metadata: {name: service}
spec:
  type: latency-critical
  target: {throughput: 1/s}
  run: {command: [x]}
  measure: {MEASURE}
"""


REQUIRING = """apiVersion: wharfinger.dev/v1alpha1
kind: Workload
metadata: {name: w}
spec:
  type: batch
  requires: {REQUIRES}
  run: {command: [x]}
"""


def test_labels_are_required_and_excluded_by_one_value_or_several():
    text = REQUIRING.replace("{REQUIRES}", '{spot: "!yes", gpu: [h100, a100], disk: ["!a", "!b"]}')
    (made,) = load_manifests(text, working_directory="/")
    assert list(map(str, made.requires)) == ["disk=!a|b", "gpu=a100|h100", "spot=!yes"]


@pytest.mark.parametrize(
    ("requires", "problem"),
    [
        ("\n    gpu: !a100", "tag '!a100' is not allowed; remove it, or quote the text"),
        ("{gpu: !a100}", "a word that begins with ! is a tag, and this one did not find expected"),
        ("{gpu: !a100}", "; put it in quotes if it is text"),
        ("{gpu: 3}", "spec.requires.gpu: '3' is a number to YAML; put it in quotes"),
        ("{gpu: []}", "spec.requires.gpu: is an empty list, which no server meets; write a value"),
        ('{gpu: "!"}', "spec.requires.gpu: '!' names no value; write e.g. a100, or \"!a100\""),
        (
            '{gpu: [a, "!b"]}',
            "spec.requires.gpu: has values with and without !; write ! before all of them or none",
        ),
        ("{gpu: {a: b}}", "spec.requires.gpu: must be a value or a list, this is a mapping"),
        ("[gpu]", "spec.requires: must be a mapping, this is a list; write e.g. {gpu: [a100, h100"),
    ],
)
def test_what_requires_nothing_that_could_hold_has_one_line(requires, problem):
    with pytest.raises(InvalidManifest) as raised:
        load_manifests(REQUIRING.replace("{REQUIRES}", requires), working_directory="/")
    assert problem in str(raised.value)
