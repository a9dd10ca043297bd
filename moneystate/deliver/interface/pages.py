"""Pages of the logs of messages, for an endpoint: `deliveries`, `undelivered` and `delivery-log`.

All are partitioned by endpoint alike, so an endpoint's records are in one partition of each. A page begins at the
place that the page before it named. It reads a bounded number of records, so it may be empty without being the last.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, Generic, NamedTuple, TypeVar

from moneystate.deliver import statuses
from moneystate.deliver.breaker import Breaker
from moneystate.deliver.history import Attempt, Cut, Ended, LogRecord, NotARecord, Redelivered, Undelivered, from_json
from moneystate.deliver.interface.owned import RETRY_S
from moneystate.deliver.interface.refusals import Refused
from moneystate.deliver.records import Delivery, DeliveryReader, NotADelivery
from moneystate.errors import MoneystateError
from moneystate.kafka.client import admin_client
from moneystate.kafka.offsets import log_ends, log_starts, offsets_at, topic_states
from moneystate.kafka.partitions import partition_of_key
from moneystate.kafka.ranges import Range, RangeReader

SCANNED: Final = 20_000  # records that a page reads at most
PAGE_BYTES: Final = 8 << 20
MIB: Final = 1024 * 1024

Item = TypeVar("Item")


class Page(NamedTuple, Generic[Item]):
    items: list[Item]
    after: int  # the place that the next page begins at
    is_last: bool  # so far
    is_gap: bool  # records between this page and the one before are no longer kept


class Pages:
    """`prefix`: of topics. Calls come from several threads. They raise Refused."""

    def __init__(self, bootstrap_servers: str, extra: dict[str, str], prefix: str) -> None:
        self._prefix = prefix
        self._admin = admin_client(bootstrap_servers, extra)
        self._reader = RangeReader(bootstrap_servers, extra, f"{prefix}delivery-interface", queue_bytes=8 * MIB)
        self._lock = threading.Lock()

    def page(
        self, topic: str, endpoint_id: str, read: Callable[[bytes | None], Item | None], after: int, limit: int,
        since_ms: int | None = None,
    ) -> Page[Item]:  # fmt: skip
        """`read`: makes an item of a value. None: it is left out. `since_ms`: where the first page begins."""
        key = endpoint_id.encode()
        with self._lock:
            try:
                return self._page(self._prefix + topic, key, read, after, limit, since_ms)
            except MoneystateError as e:
                raise Refused("UNAVAILABLE", e.message, RETRY_S) from None
            finally:
                self._reader.let_go()

    def last(self, topic: str, endpoint_id: str, read: Callable[[bytes | None], Item | None]) -> Item | None:
        """The last item of an endpoint in a compacted topic, whose partition is read as a whole."""
        item, after, is_last = None, 0, False
        while not is_last:
            page = self.page(topic, endpoint_id, read, after, SCANNED)
            item = page.items[-1] if page.items else item
            after, is_last = page.after, page.is_last
        return item

    def _page(
        self, topic: str, key: bytes, read: Callable[[bytes | None], Item | None], after: int, limit: int,
        since_ms: int | None,
    ) -> Page[Item]:  # fmt: skip
        partitions = topic_states(self._admin, [topic])[topic].partitions
        place = topic, partition_of_key(key, len(partitions))
        first, end = log_starts(self._admin, [place])[place], log_ends(self._admin, [place])[place]
        start = max(after, first)
        if since_ms is not None and not after:
            start = max(first, offsets_at(self._admin, [place], since_ms)[place])
        stop, size = max(start, min(end, start + SCANNED)), 0
        items: list[Item] = []
        for message in self._reader.read([Range(*place, start, stop)]):
            item = read(message.value()) if message.key() == key else None
            if item is None:
                continue
            items.append(item)
            size += len(message)
            if len(items) >= limit or size >= PAGE_BYTES:
                stop = message.offset() + 1
                break
        return Page(items, stop, stop >= end, 0 < after < first)

    def close(self) -> None:
        self._reader.consumer.close()


def undelivered(is_seen: Callable[[Delivery], bool]) -> Callable[[bytes | None], Undelivered | None]:
    """`is_seen`: whether the caller may have it."""

    def read(value: bytes | None) -> Undelivered | None:
        try:
            record = from_json(value)
        except NotARecord:
            return None
        return record if isinstance(record, Undelivered) and is_seen(record.delivery) else None

    return read


def status(value: bytes | None) -> Breaker | None:
    try:
        _, breaker = statuses.from_json(value or b"")
    except NotARecord:
        return None
    return breaker


def history(webhook_id: str) -> Callable[[bytes | None], LogRecord | None]:
    """Reads what the log has of a message. That of a batch also by the id of a member, as far as its cut is on the
    page."""
    ids = {webhook_id}

    def read(value: bytes | None) -> LogRecord | None:
        try:
            record = from_json(value)
        except NotARecord:
            return None
        if isinstance(record, Cut) and not ids.isdisjoint([*record.members, record.replaces]):
            ids.add(record.webhook_id)
        if isinstance(record, Cut | Attempt | Ended | Redelivered) and record.webhook_id in ids:
            return record
        return None

    return read


def deliveries(
    reader: DeliveryReader, is_seen: Callable[[Delivery], bool]
) -> Callable[[bytes | None], Delivery | None]:
    def read(value: bytes | None) -> Delivery | None:
        try:
            its = reader.read(value)
        except NotADelivery:
            return None
        return its if is_seen(its) else None

    return read
