"""Indices and queries are open to callers without the scope for personal fields if they are proven free of them."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from typing import Annotated, Any

import pytest

import moneystate as ms
from moneystate.records.shapes import Shapes
from moneystate.runtime import function_tree
from moneystate.runtime.function_tree import tree_of
from moneystate.runtime.personal import reads_personal
from moneystate.runtime.plan import Plan
from moneystate.testing import Bench

Email = Annotated[str, ms.personal]
FIELD = "email"
LIMIT = 3
SEEN: dict[str, str] = {}


@dataclass
class Address:
    city: str = ""
    street: Email = ""

    def line(self) -> str:
        return f"{self.street}, {self.city}"

    @property
    def first(self) -> str:
        return self.street

    @property
    def short(self) -> str:
        return self.city[:LIMIT]


@dataclass
class Box:
    size: int = 0

    def __len__(self) -> int:
        return self.size


@dataclass
class Secretive:
    pin: Annotated[int, ms.personal] = 0

    def __len__(self) -> int:
        return self.pin


@dataclass
class Customer:
    name: str = ""
    email: Email = ""
    emails: list[Email] = field(default_factory=list)
    phones: dict[str, Email] = field(default_factory=dict)
    home: Address = field(default_factory=Address)
    work: Address | None = None
    places: list[Address] = field(default_factory=list)
    by_kind: dict[str, Address] = field(default_factory=dict)
    tags: list[str] = field(default_factory=list)
    box: Box = field(default_factory=Box)
    secret: Secretive = field(default_factory=Secretive)
    orders: int = 0

    @classmethod
    def mail_of(cls, one: Customer) -> str:
        return one.email

    @staticmethod
    def half(n: int) -> int:
        return n // 2

    @cached_property
    def mail(self) -> str:
        return self.email

    def __lt__(self, other: Customer) -> bool:
        return self.email < other.email


class Mails:
    def __init__(self) -> None:
        self.kind = "mail"
        self.last: list[str] = []

    def of(self, customer: Customer) -> str:
        return customer.email

    def through(self, customer: Customer) -> str:
        return self.of(customer)

    def last_of(self, customer: Customer) -> list[str]:
        return self.last

    def kept(self, customer: Customer) -> str:
        self.kind = customer.email
        return self.kind


@dataclass(frozen=True)
class Cities:
    place: int

    def of(self, customer: Customer) -> str:
        return self.city(customer)[: self.most]

    def city(self, customer: Customer) -> str:
        return customer.places[self.place].city

    @property
    def most(self) -> int:
        return LIMIT

    @cached_property
    def first(self) -> str:
        return "first"

    def first_of(self, customer: Customer) -> str:
        return self.first


class Changing:
    """Anybody may set its kind."""

    def __init__(self) -> None:
        self.kind = "mail"

    def of(self, customer: Customer) -> str:
        return self.kind


class Guarded(Cities):
    def __getattribute__(self, name: str) -> Any:
        return object.__getattribute__(self, name)


MAILS = Mails()
CITIES = Cities(0)
TABLE: dict[str, Callable[[Customer], str]] = {"mail": lambda c: c.email}


def by_match(c: Any) -> Any:
    match c:
        case Customer(_, mail):
            return mail
    return None


def by_try(c: Customer) -> str:
    try:
        raise ValueError(c)
    except ValueError as e:
        return str(e)


def by_loop(c: Customer) -> str:
    last = c.home
    cities: Any = last
    for place in c.places:
        cities = last
        last = place
    return str(cities.street)


def by_late_name(c: Customer) -> Any:
    a: Any = ""
    b: Any = ""
    for _ in c.tags:
        b = a
        a = c.home
    return b


def by_cache(c: Customer) -> str:
    return SEEN[c.name]


def with_default(c: Customer, get: Any = operator.attrgetter("email")) -> Any:
    return get(c)


def generator(c: Customer) -> Any:
    yield c.email


def recursive(c: Customer) -> Any:
    return recursive(c)


def by_empty_loop(c: Customer) -> str:
    one: Any = c.home
    for one in c.tags:  # noqa: B007
        pass
    return str(one.street)


def by_break(c: Customer) -> str:
    one: Any = ""
    for _ in c.tags:
        one = c.home
        if c.orders:
            break
        one = ""
    return str(one.street)


def by_skipped_name(c: Customer) -> str:
    one: Any = c.home
    if c.orders and (one := ""):
        pass
    return str(one.street)


def by_comprehension(c: Customer) -> str:
    one: Any = ""
    _ = [0 for place in c.places if (one := place).city]
    return str(one.street)


def branches(c: Customer) -> list[str]:
    cities: list[str] = []
    for place in c.places:
        if place.city:
            cities.append(place.city.lower())
        elif c.orders > LIMIT:
            break
    total = 0
    while total < len(cities):
        total += 1
    return [*cities, str(total)]


PERSONAL: list[Any] = [
    lambda c: c.email, lambda c: c.home.line(), lambda c: c.home.first, lambda c: Customer.mail_of(c), lambda c: c.mail,
    lambda c: operator.attrgetter(FIELD)(c), lambda c: operator.attrgetter("name", "email")(c),
    lambda c: TABLE["mail"](c), lambda c: MAILS.of(c), lambda c: Mails().of(c), lambda c: c.emails,
    lambda c: c.emails[0], lambda c: list(c.emails), lambda c: sorted(c.emails), lambda c: c.phones["home"],
    lambda c: list(c.phones.values()), lambda c: [p for _, p in c.phones.items()], lambda c: c.phones.get("home"),
    lambda c: [p.street for p in c.places], lambda c: [p.street for p in c.by_kind.values()],
    lambda c: c.work.street if c.work else "", lambda c: (c.name, c.home), lambda c: c.home or "", lambda c: [c],
    lambda c: c.email, lambda c: vars(c), lambda c: c.__dict__, lambda c: repr(c), lambda c: hash(c),
    lambda c: f"{c.home}", lambda c: f"{c.email}", lambda c: "%s" % c, lambda c: str([c.home]),  # noqa: UP031
    lambda c: asdict(c)["email"], lambda c: min([c, c]), lambda c: c < c, lambda c: c.home == Address("", "x"),
    lambda c: len(c.secret), lambda c: 1 if c.secret else 0, lambda c: not c.secret, lambda c: c.name.__class__,
    lambda c: (x := c) and x.email, lambda c: (lambda d: d.email)(c), lambda c: eval("c.email"), lambda c: locals(),
    lambda c: sorted(c.places, key=lambda p: p.street)[0].city, lambda c: max(c.places, key=len).city,
    lambda c: list(map(str, [c])), lambda *c: c[0].email, lambda c: with_default(c), lambda c: partial(by_try, c)(),
    lambda c: c.email_of_nobody, lambda c: NOWHERE,  # type: ignore[name-defined]  # noqa: F821
    by_empty_loop, by_break, by_skipped_name, by_comprehension, Changing().of,
    by_match, by_try, by_loop, by_late_name, by_cache, with_default, generator, recursive,
    operator.attrgetter("name"), repr, partial(by_try), Mails().of,
    MAILS.through, MAILS.last_of, MAILS.kept, Guarded(0).of, lambda c: MAILS.through(c),
]  # fmt: skip

FREE: list[Any] = [
    lambda c: c.name, lambda c: (c.name, -c.orders), lambda c: c.name or None, lambda c: c.home.city.lower(),
    lambda c: c.home.short, lambda c: c.work.city if c.work is not None else None, lambda c: c.work and c.work.city,
    lambda c: [p.city for p in c.places if p.city], lambda c: [p.city for p in c.by_kind.values()],
    lambda c: list(c.by_kind), lambda c: [f"{k}:{p.city}" for k, p in c.by_kind.items()],
    lambda c: c.places[0].city if c.places else None, lambda c: [p.city for p in c.places[:LIMIT]],
    lambda c: len(c.emails), lambda c: list(c.phones.keys()), lambda c: c.tags, lambda c: sorted(c.tags)[:1],
    lambda c: sum(len(t) for t in c.tags), lambda c: "-".join(sorted(c.tags, key=lambda t: t[::-1])),
    lambda c: len(c.box), lambda c: c.box.size, lambda c: min(c.orders, LIMIT), lambda c: c.by_kind["home"].city,
    lambda c: operator.attrgetter("home.city")(c), lambda c: c.orders % 7 == 0 and c.name in ("a", "b"),
    lambda c: next((p.city for p in c.places), ""), lambda c: (n := c.name) + n, branches,
    lambda c: "all", lambda c: "none", lambda c: 1, lambda c: True, lambda c: -1.0, lambda c: ("a", 7), lambda c: None,
    CITIES.of, lambda c: CITIES.of(c), lambda c: CITIES.place, CITIES.first_of,
]  # fmt: skip


@pytest.mark.parametrize("by", PERSONAL, ids=range(len(PERSONAL)))
def test_an_index_that_is_not_proven_free_needs_the_scope(by: Any) -> None:
    assert reads_personal(by, Shapes("test").record(Customer, "here"))


@pytest.mark.parametrize("by", FREE, ids=range(len(FREE)))
def test_an_index_of_other_fields_is_open(by: Any) -> None:
    by(Customer(places=[Address("Bonn")], by_kind={"home": Address("Ulm")}))
    assert not reads_personal(by, Shapes("test").record(Customer, "here"))


CONSTANTS: list[Any] = [
    lambda: 1, lambda: True, lambda: 1.0, lambda: ("a", 7), lambda: None, lambda: [].append, lambda: 1,
]  # fmt: skip


@pytest.mark.parametrize("knows_places", [True, False])
def test_each_of_several_constants_on_a_line_has_its_own_tree(
    knows_places: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.12 does not say where the constant of a lambda is."""
    of_code = function_tree._place_of_code
    if not knows_places:
        monkeypatch.setattr(function_tree, "_place_of_code", lambda code: of_code(code) if code.co_names else None)
    made: list[Any] = [tree_of(function) for function in CONSTANTS]
    assert None not in made
    assert [ast.unparse(tree.body) for tree in made] == ["1", "True", "1.0", "('a', 7)", "None", "[].append", "1"]


