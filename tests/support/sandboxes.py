"""What the sandbox's tests share: a user's files, programs run on a copy of them, and a census."""

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from wharfinger.host.sandbox import SandboxReport, clean_up, read_report, sandbox_path, sandboxed

NOBODY = 65534
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
DEADLINE_SECONDS = 120.0
MEBIBYTE = 1 << 20


def census(*roots: Path) -> dict[str, tuple[object, ...]]:
    """All that would show a change: names, kinds, modes, owners, times, contents."""
    found: dict[str, tuple[object, ...]] = {}
    for root in roots:
        for path in [root, *root.rglob("*")]:
            status = path.lstat()
            # Reading a directory inside may update atime; the change time tells of all the rest.
            found[str(path)] = (
                status.st_mode,
                status.st_uid,
                status.st_ino,
                status.st_nlink,
                status.st_mtime_ns,
                status.st_ctime_ns,
                hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None,
            )
    return found


class Box:
    """A user with a home and a working directory, and sandboxes that run as that user."""

    def __init__(self, folder: Path, prefix: Sequence[str]) -> None:
        self.prefix = tuple(prefix)
        self.interpreter = _interpreter(prefix)
        self.whole_root = os.geteuid() == 0 and not prefix
        self.folder = folder
        self.home = folder / "home"
        self.work = folder / "home" / "work"
        self.base = folder / "upper"
        self.report_path = folder / "reports" / "report"
        self.out = folder / "reports"
        for path in (self.home, self.work, self.base, self.out):
            path.mkdir()
        self._fill()
        if prefix:
            for path in [folder, *folder.rglob("*")]:
                os.chown(path, NOBODY, NOBODY, follow_symlinks=False)

    def _fill(self) -> None:
        (self.work / "a").mkdir()
        (self.work / "b").mkdir()
        (self.work / "a" / "inner").mkdir()
        (self.work / "a" / "inner" / "deep").write_text("deep")
        (self.work / "text").write_text("as it was\n")
        (self.work / "big").write_bytes(bytes(3 * MEBIBYTE))
        (self.work / "link").hardlink_to(self.work / "text")
        (self.home / ".profile").write_text("export A=1\n")

    def command(self, *command: str, cap_bytes: int = 64 * MEBIBYTE, **more: object) -> list[str]:
        made = sandboxed(
            command,
            working_directory=self.work,
            upper_base=self.base,
            cap_bytes=cap_bytes,
            report=self.report_path,
            **more,  # type: ignore[arg-type]  # the function's own names
        )
        return [*self.prefix, *made]

    def start(self, command: Sequence[str]) -> subprocess.Popen[str]:
        self.report_path.unlink(missing_ok=True)
        return subprocess.Popen(
            command,
            cwd=self.work,
            # Not the caller's PATH: a folder in it that we may not search turns ENOENT into EACCES.
            env={**os.environ, "HOME": str(self.home), "PATH": "/usr/local/bin:/usr/bin:/bin"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *command: str, **more: object) -> subprocess.CompletedProcess[str]:
        return self.finish(self.start(self.command(*command, **more)))

    def python(self, script: str, **more: object) -> subprocess.CompletedProcess[str]:
        return self.run(self.interpreter, "-c", script, **more)

    def answers(self, script: str) -> dict[str, object]:
        """What a script that prints one JSON object has found inside."""
        done = self.python(script)
        assert done.returncode == 0, done.stderr
        answer: dict[str, object] = json.loads(done.stdout)
        return answer

    @staticmethod
    def finish(process: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
        try:
            out, err = process.communicate(timeout=DEADLINE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def report(self) -> SandboxReport:
        report = read_report(self.report_path)
        assert report is not None
        return report

    def leftovers(self) -> list[str]:
        return sorted(path.name for path in self.base.iterdir())


def _interpreter(prefix: Sequence[str]) -> str:
    """A Python that this user may run; the tests' own may lie in somebody's home."""
    for candidate in (sys.executable, "/usr/bin/python3"):
        with contextlib.suppress(OSError):
            done = subprocess.run(
                [*prefix, "env", candidate, "-c", ""], check=False, capture_output=True
            )
            if done.returncode == 0:
                return candidate
    pytest.skip(f"no Python that {' '.join(prefix)} may run")


def boxes(kind: str) -> Iterator[Box]:
    """A box as ``root``, or as an ordinary ``user``: ourselves, or nobody when we are root."""
    is_root = os.geteuid() == 0
    if kind == "root" and not is_root:
        pytest.skip("needs root")
    prefix = AS_NOBODY if kind == "user" and is_root else ()
    folder = Path(tempfile.mkdtemp(prefix="wharfinger-box-", dir="/var/tmp"))
    folder.chmod(0o755)
    try:
        box = Box(folder, prefix)  # may skip: then nothing but the folder is there
        _skip_where_there_is_none(box)
        yield box
        clean_up(box.base)
    finally:
        shutil.rmtree(folder)


def _skip_where_there_is_none(box: Box) -> None:
    try:
        trial = subprocess.run(
            [*box.prefix, str(sandbox_path()), f"--upper-base={box.base}", "--probe"],
            capture_output=True,
            check=False,
            text=True,
        )
    except OSError as error:
        pytest.skip(f"{box.prefix[0]}: {error.strerror}")
    if trial.returncode != 0:
        pytest.skip(f"no sandbox here: {trial.stderr.strip()}")


def signal_of(status: int) -> signal.Signals | None:
    return signal.Signals(-status) if status < 0 else None
