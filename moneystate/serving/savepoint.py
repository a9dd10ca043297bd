"""A savepoint as the state from which a replica is loaded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from moneystate.engine.keys import is_engines
from moneystate.errors import SavepointError
from moneystate.replica.model import Version
from moneystate.replica.saved_state import SavedState
from moneystate.savepoint.format import Savepoint


def saved_state(folder: str) -> SavedState:
    """Raises SavepointError, also if the savepoint does not say where the changelog continues."""
    savepoint = Savepoint(Path(folder))
    m = savepoint.manifest
    if m.changelog is None:
        raise SavepointError(
            f"--from-snapshot {folder}: expected a savepoint with a position of the changelog, found one without.",
            "make it with moneystate checkpoint export and its flag --bootstrap-servers.",
        )

    def entries(group: int) -> Iterator[tuple[bytes, bytes]]:
        return (entry for entry in savepoint.entries(group) if not is_engines(entry[0]))

    return SavedState(
        version=Version(m.origins[-1], m.origin_batch - 1),
        watermark_ms=m.watermark,
        key_groups=m.key_groups,
        topic_id=m.changelog.topic_id,
        positions={int(partition): offset for partition, offset in m.changelog.positions.items()},
        read_ms=m.changelog.read_ms,
        written_at_ms=m.changelog.written_at_ms,
        rules=m.changelog.rules,
        entries=entries,
    )
