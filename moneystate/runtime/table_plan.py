"""A table as its service's plan has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from moneystate.api.table_versions import known_of, since
from moneystate.api.truncations import Positioned, Truncation, is_gone
from moneystate.records.reading import KeyReader
from moneystate.records.shapes import MILLIS_KIND, Maybe, Plain, Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from moneystate.api.service import Service
    from moneystate.api.table_versions import AnyVersion
    from moneystate.api.tables import DeclaredTable
    from moneystate.records.codec import Codec
    from moneystate.runtime.cells import RecordKind
from moneystate.errors import StepError


class TablePlan:
    def __init__(
        self, service: Service[Any], table: DeclaredTable[Any], code: int, codec: Codec, changes: Codec,
        kind: RecordKind,
    ) -> None:  # fmt: skip
        where = f"service {service.name!r}: {table!r}"
        self.table = table
        self.code = code
        self.codec = codec  # of its rows
        self.changes = changes  # of its topic's records, in canonical form
        self.kind = kind  # of the entries with the versions of a row
        self.keys = None if table.key is None else KeyReader(codec.record, table.key, where)
        if table.valid_from is not None:
            _check_valid_from(service, table, codec.record)
        if any(f.header for f in codec.record.fields):
            service.fail(f"{table!r}: a row cannot have fields in headers.", "put them into the value.")

    def row_at(
        self, versions: Sequence[AnyVersion], now_ms: int, at_ms: int | None, truncations: Sequence[Truncation] = ()
    ) -> AnyVersion | None:
        """The version that a step at `now_ms` gets. `at_ms`: as for `Table.get`."""
        if truncations:
            time_ms = now_ms if at_ms is None else min(now_ms, at_ms)
            versions = [v for v in versions if not is_gone(cast(Positioned, v), truncations, time_ms)]
        if at_ms is None:
            for version in reversed(versions):
                if since(version) <= now_ms:
                    return version
            return None
        if not self.table.history_ms:
            raise StepError(
                f"{self.table!r}: get(..., at=) of a table without history.", "declare it with history_ms=."
            )
        return known_of(versions, now_ms, at_ms)


def _check_valid_from(service: Service[Any], table: DeclaredTable[Any], record: Record) -> None:
    assert table.valid_from is not None
    field = record.field(table.valid_from)
    shape = None if field is None else field.shape
    inner = shape.inner if isinstance(shape, Maybe) else shape
    if inner != Plain(MILLIS_KIND):
        service.fail(
            f"{table!r}: valid_from={table.valid_from!r} is not a time.",
            f"name a field of {record.cls.__name__} that is ms.Millis or ms.Millis | None.",
        )
