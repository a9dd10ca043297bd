#!/usr/bin/env bash
# Resolves pyproject.toml into requirements.lock, which a run needs, and requirements.in into requirements-dev.lock, which has
# what development needs beyond it: with hashes, for every platform and Python from 3.11 on, and without the address of any
# package index. Pins that still fit are kept; `scripts/lock.sh --upgrade` takes new ones.
set -euo pipefail
cd "$(dirname "$0")/.."

uv=${UV:-.venv/bin/uv}
lock() {
    "$uv" pip compile "$@" --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
        --custom-compile-command "make lock" --quiet
}

# Pictures are no part of a run: development has what they need.
lock pyproject.toml --extra openlineage --extra otel --output-file requirements.lock "$@"
# What a run needs on some platforms only, development may need on all: such a package stands in both.
# shellcheck disable=SC2046 # one word for each package
lock requirements.in --constraint requirements.lock \
    $(sed -n '/sys_platform ==/!s/^\([A-Za-z0-9._-]*\)==.*/--no-emit-package=\1/p' requirements.lock | sort -u) \
    --output-file requirements-dev.lock "$@"
