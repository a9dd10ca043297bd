"""Converts values of topics that are not in canonical form, both ways."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from moneystate.engine.items import Output
from moneystate.engine.processor import Convert, InputTopic
from moneystate.errors import ConfigError
from moneystate.records.other_versions import AnyVersion
from moneystate.records.schema_set import SchemaSet
from moneystate.runtime.json_topic import AVRO, CONFLUENT, DEBEZIUM, JSON, ChangeTopic, JsonTopic
from moneystate.runtime.plans import plan_of
from moneystate.schemas import topic_schemas

if TYPE_CHECKING:
    from moneystate.registry.confluent import ConfluentFormat


def converters(
    formats: dict[str, str],
    inputs: list[InputTopic],
    registry_url: str | None,
    id_wait_s: float | None = None,
    service: str = "",
) -> dict[int, Convert]:
    """Converters to canonical form, by topic code. Topics in Avro single-object encoding need none as long as each
    type has one version. `id_wait_s`: as in `confluent_format`; `service`: as in `JobSpec`."""
    further = bool(service) and topic_schemas.has_further_versions(service)
    wanted = {t: formats.get(t.name, AVRO) for t in inputs if further or formats.get(t.name, AVRO) != AVRO}
    return {t.code: _reader(name, t.name, service, registry_url, id_wait_s) for t, name in wanted.items()}


def _reader(name: str, topic: str, service: str, registry_url: str | None, id_wait_s: float | None) -> Convert:
    if name == JSON:
        return JsonTopic(plan_of(service), topic).to_canonical
    if name == DEBEZIUM:
        return ChangeTopic(plan_of(service), topic).to_canonical
    if name == AVRO:
        return AnyVersion(_schemas(service))
    return _confluent(name, service, registry_url, id_wait_s=id_wait_s)


def writers(
    formats: dict[str, str], streams: list[str], prefix: str, registry_url: str | None, service: str = ""
) -> dict[int, Convert]:
    """Converters from canonical form, by stream number, for output topics in other formats. `service`: as in
    `JobSpec`."""
    wanted = {n: formats[name] for n, name in enumerate(streams) if formats.get(name, AVRO) != AVRO}
    return {n: _writer(name, streams[n], prefix, service, registry_url) for n, name in wanted.items()}


def _writer(name: str, topic: str, prefix: str, service: str, registry_url: str | None) -> Convert:
    if name == JSON:
        return JsonTopic(plan_of(service), topic).from_canonical
    return _confluent(name, service, registry_url, prefix + topic).from_canonical


def _confluent(
    name: str, service: str, registry_url: str | None, topic: str = "", id_wait_s: float | None = None
) -> ConfluentFormat:
    """`topic`: with prefix, for writing."""
    # Imported only here: a job with topics in Avro alone loads no HTTP client in its workers.
    from moneystate.registry.confluent import confluent_format, subject_of

    if name != CONFLUENT:
        raise ConfigError(f"format {name!r}: expected a known topic format.", "use avro, json, confluent or debezium.")
    return confluent_format(_schemas(service), registry_url, subject_of(topic) if topic else None, id_wait_s)


@cache
def _schemas(service: str) -> SchemaSet:
    """Cached in each process, because converters are created for every batch."""
    return topic_schemas.schema_set(service)


def converted(output: Output, convert: dict[int, Convert]) -> Output:
    """The output after conversion by `writers`."""
    stream, key, value, headers = output
    if stream not in convert or value is None:
        return output
    return stream, key, convert[stream](value), headers
