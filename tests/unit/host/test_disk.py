"""What room there is, as the system's own tools say it."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from wharfinger.errors import EngineFault
from wharfinger.host.disk import free_bytes, fsize_limit_bytes


def test_free_bytes_is_what_df_says(tmp_path: Path) -> None:
    said = subprocess.run(
        ["df", "--output=avail", "-B1", tmp_path], capture_output=True, text=True, check=True
    ).stdout.split()[-1]
    # Others write to the same disk meanwhile.
    assert free_bytes(tmp_path) == pytest.approx(int(said), abs=512 * 1024**2)


def test_a_path_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(EngineFault, match="nowhere"):
        free_bytes(tmp_path / "nowhere")


def test_fsize_limit_is_read() -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    assert fsize_limit_bytes() == (None if soft == resource.RLIM_INFINITY else soft)
    program = (
        "import resource; from wharfinger.host.disk import fsize_limit_bytes as f; "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY)); print(f())"
    )
    if soft != resource.RLIM_INFINITY:
        pytest.skip("this process has a limit of its own")
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert said.stdout == b"4096\n"
