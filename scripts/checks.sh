# shellcheck shell=bash
# Lint, format, types and layers: scripts/check runs them, and so does a full scripts/test.

CHECKS=(lint format types layers)

run_check() {
    case $1 in
        lint) ruff check --quiet . ;;
        format) ruff format --check --quiet . || { ruff format --diff --quiet . | head -n 40; false; } ;;
        types) mypy --strict ;;
        # The sources, not what is installed: no build is needed to check.
        layers) PYTHONPATH=src lint-imports --cache-dir "$CACHE/import_linter" ;;
    esac
}

# All of them at the same time; prints what failed. `FAILED_CHECKS` names those.
run_checks() {
    local name
    local -A jobs=()
    FAILED_CHECKS=()
    for name in "${CHECKS[@]}"; do
        run_check "$name" >"$RUN/$name.log" 2>&1 &
        jobs[$name]=$!
    done
    for name in "${CHECKS[@]}"; do
        if wait "${jobs[$name]}"; then
            say "$name: ok"
        else
            FAILED_CHECKS+=("$name")
            tail -n 60 "$RUN/$name.log" >&2
            say "$name: failed"
        fi
    done
}
