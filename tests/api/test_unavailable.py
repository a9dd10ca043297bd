"""Columns of change events that the database did not log: the row's last value, or a dead letter."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any, Literal

import pytest

import moneystate as ms
from moneystate.engine.processor import Rejected
from moneystate.errors import ServiceError
from moneystate.runtime.json_topic import ChangeTopic
from moneystate.runtime.plan import Plan
from moneystate.runtime.unavailable import KEPT_COLUMNS
from moneystate.testing import CRASH, Bench

HOLE = "__debezium_unavailable_value"
T = 1_772_359_200_000
TOPIC = "db.public.letters"


@dataclass(frozen=True)
class Row:
    id: int
    city: str
    notes: str | None
    raw: bytes = b""
    document: ms.Json | None = None
    tags: list[str] | None = None
    counts: list[int] | None = None
    extra: dict[str, str] | None = None


@dataclass(frozen=True)
class Key:
    id: int


@dataclass(frozen=True)
class Change:
    before: Key | None
    after: Row | None
    op: Literal["c", "u", "d", "r"]
    ts_ms: ms.Millis


@dataclass
class Letter:
    city: str = ""
    notes: str | None = None
    raw: bytes = b""
    document: ms.Json | None = None
    tags: list[str] | None = None
    counts: list[int] | None = None
    extra: dict[str, str] | None = None


def service_of(record: type[Any] = Change, topic: str = TOPIC, **more: Any) -> ms.Service[None]:
    service = ms.Service("letters")
    arguments: dict[str, Any] = {"key": "after.id", "time": "ts_ms", "format": "debezium", **more}
    changes = service.input(topic, record, **arguments)
    letter = service.value("letter", Letter)

    @service.on(changes, letter)
    def take(ctx: ms.Context[None], e: Any, letter: Letter) -> None:
        if e.after is None:
            letter.city, letter.notes = "", None
            return
        if e.after.city == "refused":
            raise ms.Reject("refused")
        for name in ("city", "notes", "raw", "document", "tags", "counts", "extra"):
            setattr(letter, name, getattr(e.after, name))

    return service


class Database:
    """Writes the changes of a table, as Debezium does."""

    def __init__(self, key_of_events: bool = True, cuts: Any = "random", **declared: Any) -> None:
        self.bench = Bench(service_of(**declared), cuts=cuts)
        self.key_of_events = key_of_events
        self.at = T

    def event(self, op: str, before: Any, after: Any, key: Any) -> None:
        self.at += 1
        value = {"before": before, "after": after, "op": op, "ts_ms": self.at}
        self.bench.send_raw(TOPIC, json.dumps(value), key=json.dumps(key) if self.key_of_events else None)

    def put(self, op: str, id: Any = 1, **columns: Any) -> None:
        self.event(op, None, {"id": id, "city": "Ulm", "notes": "n", **columns}, {"id": id})

    def letter(self, key: str = "1") -> Letter:
        state: Any = self.bench.state(self.bench.service.states["letter"], key)
        assert isinstance(state, Letter)
        return state


FORMS: dict[str, tuple[Any, Any]] = {
    "notes": ("long", HOLE),
    "raw": (base64.b64encode(b"\x00long").decode(), base64.b64encode(HOLE.encode()).decode()),
    "document": ({"a": [1]}, HOLE),
    "tags": (["x", "y"], [HOLE]),
    "counts": ([1, 2], [ord(character) for character in HOLE]),
    "extra": ({"a": "b"}, {HOLE: HOLE}),
}


@pytest.mark.parametrize("key_of_events", [True, False])
def test_a_column_that_was_not_logged_has_the_last_value_of_its_row(key_of_events: bool) -> None:
    for name, (value, hole) in FORMS.items():
        table = Database(key_of_events)
        table.put("c", **{name: value})
        table.put("r", id=2, **{name: None} if name != "raw" else {})
        before = getattr(table.letter(), name)
        table.put("u", city="Bonn", **{name: hole})
        table.bench.send(CRASH)
        table.put("u", city="Trier", **{name: hole})
        table.put("u", id=2, **{name: hole})
        assert (table.letter().city, getattr(table.letter(), name), table.bench.dead_letters()) == (
            "Trier",
            before,
            [],
        ), name
        assert getattr(table.letter("2"), name) == (b"" if name == "raw" else None)
        table.bench.end()


def test_a_value_that_was_logged_replaces_the_one_that_is_kept() -> None:
    table = Database()
    table.put("c", notes="first")
    table.put("u", notes="second")
    table.put("u", notes=HOLE)
    assert table.letter().notes == "second"
    table.put("u", notes=None)
    table.put("u", notes=HOLE)
    assert (table.letter().notes, table.bench.dead_letters()) == (None, [])


def test_what_is_kept_does_not_depend_on_what_a_step_makes_of_the_event() -> None:
    table = Database()
    table.put("c", notes="first")
    table.put("u", notes="second", city="refused")
    table.put("u", notes=HOLE)
    assert (table.letter().notes, table.bench.dead_letters()) == ("second", ["refused"])
    table.bench.end()


def test_a_row_of_which_no_value_is_known_is_a_dead_letter_that_names_the_column() -> None:
    table = Database()
    table.put("u", notes=HOLE)
    assert table.bench.dead_letters() == ["unavailable_value"]
    assert table.letter() == Letter()
    table.put("u", notes="known")
    table.put("u", notes=HOLE, city="Bonn")
    assert (table.letter().notes, table.letter().city) == ("known", "Bonn")
    assert table.bench.dead_letters() == ["unavailable_value"]


def test_a_deleted_row_leaves_nothing() -> None:
    table = Database()
    table.put("c", notes="first")
    assert list(table.bench.entries())
    table.event("d", {"id": 1}, None, {"id": 1})
    assert list(table.bench.entries()) == []
    table.put("u", notes=HOLE)
    assert table.bench.dead_letters() == ["unavailable_value"]


def test_other_placeholders_can_be_declared() -> None:
    table = Database(unavailable=ms.Unavailable(placeholder="(gone)"))
    table.put("c", notes="first")
    table.put("u", notes="(gone)")
    assert table.letter().notes == "first"
    table.put("u", notes=HOLE)
    assert table.letter().notes == HOLE


def test_columns_are_not_kept_if_the_input_says_so() -> None:
    table = Database(unavailable=ms.Unavailable(keep=False))
    table.put("c", notes="first")
    table.put("u", notes=HOLE)
    assert (table.letter().notes, table.bench.dead_letters()) == ("first", ["unavailable_value"])
    assert KEPT_COLUMNS not in table.bench.plan.kinds


@dataclass(frozen=True)
class Owned:
    id: int
    owner: str
    city: str
    notes: str
    raw: bytes = b""
    document: ms.Json | None = None
    tags: list[str] | None = None
    counts: list[int] | None = None
    extra: dict[str, str] | None = None


@dataclass(frozen=True)
class OwnedKey:
    id: int
    owner: str = ""


@dataclass(frozen=True)
class OwnedChange:
    before: OwnedKey | None
    after: Owned | None
    op: Literal["c", "u", "d", "r"]
    ts_ms: ms.Millis


@pytest.mark.parametrize("row", [None, ("id",)])
def test_rows_of_one_key_are_told_apart_by_the_columns_of_the_tables_key(row: tuple[str, ...] | None) -> None:
    """Without them, a column could get the value of another row."""
    table = Database(record=OwnedChange, key="after.owner", unavailable=ms.Unavailable(row=row))
    table.put("c", id=1, owner="eve", notes="first")
    table.put("c", id=2, owner="eve", notes="second")
    table.put("u", id=1, owner="eve", notes=HOLE)
    assert table.letter("eve").notes == ("second" if row is None else "first")
    assert table.bench.dead_letters() == (["unavailable_value"] if row is None else [])


@dataclass(frozen=True)
class Wrong:
    id: int
    city: str
    kind: Literal["a", "b"] = "a"


@dataclass(frozen=True)
class WrongChange:
    before: Key | None
    after: Wrong | None
    ts_ms: ms.Millis


@pytest.mark.parametrize(
    ("declared", "columns"),
    [({"record": WrongChange}, {"kind": HOLE}), ({"key": lambda e: str(e.after.id)}, {"notes": HOLE})],
)
def test_a_column_that_cannot_be_kept_is_a_dead_letter(declared: Any, columns: Any) -> None:
    table = Database(**declared)
    table.put("u", **columns)
    assert table.bench.dead_letters() == ["unavailable_value"]


def test_the_row_must_be_of_columns_that_a_deletion_has_too() -> None:
    with pytest.raises(ServiceError, match=r"row='before\.city', but Key has no field 'city'"):
        Plan(service_of(unavailable=ms.Unavailable(row=("city",))))


def test_the_name_of_the_state_is_the_platforms() -> None:
    service = service_of()
    service.map(KEPT_COLUMNS, Letter)
    with pytest.raises(ServiceError, match="kept_columns is the platform's state"):
        Plan(service)


def test_a_pattern_keeps_no_columns_as_it_may_read_several_tables() -> None:
    bench = Bench(service_of(topic="db.*"))
    after = {"id": 1, "city": "Ulm", "notes": HOLE}
    bench.send_raw("db.*", json.dumps({"before": None, "after": after, "op": "u", "ts_ms": T}))
    assert bench.dead_letters() == ["unavailable_value"]


def test_a_run_that_reads_an_input_as_change_events_refuses_what_it_does_not_keep() -> None:
    """As `run --format`."""
    plan = Plan(service_of(format="json"))
    value = json.dumps({"before": None, "after": {"id": 1, "city": "Ulm", "notes": HOLE}, "op": "u", "ts_ms": T})
    with pytest.raises(Rejected, match="unavailable_value"):
        ChangeTopic(plan, TOPIC).to_canonical(value.encode())
