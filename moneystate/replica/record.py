"""The follower's own bookkeeping, in one row that is written with every change."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from rocksdict import WriteBatch

from moneystate.errors import SetupError
from moneystate.replica.files import FORMAT, Db
from moneystate.replica.model import Version
from moneystate.replica.rows import META, REVISION, long

ROW = META + b"follower"
BASE: Final = 1  # the revision of the state before the first version
LAYOUT_ROW = META + b"layout"
RULES_ROW = META + b"rules"


@dataclass(slots=True)
class Record:
    """The follower's own progress and bookkeeping."""

    format: int = FORMAT
    topic_id: str = ""
    loading: bool = True
    groups: int = 0
    partitions: int = 0  # of the changelog, as the job distributes key groups over them
    newest: int = 0  # newest readable revision; 0: none yet
    oldest: int = 0  # oldest readable revision; 0: none yet
    floor: int = 0  # oldest revision whose rows still exist
    last: int = 0  # last revision that was assigned
    done: list[int] = field(default_factory=list)  # by key group: the revision that it has reached
    # Maps a key group to the offset of the last end-of-batch record that was applied.
    ended: list[int] = field(default_factory=list)
    skipped: list[int] = field(default_factory=list)  # revisions after `newest` that were never complete here
    # Key groups for which the first load has records of a batch, but not its end.
    half: list[int] = field(default_factory=list)
    positions: dict[str, int] = field(default_factory=dict)  # by changelog partition: the offset to continue from
    # Maps a changelog partition to an offset: compaction may have removed records of any batch before it.
    holes: dict[str, int] = field(default_factory=dict)
    epochs: list[str] = field(default_factory=list)
    entries: dict[str, dict[str, int]] = field(default_factory=dict)  # number of entries by kind and schema version
    alive_ms: int = 0  # when the follower had last read everything, by its own clock

    def encode(self) -> bytes:
        # not asdict, which copies each list: this runs after every few changes
        return json.dumps({name: getattr(self, name) for name in self.__slots__}, separators=(",", ":")).encode()


def read_record(db: Db) -> Record | None:
    """Reads the bookkeeping row. None: nothing is written yet, or in an older format. Raises SetupError for a newer
    format."""
    row = db.get(ROW)
    if row is None:
        return None
    fields: dict[str, Any] = json.loads(row)
    if fields["format"] > FORMAT:
        raise SetupError(
            f"the replica's files: expected format {FORMAT}, found {fields['format']}.",
            "use the program that wrote them or a newer one, or another --data.",
        )
    return Record(**fields) if fields["format"] == FORMAT else None


def read_layout(db: Db) -> str:
    """The `ReplicaModel.layout` with which the files were created."""
    return (db.get(LAYOUT_ROW) or b"").decode()


def read_rules(db: Db) -> Mapping[str, Any] | None:
    """The rules of the run whose entries were indexed. None: not known."""
    row = db.get(RULES_ROW)
    rules: Mapping[str, Any] | None = None if row is None else json.loads(row)
    return rules


def write_layout(db: Db, layout: str, rules: Mapping[str, Any] | None = None) -> None:
    batch = WriteBatch(raw_mode=True)
    batch.put(LAYOUT_ROW, layout.encode())
    if rules is not None:
        batch.put(RULES_ROW, json.dumps(rules).encode())
    db.write(batch)


@dataclass(frozen=True, slots=True)
class Revision:
    """A row of R (`moneystate.replica.rows`)."""

    number: int
    version: Version
    watermark_ms: int  # as the engine has it, including NO_TIME and END_OF_TIME
    written_at_ms: int
    readable: bool
    rules: Mapping[str, Any] = field(default_factory=dict)  # rules of the batch, as far as the log records them

    def encode(self) -> bytes:
        version, rules = self.version, dict(self.rules)
        fields = [version.epoch, version.batch, self.watermark_ms, self.written_at_ms, int(self.readable), rules]
        return json.dumps(fields, separators=(",", ":")).encode()


def decode_revision(number: int, row: bytes) -> Revision:
    epoch, batch, watermark, written, readable, rules = json.loads(row)
    return Revision(number, Version(epoch, batch), watermark, written, bool(readable), rules)


def read_revision(db: Db, number: int) -> Revision | None:
    row = db.get(REVISION + long(number))
    return None if row is None else decode_revision(number, row)
