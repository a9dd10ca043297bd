"""Deletions that look like a mistake of the source."""

from __future__ import annotations

from typing import Final

from moneystate.errors import SourceError

SHARE: Final = 0.2  # of the topic's rows
FEW: Final = 10  # rows that may always go
DO: Final = "check the source; --allow-deletes loads it all the same."


def check_deletions(where: str, rows: int, known: int, deleted: int) -> None:
    """`rows`: of the source; `known`: of the topic; `deleted`: those of them that the source does not have. Raises
    SourceError."""
    if not rows:
        raise SourceError(f"{where}: expected rows, found none.", DO)
    if deleted > FEW and deleted > SHARE * known:
        raise SourceError(
            f"{where}: expected most of the {known:,} rows of the topic, found {deleted:,} of them gone.", DO
        )