def test_a_function_whose_source_is_not_that_of_its_code_has_no_tree() -> None:
    made: dict[str, Any] = {}
    exec("by = lambda c: c.name", made)
    assert tree_of(made["by"]) is None
    before = "\n" * (branches.__code__.co_firstlineno - 1)
    exec(compile(f"{before}def branches(c):\n    return c.email", __file__, "exec"), made)
    assert tree_of(made["branches"]) is None
    assert reads_personal(made["branches"], Shapes("test").record(Customer, "here"))
    known: Any = branches
    assert tree_of(known) is not None


@dataclass(frozen=True)
class Changed:
    id: str
    time: ms.Millis


@dataclass
class Shop:
    city: str = ""


@dataclass(frozen=True)
class Counted:
    city: str
    number: int


@dataclass(frozen=True)
class Copied:
    """Has the fields of an address, but none is marked."""

    city: str
    street: str


service = ms.Service("people")
changed = service.input("changed", Changed, key="id", time="time")
customer = service.value("customer", Customer)
shop = service.value("shop", Shop)
homes = service.map("homes", Address)
by_email = service.index("by_email", customer, lambda c: c.email)
by_name = service.index("by_name", customer, lambda c: c.name)
by_city = service.index("by_city", shop, lambda s: s.city)
by_street = service.index("by_street", homes, lambda a: a.street, personal=False)
by_town = service.index("by_town", homes, lambda a: a.city, personal=True)


