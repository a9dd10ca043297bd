"""Field types that Python lacks, and annotations of fields.

placed_at: ms.Millis                            a time: milliseconds since the epoch
amount: ms.Decimal                              an exact number: 20 digits, 4 of them after the point
rate: Annotated[ms.Decimal, ms.Digits(38, 12)]  an exact number of other digits
details: ms.Json                                any JSON
time=ms.arrival                                 an input in arrival order
email: Annotated[str, ms.personal]              masked in answers to callers who may not read it
source: Annotated[str, ms.Header("ce_source")]  from a Kafka header, not from the value
id: Annotated[str, ms.Wire("order_id")]         another name in JSON and Avro
"""

from __future__ import annotations

import decimal
from dataclasses import dataclass
from typing import Annotated, Final, TypeVar

from moneystate.records.json_value import Json

__all__ = [
    "Decimal",
    "Digits",
    "Header",
    "Int32",
    "Json",
    "Millis",
    "Name",
    "Unavailable",
    "Wire",
    "arrival",
    "named",
    "personal",
]

Decimal = decimal.Decimal
C = TypeVar("C", bound=type)


class Mark:
    """An annotation that `Annotated` adds to the Python type."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"ms.{self.name}"


MILLIS: Final = Mark("Millis")
INT32: Final = Mark("Int32")
personal: Final = Mark("personal")
Millis = Annotated[int, MILLIS]
Int32 = Annotated[int, INT32]


@dataclass(frozen=True)
class Digits:
    """The digits of a decimal."""

    precision: int  # the most digits
    scale: int  # how many of them are after the point


@dataclass(frozen=True)
class Header:
    """A Kafka header with a key, a time or a field, such as `ce_id`, `ce_source` and `ce_time` of CloudEvents. The
    header is UTF-8. A time is ISO-8601 or milliseconds."""

    name: str


class Arrival:
    """The type of `arrival`, the time of an input in arrival order: each record has the time at which the broker
    received it (`docs/arrival.md`)."""

    def __repr__(self) -> str:
        return "ms.arrival"


arrival: Final = Arrival()


@dataclass(frozen=True)
class Unavailable:
    """Describes what happens to columns of change events that the database did not log, because an update left them as
    they were (`moneystate.runtime.unavailable`).

    - `keep`: a step gets the last value of the row's column, which the state keeps. False: such an event is a dead
      letter, and so is one of a row of which no value is known.
    - `placeholder`: Debezium's `unavailable.value.placeholder`.
    - `row`: the columns that identify a row, those of the table's primary key. None: those of the input's key.
    """

    keep: bool = True
    placeholder: str = "__debezium_unavailable_value"
    row: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Name:
    """The Avro name of an enum: `Annotated[Literal["A"], ms.Name("X")]`. By default it is made from record and field.

    A name with a dot is a full name."""

    name: str


@dataclass(frozen=True)
class Wire:
    """The name of a field in JSON and Avro: `Annotated[str, ms.Wire("order_id")]`. By default it is the field's name in
    the style of the service. A name that Avro does not allow, such as `@timestamp`, is the name in JSON alone.

    `was`: earlier names, under which records are still read."""

    name: str
    was: tuple[str, ...] = ()


NAME_ATTRIBUTE: Final = "__avro_name__"
WIRE_ATTRIBUTE: Final = "__json_type__"


class named:  # reads as a decorator
    """Gives a record a full Avro name: `@ms.named("shop.events.OrderPlaced")`. The default is `<service>.<class
    name>`. `wire`: the name of its type in JSON, such as `order.placed`; by default the Avro name without its
    namespace."""

    def __init__(self, name: str = "", *, wire: str = "") -> None:
        self.name = name
        self.wire = wire

    def __call__(self, cls: C) -> C:
        if self.name:
            setattr(cls, NAME_ATTRIBUTE, self.name)
        if self.wire:
            setattr(cls, WIRE_ATTRIBUTE, self.wire)
        return cls
