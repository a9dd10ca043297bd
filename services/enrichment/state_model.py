"""Describes the enrichment's entries to the platform (`moneystate.ports.state.StateModel`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from moneystate.engine.avro import Malformed
from moneystate.engine.items import Item
from moneystate.kafka.formats.json_format import JsonFormat
from moneystate.kafka.formats.schemas import SchemaSet
from moneystate.ports.state import Fact, Field, Pair, Row, Versions
from moneystate.records import exact_json
from services.enrichment import migrations, view
from services.enrichment.facts import user_facts
from services.enrichment.state import FORGOTTEN, PAGE, USER, WAITING, decode_waiting, owner_of
from services.enrichment.topics import INPUTS


@cache
def _json_format() -> JsonFormat:
    return JsonFormat(SchemaSet.load())


class EnrichmentState:
    kinds = USER + PAGE + WAITING + FORGOTTEN
    topics: Mapping[int, str] = {t.code: t.name for t in INPUTS}
    titles: Mapping[str, str] = view.TITLES

    @property
    def versions(self) -> Versions:
        m = migrations
        return Versions(m.WRITTEN, m.UP, m.DOWN, m.LEFT_ALONE, m.EVENTS_SINCE)

    def owner_of(self, key: bytes) -> bytes | None:
        return owner_of(key)

    def counts_owner(self, key: bytes) -> bool:
        return key.startswith(USER)

    def facts(self, key: bytes, value: bytes, watermark: int, rules: Mapping[str, Any]) -> Iterator[Fact]:
        return user_facts(key, value, watermark, rules["dedup_ttl_ms"])

    def held_since(self, key: bytes, value: bytes) -> int | None:
        return decode_waiting(value).order_time if key.startswith(WAITING) else None

    def view(self, entries: Iterable[Pair], watermark: int, rules: Mapping[str, Any]) -> Row:
        return view.user_view(entries, watermark, rules["dedup_ttl_ms"])

    def event_view(self, value: bytes) -> Any:
        return exact_json.loads(_json_format().from_canonical(value))

    def fact_view(self, kind: str, content: tuple[Field, ...]) -> Row | None:
        if kind != "buffered":
            return view.fact_view(kind, content)
        value = content[1]
        try:
            return {"event": self.event_view(value)} if isinstance(value, bytes) else None
        except Malformed:
            return None  # a timer

    def timer_view(self, item: Item) -> str:
        return view.timer_view(item)


STATE = EnrichmentState()
