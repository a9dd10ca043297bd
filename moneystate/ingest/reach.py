"""Whether Kafka can be reached. Requests are refused while it cannot: they would only wait."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from moneystate.log import get_log
from moneystate.monitoring import Health

_log = get_log(__name__)

LOOK_S: Final = 1.0  # between two looks
ANSWER_S: Final = 3.0  # within which a broker answers
TOLD_S: Final = 60.0  # until the same error is logged again


class Reach:
    """Looks at the brokers again and again."""

    def __init__(self, admin: AdminClient, topic: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.is_reached = True
        self._admin = admin
        self._topic = topic  # one topic is enough to ask for
        self._clock = clock
        self._told: dict[str, float] = {}  # when an error was logged last, by its name

    async def watch(self) -> None:
        """Looks until it is cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            self.found(await asyncio.to_thread(self._look))

    def _look(self) -> bool:
        try:
            return bool(self._admin.list_topics(self._topic, ANSWER_S).brokers)
        except KafkaException:
            return False

    def found(self, is_reached: bool) -> None:
        if is_reached != self.is_reached:
            _log.info("Kafka is reached again") if is_reached else _log.warning("Kafka cannot be reached")
        self.is_reached = is_reached

    def failed(self, error: KafkaError) -> None:
        """Logs an error of a client, each kind once in a while."""
        name, now_s = error.name(), self._clock()
        if now_s - self._told.get(name, -TOLD_S) >= TOLD_S:
            self._told[name] = now_s
            _log.warning("a Kafka client reports an error", error=name)

    def check(self) -> Health:
        return Health(self.is_reached, "ready" if self.is_reached else "Kafka cannot be reached")
