"""Avro arrays whose items take no bytes. A few bytes of a record then name any number of items, and a reader makes them
all."""

from __future__ import annotations

from moneystate.records.avro_types import ArrayType, FixedType, MapType, RecordType, Type, UnionType


def has_empty_items(schema_type: Type) -> bool:
    """Whether an array in the type, however deep, has items without bytes: null, a record of nothing, a fixed of size
    0. Entries of a map take bytes, at least those of their keys."""
    return _Walk().finds(schema_type)


class _Walk:
    """It takes each record once, however often others refer to it: the schema may be somebody else's."""

    def __init__(self) -> None:
        self.seen: set[int] = set()  # the identities of records
        self.empty: dict[int, bool] = {}  # by the identities of records

    def finds(self, one: Type) -> bool:
        if isinstance(one, ArrayType):
            return self.is_empty(one.items) or self.finds(one.items)
        if isinstance(one, MapType):
            return self.finds(one.values)
        if isinstance(one, UnionType):
            return any(self.finds(branch) for branch in one.branches)
        if not isinstance(one, RecordType) or id(one) in self.seen:
            return False
        self.seen.add(id(one))
        return any(self.finds(f.type) for f in one.fields)

    def is_empty(self, one: Type) -> bool:
        """Whether values take no bytes. A record that holds itself, with nothing between, has no values."""
        if isinstance(one, RecordType):
            if id(one) not in self.empty:
                self.empty[id(one)] = True
                self.empty[id(one)] = all(self.is_empty(f.type) for f in one.fields)
            return self.empty[id(one)]
        return one.kind == "null" or (isinstance(one, FixedType) and one.size == 0)
