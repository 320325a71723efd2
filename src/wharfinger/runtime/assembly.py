"""Builds a runtime from what ``wharfinger up`` was told: the registries, put together.

The command line makes an ``Options``; ``assemble`` opens the store, makes the engine and the
core, and hands back a runtime that is not started yet. A new engine is a folder in
``wharfinger.engines`` and a line here.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from wharfinger.catalog.known_files import load_known
from wharfinger.classification.classifier import Classifier
from wharfinger.classification.planner import JointPlanner
from wharfinger.core.events import ManagerStarted
from wharfinger.core.pipeline import Manager, Mode
from wharfinger.core.state import ManagerState
from wharfinger.engines.base import Engine
from wharfinger.errors import InvalidInput
from wharfinger.policies.admission.registry import make_admission
from wharfinger.policies.placement.quasar import Quasar
from wharfinger.policies.registry import PolicyOptions, make_policy
from wharfinger.runtime.learning import LearningClassifier
from wharfinger.runtime.runtime import Runtime
from wharfinger.runtime.state_directory import StateDirectory
from wharfinger.store.sqlite import SqliteStore


@dataclass(frozen=True, slots=True)
class Options:
    """What a manager is made of.

    Attributes:
        engine: Name in ``ENGINES``.
        servers: How the engine divides what it has; ``None`` = as it finds it.
        policy: Name in ``wharfinger.policies.registry``.
        admission: Name in ``wharfinger.policies.admission.registry``.
        mode: ``act`` or ``recommend``.
        confidence: With which a target must be reached.
        known: Directory of known programs; ``None`` = the site's, else those that are shipped.
        accept_loss: Go on with nothing where the event log can't be saved at all.
    """

    engine: str = "local"
    servers: str | None = None
    policy: str = "quasar"
    admission: str = "fifo"
    mode: str = "act"
    confidence: float = 0.8
    known: Path | None = None
    accept_loss: bool = False


def _local(directory: StateDirectory, options: Options) -> Engine:
    # Imported when it is asked for: another engine must not need what this one needs.
    from wharfinger.engines.local.engine import LocalEngine  # noqa: PLC0415

    return LocalEngine(directory.runs, servers=options.servers)


ENGINES: dict[str, Callable[[StateDirectory, Options], Engine]] = {"local": _local}


def make_engine(directory: StateDirectory, options: Options) -> Engine:
    """The engine of that name.

    Raises:
        InvalidInput: There is none, or ``--servers`` is not of its form.
    """
    if options.engine not in ENGINES:
        raise InvalidInput(
            f"--engine: {options.engine!r} is not an engine; there are {', '.join(ENGINES)}"
        )
    return ENGINES[options.engine](directory, options)


def assemble(
    directory: StateDirectory, options: Options, clock: Callable[[], float] = time.time
) -> Runtime:
    """A runtime on a state directory that is locked.

    Raises:
        InvalidInput: An option names what there is not.
        StoreDamaged: Nothing of the event log can be saved, and that was not accepted.
        Unavailable: The disk or another process keeps the event log from being opened.
    """
    # First what can be refused without touching anything.
    policy = PolicyOptions(_confidence(options))
    make_policy(options.policy, policy)
    mode = _mode(options)
    make_admission(options.admission)
    engine = make_engine(directory, options)
    # Only who sizes by predictions pays for them on start-up.
    predicts = options.policy == Quasar.name
    known = load_known(options.known).matrices if predicts else None
    classifier = None if known is None else LearningClassifier(known, directory.path / "learnt")
    store = SqliteStore.open(directory.path, accept_loss=options.accept_loss)

    planner = None
    if classifier is not None:
        classifier.classifier.shape()  # Learnt while nobody waits; and nothing known is told here.
        planner = JointPlanner(classifier.classifier.classifications)

    def make_manager(state: ManagerState | None) -> Manager:
        return Manager(
            make_policy(options.policy, policy),
            make_admission(options.admission),
            planner=planner,
            state=state,
            mode=mode,
        )

    try:
        return Runtime(
            make_manager,
            engine,
            store,
            clock,
            policy=options.policy,
            admission=options.admission,
            classifier=classifier,
        )
    except BaseException:
        store.close()
        raise


def core_of(options: Options) -> Callable[[ManagerStarted, ManagerState | None], Manager]:
    """Makes the core that a log says led it, for ``replay``; its policy is the log's.

    What a classifier has found is in the log; what known programs say is worth measuring is not,
    so they must be the ones that the manager knew.

    Raises:
        InvalidInput: An option names what there is not.
    """
    policy, mode = PolicyOptions(_confidence(options)), _mode(options)
    planners: dict[str, JointPlanner] = {}

    def make(started: ManagerStarted, state: ManagerState | None) -> Manager:
        if started.policy == Quasar.name and not planners:
            known = Classifier(load_known(options.known).matrices)
            planners[Quasar.name] = JointPlanner(known.classifications)
        return Manager(
            make_policy(started.policy, policy),
            make_admission(started.admission),
            planner=planners.get(started.policy),
            state=state,
            mode=mode,
        )

    return make


def _confidence(options: Options) -> float:
    if not 0.5 <= options.confidence < 1:
        raise InvalidInput(
            f"--confidence: {options.confidence:g} is not a probability from 0.5 to below 1"
        )
    return options.confidence


def _mode(options: Options) -> Mode:
    if options.mode not in list(Mode):
        raise InvalidInput(f"--mode: {options.mode!r} is not a mode; there are {', '.join(Mode)}")
    return Mode(options.mode)
