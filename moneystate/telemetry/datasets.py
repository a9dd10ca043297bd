"""What a job reads and writes, as plain values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

AvroSchema = Mapping[str, Any]


class Field(NamedTuple):
    name: str
    type: str  # as Avro names it
    doc: str | None = None
    fields: Sequence[Field] = ()  # of a record


class Topic(NamedTuple):
    name: str  # with prefix
    schemas: Sequence[AvroSchema] = ()  # of its records, one for each type; empty: not declared

    def fields(self) -> list[Field]:
        """The fields of its records. If it has several types, one field for each type."""
        if len(self.schemas) == 1:
            return list(_field("", self.schemas[0], None).fields)
        return [_field(str(schema["name"]), schema, schema.get("doc")) for schema in self.schemas]


class JobDatasets(NamedTuple):
    """The datasets of a job, and its name."""

    job: str
    brokers: str  # as in --bootstrap-servers
    inputs: Sequence[Topic]
    outputs: Sequence[Topic]
    changelog: str = ""  # the one of `outputs` whose version is the state's

    @property
    def namespace(self) -> str:
        """The name that OpenLineage has for Kafka: the address of the first broker."""
        first = re.sub(r"^\w+://", "", self.brokers.split(",")[0].strip())
        return f"kafka://{first}"


def _field(name: str, schema: Any, doc: str | None) -> Field:
    schema, optional = _without_null(schema)
    if isinstance(schema, list):
        return Field(name, "union" + optional, doc, [_field(_name_of(branch), branch, None) for branch in schema])
    if not isinstance(schema, Mapping):
        return Field(name, str(schema) + optional, doc)
    kind = schema["type"]
    if isinstance(kind, Mapping | list):  # {"type": {"type": ...}}
        return _field(name, kind, doc)
    if kind == "record":
        return Field(
            name, "record" + optional, doc, [_field(f["name"], f["type"], f.get("doc")) for f in schema["fields"]]
        )
    if kind in ("array", "map"):
        inner = _field("", schema["items" if kind == "array" else "values"], None)
        return Field(name, f"{kind}<{inner.type}>{optional}", doc, inner.fields)
    return Field(name, str(schema.get("logicalType", kind)) + optional, doc)


def _without_null(schema: Any) -> tuple[Any, str]:
    """The schema without null, and what its type's name has in addition."""
    if not isinstance(schema, list) or "null" not in schema:
        return schema, ""
    rest = [branch for branch in schema if branch != "null"]
    return (rest[0] if len(rest) == 1 else rest), "?"


def _name_of(branch: Any) -> str:
    return str(branch.get("name", branch["type"])) if isinstance(branch, Mapping) else str(branch)
