"""A manager in the test's own process: the real API, runtime and store on a memory engine.

The loop runs only while a request is answered, so that a test sees every state in between.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx

from wharfinger.core.pipeline import Core
from wharfinger.core.seams.policy import Policy
from wharfinger.policies.registry import make_policy
from wharfinger.runtime.runtime import Runtime
from wharfinger.service.driver import Driver
from wharfinger.service.routing import ManagerProcess
from wharfinger.service.server import make_app
from wharfinger.store.sqlite import SqliteStore
from wharfinger.testing.memory import MemoryCluster, MemoryEngine

NOW = 1_700_000_000.0


class Api:
    """One manager and a client of it.

    Attributes:
        now: The manager's clock; a test moves it.
        stopped: Whether a fault has ended the manager.
    """

    def __init__(
        self,
        directory: Path,
        cluster: MemoryCluster | None = None,
        policy: Policy | None = None,
        **store_options: Any,
    ) -> None:
        self.now = NOW
        self.stopped = False
        self.cluster = cluster or MemoryCluster()
        self.store = SqliteStore.open(directory, **store_options)
        self.runtime = Runtime(
            lambda state: Core(policy or make_policy("least-loaded"), state=state),
            MemoryEngine(self.cluster),
            self.store,
            lambda: self.now,
        )
        self.runtime.start()
        self._runner = asyncio.Runner()
        self.driver = Driver(self.runtime, on_end=self._stop)
        self.app = make_app(self.driver, ManagerProcess(directory, self.now))
        self._runner.run(self._attach())

    async def _attach(self) -> None:
        self.driver.attach()

    def _stop(self) -> None:
        self.stopped = True

    def close(self) -> None:
        self._runner.run(self._detach())
        self._runner.close()
        self.runtime.close()

    async def _detach(self) -> None:
        self.driver.detach()

    def call(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        """One request, and whatever the engine has to say after it."""
        return self._runner.run(self._call(method, path, **arguments))

    async def _call(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        response = await self.request(method, path, **arguments)
        for _ in range(3):
            await asyncio.sleep(0)
        return response

    async def request(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        transport = httpx.ASGITransport(app=self.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.request(method, path, **arguments)

    def run(self, coroutine: Any) -> Any:
        return self._runner.run(coroutine)

    def get(self, path: str, **query: Any) -> Any:
        response = self.call("GET", path, params=query)
        assert response.status_code == 200, response.text
        return response.json()

    def submit(self, *manifests: dict[str, Any], **query: Any) -> httpx.Response:
        body = "\n---\n".join(map(json.dumps, manifests))
        return self.call("POST", "/v1/workloads", content=body, params=query)


def manifest(name: str, *command: str, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    """A small workload, as JSON; without a command it runs until it is stopped."""
    return {
        "apiVersion": "wharfinger.dev/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": name},
        "spec": {
            "type": "batch",
            "resources": {"cpu": cpu, "memory": "64Mi"},
            "run": {"command": list(command or ("forever",))},
            **spec,
        },
    }
