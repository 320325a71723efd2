"""The classifier behind its port: in a thread of its own, so that no request waits for it.

Only the thread calls the classifier. Answers wait for ``poll``; a descriptor signals them.
"""

import logging
import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from wharfinger.classification.colocation import Corun
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.errors import WharfingerError
from wharfinger.model.profile import Classification, Measurements
from wharfinger.model.workload import LatencyBound, Workload, WorkloadType

log = logging.getLogger(__name__)

RETRY_SECONDS = 60.0


class Classifies(Protocol):
    """Says what a workload needs."""

    def classify(
        self,
        measurements: Measurements,
        type_: WorkloadType | None = None,
        bound: LatencyBound | None = None,
    ) -> Classification:
        """From its measurements; empty = a cold start."""

    def beside(self, workload: Workload, made: Classification) -> Classification:
        """With what is known of how its program and others slow one another."""

    def see(self, coruns: Sequence[Corun], servers: Mapping[str, int]) -> None:
        """Learn from what runs together, on servers with so much CPU by platform."""

    def learn(self, workload: Workload, measured: Measurements) -> None:
        """Learn from the measurements of a workload that has ended."""

    def due_in(self) -> float | None:
        """In how many seconds ``go_on`` is due; ``None`` = it is not."""

    def go_on(self) -> None:
        """Learn from what has ended; returns at once."""

    def close(self) -> None:
        """Save what was learned."""


@dataclass(frozen=True, slots=True)
class _Sight:
    """What runs together, and thousandths of a CPU of a server by platform."""

    coruns: Sequence[Corun] = ()
    servers: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Question:
    """What would be said of a workload; the answer is no event."""

    workload: Workload
    measurements: Measurements
    answer: Future[Classification]


Task = act.ClassifyWorkload | tuple[Workload, Measurements] | _Sight | _Question | None


class ClassifierService:
    """Classifies and learns, one task after the other, in a thread that alone calls it."""

    def __init__(self, classifier: Classifies) -> None:
        self._classifier = classifier
        self._tasks: queue.SimpleQueue[Task] = queue.SimpleQueue()
        self._answers: deque[ev.Report] = deque()
        self._news = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._thread: threading.Thread | None = None

    def perform(self, action: act.Action) -> None:
        """Classify a workload."""
        if isinstance(action, act.ClassifyWorkload):
            self._put(action)

    def learn(self, workload: Workload, measured: Measurements) -> None:
        """Learn from one that has ended."""
        self._put((workload, measured))

    def see(self, coruns: Sequence[Corun], servers: Mapping[str, int]) -> None:
        """Learn from what runs together."""
        self._put(_Sight(coruns, servers))

    def ask(self, workload: Workload, measurements: Measurements) -> Future[Classification]:
        """What it would say of a workload, after what was asked for before."""
        question = _Question(workload, measurements, Future())
        self._put(question)
        return question.answer

    def poll(self) -> Sequence[ev.Report]:
        """Classifications that are done."""
        with suppress(BlockingIOError):
            os.eventfd_read(self._news)
        answers = []
        while self._answers:
            answers.append(self._answers.popleft())
        return answers

    def fileno(self) -> int:
        """Readable when there are some."""
        return self._news

    def close(self) -> None:
        """Finish what was begun, and save what was learned."""
        if self._thread is not None:
            self._tasks.put(None)
            self._thread.join()
            self._thread = None
        self._classifier.close()
        if self._news >= 0:
            os.close(self._news)
            self._news = -1

    def _put(self, task: Task) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="classifier", daemon=True)
            self._thread.start()
        self._tasks.put(task)

    def _work(self) -> None:
        """Survives faults of the classifier: workloads would wait for it without end."""
        while True:
            try:
                task = self._tasks.get(timeout=self._due_in())
            except queue.Empty:
                self._tolerantly(self._classifier.go_on)
                continue
            if task is None:
                return
            if isinstance(task, _Sight):
                self._tolerantly(partial(self._classifier.see, task.coruns, task.servers))
                continue
            if isinstance(task, _Question):
                self._reply(task)
                continue
            if isinstance(task, tuple):
                self._tolerantly(partial(self._classifier.learn, *task))
                continue
            self._answers.append(self._answer(task))
            os.eventfd_write(self._news, 1)

    def _due_in(self) -> float | None:
        try:
            return self._classifier.due_in()
        except Exception:
            log.exception("the classifier does not say when it is due")
            return RETRY_SECONDS

    def _tolerantly(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception:
            log.exception("the classifier does not learn")

    def _classified(self, workload: Workload, measurements: Measurements) -> Classification:
        bound = workload.target.latency if workload.target else None
        made = self._classifier.classify(measurements, workload.type, bound)
        return self._classifier.beside(workload, made)

    def _reply(self, question: _Question) -> None:
        if not question.answer.set_running_or_notify_cancel():
            return
        try:
            made = self._classified(question.workload, question.measurements)
            question.answer.set_result(made)
        except Exception as error:
            log.exception("%s can't be classified for a dry run", question.workload.name)
            question.answer.set_exception(error)

    def _answer(self, action: act.ClassifyWorkload) -> ev.Report:
        workload = action.workload
        try:
            classified = self._classified(workload, action.measurements)
        except WharfingerError as error:
            log.warning("%s can't be classified: %s", workload.name, error)
            return ev.ClassificationFailed(action.key, f"it can't be classified: {error}")
        except Exception as error:
            # A fault of an estimator must not leave the workload waiting without end.
            log.exception("%s can't be classified", workload.name)
            return ev.ClassificationFailed(action.key, f"the classifier failed: {error}")
        return ev.WorkloadClassified(action.key, classified)
