#!/usr/bin/env bash
# Asks PyPI for advisories about the locked packages. It needs the network, and PyPI itself: most mirrors have no advisories, and
# then it fails rather than say that there are none. `scripts/audit.sh -s osv` asks OSV.
set -euo pipefail
cd "$(dirname "$0")/.."

ignored=$(.venv/bin/python -c '
import sys
sys.path.insert(0, "scripts")
from advisories import accepted
print(*("--ignore-vuln=" + entry["id"] for entry in accepted()))
')
# shellcheck disable=SC2086 # one word for each
.venv/bin/pip-audit --requirement requirements.lock --requirement requirements-dev.lock --require-hashes --disable-pip --strict --progress-spinner off $ignored "$@"
