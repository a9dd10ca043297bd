"""Reads `deliveries` and `delivery-log` for an audit, a partition at a time: memory is for the deliveries of one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final, NamedTuple

from moneystate.deliver.accounts import Accounts, Event, Fault, Totals
from moneystate.deliver.history import LOG, Attempt, Cut, Ended, NotARecord, Redelivered, from_json
from moneystate.deliver.records import DeliveryReader, NotADelivery
from moneystate.errors import SetupError
from moneystate.kafka.client import admin_client
from moneystate.kafka.offsets import log_ends, log_starts, offsets_at, topic_states
from moneystate.kafka.ranges import Range, RangeReader

DELIVERIES: Final = "deliveries"
GROUP: Final = "moneystate-delivery-audit"
SKEW_MS: Final = 300_000  # between the clocks of a worker and a broker


class Report(NamedTuple):
    totals: Totals
    faults: list[Fault]  # the first ones
    unread: int  # records that are none of these


class Audit:
    """`prefix`: of topics."""

    def __init__(self, bootstrap_servers: str, extra: dict[str, str], prefix: str, reader: DeliveryReader) -> None:
        self._deliveries = prefix + DELIVERIES
        self._log = prefix + LOG
        self._admin = admin_client(bootstrap_servers, extra)
        self._reader = RangeReader(bootstrap_servers, extra, GROUP)
        self._schemas = reader
        self._unread = 0

    def report(self, from_ms: int, to_ms: int, faults: int, progress: Callable[[int, int], object]) -> Report:
        """Reports on deliveries that the router wrote from `from_ms` to before `to_ms`, with what the log has of them
        until now. `faults`: how many are named; `progress`: gets partitions done, and all. Raises SetupError and
        BrokerError."""
        states = topic_states(self._admin, [self._deliveries, self._log])
        numbers = states[self._deliveries].partitions
        if states[self._log].partitions != numbers:
            raise SetupError(
                f"{self._log}: expected {len(numbers)} partitions, as {self._deliveries} has, found "
                f"{len(states[self._log].partitions)}.",
                "give the --topic-prefix of one router and its workers.",
            )
        totals, named = Totals(), list[Fault]()
        self._unread = 0
        for done, number in enumerate(numbers):
            progress(done, len(numbers))
            accounts = self._accounts(number, from_ms, to_ms)
            totals.add(accounts.totals())
            named += islice(accounts.faults(), faults - len(named))
        progress(len(numbers), len(numbers))
        return Report(totals, named, self._unread)

    def _accounts(self, number: int, from_ms: int, to_ms: int) -> Accounts:
        accounts = Accounts()
        place = self._deliveries, number
        start, end = (offsets_at(self._admin, [place], at_ms)[place] for at_ms in (from_ms, to_ms))
        for message in self._reader.read([Range(*place, start, end)]):
            try:
                its = self._schemas.read(message.value())
            except NotADelivery:
                self._unread += 1
                continue
            accounts.expect(its.delivery_id, Event(its.topic, its.event_id, its.subscription_id, its.endpoint_id))
        self._take_log(accounts, number, from_ms)
        return accounts

    def _take_log(self, accounts: Accounts, number: int, from_ms: int) -> None:
        place = self._log, number
        start = max(offsets_at(self._admin, [place], from_ms - SKEW_MS)[place], log_starts(self._admin, [place])[place])
        end = log_ends(self._admin, [place])[place]
        for message in self._reader.read([Range(*place, start, end)]):
            try:
                record = from_json(message.value())
            except NotARecord:
                self._unread += 1
                continue
            if isinstance(record, Cut | Attempt | Ended | Redelivered):
                accounts.take(record)

    def close(self) -> None:
        self._reader.consumer.close()
