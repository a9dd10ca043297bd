"""Each rule of the ledger by itself."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from moneystate.testing import Bench
from services.stock.config import DAY, Config
from services.stock.records import (
    Adjust,
    Adjusted,
    Cancel,
    Cancelled,
    Command,
    Confirm,
    Confirmed,
    Count,
    EventLine,
    Expired,
    HeldLine,
    Line,
    Reservation,
    Reserve,
    Reserved,
    Short,
    StockLevel,
)
from services.stock.service import StockService, digest_of

T = 1_700_000_000_000
P = "p"


class Story:
    """A pool `p` with 10 of `a` and 4 of `b`, and what happens to it."""

    def __init__(self, config: Config | None = None) -> None:
        self.made = StockService(config or Config())
        self.bench = Bench(self.made.service, bound_ms=0)
        self.send(Count("a0", P, T, "a", 10), Count("b0", P, T, "b", 4))

    def send(self, *commands: Command) -> None:
        self.bench.send(*commands)

    def events(self) -> list[Any]:
        """Since the counts."""
        return self.bench.out(*self.made.events.values())[2:]

    def replies(self) -> list[str]:
        return [reply.reason or reply.status for reply in self.bench.out(self.made.replies)][2:]


def reserve(id: str, t: int = 0, ttl_ms: int = 1_000, command: str = "", **lines: int) -> Reserve:
    return Reserve(command or f"+{id}", P, T + t, id, [Line(sku, n) for sku, n in lines.items()], ttl_ms, f"order {id}")


def confirm(id: str, t: int = 0, quantities: dict[str, int] | None = None) -> Confirm:
    return Confirm(f"={id}{t}", P, T + t, id, quantities)


def cancel(id: str, t: int = 0) -> Cancel:
    return Cancel(f"-{id}{t}", P, T + t, id)


def test_a_reservation_holds_stock_until_it_is_confirmed() -> None:
    story = Story()
    story.send(reserve("1", a=3, b=4), confirm("1", 5, {"a": 2}), confirm("1", 6), cancel("1", 7))
    assert story.events() == [
        Reserved(P, "1", "order 1", None, [EventLine("a", 3, 10, 3), EventLine("b", 4, 4, 4)]),
        Confirmed(P, "1", "order 1", None, [EventLine("a", 2, 8, 0), EventLine("b", 0, 4, 0)]),
    ]
    assert story.replies() == ["ACCEPTED", "ACCEPTED", "ALREADY_CONFIRMED", "ALREADY_CONFIRMED"]
    assert story.bench.keyed(story.made.levels)[2:] == [
        ('["p","a"]', StockLevel(P, "a", 10, 3, 7)),
        ('["p","b"]', StockLevel(P, "b", 4, 4, 0)),
        ('["p","a"]', StockLevel(P, "a", 8, 0, 8)),
        ('["p","b"]', StockLevel(P, "b", 4, 0, 4)),
    ]
    story.bench.end()


def test_the_same_command_has_the_same_reply_again_and_no_effect() -> None:
    story = Story()
    story.send(reserve("1", a=3), reserve("1", 400, a=3), reserve("1", 500, a=4), reserve("1", 7 * DAY - 1, a=3))
    story.send(reserve("1", 7 * DAY, a=3))
    assert story.replies() == ["ACCEPTED", "ACCEPTED", "ID_CONFLICT", "ACCEPTED", "RESERVATION_EXISTS"]
    assert [type(event) for event in story.events()] == [Reserved, Expired]
    story.bench.end()


def test_a_refused_command_is_known_too() -> None:
    story = Story()
    story.send(reserve("1", a=11), Adjust("more", P, T + 1, "a", 5), reserve("1", 2, a=11))
    assert story.replies() == ["INSUFFICIENT", "ACCEPTED", "INSUFFICIENT"]
    story.send(reserve("1", 3, command="again", a=11))
    assert story.replies()[3:] == ["ACCEPTED"]
    story.bench.end()


def test_ids_are_those_of_a_pool() -> None:
    story = Story()
    elsewhere = replace(reserve("1", a=3), pool="q")
    story.send(reserve("1", a=3), Count("a0", "q", T, "a", 3), elsewhere)
    assert story.replies() == ["ACCEPTED", "ACCEPTED", "ACCEPTED"]
    story.bench.end()


def test_all_or_what_there_is() -> None:
    story = Story()
    story.send(reserve("1", a=11, b=1), replace(reserve("2", a=11, b=1), policy="PARTIAL"))
    story.send(replace(reserve("3", a=1), policy="PARTIAL"), reserve("4", b=3))
    replies = story.bench.out(story.made.replies)[2:]
    assert [(r.reason, r.lines, r.short) for r in replies] == [
        ("INSUFFICIENT", [], [Short("a", 11, 10)]),
        (None, [Line("a", 10), Line("b", 1)], [Short("a", 11, 10)]),
        ("INSUFFICIENT", [], [Short("a", 1, 0)]),
        (None, [Line("b", 3)], []),
    ]
    story.bench.end()


def test_lines_of_one_sku_are_added_up() -> None:
    story = Story()
    both = Reserve("+1", P, T, "1", [Line("b", 2), Line("a", 1), Line("b", 3)], 1_000)
    story.send(both, replace(both, command_id="+2", reservation_id="2", policy="PARTIAL"))
    replies = story.bench.out(story.made.replies)[2:]
    assert [(r.reason, r.lines, r.short) for r in replies] == [
        ("INSUFFICIENT", [], [Short("b", 5, 4)]),
        (None, [Line("b", 4), Line("a", 1)], [Short("b", 5, 4)]),
    ]
    story.bench.end()


def test_it_expires_at_the_exact_time_and_a_confirm_of_that_time_still_counts() -> None:
    story = Story()
    story.send(reserve("1", ttl_ms=50, a=3), reserve("2", ttl_ms=50, a=3), reserve("3", 1, ttl_ms=49, a=2))
    story.send(confirm("2", 50), confirm("3", 51), cancel("1", 52))
    assert story.replies() == ["ACCEPTED"] * 4 + ["ALREADY_EXPIRED"] * 2
    assert [(type(e), e.reservation_id) for e in story.events()[3:]] == [
        (Confirmed, "2"), (Expired, "1"), (Expired, "3")
    ]  # fmt: skip
    story.bench.end()


def test_an_ended_reservation_is_known_for_its_retention() -> None:
    story = Story()
    story.send(reserve("1", a=3), cancel("1", 5))
    last, over = 5 + 30 * DAY - 1, 5 + 30 * DAY
    story.send(reserve("1", last, command="x", a=3), cancel("1", last), cancel("1", over))
    story.send(reserve("1", over, command="y", a=3))
    assert story.replies()[2:] == ["RESERVATION_EXISTS", "ALREADY_CANCELLED", "NOT_FOUND", "ACCEPTED"]
    story.bench.end()
    assert [type(e) for e in story.events()] == [Reserved, Cancelled, Reserved, Expired]


def test_a_count_is_a_fact_and_cancels_the_newest_first() -> None:
    story = Story()
    story.send(reserve("1", a=4), reserve("2", a=2, b=1), reserve("3", b=1), reserve("4", a=3))
    story.send(Count("n", P, T + 5, "a", 5), cancel("2", 6), confirm("1", 7))
    assert story.events()[4:] == [
        Cancelled(P, "4", "order 4", "SHORTAGE", [EventLine("a", 3, 10, 6)]),
        Cancelled(P, "2", "order 2", "SHORTAGE", [EventLine("a", 2, 10, 4), EventLine("b", 1, 4, 1)]),
        Adjusted(P, "a", -5, True, 5, 4),
        Confirmed(P, "1", "order 1", None, [EventLine("a", 4, 1, 0)]),
    ]
    assert story.replies()[4:] == ["ACCEPTED", "ALREADY_CANCELLED", "ACCEPTED"]
    story.bench.end()


@pytest.mark.parametrize(
    ("change", "on_hand"),
    [
        ([Adjust("x", P, T + 10, "a", 1)], 11),
        ([Count("x", P, T + 10, "a", 10)], 10),
        ([reserve("1", a=1), confirm("1", 10)], 9),
    ],
)
def test_a_count_from_before_the_last_change_is_stale(change: list[Command], on_hand: int) -> None:
    story = Story()
    story.send(*change, Count("late", P, T + 9, "a", 7), Count("in time", P, T + 10, "a", 7))
    assert story.replies()[len(change) :] == ["STALE", "ACCEPTED"]
    assert story.events()[-1] == Adjusted(P, "a", 7 - on_hand, True, 7, 0)
    story.bench.end()


def test_what_does_not_change_on_hand_makes_no_count_stale() -> None:
    story = Story()
    story.send(reserve("1", a=1, b=1), confirm("1", 10, {"b": 1}), reserve("2", 11, a=1), cancel("2", 12))
    story.send(Count("a", P, T + 9, "a", 7), Count("b", P, T + 9, "b", 7))
    assert story.replies()[4:] == ["ACCEPTED", "STALE"]
    story.bench.end()


def test_an_adjustment_never_takes_what_is_reserved() -> None:
    story = Story()
    story.send(reserve("1", a=4), Adjust("x", P, T, "a", -7), Adjust("y", P, T, "a", -6), Adjust("z", P, T, "new", -1))
    assert story.replies() == ["ACCEPTED", "BELOW_RESERVED", "ACCEPTED", "BELOW_RESERVED"]
    assert story.events()[1:] == [Adjusted(P, "a", -6, False, 4, 4)]
    story.bench.end()


MOST = 10**9
INVALID: dict[str, Command] = {
    "adjust by 0": Adjust("x", P, T, "a", 0),
    "adjust by too much": Adjust("x", P, T, "a", MOST + 1),
    "adjust by too little": Adjust("x", P, T, "a", -MOST - 1),
    "count below 0": Count("x", P, T, "a", -1),
    "count too high": Count("x", P, T, "a", MOST + 1),
    "no line": reserve("x"),
    "quantity 0": reserve("x", a=0, b=1),
    "quantity below 0, above it when added up": Reserve("x", P, T, "x", [Line("a", 2), Line("a", -1)], 1),
    "quantity too high": reserve("x", a=MOST + 1),
    "quantity too high when added up": Reserve("x", P, T, "x", [Line("a", MOST), Line("a", 1)], 1),
    "1,001 lines": Reserve("x", P, T, "x", [Line(f"s{n}", 1) for n in range(1_001)], 1),
    "ttl 0": reserve("x", ttl_ms=0, a=1),
    "ttl too long": reserve("x", ttl_ms=10**11 + 1, a=1),
    "confirm nothing": confirm("open", 0, {}),
    "confirm 0": confirm("open", 0, {"a": 0}),
    "confirm below 0": confirm("open", 0, {"a": 1, "b": -1}),
    "confirm too much": confirm("open", 0, {"a": MOST + 1}),
}


@pytest.mark.parametrize("name", INVALID)
def test_what_breaks_a_bound_is_invalid(name: str) -> None:
    story = Story()
    story.send(reserve("open", a=1), INVALID[name], replace(INVALID[name], time=T + 1))
    assert story.replies() == ["ACCEPTED", "INVALID", "INVALID"]
    story.bench.end()


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (Count("x", P, T - 1, "a", -1), "INVALID"),  # and stale
        (reserve("open", command="x", a=0), "INVALID"),  # and exists
        (reserve("open", command="x", a=99), "RESERVATION_EXISTS"),  # and insufficient
        (confirm("nobody", 0, {}), "INVALID"),  # and not found
        (confirm("nobody", 0, {"a": 99}), "NOT_FOUND"),  # and more than is held
        (confirm("ended", 0, {"a": 99}), "ALREADY_CANCELLED"),
        (confirm("open", 0, {"b": 1}), "MORE_THAN_HELD"),
        (confirm("open", 0, {"a": 1, "b": 0, "nothing": 0}), "ACCEPTED"),
        (Adjust("x", P, T, "a", -MOST - 1), "INVALID"),  # and below reserved
        (cancel("nobody"), "NOT_FOUND"),
    ],
)
def test_checks_have_their_order(command: Command, reason: str) -> None:
    story = Story()
    story.send(reserve("open", a=1), reserve("ended", a=1), cancel("ended"), command)
    assert story.replies()[3:] == [reason]
    story.bench.end()


def test_a_text_that_is_too_long_for_a_key_is_a_dead_letter() -> None:
    story = Story()
    story.send(
        Adjust("x", P, T, "s" * 1_001, 1), reserve("r" * 1_001, a=1), Reserve("x", P, T, "x", [Line("s" * 1_001, 1)], 1)
    )
    story.send(Adjust("x", P, T, "ü" * 1_000, 1))
    assert story.bench.dead_letters() == ["text_too_long"] * 3
    assert story.replies() == ["ACCEPTED"]
    story.bench.end()


def test_what_a_command_causes_fits_into_a_kafka_record() -> None:
    """A Reserve of as many and as long skus as there may be, of characters that JSON writes in six."""
    story = Story()
    skus = [f"{n:03}" + "\x01" * 94 for n in range(1_000)]
    big = Reserve("x", P, T, "x", [Line(sku, 10**9) for sku in skus], 1, "x" * 900)
    story.send(*[Count(f"n{n}", P, T, sku, 10**9) for n, sku in enumerate(skus)], big)
    story.send(replace(big, command_id="again", reservation_id="y", order_id="x" * 3_000))
    story.send(replace(big, command_id="y", lines=[*big.lines, *[Line(x * 990, 1) for x in "pqr"]]))
    assert story.bench.dead_letters() == ["text_too_long"] * 2
    assert story.replies()[-1] == "ACCEPTED"
    assert isinstance(story.events()[-1], Reserved)
    sizes = [
        len(story.bench.plan.outputs[output].codec.to_json(record))
        for output in (story.made.replies, story.made.events[Reserved])
        for record in story.bench.out(output)
    ]
    assert 600_000 < max(sizes) < 900_000
    story.bench.end()


def test_nothing_is_left_but_the_skus() -> None:
    story = Story(Config(command_retention_ms=100, reservation_retention_ms=100))
    story.send(reserve("1", a=3), reserve("2", a=1), confirm("1", 5), reserve("3", a=9))
    story.bench.end()
    names = {key[2 : 2 + key[1]] for key, _ in story.bench.entries()}
    assert names == {b"skus"}


def test_the_stored_digest_of_a_command_stays_as_it_is() -> None:
    lines = [Line("a'\"", 1), Line("ü", 2)]
    assert digest_of(Reserve("c", P, 5, "r", lines, 50)).hex() == "4f3812e14b7f527e0782e6f627fb476e"


def test_queries_of_stock_and_reservations() -> None:
    story = Story()
    story.send(reserve("1", 1, ttl_ms=50, a=2, b=1), reserve("2", 2, ttl_ms=10, a=1), reserve("3", 3, b=1))
    story.send(cancel("3", 4), replace(reserve("1", 4, a=1), pool="q"), Count("a", "q", T + 5, "a", 7))
    ask = partial(ask_of, story)
    assert ask("available", P, "a") == StockLevel(P, "a", 10, 3, 7)
    assert ask("available", P, "none") == StockLevel(P, "none", 0, 0, 0)
    assert [level.sku for level in ask("stock", P)] == ["a", "b"]
    assert [level.sku for level in ask("stock", P, "b")] == ["b"]
    assert [level.sku for level in ask("stock", P, limit=1)] == ["a"]
    first = Reservation(P, "1", "order 1", [HeldLine("a", 2, 1), HeldLine("b", 1, 1)], T + 51)
    third = Reservation(P, "3", "order 3", [HeldLine("b", 1, 2)], T + 1_003, "CANCELLED")
    assert ask("reservation", P, "1") == first
    assert ask("reservation", P, "3") == third
    assert ask("reservation", P, "4") is None
    assert ask("reservations_of_order", "order 1") == [first]
    assert ask("reservations_of_order", "order 3") == [third]
    assert [r.reservation_id for r in ask("reservations_of_sku", P, "a")] == ["1", "2"]
    assert [r.reservation_id for r in ask("reservations_of_sku", P, "a", 1)] == ["1"]
    assert [r.reservation_id for r in ask("reservations_due", P, T + 52)] == ["2", "1"]
    assert [r.reservation_id for r in ask("reservations_due", P, T + 51)] == ["2"]
    assert [r.reservation_id for r in ask("reservations_due", P, T + 52, T + 13)] == ["1"]
    story.bench.end()


def ask_of(story: Story, query: str, *args: Any, **kwargs: Any) -> Any:
    return story.bench.ask(story.made.service.queries[query], *args, **kwargs)
