"""Builds a runtime from the options of ``wharfinger up``: the registries, put together.

``assemble`` opens the store, makes the engine and the core, and returns a runtime to be started. A
new engine is a folder in ``wharfinger.engines`` and a line here.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from wharfinger.catalog.known_files import load_known
from wharfinger.classification.classifier import Classifications, Classifier
from wharfinger.classification.planner import JointPlanner
from wharfinger.contention.by_set import BySet
from wharfinger.core.events import ManagerStarted
from wharfinger.core.pipeline import Core, Mode
from wharfinger.core.ports import Port, Service
from wharfinger.core.seams.policy import Policy
from wharfinger.core.state import ManagerState
from wharfinger.engines.base import Engine
from wharfinger.errors import InvalidInput, NewerState
from wharfinger.files.contention_sets import digest_of, load_model
from wharfinger.policies.registry import bundle_of, make_policy, policy_in
from wharfinger.runtime.classifying import ClassifierService
from wharfinger.runtime.compatibility import newest_version, refuse_newer_snapshot
from wharfinger.runtime.learning import LearningClassifier
from wharfinger.runtime.notes import StoredNotes
from wharfinger.runtime.runtime import Runtime
from wharfinger.runtime.state_directory import StateDirectory
from wharfinger.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from wharfinger.engines.slurm.settings import SlurmSettings


@dataclass(frozen=True, slots=True)
class Options:
    """What a manager is made of.

    Attributes:
        engine: Name in ``ENGINES``.
        servers: How the engine divides its resources; ``None`` = as it finds them.
        policy: Name in ``wharfinger.policies.registry``, perhaps with settings in brackets.
        admission: Another part than the policy's own; empty = its own. So with ``adaptation``,
            ``contention`` and ``provisioning``.
        mode: ``act``, ``recommend`` or ``recommend-cold``.
        confidence: With which a target must be reached.
        known: Directory of known programs; ``None`` = the site's, else those that are shipped.
        accept_loss: Start empty if the event log can't be saved at all.
        slurm: How a Slurm cluster is used; ``None`` = as it finds it, without a shared directory.
        labels: Of servers: (server, label, value) each; without a name of all of them.
    """

    engine: str = "local"
    servers: str | None = None
    policy: str = "quasar"
    admission: str = ""
    adaptation: str = ""
    contention: str = ""
    provisioning: str = ""
    mode: str = "act"
    confidence: float = 0.8
    known: Path | None = None
    accept_loss: bool = False
    slurm: "SlurmSettings | None" = None
    labels: tuple[tuple[str, str, str], ...] = ()


def _local(directory: StateDirectory, options: Options) -> Engine:
    # Imported when it is asked for: another engine must not need what this one needs.
    from wharfinger.engines.local.engine import LocalEngine  # noqa: PLC0415

    return LocalEngine(directory.runs, servers=options.servers, labels=options.labels)


def _slurm(directory: StateDirectory, options: Options) -> Engine:
    # As above.
    from wharfinger.engines.slurm.client.client import CommandClient  # noqa: PLC0415
    from wharfinger.engines.slurm.engine import SlurmEngine  # noqa: PLC0415

    notes = StoredNotes(directory.path, "slurm")
    return SlurmEngine(CommandClient(), notes, options.slurm, directory.runs)


ENGINES: dict[str, Callable[[StateDirectory, Options], Engine]] = {
    "local": _local,
    "slurm": _slurm,
}


def make_engine(directory: StateDirectory, options: Options) -> Engine:
    """The engine of that name.

    Raises:
        InvalidInput: There is none, or ``--servers`` does not have its form.
    """
    if options.engine not in ENGINES:
        raise InvalidInput(
            f"--engine: {options.engine!r} is not an engine; there are {', '.join(ENGINES)}"
        )
    return ENGINES[options.engine](directory, options)


def assemble(
    directory: StateDirectory,
    options: Options,
    clock: Callable[[], float] = time.time,
    services: Mapping[Port, Service] | None = None,
) -> Runtime:
    """A runtime on a state directory that is locked.

    Args:
        directory: Where its log, its snapshots and its runs are.
        options: What it is made of.
        clock: Seconds since the epoch.
        services: Those behind the ports of provisioners and deciders.

    Raises:
        InvalidInput: An option has an unknown value.
        NewerState: A newer version wrote the event log.
        StoreDamaged: Nothing of the event log can be saved, and that was not accepted.
        Unavailable: The disk or another process keeps the event log from being opened.
    """
    # First what can be refused without side effects.
    policy = _policy(options)
    mode = _mode(options)
    engine = make_engine(directory, options)
    # Only a policy that predicts pays for it on start-up.
    classifier = None
    if bundle_of(options.policy).estimates:
        matrices = load_known(options.known).matrices
        # Only of what is given as stated is it known, before it is placed, what share it takes.
        stated = policy.profiling.gives_stated
        classifier = LearningClassifier(matrices, directory.path / "learnt", colocation=stated)
    store = SqliteStore.open(directory.path, accept_loss=options.accept_loss)

    behind = dict(services or {})
    learns = sees = asks = None
    if classifier is not None:
        classifier.classifier.shape()  # Now: no workload waits yet.
        # By the known programs alone, not by what was learnt: so a replay makes the same plans.
        known = Classifier(matrices) if classifier.has_learnt else classifier.classifier
        made = known.classifications
        planner = JointPlanner(made, needs=policy.profiling)
        policy = replace(policy, estimation=planner)
        service = ClassifierService(classifier)
        behind[Port.CLASSIFIER], learns, asks = service, service.learn, service.ask
        sees = service.see if policy.profiling.gives_stated else None

    def make_manager(state: ManagerState | None) -> Core:
        return Core(policy, state=state, mode=mode)

    try:
        refuse_newer_snapshot(store)
        return Runtime(
            make_manager,
            engine,
            store,
            clock,
            services=behind,
            learns=learns,
            sees=sees,
            asks=asks,
        )
    except NewerState as error:
        reason = f"--state: {directory.path}: {error}, as {newest_version(store)} wrote it"
        store.close()
        raise NewerState(f"{reason}; start that version, or name another directory") from None
    except BaseException:
        store.close()
        raise


def _policy(options: Options, started: ManagerStarted | None = None) -> Policy:
    """As the options say, or as a log says that it was, with the model that its contention names.

    Raises:
        InvalidInput: An option has an unknown value, or that model can't be read.
    """
    policy = _named_policy(options, started)
    contention = policy.contention
    if not isinstance(contention, BySet):
        return policy
    path = contention.settings.model
    if not path:
        raise InvalidInput(
            f"--policy {policy.name}: which contention model? write --contention "
            "'by-set[model=FILE]', of a file that 'wharfinger contention fit --out' has written"
        )
    settings = replace(contention.settings, model=str(Path(path).absolute()))
    fitted = BySet(settings).with_model(load_model(path), digest_of(path))
    return replace(policy, contention=fitted)


def _named_policy(options: Options, started: ManagerStarted | None) -> Policy:
    if not 0.5 <= options.confidence < 1:
        raise InvalidInput(
            f"--confidence: {options.confidence:g} is not a probability from 0.5 to below 1"
        )
    defaults = {"confidence": options.confidence}
    if started is not None and started.settings:
        return policy_in(started.policy, started.settings)
    if started is not None:  # Version 0.1 has logged names alone.
        return make_policy(started.policy, admission=started.admission, defaults=defaults)
    return make_policy(
        options.policy,
        admission=options.admission,
        adaptation=options.adaptation,
        contention=options.contention,
        provisioning=options.provisioning,
        defaults=defaults,
    )


def core_of(options: Options) -> Callable[[ManagerStarted, ManagerState | None], Core]:
    """Makes the core that led a log, for ``replay``; its policy is the log's.

    Classifications are in the log; what the planner measures depends on the known programs, so
    these must be the ones that the manager knew.

    Raises:
        InvalidInput: An option has an unknown value.
    """
    mode = _mode(options)

    @cache
    def made() -> Classifications:
        return Classifier(load_known(options.known).matrices).classifications

    def make(started: ManagerStarted, state: ManagerState | None) -> Core:
        policy = _policy(options, started)
        if bundle_of(started.policy).estimates:
            planner = JointPlanner(made(), needs=policy.profiling)
            policy = replace(policy, estimation=planner)
        return Core(policy, state=state, mode=mode)

    return make


def _mode(options: Options) -> Mode:
    if options.mode not in list(Mode):
        raise InvalidInput(f"--mode: {options.mode!r} is not a mode; there are {', '.join(Mode)}")
    return Mode(options.mode)
