"""The references are what the parsers and the routes say."""

import re
import subprocess
import sys
from pathlib import Path

from tests.support.api import Api

ROOT = Path(__file__).resolve().parents[3]


def test_the_command_lines_reference_is_up_to_date():
    script = ROOT / "scripts" / "generate-cli-docs"
    done = subprocess.run(
        [sys.executable, str(script), "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_apis_reference_names_every_call(tmp_path: Path):
    api = Api(tmp_path)
    try:
        document = api.get("/openapi.json")
    finally:
        api.close()
    calls = {
        f"{method.upper()} {path}"
        for path, operations in document["paths"].items()
        for method in operations
    }
    table = (ROOT / "docs" / "api.md").read_text()
    assert set(re.findall(r"^\| `([A-Z]+ /\S+)` \|", table, re.MULTILINE)) == calls
