"""Servers that are acquired and released in simulated time."""

from collections.abc import Callable
from dataclasses import replace

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.simulator.cluster.cluster import SimulatedCluster
from wharfinger.simulator.scenario.setup import Setup

JOINS = 7  # priority among the events of one moment: after outages, before arrivals


class SimulatedProvisioner:
    """Gives servers like those of the scenario, after a while; ``tell`` gets the answers."""

    def __init__(
        self, cluster: SimulatedCluster, setup: Setup, tell: Callable[[ev.Report], None]
    ) -> None:
        self._cluster, self._tell = cluster, tell
        self._seconds = setup.costs.acquire_seconds
        self._models = {server.platform.name: server for server in reversed(setup.servers)}
        self._ordered: set[str] = set()

    def perform(self, action: act.Action) -> None:
        """Order a server, once a key; or give one back."""
        if isinstance(action, act.ReleaseServer):
            self._cluster.remove_server(action.name, "it was released")
        elif isinstance(action, act.AcquireServer) and action.key not in self._ordered:
            self._ordered.add(action.key)
            if action.platform not in self._models:
                reason = f"there is no platform {action.platform!r}"
                self._tell(ev.AcquisitionFailed(action.key, reason))
                return
            due = self._cluster.now + self._seconds
            self._cluster.loop.schedule(due, self._join, action, JOINS)

    def _join(self, action: act.AcquireServer) -> None:
        name = f"{action.platform}-acquired-{len(self._ordered)}"
        while name in self._cluster.machines:
            name += "x"
        server = replace(self._models[action.platform], name=name)
        self._tell(ev.ServerAcquired(action.key, server))
        self._cluster.put_server(server)