@service.on(changed, customer)
def change(ctx: ms.Context[None], e: Changed, customer: Customer) -> None: ...


def ids(view: ms.View, city: str) -> list[str]:
    return [id for id, _ in view.find(by_city, city)]


@service.query
def shops(view: ms.View, city: str, most: int = LIMIT) -> list[Counted]:
    counts: dict[str, int] = {}
    for id in ids(view, city):
        counts[id] = counts.get(id, 0) + 1
    cities = sorted(counts.items(), key=lambda item: item[1])
    return ms.first((Counted(id, n) for id, n in cities), most, "most")


@service.query
def named(view: ms.View, name: str) -> list[Customer]:
    return [c for _, c in view.find(by_name, name) if c.orders > 0 or view.time_ms > 0]


@service.query
def at_home(view: ms.View, id: str) -> Address | None:
    if not id:
        raise ms.ArgumentError(f"id: expected one, cities {id}.", "give one.")
    return view.entry(homes, id, "home")


@service.query
def towns(view: ms.View, id: str) -> list[str]:
    return [a.city for _, a in view.entries(homes, id) if view.get(customer, id).name]


@service.query
def on_street(view: ms.View, street: str) -> list[str]:
    return [key for key, _, _ in view.find(by_street, street)]


@service.query
def with_email(view: ms.View, email: str) -> list[Customer]:
    return [c for _, c in view.find(by_email, email)]


