"""A classifier that learns from what has run, without delaying any request.

It classifies by the known programs and by the rows of earlier workloads, which it keeps in the
state directory (``classification.learnt``). A process of its own (``runtime.refit``) learns from
new rows; its result replaces the model between two classifications. Rows are not part of the log:
predictions are logged, and a row lost in a crash is measured again.
"""

import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from wharfinger.classification.classifier import Classifier
from wharfinger.classification.colocation import ColocationLearner, Corun
from wharfinger.classification.learnt import joined, learn, row_name
from wharfinger.classification.utility import Aspect, UtilityMatrix
from wharfinger.errors import WharfingerError
from wharfinger.estimators.registry import DEFAULT_ESTIMATOR
from wharfinger.files.atomic import write_whole
from wharfinger.model.profile import Classification, Measurements
from wharfinger.model.workload import LatencyBound, Workload, WorkloadType
from wharfinger.runtime import refit

log = logging.getLogger(__name__)

REFIT_SECONDS = 30.0
"""Between two refits at least, and after the start: what begins first is measured first."""
CHILD_SECONDS = 1.0
"""Between two looks at a child that is at work."""
MOST_CHILD_SECONDS = 1800.0
"""After these a child is taken to hang; at idle priority it may wait for long."""
_DAMAGE = (OSError, ValueError, WharfingerError)
"""What is learnt besides is never worth a manager."""
ROWS, ALL = "rows", "all"
"""Folders: what was learnt, and what the child learns from."""
CORUNS = "coruns.json"
"""What ran together."""


class LearningClassifier:
    """Classifies like ``Classifier``, and learns; ``clock`` in seconds, monotonic.

    Args:
        known: Matrices of the known programs.
        directory: For what is learned; made when there is something.
        estimator: Used by the process that learns.
        first: Used at the start, while a request waits.
        colocation: Whether it learns how programs slow one another, too.
    """

    def __init__(
        self,
        programs: Mapping[Aspect, UtilityMatrix],
        directory: Path,
        clock: Callable[[], float] = time.monotonic,
        estimator: str = DEFAULT_ESTIMATOR,
        first: str = "gaussian",
        *,
        colocation: bool = False,
    ) -> None:
        self._known = programs
        self._directory = directory
        self._clock = clock
        self._estimator = estimator
        self._learnt = self._read(ROWS)
        self._child: subprocess.Popen[bytes] | None = None
        self._began = 0.0
        self._due = clock() + REFIT_SECONDS
        self._handed = joined(programs, self._learnt)
        self.classifier = Classifier(self._handed, first)
        self._pending = bool(self._learnt) and not (
            _same(self._handed, self._read(ALL)) and self._take_over()
        )
        self._unsaved = False
        self._colocations = (
            ColocationLearner(lambda workload: row_name(workload.run.command), {})
            if colocation
            else None
        )
        if self._colocations is not None:
            self._colocations.learn(self._read_coruns())

    @property
    def has_learnt(self) -> bool:
        """Whether it knows more than the known programs."""
        return bool(self._learnt)

    @property
    def rows(self) -> int:
        """How many programs' rows of performance were learned."""
        matrix = self._learnt.get(Aspect.SCALE_UP)
        return len(matrix.rows) if matrix else 0

    def classify(
        self,
        measurements: Measurements,
        type_: WorkloadType | None = None,
        bound: LatencyBound | None = None,
    ) -> Classification:
        """As ``Classifier``, by all that is learned by now."""
        self.go_on()
        return self.classifier.classify(measurements, type_, bound)

    def beside(self, workload: Workload, made: Classification) -> Classification:
        """With the profiles of its program beside others."""
        if self._colocations is None:
            return made
        return replace(made, pairs=self._colocations.profiles(workload))

    def see(self, coruns: Sequence[Corun], servers: Mapping[str, int]) -> None:
        """Learn from what runs together."""
        if self._colocations is not None:
            self._colocations.servers.update(servers)
            self._colocations.learn(coruns)
            self._unsaved = self._unsaved or bool(coruns)

    def learn(self, workload: Workload, measured: Measurements) -> None:
        """Learn from the measurements of a workload that has ended."""
        try:
            learnt = learn(self._learnt, workload, measured)
        except _DAMAGE as error:
            log.warning("nothing is learnt of %s: %s", workload.name, error)
            return
        if learnt == self._learnt:
            return
        self._learnt, self._pending, self._unsaved = learnt, True, True

    def due_in(self) -> float | None:
        """In how many seconds ``go_on`` has something to do; ``None`` = nothing, by now."""
        if self._child is not None:
            return CHILD_SECONDS if self._child.poll() is None else 0.0
        return max(0.0, self._due - self._clock()) if self._pending else None

    def close(self) -> None:
        """Save what was learned, and kill the child, which has nothing to lose."""
        self._save()
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._child = None

    def go_on(self) -> None:
        """Take over what the child has learned, or start one; returns at once."""
        if self._child is not None:
            if self._child.poll() is None:
                if self._clock() - self._began > MOST_CHILD_SECONDS:
                    self._child.kill()
                return
            failed, self._child = self._child.returncode, None
            if failed:
                log.warning("nothing was learnt from %d rows: status %d", self.rows, failed)
            else:
                self._take_over()
        if self._pending and self._clock() >= self._due:
            self._start()

    def _start(self) -> None:
        self._began = self._clock()
        self._pending, self._due = False, self._began + REFIT_SECONDS
        self._save()
        directory = self._directory / ALL
        command = [sys.executable, "-m", "wharfinger.runtime.refit", str(directory)]
        self._handed = joined(self._known, self._learnt)
        try:
            refit.write_matrices(self._handed, directory)
            self._child = subprocess.Popen(
                [*command, "--estimator", self._estimator, "--manager", str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            )
        except OSError as error:
            log.warning("what ran is not learnt from: %s", error)

    def _take_over(self) -> bool:
        """Use what a child has learned of its last matrices; whether there is any."""
        directory = self._directory / ALL
        try:
            model = refit.model_of(directory, self._estimator)
            if not model.exists():
                return False
            fitted = refit.load(model)
        except _DAMAGE as error:
            log.warning("what was learnt is passed over: %s", error)
            return False
        self.classifier = Classifier(self._handed, self._estimator, fitted=fitted)
        return True

    def _save(self) -> None:
        if not self._unsaved:
            return
        try:
            if self._learnt:
                refit.write_matrices(self._learnt, self._directory / ROWS)
            if self._colocations is not None:
                self._directory.mkdir(parents=True, exist_ok=True)
                rows = [asdict(each) for each in self._colocations.coruns]
                write_whole(self._directory / CORUNS, json.dumps(rows).encode())
            self._unsaved = False
        except OSError as error:
            log.warning("what was learnt of %d programs is not kept: %s", self.rows, error)

    def _read_coruns(self) -> list[Corun]:
        path = self._directory / CORUNS
        try:
            return [Corun.from_json(each) for each in json.loads(path.read_bytes())]
        except FileNotFoundError:
            return []
        except (*_DAMAGE, TypeError, AttributeError) as error:
            log.warning("what ran together is passed over: %s", error)
            return []

    def _read(self, folder: str) -> dict[Aspect, UtilityMatrix]:
        try:
            return refit.read_matrices(self._directory / folder)
        except _DAMAGE as error:
            log.warning("what was learnt is passed over: %s", error)
            return {}


def _same(some: Mapping[Aspect, UtilityMatrix], others: Mapping[Aspect, UtilityMatrix]) -> bool:
    rows = [{kind: dict(matrix.rows) for kind, matrix in each.items()} for each in (some, others)]
    return rows[0] == rows[1]
