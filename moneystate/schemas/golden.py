"""Golden bytes of a service's state records: the bytes that each released version wrote, and the record that they
are read as.

`schemas release` makes them once. They never change, so they reveal a changed codec or `@ms.upgrade` function.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from moneystate.engine.avro import HEADER_BYTES, Malformed
from moneystate.errors import ServiceError
from moneystate.records import exact_json
from moneystate.records.json_value import Json
from moneystate.records.shapes import Array, Exact, Maybe, Plain, Record, Shape, Symbols, Table
from moneystate.runtime.cells import RecordKind
from moneystate.runtime.folders import folder_of
from moneystate.runtime.plans import plan_of
from moneystate.runtime.reference import path_of
from moneystate.schemas.check import RESTORE, Finding
from moneystate.schemas.tree import STATE, Tree

GOLDEN: Final = "golden"
_PLAIN: Final[dict[str, Any]] = {
    "string": "é text",
    "long": -300,
    "double": 0.1,
    "boolean": True,
    "bytes": b"\x00\xff",
    "millis": 1_700_000_000_123,
    "json": Json.of({"b": [1, None], "a": "é"}),
}


def check_samples(service: str) -> None:
    """Raises ServiceError for a state record that rejects the values of golden bytes."""
    for kind in _kinds(service):
        cls = kind.codec.record.cls
        try:
            _filled(kind.codec.record)
        except Exception as e:
            raise ServiceError(
                f"{path_of(service)}: {cls.__name__} of the state cannot hold any value of its fields' types: {e}.",
                "check values in the functions that write them, not in the record.",
            ) from None


def keep(service: str, tree: Tree) -> None:
    """Writes missing golden bytes of the newest versions, and missing records that are read from earlier ones."""
    for name, kind in _named(service, tree):
        record = kind.codec.record
        newest = max(tree.versions[name])
        folder = _folder(service, name)
        folder.mkdir(parents=True, exist_ok=True)
        newest_file = folder / f"v{newest}.json"
        if not newest_file.exists():
            sample = _filled(record)
            _write(newest_file, {"bytes": kind.codec.encode(sample).hex(), "record": _json(kind, sample)})
        for number in range(1, newest):
            target = folder / f"v{number}-to-v{newest}.json"
            source = folder / f"v{number}.json"
            if source.exists() and not target.exists():
                _write(target, {"record": _json(kind, _read(kind, _bytes(source)))})


def findings(service: str, tree: Tree) -> Iterator[Finding]:
    """Golden bytes that are missing, or that are read differently now."""
    for name, kind in _named(service, tree):
        newest = max(tree.versions.get(name, {0: None}))
        folder = _folder(service, name)
        for number in sorted((tree.released or {}).get(name, {})):
            source = folder / f"v{number}.json"
            expected = source if number == newest else folder / f"v{number}-to-v{newest}.json"
            problem = _problem(kind, source, expected)
            if problem:
                path = f"{GOLDEN}/{folder.name}/{expected.name}"
                yield Finding(name, f"v{number}", path, "golden bytes", "", problem, RESTORE, False)


def _filled(shape: Shape) -> Any:
    """A value whose parts all differ from their defaults."""
    if isinstance(shape, Record):
        return shape.cls(**{f.name: _filled(f.shape) for f in shape.fields})
    if isinstance(shape, Maybe):
        return _filled(shape.inner)
    if isinstance(shape, Array):
        return [_filled(shape.inner)] * 2
    if isinstance(shape, Table):
        return {"é": _filled(shape.inner)}
    if isinstance(shape, Symbols):
        return shape.symbols[-1]
    if isinstance(shape, Exact):
        return Decimal("-1234"[: 1 + shape.digits.precision]).scaleb(-shape.digits.scale)
    assert isinstance(shape, Plain)
    return _PLAIN[shape.kind]


def _problem(kind: RecordKind, source: Path, expected: Path) -> str:
    if not source.exists() or not expected.exists():
        return f"no golden bytes in {(expected if source.exists() else source).name}"
    try:
        now = _json(kind, _read(kind, _bytes(source)))
    except Malformed as e:
        return f"golden bytes that cannot be read: {e}"
    before = exact_json.loads(expected.read_text())["record"]
    if _same(before, now):
        return ""
    return f"golden bytes are read as {exact_json.dumps(now)}, were {exact_json.dumps(before)}"


def _same(before: Any, now: Any) -> bool:
    """Whether a file has this record. Files of earlier releases have numbers in the digits of a float."""
    if isinstance(now, dict):
        return isinstance(before, dict) and before.keys() == now.keys() and all(_same(before[n], now[n]) for n in now)
    if isinstance(now, list):
        return isinstance(before, list) and len(before) == len(now) and all(map(_same, before, now))
    if isinstance(now, Decimal):
        return isinstance(before, Decimal) and (before == now or str(before) == repr(float(now)))
    return type(before) is type(now) and before == now


def _kinds(service: str) -> list[RecordKind]:
    """One kind for each record."""
    return list({kind.codec.record.name: kind for kind in plan_of(service).kinds.values()}.values())


def _named(service: str, tree: Tree) -> list[tuple[str, RecordKind]]:
    """The names of the records in the tree, with their kinds."""
    kinds = _kinds(service)
    names = tree.names_in(STATE, [kind.codec.record.name for kind in kinds])
    return [(names[kind.codec.record.name], kind) for kind in kinds]


def _folder(service: str, name: str) -> Path:
    return folder_of(service) / GOLDEN / name.removeprefix(f"{STATE}/")


def _read(kind: RecordKind, value: bytes) -> Any:
    header = value[:HEADER_BYTES]
    if header == kind.codec.header:
        return kind.codec.decode(value)
    if header not in kind.earlier_records:
        raise Malformed("a version without an upgrade function")
    return kind.earlier_records[header](value, HEADER_BYTES)[0]


def _bytes(path: Path) -> bytes:
    return bytes.fromhex(json.loads(path.read_text())["bytes"])


def _json(kind: RecordKind, record: Any) -> Any:
    return exact_json.loads(kind.codec.to_json(record))


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(exact_json.dumps(content, indent="  ", sort=True, ascii=True) + "\n")
