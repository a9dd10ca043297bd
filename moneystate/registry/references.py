"""Schemas in a registry that refer to schemas under other subjects, made into one schema.

Confluent's serializers parse the schemas that a schema refers to first, so it may use every type that they define. Here
each such type takes the place of its name where it is used first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from moneystate.engine.processor import Rejected
from moneystate.registry.client import Reference, RegisteredSchema

MOST_LEVELS: Final = 50
MOST_SCHEMAS: Final = 1_000
NAMED: Final = ("record", "error", "enum", "fixed")
UNREADABLE: Final = (ValueError, TypeError, LookupError, AttributeError, RecursionError)
Fetch = Callable[[Reference], RegisteredSchema]


class _Defined(NamedTuple):
    """A type that a schema defines, and the namespace around it."""

    schema: dict[str, Any]
    namespace: str


def self_contained(schema: RegisteredSchema, fetch: Fetch) -> str:
    """The schema with all that it refers to. Raises Rejected for what no reader could use: a cycle, two types of
    one name, a schema that is not Avro; and what `fetch` raises."""
    references = _References(fetch)
    for reference in schema.references:
        references.add(reference, ())
    try:
        return json.dumps(_Inliner(references.types).inline(json.loads(schema.text), ""))
    except UNREADABLE as error:
        raise _refused(f"its writer schema cannot be read: {type(error).__name__}") from None


class _References:
    """The types of the schemas that are referred to, by full name."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch
        self._done: set[tuple[str, int]] = set()
        self.types: dict[str, _Defined] = {}

    def add(self, reference: Reference, path: tuple[tuple[str, int], ...]) -> None:
        """`path`: the schemas that lead here."""
        place = (reference.subject, reference.version)
        where = f"{reference.subject} version {reference.version}"
        if place in path:
            raise _refused(f"its references form a cycle: {where}")
        if place in self._done:
            return
        if reference.version < 1:
            raise _refused(f"it refers to no version of {reference.subject}")
        if len(path) >= MOST_LEVELS or len(self._done) >= MOST_SCHEMAS:
            raise _refused(f"more than {MOST_LEVELS} levels of references, or {MOST_SCHEMAS:,} of them")
        schema = self._fetch(reference)
        if schema.schema_type != "AVRO":
            raise _refused(f"it refers to {where}, which is {schema.schema_type}")
        for inner in schema.references:
            self.add(inner, (*path, place))
        try:
            for name, defined in _types(json.loads(schema.text), ""):
                if self.types.setdefault(name, defined).schema != defined.schema:
                    raise _refused(f"it refers to two types {name}")
        except UNREADABLE as error:
            raise _refused(f"{where} cannot be read: {type(error).__name__}") from None
        self._done.add(place)


def _types(schema: Any, namespace: str) -> Iterator[tuple[str, _Defined]]:
    """The types that a schema defines, by full name."""
    if isinstance(schema, list):
        for branch in schema:
            yield from _types(branch, namespace)
    elif isinstance(schema, dict):
        if schema.get("type") in NAMED:
            name = _full_name(schema, namespace)
            yield name, _Defined(schema, namespace)
            namespace = name.rpartition(".")[0]
        for inner in _inner(schema):
            yield from _types(inner, namespace)


def _inner(schema: dict[str, Any]) -> Iterator[Any]:
    for part in ("type", "items", "values"):
        if isinstance(schema.get(part), (dict, list)):
            yield schema[part]
    for field in schema["fields"] if isinstance(schema.get("fields"), list) else ():
        if isinstance(field, dict):
            yield field.get("type")


def _full_name(schema: dict[str, Any], namespace: str) -> str:
    name = str(schema.get("name", ""))
    around = str(schema.get("namespace", namespace))
    return name if "." in name or not around else f"{around}.{name}"


class _Inliner:
    """Writes a schema with the types of others. A name after its definition stays a name."""

    def __init__(self, types: dict[str, _Defined]) -> None:
        self._types = types
        self._defined: set[str] = set()

    def inline(self, schema: Any, namespace: str) -> Any:
        if isinstance(schema, str):
            return self._named(schema, namespace)
        if isinstance(schema, list):
            return [self.inline(branch, namespace) for branch in schema]
        if not isinstance(schema, dict):
            return schema
        if schema.get("type") in NAMED:
            return self._definition(schema, namespace)
        parts = {part: self.inline(schema[part], namespace) for part in ("type", "items", "values") if part in schema}
        return {**schema, **parts}

    def _named(self, name: str, namespace: str) -> Any:
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        if full not in self._defined and full not in self._types:
            full = name  # a type of Avro, or one without a namespace
        if full in self._defined or full not in self._types:
            return full
        defined = self._types[full]
        return self._definition(defined.schema, defined.namespace)

    def _definition(self, schema: dict[str, Any], namespace: str) -> Any:
        name = _full_name(schema, namespace)
        if name in self._defined:
            return name
        self._defined.add(name)
        around, _, short = name.rpartition(".")
        whole = {**schema, "name": short, "namespace": around}
        if isinstance(schema.get("fields"), list):
            whole["fields"] = [{**f, "type": self.inline(f["type"], around)} for f in schema["fields"]]
        return whole


def _refused(detail: str) -> Rejected:
    return Rejected("unknown_schema", detail)
