# shellcheck shell=bash
# What the scripts share: this clone's virtual environment, brought up to date before use.
#
# Sourced by scripts/test, scripts/check and scripts/demo, which call `prepare` first. When
# nothing has changed, `prepare` compares two stamps and returns; else it installs what is
# missing. Everything said here goes to standard error: standard output belongs to the command.

set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
CACHE=$ROOT/.cache
VENV=${WHARFINGER_VENV:-$ROOT/.venv}
case $VENV in /*) ;; *) VENV=$PWD/$VENV ;; esac
STAMPS=$VENV/.stamps

# A build folder remembers the compiler and the cython that configured it, so each
# environment has its own.
BUILD=$ROOT/build/meson
if [[ $VENV != "$ROOT/.venv" ]]; then
    BUILD=$ROOT/build/meson-$(cksum <<<"$VENV" | cut -d' ' -f1)
fi

# Files of this run only: two scripts may run at once.
RUN=$(mktemp -d)
trap 'rm -rf "$RUN"' EXIT

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
fail() { say "$*" && exit 1; }

# --- what the system must bring -------------------------------------------------------------

# The Python to build the environment with: $PYTHON, else the first that is new enough.
find_python() {
    local candidate found=
    for candidate in ${PYTHON:-python3 /usr/bin/python3 python3.13 python3.12 python3.11}; do
        candidate=$(command -v "$candidate") || continue
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            printf '%s\n' "$candidate"
            return
        fi
        found="; $candidate is not"
    done
    fail "Python 3.11 or newer is needed$found; name one by PYTHON=/path/to/python3"
}

# Debian packages without which the package can't be built by this Python.
missing_packages() {
    local python=$1 include stem=python3
    # A Python beside the distribution's default one has packages under its own version.
    if [[ $(/usr/bin/python3 -c 'import sys; print(sys.version_info[:2])' 2>/dev/null) \
        != $("$python" -c 'import sys; print(sys.version_info[:2])') ]]; then
        stem=$("$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
    fi
    "$python" -c 'import ensurepip, venv' 2>/dev/null || echo "$stem-venv"
    include=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["include"])')
    [[ -e $include/Python.h ]] || echo "$stem-dev"
    if ! command -v gcc >/dev/null; then
        echo gcc
        [[ -e /usr/include/stdlib.h ]] || echo libc6-dev
    elif ! gcc -fsyntax-only -xc - <<<'#include <stdlib.h>' 2>/dev/null; then
        echo libc6-dev
    fi
}

# How this user becomes root without being asked anything; fails where there is no way.
as_root() {
    if [[ $(id -u) == 0 ]]; then
        "$@"
    else
        sudo -n "$@"
    fi
}

may_install() {
    command -v apt-get >/dev/null || return 1
    [[ $(id -u) == 0 ]] || sudo -n true 2>/dev/null
}

install_command() { printf 'sudo apt-get install -y --no-install-recommends %s' "$*"; }

# Installs Debian packages; 1 where that is not allowed or does not work.
install_packages() {
    may_install || return 1
    local options=(-y -q --no-install-recommends
        -o DPkg::Lock::Timeout=120 -o Acquire::Retries=1 -o Acquire::http::Timeout=20)
    say "installing $*"
    mkdir -p "$CACHE"
    {
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install "${options[@]}" "$@" ||
            # Package lists may be absent or old on a fresh machine.
            { as_root apt-get update -q &&
                as_root env DEBIAN_FRONTEND=noninteractive apt-get install "${options[@]}" "$@"; }
    } </dev/null >"$CACHE/apt.log" 2>&1 8>&- || return 1
}

need_packages() {
    local missing
    missing=$(missing_packages "$1" | tr '\n' ' ')
    missing=${missing% }
    [[ -n $missing ]] || return 0
    # shellcheck disable=SC2086 # a list of words
    install_packages $missing ||
        fail "missing: $missing; install by: $(install_command "$missing")"
    missing=$(missing_packages "$1" | tr '\n' ' ')
    [[ -z $missing ]] || fail "still missing for $1 after installing: $missing"
}

# Runs a long command quietly; its last lines are shown when it fails.
quietly() {
    local log=$CACHE/$1.log
    shift
    mkdir -p "$CACHE"
    if ! "$@" </dev/null >"$log" 2>&1 8>&-; then
        tail -n 30 "$log" >&2
        fail "failed: $* (all of it: $log)"
    fi
}

# --- the environment ------------------------------------------------------------------------

# What pyproject.toml asks for: `requirements GROUP...`, one a line.
requirements() {
    "$VENV/bin/python" - "$ROOT/pyproject.toml" "$@" <<'PY'
import sys
import tomllib

with open(sys.argv[1], "rb") as file:
    pyproject = tomllib.load(file)
project = pyproject["project"]
groups = {
    # meson-python asks for ninja only where the system has none; here it is always its own.
    "build": [*pyproject["build-system"]["requires"], "ninja"],
    "run": project["dependencies"],
    **project["optional-dependencies"],
}
for group in sys.argv[2:]:
    print(*groups[group], sep="\n")
PY
}

# What the environment was made from. The path counts too: its scripts hold it.
environment_stamp() {
    { printf '%s\n' "$VENV" && cat "$ROOT/pyproject.toml"; } | sha256sum
}

# What the installed package was made from.
package_stamp() {
    {
        printf '%s\n' "$ROOT"
        cd "$ROOT"
        find src native meson.build pyproject.toml VERSION README.md \
            -name __pycache__ -prune -o -type f -printf '%p %s %T@\n' | LC_ALL=C sort
    } | sha256sum
}

# Whether stamp $1 is still $2.
is_fresh() { [[ -e $STAMPS/$1 && $(<"$STAMPS/$1") == "$2" ]]; }

environment_is_fresh() {
    [[ -x $VENV/bin/python ]] && is_fresh "$1" "$(environment_stamp)" &&
        "$VENV/bin/python" -c '' 2>/dev/null # the Python under it may have gone
}

# Makes the environment anew when it can't serve: another path, or its Python is gone.
make_environment() {
    local python
    python=$(find_python)
    need_packages "$python"
    if [[ ! -x $VENV/bin/python || ! -e $STAMPS/path || $(<"$STAMPS/path") != "$VENV" ]] ||
        ! "$VENV/bin/python" -m pip --version >/dev/null 2>&1; then
        if [[ -e $VENV && ! -e $VENV/pyvenv.cfg && -n $(ls -A "$VENV") ]]; then
            fail "$VENV holds something that is no virtual environment; set WHARFINGER_VENV elsewhere"
        fi
        say "making a virtual environment in $VENV with $python"
        rm -rf "$BUILD"
        quietly venv "$python" -m venv --clear "$VENV"
        mkdir -p "$STAMPS"
        printf '%s\n' "$VENV" >"$STAMPS/path"
    fi
}

# `install_requirements run|demo|dev`: demo also shows and draws; dev is everything that tests
# and checks need.
install_requirements() {
    local groups=(build run)
    [[ $1 == run ]] || groups+=(demo)
    [[ $1 != dev ]] || groups+=(test check)
    make_environment
    say "installing what pyproject.toml asks for (${groups[*]})"
    requirements "${groups[@]}" >"$STAMPS/requirements.txt"
    quietly pip "$VENV/bin/python" -m pip install --disable-pip-version-check \
        -r "$STAMPS/requirements.txt"
    environment_stamp >"$STAMPS/run"
    [[ $1 == run ]] || environment_stamp >"$STAMPS/demo"
    if [[ $1 == dev ]]; then
        environment_stamp >"$STAMPS/dev"
        # One test watches system calls; without strace it says so and is skipped.
        command -v strace >/dev/null || install_packages strace || true
    fi
}

installed_folder() {
    (cd / && "$VENV/bin/python" -Ic \
        'import sysconfig; print(sysconfig.get_paths()["platlib"] + "/wharfinger")')
}

# Whether what is installed has the modules of src/ and no others.
same_modules() {
    local folder
    folder=$(installed_folder)
    diff -q <(cd "$ROOT/src/wharfinger" && find . -name '*.py' | LC_ALL=C sort) \
        <(cd "$folder" 2>/dev/null && find . -name '*.py' | LC_ALL=C sort) >/dev/null
}

pip_install_package() {
    # With the environment's tools in front, so that meson finds its cython and its ninja.
    PATH=$VENV/bin:$PATH quietly build "$VENV/bin/python" -m pip install \
        --disable-pip-version-check --no-deps --no-build-isolation \
        --config-settings=build-dir="$BUILD" "$ROOT" # Debian 12's pip has no -C
}

install_package() {
    local stamp
    stamp=$(package_stamp) # before the build: an edit meanwhile is built the next time
    say "building wharfinger"
    rm -f "$STAMPS/package"
    pip_install_package
    if ! same_modules; then
        # An interrupted install, or a file put there by hand: a deleted module would live on.
        rm -rf "$(installed_folder)"
        pip_install_package
        same_modules || fail "$(installed_folder) does not hold the modules of src/"
    fi
    printf '%s\n' "$stamp" >"$STAMPS/package"
}

# --- what the scripts call ------------------------------------------------------------------

# `is_ready run|demo|dev [package]`
is_ready() {
    environment_is_fresh "$1" || return 1
    [[ -z ${2:-} ]] || { is_fresh package "$(package_stamp)" && [[ -d $(installed_folder) ]]; }
}

wait_for_lock() { # -s: beside other users of the environment; -x: alone
    flock "$1" -n 8 && return
    say "waiting for another script that uses $VENV"
    flock "$1" 8
}

# `prepare run|demo|dev [package]`: afterwards the environment holds the requirements, and the
# package as it is in src/. Until the script ends, no other script changes it: users of the
# environment share a lock (descriptor 8), and who must change it waits for them.
prepare() {
    { mkdir -p "$(dirname "$VENV")" && : >>"$VENV.lock"; } 2>/dev/null ||
        fail "can't write $VENV.lock; set WHARFINGER_VENV to a place of yours"
    exec 8>>"$VENV.lock"
    wait_for_lock -s
    if ! is_ready "$@"; then
        wait_for_lock -x
        environment_is_fresh "$1" || install_requirements "$1"
        is_ready "$@" || install_package
        flock -s 8
    fi
    export PATH=$VENV/bin:$PATH
    export VIRTUAL_ENV=$VENV
    # A caller's PYTHONPATH would put other sources before the installed package.
    unset PYTHONPATH PYTHONHOME
}
