"""Fields that get another name on the wire: a change of the schema that loses nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from moneystate.errors import ServiceError
from moneystate.kafka.convert import converters
from moneystate.records.codec import Codec
from moneystate.runtime.job import job_spec
from moneystate.runtime.plans import plan_of
from moneystate.schemas.services import check_released, findings_of, release_service
from tests.evolution.module_file import ModuleFile

MODULE = "renamed_fields"
SERVICE = f"{MODULE}:service"
SOURCE = """
from dataclasses import dataclass
from typing import Annotated
import moneystate as ms

@dataclass(frozen=True)
class Sold:
    shop_id: {id}
    sold_at: ms.Millis

@dataclass
class Total:
    items_sold: {n} = 0

service = ms.Service("renamed"{style})
sold = service.input("sold", Sold, key="shop_id", time="sold_at")
total = service.value("total", Total)

@service.on(sold, total)
def sell(ctx, e: Sold, total: Total) -> None:
    total.items_sold += 1
"""
PLAIN = {"id": "str", "n": "int", "style": ""}
CHANGES = [
    {**PLAIN, "style": ', wire="snake"'},
    {**PLAIN, "id": 'Annotated[str, ms.Wire("shop")]', "n": 'Annotated[int, ms.Wire("n")]'},
]


@pytest.fixture
def file(module_file: Callable[[str], ModuleFile]) -> ModuleFile:
    return module_file(MODULE)


def write(file: ModuleFile, **parts: str) -> None:
    file.write(SOURCE.format(**parts))


def input_codec() -> Codec:
    ((by_header),) = plan_of(SERVICE).inputs.values()
    return next(iter(by_header.values())).codec


@pytest.mark.parametrize("change", CHANGES)
def test_records_and_state_of_before_are_read_under_the_new_names(file: ModuleFile, change: dict[str, str]) -> None:
    write(file, **PLAIN)
    release_service(SERVICE)
    written, kind = input_codec(), plan_of(SERVICE).kinds["total"]
    value, entry = written.encode(written.record.cls("a", 5)), kind.codec.encode(kind.codec.record.cls(3))
    write(file, **change)
    with pytest.raises(ServiceError, match="found changes: events/Sold, state/Total"):
        check_released(SERVICE)
    release_service(SERVICE)
    check_released(SERVICE)
    findings = findings_of(SERVICE)
    assert [f for f in findings if not f.ok] == []
    assert {(f.schema, f.rule) for f in findings} >= {
        ("events/Sold", "field renamed with alias"), ("state/Total", "field renamed with alias"),
    }  # fmt: skip
    (convert,) = converters({}, job_spec(SERVICE, {}).inputs, None, service=SERVICE).values()
    assert input_codec().decode(convert(value)).shop_id == "a"
    kind = plan_of(SERVICE).kinds["total"]
    assert kind.earlier_records[entry[:10]](entry, 10)[0].items_sold == 3


def test_a_name_that_is_taken_back_is_told(file: ModuleFile) -> None:
    write(file, **CHANGES[1])
    release_service(SERVICE)
    write(file, **PLAIN)
    assert {f.rule for f in findings_of(SERVICE) if not f.ok} >= {"field renamed without alias"}
    write(file, **{**PLAIN, "id": 'Annotated[str, ms.Wire("shopId", was=("shop",))]', "n": CHANGES[1]["n"]})
    assert release_service(SERVICE) == ["events/Sold/v2"]
    assert [f for f in findings_of(SERVICE) if not f.ok] == []
