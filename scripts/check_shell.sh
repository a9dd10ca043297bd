#!/usr/bin/env bash
# The shell scripts parse, and shellcheck, where it is installed, has nothing to say.
set -euo pipefail
cd "$(dirname "$0")/.."

for script in scripts/*.sh moneystate/spark/worker-python deploy/entrypoint.sh .ci/run; do
    "$(sed -n "1s,^#!.*[/ ],,p" "$script")" -n "$script"
    [ -x "$script" ] || { echo "$script is not executable" >&2; exit 1; }
    if command -v shellcheck >/dev/null; then shellcheck "$script"; fi
done
