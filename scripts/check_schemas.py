"""Checks avro/ and the schemas of all services: releases unedited, versions readable, golden bytes there
(`moneystate schemas check`, failures alone).

`make check` runs it.
"""

from __future__ import annotations

import sys

from moneystate.cli.known_services import KNOWN
from moneystate.cli.schemas import functions_for
from moneystate.runtime.folders import avro_root
from moneystate.schemas.check import check
from moneystate.schemas.services import findings_of
from moneystate.schemas.tree import read_folder, tree_of

EXAMPLES = (
    "examples.orders.orders:service",
    "examples.credit.credit:service",
)


def main() -> int:
    root = avro_root()
    findings = check(tree_of(read_folder(root)), functions_for(root))
    for path in [*EXAMPLES, *[path for paths in KNOWN.values() for path in paths]]:
        findings += findings_of(path)
    bad = [finding for finding in findings if not finding.ok]
    for f in bad:
        print(f"{f.path}: {f.rule}: {f.text}. Do: {f.fix}", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
