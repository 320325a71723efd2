# shellcheck shell=bash
# The aarch64 build, compiled and linked on another architecture; the sources of interference are
# run under qemu-user, too.

# shellcheck disable=SC2034 # scripts/test reads them
CROSS_PACKAGES=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross)
# shellcheck disable=SC2034
EMULATOR_PACKAGES=(qemu-user)

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

header = Path(sysconfig.get_config_h_filename())
python = header.parent.name
# On Debian that file only chooses among those of several architectures.
multiarch = header.parents[1] / str(sysconfig.get_config_var("MULTIARCH")) / python / header.name
folder = Path(sys.argv[1], "aarch64-linux-gnu", python)
folder.mkdir(parents=True, exist_ok=True)
shutil.copy(multiarch if multiarch.exists() else header, folder / header.name)
PY
}

# Warnings in our own C, which lies in native/; what cython generates lies in the build folder.
own_warnings() { grep -E '^[^ ]*native/[^ ]*\.[ch]:[0-9]+:.*warning:' "$1" | grep -v '\.p/'; }

cross_compile() {
    local build=$BUILD-aarch64 log=$CACHE/aarch64.log
    mkdir -p "$CACHE"
    exec 9>"$build.lock" # one build folder, and two scripts may run at once
    flock 9
    cross_python_headers "$build-include"
    say "aarch64: cross-compiling"
    if ! {
        rm -rf "$build"
        meson setup --cross-file native/cross/aarch64.ini -Dbuildtype=release \
            -Dc_args="-I$build-include" "$build" &&
            ninja -C "$build"
    } </dev/null >"$log" 2>&1 8>&- 9>&-; then
        tail -n 30 "$log" >&2
        flock -u 9
        return 1
    fi
    flock -u 9
    ! own_warnings "$log" >&2
}

# Each source briefly at 40, on the emulated processor: it must report that intensity, and work.
run_sources_on_aarch64() {
    say "aarch64: running the sources under qemu-user"
    python - "$(find "$BUILD-aarch64" -name wharfinger-ibench -type f)" "$RUN" <<'PY' >&2
import json
import subprocess
import sys

program, folder = sys.argv[1:]
emulated = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", program]
listed = subprocess.run([*emulated, "--list"], check=True, capture_output=True, text=True).stdout
failed = 0
for source in map(json.loads, listed.splitlines()):
    # Small, and a rate that is given is not measured first. Its time is for one that does nothing.
    options = ["--intensity", "40", "--seconds", "20", "--report-seconds", "0.1"]
    options += ["--directory", folder, "--maximum", "1e6", "--file-bytes", str(8 << 20)]
    options += ["--quota", str(8 << 20)] if source["name"] == "storage-capacity" else []
    options += ["--footprint", str(8 << 20)] if source["name"].startswith("memory") else []
    with subprocess.Popen(
        [*emulated, source["name"], *options], text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as child:
        works = False
        for line in map(json.loads, child.stdout):
            works = line["event"] == "report" and line["intensity"] == 40 and line["count"] > 0
            if works:
                child.stdin.close()
                break
        said, status = child.stderr.read().strip(), child.wait(60)
    if status == 3:
        print(f"  {source['name']}: {said}")
    elif status or not works:
        print(f"  {source['name']}: failed: {said or line}")
        failed += 1
sys.exit(failed > 0)
PY
}
