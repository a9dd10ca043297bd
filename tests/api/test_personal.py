"""Personal fields: which are blanked, and which indices may tell them."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest

import moneystate as ms
from moneystate.records.codec import Codec
from moneystate.records.shapes import Record, Shapes
from moneystate.runtime.personal import blanked, reads_personal
from tests.api import personal_helpers


@dataclass
class Contact:
    email: Annotated[str, ms.personal] = ""
    kind: str = ""


@dataclass
class Customer:
    name: Annotated[str, ms.personal] = ""
    born: Annotated[int, ms.personal] | None = None
    tier: Annotated[Literal["GOLD", "TIN"], ms.personal] = "TIN"
    owes: Annotated[ms.Decimal, ms.personal] = Decimal(0)
    home: Annotated[Contact, ms.personal] = field(default_factory=Contact)
    contacts: list[Contact] = field(default_factory=list)
    by_kind: dict[str, Contact] = field(default_factory=dict)
    orders: int = 0

    def __post_init__(self) -> None:
        assert self.orders >= 0

    def initial(self) -> str:
        return self.name[:1]

    @property
    def size(self) -> int:
        return len(self.contacts)


def record_of(cls: type) -> Record:
    return Shapes("test").record(cls, "here")


def test_personal_fields_are_blanked_at_any_depth_and_the_record_is_left_as_it_is() -> None:
    full = Customer(
        "Eve", 1980, "GOLD", Decimal(7), Contact("h@x", "home"), [Contact("a@x", "work")], {"w": Contact("b@x", "w")}, 3
    )
    shown = blanked(record_of(Customer), full)
    assert shown == Customer("", None, "GOLD", Decimal(0), Contact(), [Contact("", "work")], {"w": Contact("", "w")}, 3)
    assert full.contacts == [Contact("a@x", "work")]
    codec = Codec(record_of(Customer))
    assert codec.decode(codec.encode(shown)) == shown
    assert codec.personal == ("name", "born", "tier", "owes", "home", "contacts[].email", "byKind[].email")


def helper(customer: Customer) -> str:
    return customer.name.lower()


def harmless(customer: Customer) -> int:
    return customer.orders * 2


@pytest.mark.parametrize(
    ("by", "tells"),
    [
        (lambda c: c.orders, False),
        (lambda c: (c.orders, len(c.contacts)), False),
        (lambda c: harmless(c), False),
        (lambda c: c.size, False),
        (lambda c: [x.kind for x in c.contacts], False),
        (lambda c: c.name, True),
        (lambda c: [x.email for x in c.contacts], True),
        (lambda c: helper(c), True),
        (lambda c: c.initial(), True),
        (lambda c: personal_helpers.initial_of(c), True),
        (lambda c: personal_helpers.count_of(c), False),
        (lambda c: operator.attrgetter("orders")(c), False),
        (lambda c: operator.attrgetter("home.email")(c), True),
        (lambda c: getattr(c, "na" + "me"), True),
        (lambda c: vars(c)["name"], True),
        (repr, True),
        (str, True),
        (lambda c: str(c), True),
        (lambda c: f"{c}", True),
        (lambda c: f"{c!s:>9}", True),
        (lambda c: "%s" % c, True),  # noqa: UP031
        (lambda c: "{}".format(c), True),  # noqa: UP032
        (lambda c: [str(x) for x in c.contacts], True),
        (lambda c: f"{c.contacts}", True),
        (lambda c: personal_helpers.text_of(c), True),
        (lambda c: str(c.orders), False),
        (lambda c: f"{c.orders}-{c.size}", False),
        (lambda c: c.orders % 7, False),
    ],
)
def test_an_index_that_may_read_a_personal_field_is_known(by: Any, tells: bool) -> None:
    assert reads_personal(by, record_of(Customer)) is tells
    assert not reads_personal(by, record_of(Plain))


@dataclass
class Plain:
    name: str = ""
