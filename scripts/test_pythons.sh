#!/usr/bin/env bash
# Types and fast tests on other Pythons than that of .venv: those of $PYTHONS that are here, by name or path. Each gets an
# environment of the locked packages in build/pythons (from the network or uv's cache).
set -euo pipefail
cd "$(dirname "$0")/.."

uv=$PWD/.venv/bin/uv
for python in ${PYTHONS:-python3.12 python3.13}; do
    if ! version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null); then
        echo "test-pythons: there is no $python here, so it is not tried"
        continue
    fi
    place=build/pythons/$version
    echo "test-pythons: $version ($("$python" -V)) in $place"
    "$uv" venv --quiet --allow-existing --python "$python" "$place"
    "$uv" pip install --quiet --python "$place/bin/python" --require-hashes \
        --requirement requirements.lock --requirement requirements-dev.lock
    "$uv" pip install --quiet --python "$place/bin/python" --no-deps --no-build-isolation --editable .
    "$place/bin/python" -m mypy --python-version "$version" --cache-dir "build/pythons/mypy-$version"
    "$place/bin/python" -m pytest -q -p no:cacheprovider --numprocesses logical --maxprocesses 4 "$@"
done
