"""The rows that a worker knows."""

from __future__ import annotations

import json

from moneystate.deliver.book import Book
from moneystate.deliver.records import RowPlace
from moneystate.deliver.rows import UrlRules
from moneystate.deliver.topics import Row
from tests.deliver.made import delivery


def row(topic: str, key: str, offset: int, **fields: object) -> Row:
    return Row("p-" + topic, key, json.dumps(fields).encode() if fields else None, 0, offset)


def test_a_delivery_waits_until_its_rows_have_been_read_also_if_compaction_has_taken_them() -> None:
    book = Book("p-", UrlRules())
    one = delivery(endpoint_row=RowPlace(0, 7), subscription_row=RowPlace(0, 2))
    assert not book.has(one)
    book.reached({("p-endpoints", 0): 7, ("p-subscriptions", 0): 3})
    assert not book.has(one)
    book.reached({("p-endpoints", 0): 8, ("p-subscriptions", 0): 3})  # the row at 7 is gone
    assert book.has(one)


def test_a_row_that_breaks_a_rule_pauses_its_endpoint_and_leaves_its_subscription_as_it_was() -> None:
    book = Book("p-", UrlRules())
    good = {"endpointId": "e1", "owner": "acme", "url": "https://example.org"}
    assert book.take(row("endpoints", "e1", 0, **good)) == ("e1", "")
    assert book.take(row("endpoints", "e1", 1, **{**good, "url": "http://example.org"})) == ("e1", "")
    known = book.endpoint("e1")
    assert known.row is not None
    assert (known.row.is_paused, known.offset, known.problem) == (True, 1, "url is not https")
    assert book.take(row("endpoints", "e1", 2)) == ("e1", "")
    assert book.endpoint("e1").row is None
    its = {"subscriptionId": "s1", "endpointId": "e1", "owner": "acme"}
    assert book.take(row("subscriptions", "s1", 0, **its)) == ("e1", "s1")
    assert book.take(row("subscriptions", "s1", 1, **its, mode="many")) == ("e1", "s1")
    assert book.subscriptions["s1"] is not None
    assert book.take(row("subscriptions", "s1", 2)) == ("e1", "s1")
    assert book.subscriptions["s1"] is None
