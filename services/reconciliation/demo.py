"""`moneystate demo reconciliation`: a shop announces events, and a lake does not have all of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from moneystate.devbroker.demo import Came, Sent, Step, play
from services.reconciliation.keys import interval_key, key_text

TABLES: Final = """
[reconciliation]
[[reconciliation.inputs]]
topic = "inventory-items"
[[reconciliation.pairs]]
name = "shop-lake"
expected = { store = "shop", role = "PRODUCER_EXPECTED" }
actual = { store = "lake", role = "ACTUAL" }
n = "10s"
m = "1m"
o = "1m"
"""
PAIR: Final = "shop-lake"
START: Final = datetime(2026, 3, 1, 20, tzinfo=UTC)


def _time(at_s: float) -> str:
    return (START + timedelta(seconds=at_s)).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _item(at_s: float, store: str, id: str, told: str, event_s: float | None = None, **more: Any) -> Sent:
    """`event_s`: the event's time, where that is not when the item is sent."""
    role = "PRODUCER_EXPECTED" if store == "shop" else "ACTUAL"
    event_time = _time(at_s if event_s is None else event_s)
    record = {"store": store, "source": "orders", "eventId": id, "role": role, "eventTime": event_time, **more}
    return Sent(at_s, "inventory-items", record, told)


def _key(id: str) -> str:
    return key_text(PAIR, "orders", id)


def line(came: Came) -> str:
    if came.reason or came.value is None:
        return f"dead letter: {came.reason}"
    record = came.value
    if "kind" in record:
        after_s = (datetime.fromisoformat(record["decidedAt"]) - START).total_seconds()
        return f"{after_s:>5g} s  {record['kind']} {record['detail']}".rstrip()
    told = [f"{record['matched']} of {record['expected']} = {record['percent']} %"]
    told += [f"{record[name]} {name}" for name in ("missing", "unexpected", "tooLate") if record[name]]
    return ", ".join([*told, "final" if record["final"] else f"revision {record['revision']}"])


STEPS: Final = (
    Step(
        "On both sides: no difference",
        _key("o-1"),
        (_item(1, "shop", "o-1", "shop: I sent o-1"), _item(2, "lake", "o-1", "lake: I have o-1", 1)),
        (),
    ),
    Step(
        "Never arrives: missing after 10 s, lost after a minute",
        _key("o-2"),
        (_item(2, "shop", "o-2", "shop: I sent o-2"),),
        ("   12 s  MISSING 0 of 1", "   62 s  LOST"),
    ),
    Step(
        "Arrives late: missing, then found",
        _key("o-3"),
        (_item(3, "shop", "o-3", "shop: I sent o-3"), _item(30, "lake", "o-3", "lake: I have o-3, of 3 s", 3)),
        ("   13 s  MISSING 0 of 1", "   24 s  FOUND"),
    ),
    Step(
        "Split in two parts, one of which is lost",
        _key("o-4"),
        (
            _item(4, "shop", "o-4", "shop: I sent o-4, in 2 parts", parts=2),
            _item(5, "lake", "o-4/1", "lake: I have part o-4/1", derivedFrom="o-4"),
        ),
        ("   14 s  MISSING 1 of 2", "   64 s  LOST"),
    ),
    Step(
        "Unexpected, until the announcement comes",
        _key("o-5"),
        (
            _item(6, "lake", "o-5", "lake: I have o-5"),
            _item(31, "shop", "o-5", "shop: I sent o-5, at 6 s", 6),
        ),
        ("   16 s  UNEXPECTED", "   24 s  EXPLAINED"),
    ),
    Step(
        "More than a minute late: too late",
        _key("o-6"),
        (
            _item(29, "shop", "o-7", "shop: I sent o-7"),
            _item(99, "lake", "o-8", "lake: I have o-8"),
            _item(100, "lake", "o-6", "lake: I have o-6, of 4 s", 4),
        ),
        ("   94 s  TOO_LATE",),
    ),
    Step(
        "The first minute in numbers",
        interval_key(PAIR, _time(0)),
        (),
        (
            "3 of 6 = 50.0 %, 3 missing, revision 1",
            "3 of 6 = 50.0 %, 3 missing, 1 tooLate, final",
        ),
    ),
)


def demo() -> bool:
    outputs = ["reconciliation-findings", "reconciliation-completeness", "reconciliation-dead-letters"]
    return play("reconciliation", TABLES, STEPS, outputs, line)
