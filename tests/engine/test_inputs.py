"""Topic patterns: which input reads a topic, and the places of its partitions in the order."""

from __future__ import annotations

import pytest

from moneystate.engine.inputs import Inputs, hash_of, matches, partition_in
from moneystate.engine.items import TIMER_RANK, Item
from moneystate.engine.place import carried_over, cause_of, named, own_value, topic_named, topic_of, where
from moneystate.engine.processor import InputTopic

ORDERS, EU, REST = (InputTopic(n, name, True, n) for n, name in enumerate(("orders", "orders-eu*", "orders-*")))
INPUTS = Inputs([ORDERS, REST, EU])


@pytest.mark.parametrize(
    ("topic", "reads"),
    [
        ("orders", ORDERS),
        ("orders-", REST),
        ("orders-us", REST),
        ("orders-eu", REST),  # the first pattern that matches it, as they are declared
        ("order", None),
        ("my-orders-us", None),
    ],
)
def test_a_topic_belongs_to_the_input_of_its_name_or_the_first_pattern_that_matches(
    topic: str, reads: InputTopic | None
) -> None:
    assert INPUTS.of(topic) == reads


def test_of_the_topics_that_exist_those_of_patterns_are_found_without_kafkas_own() -> None:
    everything = Inputs([ORDERS, InputTopic(1, "*", True, 1)])
    assert everything.matching(["orders", "b", "__consumer_offsets", "a"]) == ["a", "b"]


def test_a_pattern_is_no_regular_expression() -> None:
    assert matches("a.b-*-c", "a.b-x-y-c")
    assert not matches("a.b-*-c", "axb-x-c")
    assert not matches("a.b-*-c", "a.b-x-c-d")


def test_the_numbers_of_partitions_are_golden() -> None:
    assert hash_of("orders-us") == 0xE43FE45CC800000
    assert INPUTS.place(("orders-us", 3)) == (REST.code, 0xE43FE45CC800003)
    assert partition_in(0xE43FE45CC800003) == 3
    assert INPUTS.place(("orders", 3)) == (ORDERS.code, 3)
    with pytest.raises(KeyError):
        INPUTS.place(("payments", 0))


def test_an_item_and_a_timer_that_it_sets_know_their_topic() -> None:
    code, number = INPUTS.place(("orders-us", 3))
    event: Item = (7, 0, 0, code, number, 9, 7, b"k", named(b"orders-us", b"\xc3\x01v"))
    timer: Item = (8, TIMER_RANK, 7, code, number, 9, 0, b"k", carried_over(event[8], b"t\x04wait"))
    for item, value in ((event, b"\xc3\x01v"), (timer, b"t\x04wait")):
        assert (topic_of(item, {code: "orders-*"}), *where(item)) == ("orders-us", 3, 9)
        assert own_value(item[8]) == value
    assert event[8].hex(" ") == "03 6f 72 64 65 72 73 2d 75 73 00 01 c3 01 76"
    plain = (*event[:8], b"\xc3\x01v")
    assert cause_of(event) == cause_of(plain)
    assert topic_named(plain[8]) is None
    assert topic_of(plain, {code: "orders"}) == "orders"
