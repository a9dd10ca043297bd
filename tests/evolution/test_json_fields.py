"""A field that changes from a text to JSON, or back: Avro has both alike, and so has a fingerprint."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from moneystate.errors import ConfigError, ServiceError
from moneystate.runtime.folders import folder_of
from moneystate.schemas.check import Finding, check_against
from moneystate.schemas.services import check_released, findings_of, release_service, released_tree
from tests.evolution.module_file import ModuleFile
from tests.evolution.test_service_state import HEAD, MODULE, SERVICE, V1, V2, Shop, bad, written

OF_STATE = "    note: {0} = {1}\n"
TEXT, JSON = OF_STATE.format("str", '"n"'), OF_STATE.format("ms.Json", 'ms.Json("1")')
IN_EVENT = HEAD + "    notes: list[{0} | None]\n"


@pytest.fixture
def changing(module_file: Callable[[str], ModuleFile]) -> Shop:
    return Shop(module_file(MODULE))


def judged(findings: list[Finding]) -> list[tuple[str, str, str]]:
    return [(f.path, f.rule, f.text) for f in findings if not f.ok and f.compatibility]


def refused(name: str, path: str, text: str) -> None:
    assert judged(findings_of(SERVICE)) == [(path, "logical type changed", text)]
    with pytest.raises(ConfigError, match="add a field with another name"):
        release_service(SERVICE)
    with pytest.raises(ServiceError, match=f"found changes: {name}"):
        check_released(SERVICE)


@pytest.mark.parametrize(
    ("was", "now", "text"),
    [
        ("str", "ms.Json", "string (json), was plain string"),
        ("ms.Json", "str", "plain string, was string (json)"),
    ],
)
def test_an_event_keeps_texts_and_json_apart(changing: Shop, was: str, now: str, text: str) -> None:
    changing.write(V1, head=IN_EVENT.format(was))
    release_service(SERVICE)
    check_released(SERVICE)
    assert findings_of(SERVICE) == []
    changing.write(V1, head=IN_EVENT.format(now))
    refused("events/Sold", "Sold.notes[]", text)
    changing.write(V1, head=IN_EVENT.format(now) + "    more: int = 0\n")  # with another fingerprint
    refused("events/Sold", "Sold.notes[]", text)
    changing.write(V1, head=IN_EVENT.format(now).replace("notes", "remarks"))
    assert "the field notes was removed" in [f.text for f in findings_of(SERVICE)]


def test_a_state_becomes_json_by_a_function(changing: Shop) -> None:
    changing.write(V1 + TEXT)
    release_service(SERVICE)
    before = written(changing)
    changing.write(V1 + JSON)
    refused("state/Total", "Total.note", "string (json), was plain string")
    changing.write(V2 + JSON)
    with pytest.raises(ConfigError, match="string \\(json\\), was plain string"):
        release_service(SERVICE)
    upgrade = (V1 + TEXT).replace("Total", "TotalV1") + (
        "\n@ms.upgrade\ndef in_json(old: TotalV1) -> Total:\n    return Total(old.euros, note=ms.Json.of(old.note))\n"
    )
    changing.write(V2 + JSON, upgrade)
    assert release_service(SERVICE) == ["state/Total/v2"]
    changing.write(V2 + JSON, upgrade)
    assert bad(findings_of(SERVICE)) == []
    bench = changing.bench(before)
    changing.sell(bench, "a", 1, 3_000)
    assert changing.total(bench, "a").note.text == '"n"'


def test_a_release_of_before_is_valid_and_gets_its_notes(changing: Shop) -> None:
    changing.write(V1 + JSON, head=IN_EVENT.format("ms.Json"))
    release_service(SERVICE)
    folder = folder_of(SERVICE)
    list_of_releases, files = folder / "released.json", {p: p.read_bytes() for p in folder.rglob("*.avsc")}
    noted = list_of_releases.read_text()
    assert json.loads(noted)["state/Total"]["versions"]["1"]["json"] == ["shop.Total.note"]
    without = json.loads(noted)
    for entry in without.values():
        for version in entry["versions"].values():
            del version["json"]
    list_of_releases.write_text(json.dumps(without))
    earlier = released_tree(SERVICE)
    changing.write(V1 + JSON, head=IN_EVENT.format("ms.Json"))
    check_released(SERVICE)
    assert [(f.schema, f.rule, f.ok) for f in findings_of(SERVICE)] == [
        ("events/Sold", "JSON not noted", True), ("state/Total", "JSON not noted", True),
    ]  # fmt: skip
    assert release_service(SERVICE) == ["released.json: which strings are JSON"]
    assert list_of_releases.read_text() == noted
    assert {path: path.read_bytes() for path in folder.rglob("*.avsc")} == files
    assert check_against(released_tree(SERVICE), earlier) == []
    lost = check_against(earlier, released_tree(SERVICE))
    assert {f.schema for f in lost if f.rule == "release edited"} == set(without)
    assert release_service(SERVICE) == []
