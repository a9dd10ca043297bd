#!/usr/bin/env bash
# Puts a wheel with the compiled core into dist/ for each of $PYTHONS that is here, by name or path, and one without it that
# fits every Python (MONEYSTATE_PURE=1). What builds them comes from the lock (from the network or uv's cache).
set -euo pipefail
cd "$(dirname "$0")/.."

build() {
    .venv/bin/uv build --quiet --wheel --out-dir dist --require-hashes \
        --build-constraints requirements.lock --build-constraints requirements-dev.lock "$@"
}

for python in ${PYTHONS:-python3.11 python3.12 python3.13}; do
    if ! found=$("$python" -c 'import sys; print(sys.executable)' 2>/dev/null); then
        echo "wheels: there is no $python here, so it gets none"
        continue
    fi
    build --python "$found" "$@"
done
MONEYSTATE_PURE=1 build --python .venv/bin/python "$@"
ls dist/*.whl
