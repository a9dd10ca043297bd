"""Lists the changes between two versions of a schema, and what each means for readers.

A change is backward compatible if readers of the new version can read records of the old version. It is forward
compatible if readers of the old version can read records of the new version. It is fully compatible if both hold.
`moneystate.records.resolution` decides the same for a whole schema.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from moneystate.records.avro_types import (
    ArrayType,
    EnumType,
    FixedType,
    MapType,
    NamedType,
    PrimitiveType,
    RecordField,
    RecordType,
    Type,
    UnionType,
    shown,
)
from moneystate.records.resolution import of_one_kind, reads, same_name, written_fields

FULL, BACKWARD, FORWARD, INCOMPATIBLE = "full", "backward", "forward", "incompatible"


@dataclass(frozen=True)
class SchemaChange:
    """One change between two versions of a schema."""

    path: str  # record and field
    rule: str  # a fixed name for this kind of change
    text: str
    backward: bool
    forward: bool
    fix: str = ""  # what to do if it is not allowed

    @property
    def compatibility(self) -> str:
        return compatibility(self.backward, self.forward)


def compatibility(backward: bool, forward: bool) -> str:
    if backward:
        return FULL if forward else BACKWARD
    return FORWARD if forward else INCOMPATIBLE


def changes(old: Type, new: Type) -> list[SchemaChange]:
    """All changes from `old` to `new`, which are usually top-level records."""
    return list(_Walk().types(old, new, new.short if isinstance(new, NamedType) else new.kind))


class _Walk:
    def __init__(self) -> None:
        self.seen: set[tuple[int, int]] = set()

    def types(self, old: Type, new: Type, path: str) -> Iterator[SchemaChange]:
        if (id(old), id(new)) in self.seen:
            return
        self.seen.add((id(old), id(new)))
        if isinstance(old, UnionType) or isinstance(new, UnionType):
            yield from self._unions(old, new, path)
        elif isinstance(old, RecordType) and isinstance(new, RecordType):
            yield from self._name(old, new, path)
            yield from self._records(old, new, path)
        elif isinstance(old, EnumType) and isinstance(new, EnumType):
            yield from self._name(old, new, path)
            yield from _enums(old, new, path)
        elif isinstance(old, FixedType) and isinstance(new, FixedType):
            yield from self._name(old, new, path)
            yield from _fixed(old, new, path)
        elif isinstance(old, ArrayType) and isinstance(new, ArrayType):
            yield from self.types(old.items, new.items, f"{path}[]")
        elif isinstance(old, MapType) and isinstance(new, MapType):
            yield from self.types(old.values, new.values, f"{path}{{}}")
        else:
            yield from _plain(old, new, path)

    def _name(self, old: NamedType, new: NamedType, path: str) -> Iterator[SchemaChange]:
        if old.short == new.short:
            return
        fix = "upgrade readers that only know the old name first."
        if not same_name(new, old):
            fix = f'add "aliases": ["{old.name}"] to {new.short}.'
        yield SchemaChange(
            path,
            "type renamed",
            f"{old.kind} {old.short} is {new.short} now",
            same_name(new, old),
            same_name(old, new),
            fix,
        )

    def _records(self, old: RecordType, new: RecordType, path: str) -> Iterator[SchemaChange]:
        removed = {f.name: f for f in old.fields}
        added: list[RecordField] = []
        written, read_back = written_fields(new, old), written_fields(old, new)
        for f in new.fields:
            before = written.get(f.name)
            if before is None:
                added.append(f)
                continue
            removed.pop(before.name, None)
            where = f"{path}.{f.name}"
            if before.name != f.name:
                yield _renamed(before, f, where)
            yield from _defaults(before, f, where)
            yield from self.types(before.type, f.type, where)
        for f in added:
            renamed = next((g for g in removed.values() if shown(g.type) == shown(f.type)), None)
            if f.has_default or renamed is None:
                yield _added(f, path)
            else:
                del removed[renamed.name]
                yield _renamed_without_alias(renamed, f, read_back.get(renamed.name), path)
        for f in removed.values():
            if all(other.name != f.name for other in new.fields):
                yield _removed(f, read_back.get(f.name), path)
        remaining = [f.name for f in old.fields if any(n.name == f.name for n in new.fields)]
        if remaining != [f.name for f in new.fields if f.name in remaining]:
            yield SchemaChange(path, "fields reordered", "its fields are in another order", True, True)

    def _unions(self, old: Type, new: Type, path: str) -> Iterator[SchemaChange]:
        old_branches = old.branches if isinstance(old, UnionType) else [old]
        new_branches = new.branches if isinstance(new, UnionType) else [new]
        pairs = [(o, n) for o in old_branches for n in new_branches if of_one_kind(n, o)]
        if not pairs and not (isinstance(old, UnionType) and isinstance(new, UnionType)):
            yield from _plain(old, new, path)
            return
        for o, n in pairs:
            yield from self.types(o, n, path)
        for n in new_branches:
            if all(n is not known for _, known in pairs):
                read = reads(old, n)
                fix = "" if read else "write the new branch only once all readers have the new version."
                yield SchemaChange(path, "branch added", f"it may be {shown(n)}, too", True, read, fix)
        for o in old_branches:
            if all(o is not known for known, _ in pairs):
                read = reads(new, o)
                fix = "" if read else f"keep the branch {shown(o)}, because existing records have it."
                yield SchemaChange(path, "branch removed", f"it can no longer be {shown(o)}", read, True, fix)
        order = [o for n in new_branches for o, known in pairs if known is n]
        if order != [o for o in old_branches if any(o is known for known, _ in pairs)]:
            text = "the branches of its union are in another order; a default belongs to the first one"
            yield SchemaChange(path, "branches reordered", text, True, True)


def _added(f: RecordField, path: str) -> SchemaChange:
    text = f"a new field {f.name}, {shown(f.type)}"
    if f.has_default:
        return SchemaChange(f"{path}.{f.name}", "field added with default", text, True, True)
    fix = "give it a default, because existing records do not have it."
    return SchemaChange(f"{path}.{f.name}", "field added without default", text, False, True, fix)


def _renamed_without_alias(
    before: RecordField, now: RecordField, under_alias: RecordField | None, path: str
) -> SchemaChange:
    """A field was removed, and another one of the same type was added. It is probably the same field."""
    text = f"{before.name} was removed, {now.name} of the same type was added"
    fix = f'if it is {before.name} under another name, add "aliases": ["{before.name}"]; else give it a default.'
    forward = _removed(before, under_alias, path).forward
    return SchemaChange(f"{path}.{now.name}", "field renamed without alias", text, False, forward, fix)


def _removed(f: RecordField, under_alias: RecordField | None, path: str) -> SchemaChange:
    """`under_alias`: the new field that a reader of the old version takes for it."""
    text = f"the field {f.name} was removed"
    if f.has_default:
        return SchemaChange(f"{path}.{f.name}", "field removed with default", text, True, True)
    forward = under_alias is not None and reads(f.type, under_alias.type)
    fix = "keep it, or release a version in which it has a default, and remove it once all readers have that version."
    return SchemaChange(
        f"{path}.{f.name}", "field removed without default", text, True, forward, "" if forward else fix
    )


def _renamed(before: RecordField, now: RecordField, where: str) -> SchemaChange:
    forward = before.has_default or now.name in before.aliases
    fix = "" if forward else f"an older reader does not find {before.name}: upgrade readers first, or keep the name."
    text = f"{before.name} is {now.name} now, with the old name as an alias"
    return SchemaChange(where, "field renamed with alias", text, True, forward, fix)


def _defaults(before: RecordField, now: RecordField, where: str) -> Iterator[SchemaChange]:
    if before.has_default and not now.has_default:
        yield SchemaChange(where, "default removed", "it has no default any more", True, True)
    elif before.has_default and before.default != now.default:
        yield SchemaChange(
            where, "default changed", f"its default is {now.default!r}, was {before.default!r}", True, True
        )


def _enums(old: EnumType, new: EnumType, path: str) -> Iterator[SchemaChange]:
    added = [symbol for symbol in new.symbols if symbol not in old.symbols]
    removed = [symbol for symbol in old.symbols if symbol not in new.symbols]
    if added:
        has_default = old.default is not None
        fix = (
            ""
            if has_default
            else "first release a version in which the enum has a default, and upgrade all readers to it."
        )
        text = f"enum {new.short} gains {', '.join(added)}"
        yield SchemaChange(path, "enum symbol added", text, True, has_default, fix)
    if removed:
        has_default = new.default is not None
        fix = "" if has_default else "keep the symbols, or give the enum a default, as which they are read."
        text = f"enum {new.short} loses {', '.join(removed)}"
        yield SchemaChange(path, "enum symbol removed", text, has_default, True, fix)
    common = [symbol for symbol in old.symbols if symbol in new.symbols]
    if common != [symbol for symbol in new.symbols if symbol in old.symbols]:
        text = f"the symbols of enum {new.short} are in another order: readers use names, but copied bytes do not"
        yield SchemaChange(path, "enum reordered", text, True, True)


def _fixed(old: FixedType, new: FixedType, path: str) -> Iterator[SchemaChange]:
    if old.size != new.size:
        fix = "use a new name and a union of both, because the size of a fixed cannot change."
        text = f"fixed {new.short} has {new.size} bytes, had {old.size}"
        yield SchemaChange(path, "fixed size changed", text, False, False, fix)
    elif shown_meaning(old) != shown_meaning(new):
        yield _meaning(old, new, path)


def _plain(old: Type, new: Type, path: str) -> Iterator[SchemaChange]:
    """Changes between primitive types, or between a primitive and a composite type."""
    if isinstance(old, PrimitiveType) and isinstance(new, PrimitiveType) and old.kind == new.kind:
        if shown_meaning(old) != shown_meaning(new):
            yield _meaning(old, new, path)
        return
    backward, forward = reads(new, old), reads(old, new)
    rule = "type widened" if backward else "type narrowed" if forward else "type changed"
    fix = ""
    if not backward:
        fix = f"keep {shown(old)}, or add a field with another name and a function that fills it."
    elif not forward:
        fix = f"a reader of {shown(old)} cannot take it: upgrade readers first."
    yield SchemaChange(path, rule, f"{shown(new)}, was {shown(old)}", backward, forward, fix)


def _meaning(old: PrimitiveType | FixedType, new: PrimitiveType | FixedType, path: str) -> SchemaChange:
    backward, forward = reads(new, old), reads(old, new)
    text = f"{shown_meaning(new)}, was {shown_meaning(old)}"
    rule = "logical type changed"
    fix = (
        "add a field with another name and a function that fills it, because the same bytes would change their meaning."
    )
    if old.logical == new.logical == "decimal":
        rule = "decimal scale changed" if old.scale != new.scale else "decimal precision changed"
        if old.scale == new.scale:
            fix = "" if backward and forward else "the side with fewer digits cannot take all values: upgrade it first."
    return SchemaChange(path, rule, text, backward, forward, "" if backward and forward else fix)


def shown_meaning(schema_type: PrimitiveType | FixedType) -> str:
    if schema_type.logical == "decimal":
        return f"{schema_type.kind} (decimal of {schema_type.precision} digits, {schema_type.scale} places)"
    return f"{schema_type.kind} ({schema_type.logical})" if schema_type.logical else f"plain {schema_type.kind}"
