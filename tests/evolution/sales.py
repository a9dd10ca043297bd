"""A service whose state changes its meaning between two releases, and a checkpoint that the first one has left."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from moneystate.job.checkpoint import Checkpoint
from moneystate.schemas.services import release_service
from tests.evolution.module_file import ModuleFile
from tests.job.harness import Finished
from tests.kafka.logs import Cluster

HEAD = """
from dataclasses import dataclass

import moneystate as ms


@dataclass(frozen=True)
class Sold:
    shop: str
    euros: int
    at: ms.Millis


@dataclass(frozen=True)
class Sum:
    shop: str
    cents: int

"""
IN_EUROS = """
@dataclass
class Total:
    euros: int = 0


def add(total: Total, euros: int) -> int:
    total.euros += euros
    return total.euros * 100
"""
IN_CENTS = """
@dataclass
class TotalV1:
    euros: int = 0


@dataclass
class Total:
    cents: int = 0


@ms.upgrade
def in_cents(old: TotalV1) -> Total:
    return Total(old.euros * 100)


def add(total: Total, euros: int) -> int:
    total.cents += euros * 100
    return total.cents
"""
TAIL = """

service = ms.Service("sales")
sold = service.input("sold", Sold, key="shop", time="at", format="json")
sums = service.output("sums", Sum, key="shop", format="json")
total = service.value("total", Total)


@service.on(sold, total)
def sell(ctx: ms.Context[None], e: Sold, total: Total) -> None:
    ctx.emit(sums, Sum(e.shop, add(total, e.euros)))
"""
MODULE = "changing_sales"
PARTITIONS, SHOPS, SALES = 2, 12, 60
RECORDS = SALES + PARTITIONS  # of one round, with heartbeats
BATCHES = 3
START_MS = 1_700_000_000_000
FLAGS = ("--partitions", "2", "--key-groups", "8", "--topic-partitions", "2", "--json")


class Sales:
    """`command` runs a command of `moneystate` to its end."""

    def __init__(
        self, module: ModuleFile, cluster: Cluster, folder: Path, command: Callable[[Iterable[object]], Finished]
    ) -> None:
        self.module = module
        self.cluster = cluster
        self.checkpoint = Checkpoint(str(folder / "checkpoint"))
        self.service = f"{module.file}:service"
        self.command = command
        self.expected: list[tuple[str, int]] = []
        self.totals = Counter[str]()
        self.sold = 0

    def release(self, total: str) -> None:
        """The program from now on."""
        self.module.write(HEAD + total + TAIL)
        release_service(f"{self.module.name}:service")
        self.module.forget()

    def run(self, *more: str) -> Finished:
        return self.command(
            ["run", self.service, *self.connection(), *FLAGS, "--topic-prefix", self.cluster.prefix, "--bound", "0s",
             "--until-caught-up", *more]
        )  # fmt: skip

    def upgrade(self, *more: str) -> Finished:
        return self.command(self.upgrading(*more))

    def upgrading(self, *more: str) -> list[str]:
        batches = ("--batches", str(BATCHES), "--service", self.service, "--json")
        return ["checkpoint", "upgrade", *self.connection(), *batches, *more]

    def connection(self) -> tuple[str, ...]:
        return ("--checkpoint", self.checkpoint.root, "--bootstrap-servers", self.cluster.bootstrap_servers)

    def sell(self) -> None:
        """Each shop sells some more, all of its sales in one partition. Then time goes on."""
        for _ in range(SALES):
            number = self.sold % SHOPS
            shop = f"shop-{number}"
            self._send(
                {"type": "Sold", "shop": shop, "euros": self.sold, "at": START_MS + self.sold}, number % PARTITIONS
            )
            self.totals[shop] += 100 * self.sold
            self.expected.append((shop, self.totals[shop]))
            self.sold += 1
        for partition in range(PARTITIONS):
            self._send({"type": "Heartbeat", "processedAt": START_MS + self.sold}, partition)

    def _send(self, value: dict[str, Any], partition: int) -> None:
        self.cluster.send(self.cluster.prefix + "sold", [json.dumps(value).encode()], partition)

    def check_sums(self) -> None:
        """Every sale has one sum, and each shop's are in order."""
        sums = [json.loads(record.value or b"") for record in self.cluster.read("sums")]
        told = [(one["shop"], one["cents"]) for one in sums]
        assert by_shop(told) == by_shop(self.expected)

    def changelog(self) -> dict[bytes, bytes]:
        """The last value of each key, without the ends of batches: all entries of the service's state."""
        last = {record.key or b"": record.value for record in self.cluster.read("sales-state")}
        return {key: value for key, value in last.items() if value is not None and key[:1] != b"e"}


def by_shop(sums: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    shops: dict[str, list[int]] = {}
    for shop, cents in sums:
        shops.setdefault(shop, []).append(cents)
    return shops


def rows(dry_run: Finished) -> list[Any]:
    counted: list[Any] = dry_run.totals["entries"]
    return counted
