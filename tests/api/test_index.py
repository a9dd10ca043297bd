"""Queries by index: in the order of the index, without what has expired, as a plain search of everything gives it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import moneystate as ms
from moneystate.errors import ServiceError, StepError
from moneystate.records import index_order
from moneystate.records.index_order import END, encode, end_of_value, span_of
from moneystate.testing import Bench
from tests.api.services import market
from tests.api.services.market import Cheapest, Look, Moved, Offer, Offered, Seller
from tests.budget import examples

numbers = st.integers() | st.integers(-300, 300) | st.sampled_from([-(1 << 64), 1 << 64, -256, -255, 255, 256])
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=4) | st.text("\x00\x01a\x10\xff", max_size=4)
tuples = st.tuples(texts, numbers) | st.tuples(texts) | st.tuples(texts, numbers, texts)


@given(st.lists(numbers) | st.lists(texts) | st.lists(tuples))
def test_bytes_of_an_index_sort_as_the_values_do(values: list[Any]) -> None:
    assert sorted(values, key=lambda v: encode(v, "here") + END) == sorted(values)


@given(tuples, tuples)
def test_a_value_begins_with_the_bytes_of_its_prefixes_alone(one: tuple[Any, ...], other: tuple[Any, ...]) -> None:
    assert encode(other, "").startswith(encode(one, "")) == (other[: len(one)] == one)


@pytest.mark.parametrize("size", [4_093, 4_094, 70_000])
def test_a_long_text_is_found_and_is_at_the_place_of_its_beginning(size: int) -> None:
    long = "m" * size
    low, high = span_of(("a", long), "")
    assert low <= encode(("a", long, 7), "") < high
    assert not low <= encode(("a", long + "m"), "") < high
    assert encode("l" * size, "") < encode(long, "") < encode("n" * size, "")
    assert len(encode(long, "")) <= 4_096
    assert end_of_value(encode(long, "") + END, 0) == len(encode(long, ""))


def test_golden_bytes_of_index_values() -> None:
    assert encode("a\0b", "").hex() == "206100ff620001"
    assert encode(("é", -256, 0, True), "").hex() == "20c3a90001107dfeff1080108101"


@pytest.mark.parametrize("value", [1.5, b"x", (), ("a", None), ("x" * 4_000,) * 17, 1 << 2_000])
def test_a_value_that_no_index_can_have_is_refused(value: Any) -> None:
    with pytest.raises(ServiceError, match=r"^index 'here': .* Do: "):
        encode(value, "index 'here'")


S = 1_000
_sellers = st.sampled_from(["a", "b", "ab", "é", "\x00"])
_moves = st.builds(Moved, _sellers, st.sampled_from(["", "ES", "PT"]), st.integers(-2, 300), st.integers(0, 30 * S))
_offers = st.builds(
    Offered, _sellers, st.sampled_from(["x", "xy", "y1", "y2"]), st.integers(0, 260),
    st.lists(st.sampled_from(["new", "old", "red"]), max_size=3), st.integers(0, 30 * S),
)  # fmt: skip


market_events = _moves | _offers


class Plain:
    """What the service's state must be, in dictionaries. Each record with the time of its last change."""

    def __init__(self, events: list[Any]) -> None:
        self.sellers: dict[str, Seller] = {}
        self.offers: dict[tuple[str, str], Offer] = {}
        self.last: dict[str, tuple[int, Look]] = {}
        self.looks: dict[tuple[str, str], tuple[int, Look]] = {}
        for event in events:
            self._take(event)

    def _take(self, e: Moved | Offered) -> None:
        if isinstance(e, Moved):
            self.sellers[e.seller] = Seller(e.country, e.score)
            before = self.last.get(e.seller)
            if before is None or e.at >= before[0] + 10 * S or before[1] != Look(e.score):
                self.last[e.seller] = (e.at, Look(e.score))
        elif e.cents == 0:
            self.offers.pop((e.seller, e.item), None)
        else:
            self.offers[e.seller, e.item] = Offer(e.item[:1], e.cents, e.tags)
            self.looks[e.seller, e.item] = (e.at, Look(self.sellers.get(e.seller, Seller()).score))

    def alive(self, entries: dict[Any, tuple[int, Look]], now: int) -> dict[Any, Look]:
        return {key: look for key, (at, look) in entries.items() if now < at + 10 * S and look != Look()}


