#!/usr/bin/env bash
# Fetches the scripts of others that the console ships, by the versions and hashes in moneystate/console/static/vendor.toml. It needs
# npm and the network.
set -euo pipefail
cd "$(dirname "$0")/.."

static=$PWD/moneystate/console/static
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
.venv/bin/python - "$static/vendor.toml" <<'PYTHON' | while read -r package integrity files; do
import sys, tomllib
from pathlib import Path
for one in tomllib.loads(Path(sys.argv[1]).read_text())["packages"]:
    print(f"{one['name']}@{one['version']}", one["integrity"], " ".join(one["files"]))
PYTHON
    (cd "$folder" && rm -rf package ./*.tgz && npm pack --silent "$package" >/dev/null </dev/null)
    found=sha512-$(openssl dgst -sha512 -binary "$folder"/*.tgz | base64 -w0)
    if [ "$found" != "$integrity" ]; then
        echo "$package: expected $integrity, found $found." >&2
        exit 1
    fi
    tar -xzf "$folder"/*.tgz -C "$folder"
    for file in $files; do cp "$folder/package/$file" "$static/vendor/"; done
done
.venv/bin/python scripts/check_vendor.py
