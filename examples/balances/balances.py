"""A pipeline that ends in a table: read the row, compute, update the row, and notify when the change is large.

moneystate apply --config apply.toml --create-tables
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import psycopg

import moneystate as ms
from moneystate.apply.handling import Event, Notification

LARGE_CENTS: Final = 10_000


@dataclass(frozen=True)
class LargeChange:
    account: str
    change_cents: int
    balance_cents: int
    movements: int  # of the account, up to this one


def move(tx: psycopg.Cursor, event: Event) -> list[Notification]:
    """Adds a movement to its account. Rejects one that would overdraw it."""
    account, cents = event.value["account"], event.value["cents"]
    row = tx.execute("SELECT cents, movements FROM balances WHERE account = %s", (account,)).fetchone()
    balance, movements = row or (0, 0)
    balance, movements = balance + cents, movements + 1
    if balance < 0:
        raise ms.Reject("overdrawn")
    tx.execute(
        "INSERT INTO balances VALUES (%s, %s, %s) "
        "ON CONFLICT (account) DO UPDATE SET cents = EXCLUDED.cents, movements = EXCLUDED.movements",
        (account, balance, movements),
    )
    if abs(cents) < LARGE_CENTS:
        return []
    return [Notification(LargeChange(account, cents, balance, movements), account)]
