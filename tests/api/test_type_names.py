"""How records of JSON topics are told apart: by topic and type, never by what another topic or the platform has."""

from __future__ import annotations

import json
from dataclasses import dataclass, make_dataclass
from typing import Any, Literal

import pytest

import moneystate as ms
from moneystate.errors import ServiceError
from moneystate.runtime.json_topic import JsonTopic
from moneystate.runtime.plan import Plan
from moneystate.testing import Bench


def record(name: str, **fields: Any) -> Any:
    """A record of a full name, with a key `k` and a time `at`."""
    cls = make_dataclass(name.rpartition(".")[2], [("k", str), ("at", ms.Millis), *fields.items()], frozen=True)
    return ms.named(name)(cls)


ShopPlaced, WebPlaced = record("shop.Placed"), record("web.Placed", url=str)
Other = record("shop.Other")
Clicked = record("web.Clicked")
Beat = record("devices.Heartbeat")
Kept = record("shop.Kept", type=Literal["Kept"])
Free = record("shop.Free", type=str)


@ms.named("devices.Heartbeat")
@dataclass(frozen=True)
class BareBeat:
    """It has exactly the members of the platform's heartbeat."""

    processed_at: ms.Millis


@ms.named("devices.Reading")
@dataclass(frozen=True)
class Anything:
    """Its own type may be `Heartbeat`, and its other field may be absent."""

    type: str
    processed_at: ms.Millis
    note: str = ""


@dataclass(frozen=True)
class Seen:
    k: str
    what: str


def service(
    *inputs: tuple[str, Any], outputs: tuple[tuple[str, Any], ...] = (), format: str = "json", **more: Any
) -> Any:
    """A service that puts out the key and the type of each record that it reads."""
    made: Any = ms.Service("names")
    handles = [made.input(t, cls, **{"key": "k", "time": "at", "format": format, **more}) for t, cls in inputs]
    seen = made.output("seen", Seen, key="k", format="json")
    for topic, cls in outputs:
        made.output(topic, cls, key="k", format=format)
    source = handles[0]
    for other in handles[1:]:
        source = source | other

    def step(ctx: Any, e: Any) -> None:
        ctx.emit(seen, Seen(ctx.key, type(e).__name__ + "/" + getattr(e, "url", "")))

    made.on(source)(step)
    made.seen = seen
    return made


def sent(made: Any, topic: str, *documents: dict[str, Any]) -> tuple[list[tuple[str, str]], Bench]:
    bench = Bench(made, bound_ms=0)
    for document in documents:
        bench.send_raw(topic, json.dumps(document))
    return [(line.k, line.what) for line in bench.out(made.seen)], bench


def test_types_of_one_name_in_different_topics_are_read_each_in_its_topic() -> None:
    made = service(("shop", ShopPlaced), ("shop", Other), ("web", WebPlaced), ("web", Clicked))
    placed = {"type": "Placed", "k": "a", "at": 1}
    assert sent(made, "shop", placed)[0] == [("a", "Placed/")]
    assert sent(made, "web", {**placed, "url": "u"})[0] == [("a", "Placed/u")]


def test_an_output_of_the_same_name_takes_no_record_of_an_input() -> None:
    made = service(("shop", ShopPlaced), ("shop", Other), outputs=(("web", WebPlaced),))
    out, bench = sent(made, "shop", {"type": "Placed", "k": "a", "at": 1})
    assert (out, bench.dead_letters()) == ([("a", "Placed/")], [])
    written = bench.plan.codec(WebPlaced, "").encode(WebPlaced("a", 1, "u"))
    assert json.loads(JsonTopic(bench.plan, "web").from_canonical(written))["url"] == "u"


def test_a_record_of_another_topic_is_still_told_from_an_unknown_one() -> None:
    made = service(("shop", ShopPlaced), ("shop", Other), ("web", WebPlaced))
    _, bench = sent(
        made, "web", {"type": "Other", "k": "a", "at": 1}, {"type": "Seen", "k": "a", "what": ""}, {"type": "X"}
    )
    assert bench.dead_letters() == ["wrong_topic", "no_event_time", "unknown_schema"]


