"""Whatever a program does inside a sandbox, outside nothing has changed."""

import json
import os
import socket
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.sandboxes import Box, boxes, census
from wharfinger.host.sandbox import sandbox_path

# Tries each step and tells which of them went through.
TRY = """
import ctypes, json, os, signal, shutil, socket, stat, sys
libc = ctypes.CDLL(None, use_errno=True)
done = {}
def attempt(name, step):
    try:
        done[name] = step() or True
    except OSError as error:
        done[name] = error.strerror
def called(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
def write(path, text="x", mode="a"):
    with open(path, mode) as file:
        file.write(text)
"""


@pytest.fixture(params=["root", "user"])
def box(request: pytest.FixtureRequest) -> Iterator[Box]:
    yield from boxes(request.param)


def attempts(box: Box, steps: str) -> dict[str, object]:
    """What came of each ``attempt`` in ``steps``, run inside."""
    return box.answers(TRY + textwrap.dedent(steps) + "\nprint(json.dumps(done))\n")


def test_what_it_does_to_files_is_real_inside_and_nothing_outside(box: Box):
    before = census(box.home)
    done = attempts(
        box,
        """
        home = os.environ["HOME"]
        attempt("write", lambda: write("text"))
        attempt("read back", lambda: open("text").read() == "as it was\\nx")
        attempt("home", lambda: write(home + "/new", "n"))
        attempt("profile", lambda: write(home + "/.profile", "evil", "w"))
        attempt("big file", lambda: write("huge", "h" * (5 << 20)))
        attempt("chmod", lambda: os.chmod("big", 0o600))
        attempt("chmod directory", lambda: os.chmod(".", 0o700))
        attempt("utime", lambda: os.utime("big", (1, 1)))
        attempt("truncate", lambda: os.truncate("big", 0))
        attempt("hard link", lambda: os.link("text", "b/hard"))
        attempt("write through link", lambda: write("b/hard"))
        attempt("rename across", lambda: os.rename("a/inner/deep", "b/deep"))
        attempt("rename over", lambda: os.replace("b/deep", "text"))
        attempt("move directory", lambda: bool(shutil.move("a", "b/a")))
        attempt("symlink", lambda: os.symlink("/etc/passwd", "way out"))
        attempt("xattr", lambda: os.setxattr("big", "user.note", b"1"))
        attempt("fifo", lambda: os.mkfifo("fifo"))
        attempt("/tmp", lambda: write("/tmp/wharfinger-sandbox-test"))
        attempt("/var/tmp", lambda: write("/var/tmp/wharfinger-sandbox-test"))
        attempt("/dev/shm", lambda: write("/dev/shm/wharfinger-sandbox-test"))
        attempt("remove all", lambda: shutil.rmtree("b"))
        """,
    )
    assert {name for name, result in done.items() if result is not True} == set()
    assert census(box.home) == before
    for place in ("/tmp", "/var/tmp", "/dev/shm"):
        assert not Path(place, "wharfinger-sandbox-test").exists()
    assert box.leftovers() == []


@pytest.mark.root
def test_folders_beneath_those_of_others_are_written_to(box: Box):
    os.chown(box.folder, 0, 0)  # It lies in /var/tmp, and home and work lie in it.
    before = census(box.home)
    done = attempts(
        box,
        """
        home = os.environ["HOME"]
        attempt("write", lambda: write("new"))
        attempt("directory", lambda: os.mkdir("made"))
        attempt("home", lambda: write(home + "/new"))
        attempt("from home to work", lambda: os.rename(home + "/new", "made/new"))
        """,
    )
    assert {name for name, result in done.items() if result is not True} == set()
    assert census(box.home) == before
    assert box.leftovers() == []


