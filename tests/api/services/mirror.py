"""A service that reads the changes of a table, as Debezium writes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import moneystate as ms


@dataclass(frozen=True)
class CustomerKey:
    """All that is known of a deleted row, with the default replica identity of PostgreSQL."""

    customer_id: int


@dataclass(frozen=True)
class Customer:
    """A row: its fields are the table's columns."""

    customer_id: int
    first_name: str
    credit: ms.Decimal | None = None


@dataclass(frozen=True)
class Origin:
    ts_ms: ms.Millis


@dataclass(frozen=True)
class CustomerChange:
    before: CustomerKey | None
    after: Customer | None
    op: Literal["c", "u", "d", "r"]
    source: Origin


@dataclass(frozen=True)
class Now:
    customer_id: str
    first_name: str | None


@dataclass
class Known:
    first_name: str = ""


service = ms.Service("mirror")
changes = service.input(
    "db.public.customers", CustomerChange, key="after.customer_id", time="source.ts_ms", format="debezium"
)
now = service.output("customers-now", Now, key="customer_id")
known = service.value("known", Known)


@service.on(changes, known)
def follow(ctx: ms.Context[None], e: CustomerChange, known: Known) -> None:
    known.first_name = "" if e.after is None else e.after.first_name
    ctx.emit(now, Now(ctx.key, known.first_name or None))
