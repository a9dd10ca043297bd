"""The formats of a plain service's topics: its schemas come from its records, and its JSON from their codecs.

Services are named by MODULE:NAME, which is how Spark's processes find them.
"""

from __future__ import annotations

from typing import Any

from moneystate.api.codec import Codec
from moneystate.api.job import folder_of, plan_of, topic_schemas
from moneystate.api.json_text import parse
from moneystate.api.plan import Plan
from moneystate.engine.avro import HEADER_BYTES, Malformed
from moneystate.kafka.formats.base import Undecodable
from moneystate.kafka.formats.schemas import SchemaSet
from moneystate.schemas import tree as trees

TYPE = "type"


def has_further_versions(service: str) -> bool:
    return trees.has_further_versions(folder_of(service))


def schema_set(service: str) -> SchemaSet:
    """What the service reads and writes, and the other released versions of it."""
    current = topic_schemas(plan_of(service))
    released = trees.tree_of(trees.read_folder(folder_of(service)))
    mine = SchemaSet(current.values())
    fingerprints = {taken.fingerprint.hex() for taken in mine.by_name.values()}
    others = [
        version.source
        for name, versions in released.versions.items()
        if not trees.is_state(name) and name.partition("/")[2] in current
        for version in versions.values()
        if version.fingerprint not in fingerprints
    ]
    return SchemaSet(current.values(), others)


class PlainJson:
    """The value format `json`: an object with the record's fields and, first, its type, which may be left out where a
    topic has records of one type."""

    name = "json"

    def __init__(self, service: str, topic: str) -> None:
        plan = plan_of(service)
        self._service = service
        self._topic = topic
        self._codecs = {codec.record.short: codec for codec in [*_codecs(plan), plan.heartbeat]}
        self._by_header = {codec.header: codec for codec in self._codecs.values()}
        inputs = next((plan.inputs[code] for code, name in plan.topics.items() if name == topic), {})
        mine = [taken.codec for taken in inputs.values()]
        self._only = mine[0] if len(mine) == 1 else None

    def __reduce__(self) -> tuple[type[PlainJson], tuple[str, str]]:
        return PlainJson, (self._service, self._topic)

    def to_canonical(self, value: bytes | None) -> bytes:
        if value is None:
            raise Undecodable("null_value")
        try:
            document = parse(value.decode())
            codec = self._codec(document)
            return codec.encode(codec.from_json(document))
        except UnicodeDecodeError:
            raise Undecodable("malformed", "not UTF-8") from None
        except Malformed as e:
            raise Undecodable("malformed", str(e)) from None

    def _codec(self, document: Any) -> Codec:
        if type(document) is not dict:
            raise Undecodable("malformed", "not an object")
        name = document.get(TYPE)
        if self._only is not None and (name is None or _has_type(self._only)):
            return self._only
        if type(name) is not str:
            raise Undecodable("malformed", "type: not a text" if TYPE in document else "type: missing")
        if name not in self._codecs:
            raise Undecodable("unknown_schema", f"type {name[:100]!r}")
        return self._codecs[name]

    def from_canonical(self, value: bytes) -> bytes:
        codec = self._by_header.get(value[:HEADER_BYTES])
        if codec is None:
            raise Undecodable("unknown_schema", f"fingerprint {value[2:HEADER_BYTES].hex()}")
        return codec.to_json(codec.decode(value))


def _codecs(plan: Plan) -> list[Codec]:
    read = [taken.codec for inputs in plan.inputs.values() for taken in inputs.values()]
    return [*read, *[output.codec for output in plan.outputs.values()]]


def _has_type(codec: Codec) -> bool:
    """Whether the record has a field of that name of its own."""
    return any(f.wire == TYPE for f in codec.record.fields)
