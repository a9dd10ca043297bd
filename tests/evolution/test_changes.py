"""What each kind of change means for readers of either side."""

from __future__ import annotations

from contextlib import suppress
from io import BytesIO
from typing import Any

import fastavro
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moneystate.records.avro_types import BadSchema, RecordType, parse
from moneystate.records.resolution import reads
from moneystate.records.rewriting import rewriter
from moneystate.schemas.changes import BACKWARD, FORWARD, FULL, INCOMPATIBLE, changes, compatibility
from tests.budget import examples
from tests.evolution.avro_bytes import encode, parsed, values

Json = dict[str, Any]


def record(*fields: Json, **more: Any) -> Json:
    return {"type": "record", "name": "Thing", "namespace": "a", "fields": list(fields), **more}


def field(avro_type: Any, name: str = "x", **more: Any) -> Json:
    return {"name": name, "type": avro_type, **more}


def enum(*symbols: str, **more: Any) -> Json:
    return {"type": "enum", "name": "Colour", "symbols": list(symbols), **more}


def fixed(size: int, name: str = "Digest") -> Json:
    return {"type": "fixed", "name": name, "size": size}


def decimal(precision: int, scale: int) -> Json:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def times(unit: str) -> Json:
    return {"type": "long", "logicalType": f"timestamp-{unit}"}


X = field("string")
KINDS: list[tuple[str, Json, Json, str, str]] = [
    ("added with default", record(X), record(X, field("int", "y", default=0)), "field added with default", FULL),
    ("added without", record(X), record(X, field("int", "y")), "field added without default", FORWARD),
    ("removed with default", record(X, field("int", "y", default=0)), record(X), "field removed with default", FULL),
    ("removed without", record(X, field("int", "y")), record(X), "field removed without default", BACKWARD),
    ("renamed", record(X), record(field("string", "y", aliases=["x"])), "field renamed with alias", BACKWARD),
    ("renamed without alias", record(X), record(field("string", "y")), "field renamed without alias", INCOMPATIBLE),
    ("reordered", record(X, field("int", "y")), record(field("int", "y"), X), "fields reordered", FULL),
    ("int to long", record(field("int")), record(field("long")), "type widened", BACKWARD),
    ("int to double", record(field("int")), record(field("double")), "type widened", BACKWARD),
    ("long to int", record(field("long")), record(field("int")), "type narrowed", FORWARD),
    ("double to float", record(field("double")), record(field("float")), "type narrowed", FORWARD),
    ("string to bytes", record(X), record(field("bytes")), "type widened", FULL),
    ("string to int", record(X), record(field("int")), "type changed", INCOMPATIBLE),
    ("nullable", record(X), record(field(["null", "string"])), "branch added", BACKWARD),
    ("not nullable", record(field(["null", "string"])), record(X), "branch removed", FORWARD),
    (
        "branch added",
        record(field(["null", "int"])),
        record(field(["null", "int", "string"])),
        "branch added",
        BACKWARD,
    ),
    ("branch order", record(field(["int", "string"])), record(field(["string", "int"])), "branches reordered", FULL),
    ("symbol added", record(field(enum("A"))), record(field(enum("A", "B"))), "enum symbol added", BACKWARD),
    ("symbol removed", record(field(enum("A", "B"))), record(field(enum("A"))), "enum symbol removed", FORWARD),
    (
        "symbol removed, with a default",
        record(field(enum("A", "B"))),
        record(field(enum("A", default="A"))),
        "enum symbol removed",
        FULL,
    ),
    (
        "symbol added to an enum with a default",
        record(field(enum("A", default="A"))),
        record(field(enum("A", "B", default="A"))),
        "enum symbol added",
        FULL,
    ),
    ("symbols reordered", record(field(enum("A", "B"))), record(field(enum("B", "A"))), "enum reordered", FULL),
    ("fixed size", record(field(fixed(4))), record(field(fixed(8))), "fixed size changed", INCOMPATIBLE),
    ("fixed name", record(field(fixed(4))), record(field(fixed(4, "Other"))), "type renamed", INCOMPATIBLE),
    ("scale", record(field(decimal(9, 2))), record(field(decimal(9, 4))), "decimal scale changed", INCOMPATIBLE),
    ("precision", record(field(decimal(9, 2))), record(field(decimal(20, 2))), "decimal precision changed", BACKWARD),
    ("unit", record(field(times("millis"))), record(field(times("micros"))), "logical type changed", INCOMPATIBLE),
    (
        "record renamed with alias",
        record(X),
        {**record(X), "name": "Other", "aliases": ["Thing"]},
        "type renamed",
        BACKWARD,
    ),
    ("record renamed", record(X), {**record(X), "name": "Other"}, "type renamed", INCOMPATIBLE),
    ("default removed", record(field("int", default=1)), record(field("int")), "default removed", FULL),
    (
        "inside an array",
        record(field({"type": "array", "items": "int"})),
        record(field({"type": "array", "items": "string"})),
        "type changed",
        INCOMPATIBLE,
    ),
]


