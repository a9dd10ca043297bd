"""Describes the enrichment's entries to a replica (`moneystate.ports.replica.ReplicaModel`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moneystate.ports.replica import Entries
from moneystate.replica.reader import FollowedReader
from services.enrichment.replica import decode
from services.enrichment.replica.model import UserView
from services.enrichment.replica.reads import Reads
from services.enrichment.replica.snapshot import Snapshot
from services.enrichment.replica.trace import EnrichedTrace
from services.enrichment.state import FORGOTTEN, WAITING, decode_forgotten
from services.enrichment.topics import CHANGELOG


class EnrichmentReplica:
    changelog = CHANGELOG
    trace = EnrichedTrace()
    held = WAITING
    proof = FORGOTTEN
    owners = "user"
    layout = ""
    fingerprint = decode.WRITTEN_NOW

    def as_run(self, rules: Mapping[str, Any]) -> EnrichmentReplica:
        return self

    def split(self, key: bytes) -> tuple[bytes, bytes] | None:
        return decode.split(key)

    def join(self, kind: bytes, owner: bytes, rest: bytes) -> bytes:
        return kind + owner + rest

    def schema(self, value: bytes) -> tuple[str, int]:
        return decode.schema(value)

    def index_keys(self, owner: bytes, kind: bytes, rest: bytes, value: bytes) -> set[bytes]:
        return decode.index_keys(owner, kind, rest, value)

    def order_time(self, value: bytes) -> int:
        return decode.order_time(value)

    def forgotten_at(self, value: bytes) -> int:
        return decode_forgotten(value).forgotten_at

    def view(self, owner: bytes, entries: Entries, watermark_ms: int, rules: Mapping[str, Any]) -> UserView | None:
        return decode.user_view(owner, entries.read, watermark_ms, rules.get("dedup_ttl_ms"))


REPLICA = EnrichmentReplica()


def open_reads(data: str) -> Reads:
    """Reads from the folder of a follower. The follower is another process, which need not be running."""
    return FollowedReader(REPLICA, Snapshot, data)
