"""Values of any schema, and their bytes with arrays in the form that state has (one block with its size)."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import fastavro
from hypothesis import strategies as st

from moneystate.engine.avro import long_bytes

Names = dict[str, Any]
UUIDS = st.uuids().map(str)
TEXTS = st.text(max_size=8) | UUIDS


def parsed(source: Any) -> tuple[Any, Names]:
    """The schema as fastavro has it, without logical types, and its named types."""
    names: Names = {}
    return fastavro.parse_schema(_plain(source), named_schemas=names), names


def _plain(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_plain(part) for part in schema]
    if isinstance(schema, dict):
        return {k: _plain(v) for k, v in schema.items() if k not in ("logicalType", "precision", "scale")}
    return schema


def values(schema: Any, names: Names) -> st.SearchStrategy[Any]:
    """A union's value is a pair of the branch's number and its value."""
    if isinstance(schema, list):
        return st.one_of([st.tuples(st.just(n), values(branch, names)) for n, branch in enumerate(schema)])
    if isinstance(schema, str):
        return _PRIMITIVES[schema] if schema in _PRIMITIVES else values(names[schema], names)
    kind = schema["type"]
    if kind == "record":
        return st.fixed_dictionaries({f["name"]: values(f["type"], names) for f in schema["fields"]})
    if kind == "array":
        return st.lists(values(schema["items"], names), max_size=4)
    if kind == "map":
        return st.dictionaries(st.text(max_size=4), values(schema["values"], names), max_size=3)
    if kind == "enum":
        return st.sampled_from(schema["symbols"])
    if kind == "fixed":
        return st.binary(min_size=schema["size"], max_size=schema["size"])
    return values(kind, names)


_PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=30),
    "string": TEXTS,
}


def encode(schema: Any, names: Names, value: Any) -> bytes:
    if isinstance(schema, list):
        return long_bytes(value[0]) + encode(schema[value[0]], names, value[1])
    if isinstance(schema, str) and schema in names:
        return encode(names[schema], names, value)
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind == "record":
        return b"".join(encode(f["type"], names, value[f["name"]]) for f in schema["fields"])
    if kind == "array":
        items = b"".join(encode(schema["items"], names, item) for item in value)
        return long_bytes(-len(value)) + long_bytes(len(items)) + items + b"\0" if value else b"\0"
    if kind == "map":
        items = b"".join(encode("string", names, k) + encode(schema["values"], names, v) for k, v in value.items())
        return long_bytes(-len(value)) + long_bytes(len(items)) + items + b"\0" if value else b"\0"
    if kind == "enum":
        return long_bytes(schema["symbols"].index(value))
    if kind in ("fixed", "null", "boolean", "float", "double"):
        out = BytesIO()
        fastavro.schemaless_writer(out, schema, value)
        return out.getvalue()
    if kind in ("int", "long"):
        return long_bytes(value)
    data = value.encode() if isinstance(value, str) else value
    return long_bytes(len(data)) + data


def decode(schema: Any, body: bytes, reader: Any = None) -> Any:
    """What fastavro reads; nothing may be left over."""
    rest = BytesIO(body)
    value = fastavro.schemaless_reader(rest, schema, reader)
    assert rest.read() == b""
    return value