@pytest.mark.parametrize(("old", "new", "rule", "wanted"), [k[1:] for k in KINDS], ids=[k[0] for k in KINDS])
def test_each_kind_of_change_is_named_and_judged(old: Json, new: Json, rule: str, wanted: str) -> None:
    before, after = parse(old), parse(new)
    (change,) = changes(before, after)
    assert (change.rule, change.compatibility) == (rule, wanted)
    assert compatibility(reads(after, before), reads(before, after)) == wanted
    assert bool(change.fix) == (wanted != FULL)


def test_the_field_and_what_to_do_are_named() -> None:
    inner = {"type": "array", "items": {"type": "record", "name": "Part", "fields": [field("string", "id")]}}
    renamed = {"type": "array", "items": {"type": "record", "name": "Part", "fields": [field("string", "key")]}}
    (change,) = changes(parse(record(field(inner, "parts"))), parse(record(field(renamed, "parts"))))
    assert change.path == "Thing.parts[].key"
    assert '"aliases": ["id"]' in change.fix


@pytest.mark.parametrize(
    "bad",
    [
        record(field(["null", "int"], default=1)),
        record(field("int", default=None)),
        record(field(enum("A", default="B"))),
        record(field("Unknown")),
        record(field(fixed(2)), field(fixed(3), "y")),
        {"type": "record", "name": "NoFields"},
    ],
)
def test_what_avro_does_not_allow_is_no_schema(bad: Json) -> None:
    with pytest.raises(BadSchema):
        parse(bad)


def test_a_type_inside_itself_is_compared_once() -> None:
    def tree(leaf: str) -> Json:
        return record(field(leaf), field(["null", "a.Thing"], "next", default=None))

    assert [c.rule for c in changes(parse(tree("int")), parse(tree("long")))] == ["type widened"]
    assert reads(parse(tree("long")), parse(tree("int")))


# Any pair of schemas

plain = st.sampled_from(["null", "boolean", "int", "long", "float", "double", "bytes", "string"])
colours = st.lists(st.sampled_from("ABC"), min_size=1, max_size=3, unique=True).map(lambda s: enum(*s))
leaves = st.one_of(plain, colours)
unions = st.lists(plain, min_size=1, max_size=3, unique=True)
types = st.one_of(leaves, unions, leaves.map(lambda t: {"type": "array", "items": t}))


@st.composite
def records(draw: st.DrawFn) -> Json:
    names = draw(st.lists(st.sampled_from("pqrs"), min_size=1, max_size=3, unique=True))
    fields = []
    with_enum = False
    for name in names:
        avro_type = draw(types)
        if "enum" in repr(avro_type):  # a name is defined once
            avro_type, with_enum = ("int", True) if with_enum else (avro_type, True)
        more: Json = (
            {"default": None} if avro_type == "null" or (isinstance(avro_type, list) and avro_type[0] == "null") else {}
        )
        more = {"default": 0} if avro_type in ("int", "long") else more
        fields.append(field(avro_type, name, **(more if draw(st.booleans()) else {})))
    return record(*fields)


def alike(value: Any) -> Any:
    """Numbers to six digits, and bytes as text. fastavro does not round an int that is read as a float, and of a union
    it takes the first branch that an int or a string can be read as. Java takes that of its own kind, and so do we."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list):
        return [alike(item) for item in value]
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return f"{value:.6g}" if is_number else value


@settings(max_examples=examples(400), database=None, suppress_health_check=list(HealthCheck))
@given(records(), records(), st.data())
def test_all_changes_together_allow_what_resolution_allows_and_fastavro_reads_it(
    old: Json, new: Json, data: st.DataObject
) -> None:
    before, after = parse(old), parse(new)
    all_changes = changes(before, after)
    assert all(c.backward for c in all_changes) == reads(after, before)
    assert all(c.forward for c in all_changes) == reads(before, after)
    if reads(after, before):
        writer, names = parsed(old)
        body = encode(writer, names, data.draw(values(writer, names)))
        with suppress(UnicodeDecodeError):  # of bytes that are read as a text
            wanted: Any = fastavro.schemaless_reader(BytesIO(body), writer, parsed(new)[0])
            if "'items': 'null'" in repr(old):  # many items without bytes are refused on purpose
                return
            assert isinstance(after, RecordType)
            rewritten = bytearray()
            assert rewriter(after, before)(body, 0, rewritten) == len(body)
            got: Any = fastavro.schemaless_reader(BytesIO(bytes(rewritten)), parsed(new)[0], None)
            assert {name: alike(value) for name, value in got.items()} == {
                n: alike(value) for n, value in wanted.items()
            }
