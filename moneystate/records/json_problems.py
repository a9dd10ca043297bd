"""Finds all problems of a document that a record's JSON codec refuses, which names only the first."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

from moneystate.engine.avro import Malformed
from moneystate.records.generate_json import reader_of
from moneystate.records.json_parts import MISSING
from moneystate.records.shapes import Array, Field, Maybe, Record, Shape, Table


class Problem(NamedTuple):
    field: str  # a path such as `lines[2].price`; empty: the record itself
    text: str  # what is wrong; never a value, apart from symbols of enums


NOT_AN_OBJECT: Final = "not an object"
_reader = lru_cache(maxsize=1_000)(reader_of)


def problems(record: Record, document: Any) -> Iterator[Problem]:
    """Yields the problems in the order of the declared fields. If there are none, the codec accepts the document."""
    return _found(record, document, "")


def _found(shape: Shape, value: Any, path: str) -> Iterator[Problem]:
    if isinstance(shape, Maybe):
        if value is not None:
            yield from _found(shape.inner, value, path)
    elif isinstance(shape, Record):
        yield from _in_record(shape, value, path)
    elif isinstance(shape, Array):
        if type(value) is not list:
            yield Problem(path, "not an array")
            return
        for number, item in enumerate(value):
            yield from _found(shape.inner, item, f"{path}[{number}]")
    elif isinstance(shape, Table):
        if type(value) is not dict:
            yield Problem(path, NOT_AN_OBJECT)
            return
        for key, item in value.items():
            yield from _found(shape.inner, item, _below(path, key))
    else:
        try:
            _reader(shape)(value)
        except Malformed as e:
            yield Problem(path, str(e))


def _in_record(record: Record, document: Any, path: str) -> Iterator[Problem]:
    if type(document) is not dict:
        yield Problem(path, NOT_AN_OBJECT)
        return
    for field in record.fields:
        value = _member(field, document)
        where = _below(path, field.label)
        if value is not MISSING:
            yield from _found(field.shape, value, where)
        elif field.default is None:
            yield Problem(where, "missing")


def _member(field: Field, document: dict[str, Any]) -> Any:
    names = (field.label, *field.also_in_json)
    return next((document[name] for name in names if name in document), MISSING)


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
