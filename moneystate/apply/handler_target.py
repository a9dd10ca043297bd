"""A function of the user that reads, computes and updates in the transaction, at work."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from psycopg.pq import TransactionStatus

from moneystate.apply.config import HandlerTarget
from moneystate.apply.database import REPEATABLE_READ, Connected, Tx
from moneystate.apply.decoding import decoder, natural
from moneystate.apply.handling import Event
from moneystate.apply.notifications import Encoder, check_format
from moneystate.apply.outbox import lineage_of
from moneystate.apply.records import Decode, Delete, Ignored, Read, Record
from moneystate.apply.targets import Committed, Effects
from moneystate.errors import ConfigError

_NAMESPACE: Final = re.compile(r"[^A-Za-z0-9_.]")


class Handler:
    """A target of kind handler. `prefix`: of topics."""

    isolation = REPEATABLE_READ

    def __init__(self, target: HandlerTarget, application: str, prefix: str, registry: str) -> None:
        s = target.source
        self.target = target
        self.name = target.name
        self.topics = [prefix + s.topic]
        self.where = f"[handler.{target.name}]"
        self.notifications = prefix + target.notifications if target.notifications else ""
        check_format(target.notifications_format, registry, f"{self.where} notifications-format")
        self._prefix = prefix
        self._decode: Decode = decoder(s.topic, s.format, s.type, s.service, s.schemas, registry)
        self._encoder = Encoder(
            self.notifications, target.notifications_format, _NAMESPACE.sub("_", application), registry
        )
        self._function = function_at(target.function, self.where)

    def prepare(self, connection: Connected) -> None:
        """The function knows its tables; nothing is checked."""

    def apply(self, tx: Tx, reads: Sequence[Read], effects: Effects) -> None:
        if self.target.batch:
            if reads:
                self._notify(reads[-1].record, self._call(tx, [read.content for read in reads]), effects)
            return
        for read in reads:
            self._notify(read.record, self._call(tx, read.content), effects)

    def read(self, record: Record) -> Event | None:
        decoded = self._decode(record)
        if isinstance(decoded, Ignored):
            return None
        value: Any = None
        if not isinstance(decoded, Delete):
            value = natural(decoded.fields)
        r = record
        key = None if r.key is None else r.key.decode("utf-8", "replace")
        topic = r.topic.removeprefix(self._prefix)
        return Event(value, key, topic, r.partition, r.offset, r.timestamp_ms, dict(r.headers))

    def _call(self, tx: Tx, given: Any) -> list[Any]:
        returned = self._function(tx, given)
        if tx.connection.info.transaction_status is TransactionStatus.IDLE:
            raise Committed(
                f"{self.where} {self.target.function}: expected the transaction to be open, but it was ended."
            )
        return [] if returned is None else list(returned)

    def _notify(self, cause: Record, notifications: list[Any], effects: Effects) -> None:
        if notifications and not self.notifications:
            raise ConfigError(
                f"{self.where}: expected no notifications, because there is no topic for them, but the function "
                "returned some.",
                "add notifications, or return nothing.",
            )
        stream = effects.stream(cause)
        for notification in notifications:
            key, value = self._encoder.encode(notification)
            headers = [lineage_of(cause, cause.topic.removeprefix(self._prefix))]
            effects.outgoing.add(stream, cause.offset, self.notifications, key, value, headers)


def function_at(reference: str, where: str) -> Callable[[Tx, Any], Any]:
    """The function MODULE:NAME. Modules beside the caller's folder can be named, too. Raises ConfigError."""
    module, _, name = reference.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        function = getattr(import_module(module), name, None)
    except ImportError as e:
        raise ConfigError(
            f"{where} handler {reference}: expected a module, but {e}.", "check the name and PYTHONPATH."
        ) from None
    if not callable(function):
        raise ConfigError(f"{where} handler {reference}: expected a function, found none.", "correct the name.")
    checked: Callable[[Tx, Any], Any] = function
    return checked
