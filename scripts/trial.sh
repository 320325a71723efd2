# shellcheck shell=bash
# Debian's packages that some tests run: the programs of the operator's trial,
# tests/integration/operator, and Slurm, tests/integration/slurm.
#
# Sourced by scripts/test after lib.sh.

TRIAL_PACKAGES=(redis-server redis-tools nginx-light memcached postgresql xz-utils ffmpeg)
SLURM_PACKAGES=(munge slurm-wlm)
ACCOUNTING_PACKAGES=(slurmdbd mariadb-server)

# Those of some packages that are not installed.
missing_of() {
    local package
    for package in "$@"; do
        dpkg-query -W -f '${Status}\n' "$package" 2>/dev/null | grep -q ' installed$' ||
            printf '%s\n' "$package"
    done
}

# Installs a package without starting the daemon that it brings; 1 where that is not possible.
install_without_starting() {
    local policy=/usr/sbin/policy-rc.d status=0
    may_install || return 1
    if [[ -e $policy ]]; then
        install_packages "$1"
        return
    fi
    printf '#!/bin/sh\nexit 101\n' | as_root sh -c "cat >$policy && chmod 755 $policy" || return 1
    install_packages "$1" || status=1
    as_root rm -f "$policy"
    return "$status"
}
