# shellcheck shell=bash
# The aarch64 build, compiled and linked on another architecture; nothing of it is run.

CROSS_PACKAGES=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross)

have_cross_compiler() {
    command -v aarch64-linux-gnu-gcc >/dev/null &&
        aarch64-linux-gnu-gcc -fsyntax-only -xc - <<<'#include <stdlib.h>' 2>/dev/null
}

# Debian's Python.h asks for <aarch64-linux-gnu/pythonX.Y/pyconfig.h>, which only an aarch64
# python3-dev has. This machine's own stands in: both are 64-bit little-endian Linux.
cross_python_headers() {
    python - "$1" <<'PY'
import shutil
import sys
import sysconfig
from pathlib import Path

folder = Path(sys.argv[1], "aarch64-linux-gnu", f"python{sysconfig.get_python_version()}")
folder.mkdir(parents=True, exist_ok=True)
shutil.copy(sysconfig.get_config_h_filename(), folder / "pyconfig.h")
PY
}

# Warnings in our own C, which lies in native/; what cython generates lies in the build folder.
own_warnings() { grep -E '^[^ ]*native/[^ ]*\.[ch]:[0-9]+:.*warning:' "$1" | grep -v '\.p/'; }

cross_compile() {
    local build=$BUILD-aarch64 log=$CACHE/aarch64.log
    mkdir -p "$CACHE"
    cross_python_headers "$build-include"
    say "aarch64: cross-compiling"
    if ! {
        rm -rf "$build"
        meson setup --cross-file native/cross/aarch64.ini -Dbuildtype=release \
            -Dc_args="-I$build-include" "$build" &&
            ninja -C "$build"
    } </dev/null >"$log" 2>&1 8>&-; then
        tail -n 30 "$log" >&2
        return 1
    fi
    ! own_warnings "$log" >&2
}
