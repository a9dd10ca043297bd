"""Records of one service that share a short name: each has its own releases."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from moneystate.kafka.convert import converters
from moneystate.runtime.folders import folder_of
from moneystate.runtime.job import job_spec
from moneystate.runtime.plans import plan_of
from moneystate.schemas.services import check_released, findings_of, release_service
from tests.evolution.module_file import ModuleFile

MODULE = "shared_names"
SERVICE = f"{MODULE}:service"
SHOP = """
from dataclasses import dataclass
import moneystate as ms

@ms.named("shop.Sold")
@dataclass(frozen=True)
class Sold:
    shop: str
    at: ms.Millis

@ms.named("shop.Total")
@dataclass
class Total:
    n: int = 0

service = ms.Service("shared")
sold = service.input("sold", Sold, key="shop", time="at")
total = service.value("total", Total)

@service.on(sold, total)
def sell(ctx, e: Sold, total: Total) -> None:
    total.n += 1
"""
WEB = """
@ms.named("web.Sold")
@dataclass(frozen=True)
class WebSold:
    site: str
    at: ms.Millis{more}

@ms.named("web.Total")
@dataclass
class WebTotal:
    clicks: int = 0{more}

clicks = service.input("clicks", WebSold, key="site", time="at")
clicked = service.value("clicked", WebTotal)

@service.on(clicks, clicked)
def click(ctx, e: WebSold, clicked: WebTotal) -> None:
    clicked.clicks += 1
"""


@pytest.fixture
def file(module_file: Callable[[str], ModuleFile]) -> ModuleFile:
    return module_file(MODULE)


def released() -> set[str]:
    return set(json.loads((folder_of(SERVICE) / "released.json").read_text()))


def test_two_records_of_one_short_name_are_both_released(file: ModuleFile) -> None:
    file.write(SHOP + WEB.format(more=""))
    release_service(SERVICE)
    assert released() == {
        "events/Heartbeat", "events/shop.Sold", "events/web.Sold", "state/shop.Total", "state/web.Total",
    }  # fmt: skip
    check_released(SERVICE)
    assert findings_of(SERVICE) == []


def test_a_released_record_keeps_its_name_when_another_one_comes(file: ModuleFile) -> None:
    file.write(SHOP)
    release_service(SERVICE)
    file.write(SHOP + WEB.format(more=""))
    assert release_service(SERVICE) == ["events/web.Sold", "state/web.Total/v1"]
    file.write(SHOP + WEB.format(more="\n    more: int = 0"))
    assert release_service(SERVICE) == ["events/web.Sold/v2", "state/web.Total/v2"]
    check_released(SERVICE)
    assert [f for f in findings_of(SERVICE) if not f.ok] == []


def test_earlier_versions_of_both_are_read(file: ModuleFile) -> None:
    file.write(SHOP + WEB.format(more=""))
    release_service(SERVICE)
    plan = plan_of(SERVICE)
    values = {
        i.topic: (i.codec.encode(i.codec.record.cls("a", 5)))
        for by_header in plan.inputs.values()
        for i in by_header.values()
    }
    file.write(SHOP + WEB.format(more="\n    more: int = 7"))
    release_service(SERVICE)
    file.forget()
    job, plan = job_spec(SERVICE, {}), plan_of(SERVICE)
    converts = converters({}, job.inputs, None, service=SERVICE)
    read = {
        i.topic: i.codec.decode(converts[code](values[i.topic]))
        for code in converts
        for i in plan.inputs[code].values()
    }
    assert (read["sold"].shop, read["clicks"].site, read["clicks"].more) == ("a", "a", 7)
