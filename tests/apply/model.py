"""A model of the pipeline in examples/balances, and random movements for it."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any, Final

from tests.apply.harness import Site

MOVEMENTS: Final = "movements"
LARGE: Final = "large-changes"
DEAD_LETTERS: Final = "apply-dead-letters"
MOST: Final = 100_000_000  # as examples/balances/tables.sql
LARGE_CENTS: Final = 10_000
ACCOUNTS: Final = 40

Sent = tuple[str, Any]


def movements(seed: int, count: int) -> list[Sent]:
    """Random ones: small, large, overdrawing, beyond the check constraint, and some that do not decode."""
    chance = random.Random(seed)
    sent: list[Sent] = []
    for n in range(count):
        account = f"account-{chance.randrange(ACCOUNTS)}"
        kind = chance.random()
        if kind < 0.03:
            sent.append((account, b"{"))
        elif kind < 0.05:
            sent.append((account, {"account": account, "cents": MOST + 1, "n": n}))
        else:
            cents = chance.choice([chance.randrange(-900, 1_000), chance.randrange(-20_000, 40_000)])
            sent.append((account, {"account": account, "cents": cents, "n": n}))
    return sent


class Balances:
    """What must be true once all have been applied. An account's movements are in one partition, so in order."""

    def __init__(self, sent: list[Sent]) -> None:
        self.rows: dict[str, tuple[int, int]] = {}
        self.notifications: list[tuple[str, int]] = []  # account and number of its movement
        self.reasons: Counter[bytes] = Counter()
        for account, value in sent:
            self._move(account, value)

    def _move(self, account: str, value: Any) -> None:
        if isinstance(value, bytes):
            self.reasons[b"malformed"] += 1
            return
        balance, count = self.rows.get(account, (0, 0))
        balance, count = balance + value["cents"], count + 1
        if balance < 0:
            self.reasons[b"overdrawn"] += 1
        elif balance > MOST:
            self.reasons[b"database"] += 1
        else:
            self.rows[account] = balance, count
            if abs(value["cents"]) >= LARGE_CENTS:
                self.notifications.append((account, count))

    @staticmethod
    def stored(site: Site) -> dict[str, tuple[int, int]]:
        return {account: (cents, n) for account, cents, n in site.sql("SELECT account, cents, movements FROM balances")}


ORDERS: Final = "orders"
ORDERS_TABLE: Final = "CREATE TABLE orders (id text PRIMARY KEY, cents numeric(8, 2), tags text[], mail text UNIQUE)"


def orders(seed: int, count: int) -> list[Sent]:
    """Random puts and deletions, and records that cannot be rows: some only the database can tell."""
    chance = random.Random(seed)
    sent: list[Sent] = []
    for n in range(count):
        id = f"order-{chance.randrange(ACCOUNTS)}"
        value = {"id": id, "cents": n + 0.25, "tags": [str(n), None], "mail": id}
        kind = chance.random()
        if kind < 0.25:
            sent.append((id, None))
        elif kind < 0.28:
            sent.append((id, {**value, "cents": 0.001}))
        elif kind < 0.30:
            sent.append((id, {**value, "id": "another"}))
        elif kind < 0.31:
            sent.append((f"taken-{n}", {**value, "id": f"taken-{n}", "mail": "taken"}))
        else:
            sent.append((id, value))
    return sent


class Orders:
    """The rows and dead letters of these records. A first row has the mail `taken`."""

    FIRST: Final = ("first", {"id": "first", "cents": 1, "tags": [], "mail": "taken"})

    def __init__(self, sent: list[Sent]) -> None:
        self.rows: dict[str, tuple[float, list[str | None]]] = {}
        self.reasons: Counter[bytes] = Counter()
        for key, value in sent:
            if value is None:
                self.rows.pop(key, None)
            elif value["cents"] == 0.001:
                self.reasons[b"value"] += 1
            elif value["id"] != key:
                self.reasons[b"key"] += 1
            elif value["mail"] == "taken" and key != "first":
                self.reasons[b"database"] += 1
            else:
                self.rows[key] = value["cents"], value["tags"]

    @staticmethod
    def stored(site: Site) -> dict[str, tuple[float, list[str | None]]]:
        return {id: (float(cents), tags) for id, cents, tags in site.sql("SELECT id, cents, tags FROM orders")}