def test_absolute_paths_of_the_system_are_safe(box: Box):
    places = [Path("/etc"), Path("/usr/local"), Path("/run")]
    passwd = census(Path("/etc/passwd"))
    done = attempts(
        box,
        """
        attempt("etc", lambda: write("/etc/wharfinger-sandbox-test"))
        attempt("passwd", lambda: write("/etc/passwd", "evil"))
        attempt("chmod", lambda: os.chmod("/etc/passwd", 0o666))
        attempt("usr", lambda: write("/usr/local/wharfinger-sandbox-test"))
        attempt("run", lambda: write("/run/wharfinger-sandbox-test"))
        attempt("run socket", lambda: socket.socket(socket.AF_UNIX).bind("/run/wharfinger.test"))
        """,
    )
    assert {name for name, result in done.items() if result is True} >= (
        set(done) if box.whole_root else {"run", "run socket"}
    )
    assert census(Path("/etc/passwd")) == passwd
    # What else is new there, others have made meanwhile.
    assert not [path for place in places for path in place.glob("wharfinger*test")]


def test_the_machine_is_out_of_reach(box: Box):
    devices = [Path("/dev/null"), Path("/dev/zero")]
    modes = {device: device.stat().st_mode for device in devices}
    hostname = socket.gethostname()
    done = attempts(
        box,
        """
        attempt("disk", lambda: write("/dev/sda"))
        attempt("own disk", lambda: os.mknod("disk", stat.S_IFBLK | 0o600, os.makedev(254, 0)))
        attempt("device", lambda: os.chmod("/dev/null", 0o600))
        attempt("zero", lambda: os.chmod("/dev/zero", 0o600))
        attempt("sysctl", lambda: write("/proc/sys/vm/swappiness", "1", "w"))
        attempt("caches", lambda: write("/proc/sys/vm/drop_caches", "1", "w"))
        attempt("mask", lambda: os.chmod("/proc/kmsg", 0o666))
        attempt("sys", lambda: os.mkdir("/sys/fs/cgroup/wharfinger-sandbox-test"))
        attempt("mount", lambda: called(libc.mount(b"x", b"/tmp", b"tmpfs", 0, None)))
        attempt("unmount", lambda: called(libc.umount2(b"/proc/sys", 2)))
        attempt("hostname", lambda: socket.sethostname("wharfinger-sandbox-test"))
        attempt("clock", lambda: called(libc.adjtimex(ctypes.create_string_buffer(b"\\1", 4096))))
        attempt("reboot", lambda: called(libc.reboot(0)))
        """,
    )
    assert {name for name, result in done.items() if result is True} == set()
    assert {device: device.stat().st_mode for device in devices} == modes
    assert socket.gethostname() == hostname


def test_it_works_on_devices_and_shared_memory_of_its_own(box: Box):
    done = attempts(
        box,
        """
        import multiprocessing.shared_memory, pty
        attempt("null", lambda: write("/dev/null"))
        attempt("random", lambda: len(open("/dev/urandom", "rb").read(8)) == 8)
        attempt("terminal", lambda: bool(pty.openpty()))
        attempt("system v", lambda: called(libc.shmget(0x77686172, 4096, 0o1600)))
        attempt("posix", lambda: bool(multiprocessing.shared_memory.SharedMemory("w", True, 99)))
        """,
    )
    assert {name for name, result in done.items() if result is not True} == set()
    segments = [line.split() for line in Path("/proc/sysvipc/shm").read_text().splitlines()]
    assert str(0x77686172) not in {key for key, *_ in segments}  # others have their own


def test_it_sees_and_signals_no_process_but_its_own(box: Box):
    done = attempts(
        box,
        """
        pids = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
        attempt("kill init", lambda: os.kill(1, signal.SIGKILL))
        attempt("kill all", lambda: os.kill(-1, 0))
        attempt("self", lambda: os.path.exists(f"/proc/self/task/{os.getpid()}"))
        done["pids"] = pids == sorted({1, os.getpid()})
        done["session"] = os.getsid(0) == os.getpid()
        done["no new privileges"] = "NoNewPrivs:\\t1" in open("/proc/self/status").read()
        """,
    )
    done.pop("kill all")
    assert {name for name, result in done.items() if result is not True} == set()


