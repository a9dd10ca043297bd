"""The part of a customer's answer that is kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

HIDDEN: Final = "***"
LEAST_SECRET: Final = 4  # characters; shorter texts would be replaced everywhere


def readable(body: bytes, secrets: Sequence[str]) -> str:
    """A text of the first bytes of a body, without secrets and without characters that control a terminal or a page.
    A secret that the cut has left half of is not shown either."""
    text = body.decode("utf-8", "replace")
    for secret in sorted((one for one in secrets if len(one) >= LEAST_SECRET), key=len, reverse=True):
        text = _without_end_of(text.replace(secret, HIDDEN), secret)
    return "".join(char if char.isprintable() else " " for char in text)


def _without_end_of(text: str, secret: str) -> str:
    """Removes the first characters of a secret from the end of the text."""
    for length in range(len(secret) - 1, LEAST_SECRET - 1, -1):
        if text.endswith(secret[:length]):
            return text[:-length] + HIDDEN
    return text
