"""Converts values of topics that are not in canonical form, both ways."""

from __future__ import annotations

from functools import cache

from moneystate.api.message import NamesSchema
from moneystate.engine.items import Output
from moneystate.engine.processor import Convert, InputTopic, Rejected
from moneystate.kafka.formats import plain
from moneystate.kafka.formats.base import Undecodable, ValueFormat, make_format, subject_of
from moneystate.kafka.formats.schemas import SchemaSet
from moneystate.kafka.formats.versions import AnyVersion
from moneystate.runtime.folders import avro_root
from moneystate.runtime.json_topic import AVRO, DEBEZIUM, JSON, ChangeTopic, JsonTopic
from moneystate.runtime.plans import plan_of
from moneystate.schemas.tree import has_further_versions


def converters(
    formats: dict[str, str],
    inputs: list[InputTopic],
    registry_url: str | None,
    id_wait_s: float | None = None,
    schemas: str = "",
) -> dict[int, Convert]:
    """Converters to canonical form, by topic code. Topics in Avro single-object encoding need none as long as each
    type has one version. `id_wait_s`: as in `make_format`; `schemas`: as in `JobSpec`."""
    further = plain.has_further_versions(schemas) if schemas else has_further_versions(avro_root())
    wanted = {t: formats.get(t.name, AVRO) for t in inputs if further or formats.get(t.name, AVRO) != AVRO}
    return {t.code: _reader(name, t.name, schemas, registry_url, id_wait_s) for t, name in wanted.items()}


def _reader(name: str, topic: str, service: str, registry_url: str | None, id_wait_s: float | None) -> Convert:
    if name == JSON and service:
        return JsonTopic(plan_of(service), topic).to_canonical
    if name == DEBEZIUM and service:
        return ChangeTopic(plan_of(service), topic).to_canonical
    schemas = _schemas(service)
    if name == AVRO:
        return Rejecting(AnyVersion(schemas))
    made = make_format(name, schemas, registry_url, id_wait_s=id_wait_s)
    return RejectingNamed(made) if isinstance(made, NamesSchema) else Rejecting(made)


def writers(
    formats: dict[str, str], streams: list[str], prefix: str, registry_url: str | None, schemas: str = ""
) -> dict[int, Convert]:
    """Converters from canonical form, by stream number, for output topics in other formats. `schemas`: as in
    `JobSpec`."""
    wanted = {n: formats[name] for n, name in enumerate(streams) if formats.get(name, AVRO) != AVRO}
    return {n: _writer(name, streams[n], prefix, schemas, registry_url) for n, name in wanted.items()}


def _writer(name: str, topic: str, prefix: str, service: str, registry_url: str | None) -> Convert:
    if name == JSON and service:
        return JsonTopic(plan_of(service), topic).from_canonical
    return make_format(name, _schemas(service), registry_url, subject_of(prefix + topic)).from_canonical


@cache
def _schemas(service: str = "") -> SchemaSet:
    """Cached in each process, because converters are created for every batch."""
    return plain.schema_set(service) if service else SchemaSet.load()


def converted(output: Output, convert: dict[int, Convert]) -> Output:
    """The output after conversion by `writers`."""
    stream, key, value, headers = output
    if stream not in convert or value is None:
        return output
    return stream, key, convert[stream](value), headers


class Rejecting:
    """A format as a `Convert`."""

    def __init__(self, format: ValueFormat) -> None:
        self.format = format

    def __call__(self, value: bytes) -> bytes:
        try:
            return self.format.to_canonical(value)
        except Undecodable as e:
            raise Rejected(e.reason, e.detail) from None


class RejectingNamed(Rejecting):
    """One whose values name their schema."""

    def schema_of(self, value: bytes) -> str:
        assert isinstance(self.format, NamesSchema)
        try:
            return self.format.schema_of(value)
        except Undecodable as e:
            raise Rejected(e.reason, e.detail) from None
