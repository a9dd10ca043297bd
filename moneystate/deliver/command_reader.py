"""Commands of a partition, and the messages that they mean, read from the topics. Calls block.

The position of the commands is committed in the transaction that holds what they have begun. A command also stands in
the log by its id, in each message that it has sent again, so a worker that reads it once more does what of it is not in
the log yet. To do a command, the log and the deliveries of its partition are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from moneystate.deliver import history
from moneystate.deliver.envelopes import Format
from moneystate.deliver.history import Attempt, Command, Cut, Ended, NotARecord, Redeliver, Redelivered, SendTest
from moneystate.deliver.records import Delivery, DeliveryReader, NotADelivery, RowPlace
from moneystate.deliver.redelivery import Chronicle, Past, chronicle_of
from moneystate.deliver.requests import Message
from moneystate.deliver.topics import Leftovers

TEST_TYPE: Final = "moneystate.test"
TEST_BODY: Final = b'{"test":true}'


@dataclass(frozen=True, slots=True)
class Again:
    """A message to send. `run` 0: a test, which has one attempt and no outcome; `place`: the offset of its first
    delivery."""

    message: Message
    run: int
    command_id: str
    place: int = 0


class CommandReader:
    """`deliveries`: the name of the topic, with the prefix."""

    def __init__(self, topics: Leftovers, prefix: str, deliveries: str, reader: DeliveryReader) -> None:
        self.topics = topics
        self.prefix = prefix
        self.deliveries = deliveries
        self.reader = reader

    def after(self, partition: int, offset: int) -> tuple[list[Command], int]:
        """The commands from an offset on, and the offset after them. Raises BrokerError."""
        commands: list[Command] = []
        for place, value in self.topics.values(self.prefix + history.COMMANDS, partition, offset):
            offset = place + 1
            record = _read(value)
            if isinstance(record, Command):
                commands.append(record)
        return commands, offset

    def meant(self, partition: int, commands: list[Command]) -> list[Again]:
        """What they ask for and is not in the log yet, which has all that was sent. Raises BrokerError."""
        return list(self._meant(partition, commands))

    def _meant(self, partition: int, commands: list[Command]) -> Iterator[Again]:
        chronicle = self._chronicle(partition, {one.endpoint_id for one in commands})
        wanted = [(one, its) for one in commands if isinstance(one, Redeliver) for its in chronicle.chosen(one)]
        known = self._deliveries(partition, {member for _, its in wanted for member in its.members})
        taken: set[str] = set()
        for command, its in wanted:
            members = [known[name][1] for name in its.members if name in known]
            if its.webhook_id in taken or len(members) < len(its.members) or not _may(command, members):
                continue  # retention has taken it, or it belongs to others
            taken.add(its.webhook_id)
            yield Again(_message(its, members), its.run + 1, command.command_id, known[its.members[0]][0])
        for test in (one for one in commands if isinstance(one, SendTest)):
            if test.command_id not in chronicle.attempted:
                yield Again(_test(test), 0, test.command_id)

    def _chronicle(self, partition: int, endpoints: set[str]) -> Chronicle:
        values = self.topics.values(self.prefix + history.LOG, partition, 0)
        records = (_read(value) for _, value in values)
        taken = (one for one in records if isinstance(one, Cut | Attempt | Ended | Redelivered))
        return chronicle_of(taken, endpoints)

    def _deliveries(self, partition: int, ids: set[str]) -> dict[str, tuple[int, Delivery]]:
        """With their offsets."""
        known = {}
        for offset, value in self.topics.values(self.deliveries, partition, 0) if ids else ():
            try:
                one = self.reader.read(value)
            except NotADelivery:
                continue
            if one.delivery_id in ids:
                known[one.delivery_id] = offset, one
        return known


def _message(its: Past, members: list[Delivery]) -> Message:
    return Message(its.webhook_id, members, Format(its.format) if its.format else None)


def _may(command: Redeliver, members: list[Delivery]) -> bool:
    tenants = command.tenants
    return all(one.owner == command.owner and (tenants is None or one.tenant in tenants) for one in members)


def _test(command: SendTest) -> Message:
    row = RowPlace(0, -1)
    event = Delivery(
        command.command_id, command.endpoint_id, "", command.owner, row, row, "moneystate", 0, 0, command.at_ms, "",
        "0", command.command_id, "moneystate", TEST_TYPE, None, None, "application/json", TEST_BODY,
    )  # fmt: skip
    return Message(command.command_id, [event], None)


def _read(value: bytes | None) -> history.Record | None:
    try:
        return history.from_json(value)
    except NotARecord:
        return None
