#!/usr/bin/env bash
# Resolves pyproject.toml and requirements.in into requirements.lock: with hashes, for every platform and Python from 3.11 on,
# and without the address of any package index. Pins that still fit are kept; `scripts/lock.sh --upgrade` takes new ones.
set -euo pipefail
cd "$(dirname "$0")/.."

uv=${UV:-.venv/bin/uv}
"$uv" pip compile pyproject.toml requirements.in \
    --all-extras --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
    --custom-compile-command "make lock" --quiet --output-file requirements.lock "$@"
