"""Checks avro/: releases unedited, versions readable, golden bytes there (`moneystate schemas check`, failures alone).

`make check` runs it.
"""

from __future__ import annotations

import sys

from moneystate.cli.schemas import functions_for
from moneystate.schemas.check import check
from moneystate.schemas.tree import avro_root, read_folder, tree_of


def main() -> int:
    root = avro_root()
    bad = [finding for finding in check(tree_of(read_folder(root)), functions_for(root)) if not finding.ok]
    for f in bad:
        print(f"{f.path}: {f.rule}: {f.text}. Do: {f.fix}", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