@service.query
def in_town(view: ms.View, town: str) -> list[str]:
    return [key for key, _, _ in view.find(by_town, town)]


@service.query
def email_of(view: ms.View, id: str) -> str:
    return view.get(customer, id).email


@service.query
def emails_of(view: ms.View, id: str) -> list[Email]:
    return view.get(customer, id).emails


@service.query
def is_known(view: ms.View, email: str) -> bool:
    return any(c.email == email for _, c in view.range(by_name))


@service.query
def copied(view: ms.View, id: str) -> Copied | None:
    return view.entry(homes, id, "home")  # type: ignore[return-value]


@service.query
def looked_up(view: ms.View, id: str) -> str:
    return str(view.plan.kinds)  # type: ignore[attr-defined]


@service.query(personal=False)
def has_email(view: ms.View, id: str) -> bool:
    return bool(view.get(customer, id).email)


@service.query(personal=True)
def secret_shops(view: ms.View) -> list[Shop]:
    return [s for _, s in view.range(by_city)]


@dataclass(frozen=True)
class Queries:
    """Queries as methods of an object with the handles that they read."""

    customers: ms.Value[Customer]

    def _read(self, view: ms.View, id: str) -> Customer:
        return view.get(self.customers, id)

    def city_of(self, view: ms.View, id: str, most: int = LIMIT) -> str:
        """The beginning of a city."""
        return self._read(view, id).home.city[:most]

    def street_of(self, view: ms.View, id: str) -> str:
        return self._read(view, id).home.street

    def orders_of(self, view: ms.View, id: str) -> int:
        return self._read(view, id).orders


queries = Queries(customer)
service.query(queries.city_of)
service.query(queries.street_of)
service.query(personal=True)(queries.orders_of)


def test_a_method_can_be_a_query() -> None:
    plan = Plan(service)
    query = plan.queries["city_of"]
    assert (query.description, query.names) == ("The beginning of a city.", ["id", "most"])
    assert query.parse_arguments('{"id": "a"}') == {"id": "a", "most": LIMIT}
    assert {"street_of", "orders_of"} <= plan.personal_queries
    assert Bench(service).ask(queries.city_of, "a", most=1) == ""


def test_queries_and_indices_that_are_not_proven_free_need_the_scope() -> None:
    plan = Plan(service)
    assert plan.personal_indices == {"by_email", "by_town"}
    assert plan.personal_queries == {
        "with_email", "in_town", "email_of", "is_known", "copied", "looked_up", "secret_shops",
        "street_of", "orders_of",
    }  # fmt: skip
    assert plan.queries.keys() - plan.personal_queries == {
        "city_of",
        "emails_of",
        "shops",
        "named",
        "at_home",
        "towns",
        "on_street",
        "has_email",
    }


def test_a_service_without_personal_fields_is_open() -> None:
    plain = ms.Service("plain")
    source = plain.input("changed", Changed, key="id", time="time")
    state = plain.value("shop", Shop)
    plain.on(source, state)(lambda ctx, e, s: None)
    plain.index("by_text", state, repr)

    @plain.query
    def text(view: ms.View, id: str) -> str:
        return eval("repr(view)")  # type: ignore[no-any-return]

    assert not Plan(plain).personal_indices
    assert not Plan(plain).personal_queries