def by_value(entries: dict[Any, Any], by: Any) -> list[Any]:
    rows = [(value, key, record) for key, record in entries.items() for value in by(record)]
    return sorted(rows, key=lambda f: (f[0], f[1]))


@settings(max_examples=examples(60), suppress_health_check=list(HealthCheck))
@given(st.lists(market_events, max_size=25), st.integers(0, 9))
def test_queries_equal_a_search_of_everything(events: list[Any], seed: int) -> None:
    events.sort(key=lambda e: e.at)
    bench = Bench(market.service, bound_ms=0, seed=seed)
    bench.send(*sorted(events, key=lambda e: (e.at, isinstance(e, Offered))))
    plain = Plain(sorted(events, key=lambda e: (e.at, isinstance(e, Offered))))
    bench.ask(check_equal, plain)


def check_equal(view: ms.View, plain: Plain) -> None:
    sellers = {key: seller for key, seller in plain.sellers.items() if seller != Seller()}
    scores = by_value(sellers, lambda s: [s.score])
    assert list(view.range(market.by_score)) == [(key, seller) for _, key, seller in scores]
    assert list(view.range(market.by_score, 0, 100)) == [(k, s) for score, k, s in scores if 0 <= score < 100]
    assert list(view.find(market.by_country, "ES")) == [
        (key, seller) for value, key, seller in by_value(sellers, lambda s: [s.country]) if value == "ES"
    ]
    prices = by_value(plain.offers, lambda o: [(o.item, o.cents)])
    assert list(view.find(market.by_price, ("y",))) == _entries(f for f in prices if f[0][0] == "y")
    low, high = ("x", 100), ("y", 100)
    assert list(view.range(market.by_price, low, high)) == _entries(f for f in prices if low <= f[0] < high)
    assert list(view.range(market.by_tag)) == _entries(by_value(plain.offers, lambda o: set(o.tags)))
    last = by_value(plain.alive(plain.last, view.time_ms), lambda look: [look.score])
    assert list(view.range(market.by_last)) == [(key, look) for _, key, look in last]
    looks = {key: look for key, (at, look) in plain.looks.items() if view.time_ms < at + 10 * S}
    assert list(view.range(market.by_look)) == _entries(by_value(looks, lambda look: [look.score]))


def _entries(rows: Any) -> list[Any]:
    return [(*key, record) for _, key, record in rows]


def test_what_has_expired_is_in_no_index_though_the_state_has_it_until_its_sweep() -> None:
    bench = Bench(market.service, bound_ms=0)
    bench.send(Offered("a", "x", 5, ["red"], S), Moved("b", "ES", 1, 10 * S + 999))
    assert [id for _, id, _ in bench.ask(lambda view: list(view.range(market.by_look)))] == []
    assert any(key.startswith(b"m\x05looks") for key, _ in bench.entries())
    assert bench.ask(lambda view: view.entry(market.looks, "a", "x")) is None


def test_declared_queries_find_by_prefix_and_value() -> None:
    bench = Bench(market.service, bound_ms=0)
    bench.send(
        Moved("a", "ES", 3, S), Moved("b", "ES", 0, S), Offered("a", "x1", 7, [], S), Offered("b", "x2", 5, [], S),
        Offered("b", "y", 1, [], S),
    )  # fmt: skip
    assert bench.ask(market.cheapest, "x") == [Cheapest("b", "x2", 5), Cheapest("a", "x1", 7)]
    assert bench.ask(market.cheapest, "x", most=1) == [Cheapest("b", "x2", 5)]
    assert bench.ask(market.sellers, "ES", best=True) == [Seller("ES", 3)]


def test_a_wrong_value_of_an_index_says_which_index_it_is() -> None:
    service = ms.Service("wrong")
    moved = service.input("moved", Moved, key="seller", time="at")
    seller = service.value("seller", Seller)
    halves = service.index("halves", seller, lambda s: s.score / 2)

    @service.on(moved, seller)
    def move(ctx: ms.Context[None], e: Moved, seller: Seller) -> None:
        seller.score = e.score

    bench = Bench(service, bound_ms=0)
    bench.send(Moved("a", "", 1, S))
    with pytest.raises(StepError, match=r"offset 0: move: .*index 'halves': expected a string, .* found 0\.5\. Do: "):
        bench.ask(lambda view: list(view.range(halves)))


def test_a_span_without_limits_has_everything() -> None:
    assert index_order.span_between(None, None, "") == (b"", b"\xff")
