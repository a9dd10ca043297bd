"""Names of columns and tables."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_WORD: Final = re.compile(r"(?<=[a-z0-9])([A-Z])")


@lru_cache(maxsize=1_000)
def snake_case(name: str) -> str:
    return _WORD.sub(r"_\1", name).lower()
