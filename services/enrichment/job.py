"""The enrichment as a job for the engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from functools import partial
from typing import Any

from moneystate.engine.avro import MAGIC
from moneystate.engine.deadletter import Letter
from moneystate.engine.processor import Convert, Decoded, Read, ReadValue, Rejected
from moneystate.ports.service import JobSpec, ServiceSpec
from moneystate.runtime.folders import avro_root
from moneystate.schemas.tree import has_further_versions, read_folder, tree_of
from services.enrichment import events, fingerprints, topics
from services.enrichment.emit import asked_again
from services.enrichment.rules import LOGIC_VERSION, Rules
from services.enrichment.state_model import STATE
from services.enrichment.step import Enrichment
from services.enrichment.users import PAGE_ITEMS


class EventDecoder:
    """The decoder (`moneystate.engine.processor.Decoder`) for the enrichment's topics."""

    def decode(self, topic: int, value: bytes) -> Decoded:
        time, key = events.decode(topic, value)
        return value, time, key

    def reads(self, formats: Mapping[str, str], converts: Mapping[int, Convert]) -> dict[int, Read]:
        return {}

    def values(self, formats: Mapping[str, str]) -> dict[int, ReadValue]:
        return {}

    def needs_headers(self, topic: int) -> bool:
        return False

    def ends_load(self, topic: int, record: Letter) -> int | None:
        return None

    def rejected(self, cause: Exception) -> Rejected | None:
        return None


DECODER = EventDecoder()
NAME = "moneystate-enrich"
FORMATTED = [t.name for t in topics.INPUTS] + topics.STREAMS[:2]  # topics with a choice of formats
FULL_PAGE = 4 * PAGE_ITEMS  # items of a very full page; a hash distributes the items, on average `PAGE_ITEMS` each


def known_schemas() -> list[str]:
    """Fingerprints of all event schemas that this program reads, of every version. They are one of the rules."""
    root = avro_root()
    known = {header[len(MAGIC) :].hex() for header in [*events.TYPES, *events.NO_INPUT]}
    if has_further_versions(root):
        tree = tree_of(read_folder(root))
        for versions in tree.versions.values():
            fingerprints = {version.fingerprint for version in versions.values()}
            if known & fingerprints:
                known |= fingerprints
    return sorted(known)


def topic_schemas() -> dict[str, list[dict[str, Any]]]:
    """The schemas of the records in each topic."""
    names = {t.code: t.name for t in topics.INPUTS}  # a heartbeat, which may be in any input, has none
    topic_of = {header: names[kind.topic] for header, kind in events.TYPES.items() if kind.topic in names}
    topic_of[fingerprints.MONEY_ENRICHED] = topics.STREAMS[topics.ENRICHED]
    topic_of[fingerprints.SESSION_LOOKUP_REQUESTED] = topics.STREAMS[topics.LOOKUP_REQUESTS]
    tree, schemas = tree_of(read_folder(avro_root())), dict[str, list[dict[str, Any]]]()
    for name in tree.versions:
        version = tree.current_version(name)
        topic = topic_of.get(MAGIC + bytes.fromhex(version.fingerprint))
        if topic is not None:
            schemas.setdefault(topic, []).append(version.source)
    return schemas


def largest_records(rules: Rules) -> dict[str, int]:
    """The size of the largest record of each output topic: key, value and headers. The fields of fixed size together
    count as one more kept text."""
    texts = 5 * events.MAX_KEPT_BYTES
    with_money = rules.max_record_bytes + texts
    page = FULL_PAGE * (2 * events.MAX_KEPT_BYTES + 64)
    return {
        topics.STREAMS[topics.ENRICHED]: with_money,
        topics.STREAMS[topics.LOOKUP_REQUESTS]: texts,
        topics.CHANGELOG: max(with_money, page),
    }


def enrichment_job(rules: Rules) -> JobSpec:
    inputs = [t for t in topics.INPUTS if t.ordered or rules.lookup]
    return JobSpec(
        name=NAME,
        inputs=inputs,
        decoder="services.enrichment.job:DECODER",
        make=partial(Enrichment, rules),
        streams=topics.STREAMS,
        dead_letter_stream=topics.DEAD_LETTERS,
        changelog=topics.CHANGELOG,
        commits=topics.COMMITS,
        rules={**asdict(rules), "known_schemas": known_schemas(), "logic": LOGIC_VERSION},
        bound_ms=rules.bound_ms,
        max_future_ms=rules.max_future_ms,
        pending_counter="looking_up" if rules.lookup else None,
        max_record_bytes=rules.max_record_bytes,
        largest=largest_records(rules),
        asked_again=asked_again,
        state=STATE,
        application="moneystate",
        reader_rules=["dedup_ttl_ms"],
        counters=["waiting", "looking_up", "late", "duplicates"],
        topic_schemas=topic_schemas,
    )


def job_by(rules: Mapping[str, Any]) -> JobSpec:
    """The job for rules as a checkpoint or savepoint records them."""
    return enrichment_job(Rules(**{f.name: rules[f.name] for f in fields(Rules) if f.name in rules}))


ENRICHMENT = ServiceSpec(NAME, job_by, STATE, FORMATTED)
