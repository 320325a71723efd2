"""The driver of a core: events in, what follows is logged, then the actions are carried out.

Live and simulated managers share it; they differ in ports, log and clock.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.core.pipeline import Core, Step
from wharfinger.core.ports import PORTS, Port, unanswerable

Perform = Callable[[act.Action], object]
"""Begins to carry out an action; its answer comes as an event."""
Log = Callable[[float, Sequence[ev.Event]], object]
"""Makes events durable, or raises; it is given those of one turn."""


class Loop:
    """One core, its log and its ports.

    Args:
        core: Also an attribute, since a driver may replace it.
        log: Where events go before anything is carried out.
        ports: What performs the actions of each; an action for an absent port is answered so.
        answered: Takes such answers, for a later turn.
    """

    def __init__(
        self,
        core: Core,
        log: Log,
        ports: Mapping[Port, Perform],
        answered: Callable[[Iterable[ev.Report]], object],
    ) -> None:
        self.core = core
        self._log = log
        self._answered = answered
        self._perform = {kind: ports[port] for kind, port in PORTS.items() if port in ports}

    def turn(self, now: float, events: Iterable[ev.Report | ev.ClientRequest]) -> list[Step]:
        """Decide, log, then act.

        Args:
            now: Seconds since the epoch, by the driver's clock.
            events: In order of arrival; the consequences of all are logged at once.
        """
        handle = self.core.handle
        steps = [handle(now, event) for event in events]
        one = len(steps) == 1
        logged = steps[0].events if one else [event for step in steps for event in step.events]
        if logged:
            self._log(now, logged)
        for step in steps:
            for action in step.actions:
                self.perform(action)
        return steps

    def perform(self, action: act.Action) -> None:
        """Hand one action to its port."""
        perform = self._perform.get(type(action))
        if perform is None:
            self._answered(unanswerable(action))
        else:
            perform(action)
