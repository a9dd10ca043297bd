"""What the interface asks workers to do: records of `delivery-commands`."""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaError, KafkaException, Producer

from moneystate.deliver.history import COMMANDS, Command, to_json
from moneystate.deliver.interface.owned import RETRY_S
from moneystate.deliver.interface.refusals import Refused
from moneystate.kafka.client import base_config, new_client, reason

WRITTEN_S: Final = 10.0


class Commands:
    """Calls come from several threads."""

    def __init__(self, bootstrap_servers: str, extra: dict[str, str], prefix: str) -> None:
        self._topic = prefix + COMMANDS
        config = {
            **base_config(bootstrap_servers, extra), "acks": "all", "enable.idempotence": True, "linger.ms": 0,
            "partitioner": "murmur2_random", "message.timeout.ms": round(WRITTEN_S * 1_000),
        }  # fmt: skip
        self._producer: Producer = new_client(Producer, config)

    def write(self, command: Command) -> None:
        """Returns once it is in the log. Raises Refused."""
        ends: list[KafkaError | None] = []
        try:
            value = to_json(command)
        except UnicodeEncodeError:
            raise Refused("INVALID_REQUEST", "expected texts that are Unicode.") from None
        try:
            self._producer.produce(
                self._topic,
                value,
                command.endpoint_id.encode(),
                on_delivery=lambda error, _: ends.append(error),
            )
            self._producer.flush(WRITTEN_S)
        except (KafkaException, BufferError) as e:
            raise _unwritten(reason(e)) from None
        if not ends:
            raise _unwritten("no broker acknowledged it")
        if ends[0] is not None:
            raise _unwritten(ends[0].str())


def _unwritten(why: str) -> Refused:
    return Refused("UNAVAILABLE", f"expected to write the command, but {why}; it may be in the log.", RETRY_S)
