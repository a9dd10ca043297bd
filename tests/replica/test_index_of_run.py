"""An index whose function has its factory's configuration is that of the run, whatever the server is started with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import moneystate as ms
from moneystate.replica import files, rows
from moneystate.replica.applying import Applier
from moneystate.replica.files import Rebuild
from moneystate.replica.loading import Loader
from moneystate.replica.model import Version
from moneystate.replica.record import read_layout
from moneystate.replica.store import Store
from moneystate.replica.transaction_assembler import BatchSlice, End, EntryChange, change_of
from moneystate.runtime import layout
from moneystate.runtime.replica_model import ReplicaModel, index_prefix, place_of

REFERENCE = "tests.replica.test_index_of_run:made"


@dataclass(frozen=True)
class Config:
    large: int = 100
    by_size: bool = True
    wait_ms: int = 5


@dataclass(frozen=True)
class Put:
    key: str
    n: int
    time: ms.Millis


@dataclass
class Total:
    n: int = 0


def made(config: Config) -> ms.Service[Config]:
    service = ms.Service("made", rules=config)
    puts = service.input("puts", Put, key="key", time="time")
    total = service.value("total", Total)
    if config.by_size:
        service.index("by_size", total, lambda t: "large" if t.n >= config.large else "small")

    @service.on(puts, total)
    def put(ctx: ms.Context[Config], e: Put, total: Total) -> None:
        total.n += e.n

    return service


class Replica:
    """Files of a server that was started with the declared configuration."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.name = str(folder), files.begin_generation(str(folder))
        self.open()

    def open(self) -> None:
        self.model = ReplicaModel(REFERENCE)
        self.store = Store(files.open_primary(self.folder, self.name), self.model)

    def change(self, key: str, n: int) -> EntryChange:
        kind = self.model.plan.kinds["total"]
        entry = layout.entry_key(layout.prefix_of(layout.VALUE, "total"), key.encode())
        return change_of(entry, kind.codec.encode(Total(n)), self.model)

    def load(self, rules: dict[str, Any], *changes: EntryChange) -> None:
        loader = Loader(self.store)
        loader.add(0, list(enumerate(changes)))
        loader.finish({0: (len(changes), end(0, rules))}, 1, 1, {0: len(changes) + 1})

    def apply(self, batch: int, rules: dict[str, Any], *changes: EntryChange) -> None:
        Applier(self.store).apply(BatchSlice(end(batch, rules), list(changes), 0, 9 * batch, 9 * batch + 1), exact=True)

    def indexed(self) -> dict[str, str]:
        begin = rows.INDEX + index_prefix("by_size")
        keys = [key[1:] for key, _ in self.store.db.items(begin, rows.after(begin))]
        places = [place_of("by_size", key) for key in keys]
        return {place.owner.decode(): "large" if b"large" in place.value else "small" for place in places}


def end(batch: int, rules: dict[str, Any]) -> End:
    return End(Version("e", batch), 1_000 + batch, (0,), 1, None, 1_000 + batch, 1, rules)


@pytest.fixture
def replica(tmp_path: Path) -> Iterator[Replica]:
    made_here = Replica(tmp_path)
    yield made_here
    made_here.store.close()


def test_entries_are_indexed_with_the_configuration_of_the_run(replica: Replica) -> None:
    run = {"large": 10}
    replica.load(run, replica.change("a", 50), replica.change("b", 5))
    assert replica.indexed() == {"a": "large", "b": "small"}
    replica.apply(1, run, replica.change("b", 20), replica.change("c", 9))
    assert replica.indexed() == {"a": "large", "b": "large", "c": "small"}
    replica.store.close()
    replica.open()
    assert read_layout(replica.store.db) == replica.store.indexing.layout != replica.model.layout
    replica.apply(2, run, replica.change("c", 11))
    assert replica.indexed()["c"] == "large"


def test_files_are_rebuilt_when_the_run_has_another_configuration(replica: Replica) -> None:
    replica.load({"large": 10}, replica.change("a", 50))
    with pytest.raises(Rebuild, match="the configuration has changed"):
        replica.apply(1, {"large": 90}, replica.change("b", 60))


def test_a_configuration_of_which_no_index_depends_rebuilds_nothing(replica: Replica) -> None:
    without = {"by_size": False}
    replica.load({**without, "wait_ms": 1}, replica.change("a", 50))
    replica.apply(1, {**without, "wait_ms": 2}, replica.change("b", 60))


def test_a_run_with_rules_that_this_program_refuses_is_read_with_its_own(replica: Replica) -> None:
    replica.load({"large": "many"}, replica.change("a", 50), replica.change("b", 500))
    assert replica.indexed() == {"a": "small", "b": "large"}