def test_ports_that_are_taken_outside_are_free_inside_and_nobody_outside_is_reached(box: Box):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = attempts(
            box,
            f"""
            server = socket.socket()
            attempt("connect", lambda: socket.create_connection(("127.0.0.1", {port}), 5))
            attempt("bind", lambda: server.bind(("127.0.0.1", {port})))
            attempt("listen", lambda: server.listen())
            attempt("own", lambda: bool(socket.create_connection(("127.0.0.1", {port}), 5)))
            attempt("outside", lambda: socket.create_connection(("192.0.2.1", 80), 5))
            """,
        )
        taken.setblocking(False)
        with pytest.raises(BlockingIOError):
            taken.accept()
    assert done == {
        "connect": "Connection refused",
        "bind": True,
        "listen": True,
        "own": True,
        "outside": "Network is unreachable",
    }


def test_sockets_of_servers_outside_are_not_connected(box: Box):
    path = box.work / "server.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        path.chmod(0o777)
        server.listen()
        done = attempts(
            box, 'attempt("connect", lambda: socket.socket(socket.AF_UNIX).connect("server.sock"))'
        )
    assert done == {"connect": "Connection refused"}


def test_daemons_end_with_it(box: Box):
    script = """
import os, signal, sys, time
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.environ.clear()
        open(f"daemon-{os.getpid()}", "w").close()
        signal.pause()
while len([name for name in os.listdir() if name.startswith("daemon-")]) < 3:
    time.sleep(0.005)
sys.exit(3)
"""
    done = box.python(script)
    assert done.returncode == 3, done.stderr
    assert not list(box.work.glob("daemon-*"))
    # Its own process is reaped only after the kernel has ended every process in there.
    assert box.leftovers() == []


def test_trees_that_are_hard_to_remove_are_removed(box: Box):
    script = """
import os
os.makedirs("closed/in")
open("closed/in/file", "w").close()
os.chmod("closed/in", 0)
os.chmod("closed", 0)
for _ in range(1500):
    os.mkdir("level-of-a-rather-long-name")
    os.chdir("level-of-a-rather-long-name")
open("bottom", "w").close()
"""
    done = box.python(script)
    assert (done.returncode, done.stderr) == (0, "")
    assert box.leftovers() == []


@pytest.mark.root
def test_other_file_systems_are_copied_too(tmp_path: Path):
    """A tmpfs, a file and a read-only tree mounted in the way: each is there, none changes."""
    script = f"""
set -e
cd {tmp_path}
mkdir mem 'a b' ro upper src; touch file; echo outside >src/file; echo outside >file
mount -t tmpfs none mem; echo outside >mem/file
mount -t tmpfs none 'a b'; echo outside >'a b/file'
mount --bind src ro; mount -o remount,bind,ro ro
mount --bind src/file file
sandbox() {{ "$SANDBOX" --upper-base={tmp_path}/upper --cap-bytes=9999999 -- sh -c "$1"; }}
sandbox 'cat mem/file "a b/file" ro/file file; echo in >mem/file; echo in >"a b/file"
    for f in ro/file file; do echo in 2>/dev/null >$f && echo wrote $f; done; cat mem/file'
cat mem/file 'a b/file' src/file file; ls upper
"""
    done = run_in_own_mounts(script)
    assert done["stderr"] == ""
    assert done["stdout"] == "outside\n" * 4 + "in\n" + "outside\n" * 4


def run_in_own_mounts(script: str) -> dict[str, str]:
    done = subprocess.run(
        ["unshare", "--mount", "--propagation=private", "sh", "-c", script],
        capture_output=True,
        check=False,
        env={**os.environ, "SANDBOX": str(sandbox_path())},
        text=True,
    )
    return json.loads(json.dumps({"stdout": done.stdout, "stderr": done.stderr}))
