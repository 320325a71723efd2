"""Which manager a call means: by an option, by the environment, or by the current context.

Contexts are kept in ``contexts.yaml`` in the user's XDG configuration folder; ``context.py``
changes them. The name ``local`` always stands for the user's own state directory.
"""

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wharfinger.cli.addresses import LocalAddress, ManagerAddress, RemoteAddress
from wharfinger.cli.output import to_yaml
from wharfinger.errors import InvalidInput, NotFound
from wharfinger.files.atomic import write_whole
from wharfinger.runtime.state_directory import ENVIRONMENT_VARIABLE, default_state_directory
from wharfinger.service.listening import TOKEN_VARIABLE, check_token, read_token

SERVER_VARIABLE = "WHARFINGER_SERVER"
CONTEXT_VARIABLE = "WHARFINGER_CONTEXT"
TOKEN_FILE_VARIABLE = "WHARFINGER_TOKEN_FILE"
LOCAL = "local"

Contexts = dict[str, dict[str, str]]
"""By name: ``server`` and perhaps ``tokenFile``, or ``state``."""


def _path(environment: Mapping[str, str]) -> Path:
    base = environment.get("XDG_CONFIG_HOME", "")
    # The XDG specification: a relative one is no base.
    folder = Path(base) if base.startswith("/") else Path("~/.config").expanduser()
    return folder / "wharfinger" / "contexts.yaml"


def read_contexts(environment: Mapping[str, str]) -> tuple[str, Contexts]:
    """The current context's name, and all but ``local``; ``InvalidInput`` for another form."""
    path = _path(environment)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return LOCAL, {}
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror}; make it readable, or remove it") from None
    import yaml  # noqa: PLC0415 - only for those who have contexts

    try:
        document = yaml.safe_load(content) or {}
        current, contexts = document.get("current", LOCAL), document.get("contexts") or {}
        whole = isinstance(current, str) and all(map(_is_context, contexts.values()))
    except (yaml.YAMLError, AttributeError, ValueError):
        whole = False
    if not whole:
        raise InvalidInput(f"{path} is not what `wharfinger context` writes; mend or remove it")
    return current, {str(name): one for name, one in contexts.items()}


def _is_context(one: Any) -> bool:
    return (
        isinstance(one, dict)
        and all(isinstance(value, str) for value in one.values())
        and ("server" in one) != ("state" in one)
    )


def write_contexts(current: str, contexts: Contexts) -> None:
    """Replace the file."""
    path = _path(os.environ)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(path, (to_yaml({"current": current, "contexts": contexts}) + "\n").encode())


def find_manager(arguments: argparse.Namespace, environment: Mapping[str, str]) -> ManagerAddress:
    """The manager that a call means.

    An option says so, else the environment, else the current context: of each the server first,
    then the context, then the state directory.
    """
    options = {key: getattr(arguments, key, None) for key in ("server", "context", "state")}
    given = [key for key, value in options.items() if value]
    if len(given) > 1:
        raise InvalidInput(f"--{given[0]} and --{given[1]} name two managers; leave one out")
    if not given:
        variables = (SERVER_VARIABLE, CONTEXT_VARIABLE, ENVIRONMENT_VARIABLE)
        options = dict(zip(options, map(environment.get, variables), strict=True))
    token_file = getattr(arguments, "token_file", None)
    if options["server"]:
        return _remote(options["server"], token_file, environment)
    if options["state"] and not options["context"]:
        return _local(Path(options["state"]), token_file)
    current, contexts = read_contexts(environment)
    name = options["context"] or current
    one = contexts.get(name)
    if one is None and name != LOCAL:
        raise NotFound(f"no context {name!r}; there are {', '.join([LOCAL, *contexts])}")
    if one and "server" in one:
        file = token_file or one.get("tokenFile")
        return _remote(one["server"], file, environment)
    return _local(Path(one["state"]) if one else default_state_directory(), token_file)


def _local(state: Path, token_file: str | None) -> LocalAddress:
    if token_file:
        raise InvalidInput("--token-file is for --server or a context; leave it out")
    return LocalAddress(state.absolute())


def _remote(url: str, file: str | None, environment: Mapping[str, str]) -> RemoteAddress:
    file = file or environment.get(TOKEN_FILE_VARIABLE)
    if file:
        token, place = read_token(Path(file)), str(file)
    else:
        token, place = environment.get(TOKEN_VARIABLE, ""), f"${TOKEN_VARIABLE}"
    if token:
        check_token(token, place)
    return RemoteAddress(url, token, place)
