"""How many examples a property test tries: all in `make test-long`, a part of them in `make test`."""

from __future__ import annotations

import os

VARIABLE = "MONEYSTATE_TEST_EXAMPLES"  # "all": as `make test-long` sets it
SHARE = 3
LEAST = 10


def examples(full: int) -> int:
    return full if os.environ.get(VARIABLE) == "all" else min(full, max(LEAST, full // SHARE))
