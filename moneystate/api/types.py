"""Field types that Python lacks, and annotations of fields.

placed_at: ms.Millis                            a time: milliseconds since the epoch
amount: ms.Decimal                              an exact number: 20 digits, 4 of them after the point
rate: Annotated[ms.Decimal, ms.Digits(38, 12)]  an exact number of other digits
details: ms.Json                                any JSON
email: Annotated[str, ms.personal]              masked in answers to callers who may not read it
source: Annotated[str, ms.Header("ce_source")]  from a Kafka header, not from the value
"""

from __future__ import annotations

import decimal
from dataclasses import dataclass
from typing import Annotated, Final, TypeVar

from moneystate.api.json_value import Json

__all__ = ["Decimal", "Digits", "Header", "Json", "Millis", "Name", "Unavailable", "named", "personal"]

Decimal = decimal.Decimal
C = TypeVar("C", bound=type)


class Mark:
    """An annotation that `Annotated` adds to the Python type."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"ms.{self.name}"


MILLIS: Final = Mark("Millis")
personal: Final = Mark("personal")
Millis = Annotated[int, MILLIS]


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


@dataclass(frozen=True)
class Unavailable:
    """What happens to columns of change events that the database did not log, because an update left them as they were
    (`moneystate.api.unavailable`).

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


NAME_ATTRIBUTE: Final = "__avro_name__"


class named:  # reads as a decorator
    """Gives a record a full Avro name: `@ms.named("shop.events.OrderPlaced")`. The default is `<service>.<class
    name>`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, cls: C) -> C:
        setattr(cls, NAME_ATTRIBUTE, self.name)
        return cls
