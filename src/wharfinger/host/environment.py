"""What a program finds in its environment, whichever engine starts it."""

import os
import sys

from wharfinger.host.accounts import UserAccount, other_account
from wharfinger.model.workload import Workload

WORKLOAD_VARIABLE = "WHARFINGER_WORKLOAD"

_INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR")
_INHERITED_BY_OTHERS = ("LANG", "LC_ALL", "TZ")
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def environment(workload: Workload) -> dict[str, str]:
    """The program's whole environment: little of ours, all of the workload's, and its name.

    ``InvalidInput``: there is no such user as it is to run as, or we may not become them.
    """
    return {
        **environment_of(other_account(workload.run.user)),
        **workload.run.env,
        WORKLOAD_VARIABLE: workload.name,
    }


def environment_of(account: UserAccount | None) -> dict[str, str]:
    """What programs of a user find before their own environment; ``None`` = the manager's user.

    Of our PATH without our own virtual environment, whose Python would shadow the machine's.
    """
    names = _INHERITED if account is None else _INHERITED_BY_OTHERS
    inherited = {name: os.environ[name] for name in names if name in os.environ}
    if account is not None:
        return {"PATH": _DEFAULT_PATH, **inherited, **account.environment}
    folders = inherited.get("PATH", "").split(":")
    kept = ":".join(folder for folder in folders if not _is_of_our_environment(folder))
    return {**inherited, "PATH": kept or _DEFAULT_PATH}


def _is_of_our_environment(folder: str) -> bool:
    own = os.path.join(sys.prefix, "bin")  # noqa: PTH118 - as it stands in a PATH
    return sys.prefix != sys.base_prefix and os.path.realpath(folder) == os.path.realpath(own)
