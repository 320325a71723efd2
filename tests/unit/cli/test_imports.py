"""Client commands start fast, which they can't with a heavy import."""

import json
import pkgutil
import subprocess
import sys

import pytest

import wharfinger.cli

HEAVY = (
    "numpy", "pydantic", "fastapi", "starlette", "uvicorn", "httpx", "rich", "scipy", "yaml",
    "prometheus_client",
)  # fmt: skip

# Commands that work in their own process rather than through a manager's socket.
NOT_CLIENTS = {
    "up", "demo", "simulate", "replay", "experiment", "ibench", "profile", "pair", "classify",
    "contention", "plan",
}  # fmt: skip

CLIENTS = sorted(
    module.name
    for module in pkgutil.walk_packages(wharfinger.cli.__path__, "wharfinger.cli.")
    if NOT_CLIENTS.isdisjoint(part.strip("_").partition("_")[0] for part in module.name.split("."))
)

PROBE = """
import importlib, json, sys
importlib.import_module(sys.argv[1])
print(json.dumps(sorted(set(sys.argv[2:]) & set(sys.modules))))
"""


@pytest.mark.parametrize("module", ["wharfinger", "wharfinger.cli", *CLIENTS])
def test_importing_a_client_command_imports_nothing_heavy(module):
    probe = subprocess.run(
        [sys.executable, "-c", PROBE, module, *HEAVY], capture_output=True, text=True, check=False
    )
    assert probe.returncode == 0, probe.stderr
    assert json.loads(probe.stdout) == []
