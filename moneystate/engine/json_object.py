"""Reads a JSON object that another program may have written."""

from __future__ import annotations

import json
from typing import Any, Final

BOM: Final = "\ufeff"  # the byte order mark, with which programs on Windows begin files and values


def read_object(text: str | bytes) -> dict[str, Any]:
    """Raises ValueError for anything but an object."""
    try:
        fields = json.loads(text.removeprefix(BOM) if isinstance(text, str) else text)  # bytes may have the mark
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if type(fields) is not dict:
        raise ValueError(f"expected an object, found {type(fields).__name__}")
    return fields