def test_a_type_named_heartbeat_is_the_services_own() -> None:
    for inputs in [(("dev", Beat),), (("dev", Beat), ("dev", Other))]:
        out, bench = sent(service(*inputs), "dev", {"type": "Heartbeat", "k": "a", "at": 1})
        assert (out, bench.dead_letters()) == ([("a", "Heartbeat/")], [])


def test_an_object_with_more_than_a_heartbeats_members_is_none() -> None:
    beat = {"type": "Heartbeat", "processedAt": 5}
    for inputs in [(("dev", Other),), (("dev", Other), ("dev", ShopPlaced))]:
        _, bench = sent(service(*inputs), "dev", beat, {**beat, "k": "a", "at": 1})
        assert (bench.dead_letters(), bench.latest) == (["unknown_schema"], 5)


def test_an_output_named_heartbeat_is_written_as_what_it_is() -> None:
    made = service(("shop", Other), outputs=(("beats", Beat),))
    plan = Bench(made).plan
    text = JsonTopic(plan, "beats").from_canonical(plan.codec(Beat, "").encode(Beat("a", 1)))
    assert json.loads(text) == {"type": "Heartbeat", "k": "a", "at": "1970-01-01T00:00:00.001Z"}


def test_a_field_that_can_only_be_the_name_of_the_type_may_be_called_type() -> None:
    made = service(("shop", Kept), ("shop", Other), outputs=(("out", Kept), ("out", Other)))
    out, bench = sent(made, "shop", {"type": "Kept", "k": "a", "at": 1}, {"type": "Other", "k": "a", "at": 2})
    assert (out, bench.dead_letters()) == ([("a", "Kept/"), ("a", "Other/")], [])


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        ((("t", ShopPlaced), ("t", WebPlaced)), (), "shop.Placed and web.Placed are both 'Placed' in JSON"),
        ((("t", Other),), (("o", ShopPlaced), ("o", WebPlaced)), "are both 'Placed' in JSON"),
        ((("t", ShopPlaced),), (("t", WebPlaced),), "are both 'Placed' in JSON"),
        ((("t", Free), ("t", Other)), (), "Free.type is 'type' in JSON"),
        ((("t", Other),), (("o", Free), ("o", Other)), "Free.type is 'type' in JSON"),
    ],
)
def test_records_that_could_not_be_told_apart_are_refused(inputs: Any, outputs: Any, message: str) -> None:
    with pytest.raises(ServiceError, match=message):
        Plan(service(*inputs, outputs=outputs))
    Plan(service(*inputs, outputs=outputs, format="avro"))


@pytest.mark.parametrize("cls", [BareBeat, Anything])
def test_a_record_that_would_be_taken_for_a_heartbeat_is_refused(cls: Any) -> None:
    made = service(("t", cls), key=lambda e: "a", time="processed_at")
    with pytest.raises(ServiceError, match="exactly the members of the platform's heartbeat"):
        Plan(made)


def test_a_format_that_the_run_chooses_is_checked_like_a_declared_one() -> None:
    plan = Plan(service(("t", ShopPlaced), ("t", WebPlaced), format="avro"))
    with pytest.raises(ServiceError, match="are both 'Placed' in JSON"):
        JsonTopic(plan, "t")


def test_the_platforms_own_name_is_refused() -> None:
    with pytest.raises(ServiceError, match="Heartbeat is the platform's own record"):
        Plan(service(("t", record("moneystate.events.Heartbeat")), format="avro"))


def test_records_that_have_no_effect_but_on_time_are_counted() -> None:
    made: Any = ms.Service("counted")
    keyed = made.input("a", Other, key=lambda e: [], time="at", format="json")
    made.input("b", ShopPlaced, time="at", format="json")
    made.on(keyed)(lambda ctx, e: None)
    bench = Bench(made, bound_ms=0)
    bench.send_raw("a", '{"k":"a","at":1}')
    bench.send_raw("b", '{"k":"a","at":1}')
    assert (bench.dead_letters(), bench.count("ignored"), bench.latest) == ([], 2, 1)
