"""Records of state of a plain service change: by fields with defaults, and by @ms.upgrade."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest

from moneystate.engine.items import NO_TIME
from moneystate.engine.state import MemoryState
from moneystate.errors import ConfigError, ServiceError
from moneystate.runtime.folders import folder_of
from moneystate.runtime.job import job_spec, service_spec
from moneystate.runtime.plans import plan_of
from moneystate.runtime.processor import ServiceProcessor
from moneystate.schemas.check import Finding
from moneystate.schemas.services import check_released, findings_of, release_service
from moneystate.testing import Bench
from tests.evolution.module_file import ModuleFile

MODULE = "changing_shop"
SERVICE = f"{MODULE}:service"
HEAD = """
from __future__ import annotations
from dataclasses import dataclass, field
import moneystate as ms

@dataclass(frozen=True)
class Sold:
    shop: str
    euros: int
    at: ms.Millis
"""
TAIL = """
service = ms.Service("shop")
sold = service.input("sold", Sold, key="shop", time="at")
total = service.value("total", Total)
parts = service.map("parts", Part, ttl_ms=1_000_000)

@service.on(sold, total, parts)
def sell(ctx: ms.Context[None], e: Sold, total: Total, parts: ms.Entries[Part]) -> None:
    {step}
    parts.put(str(ctx.now), Part(e.euros))
"""
PART = """
@dataclass
class Part:
    euros: int
"""
V1 = """
@dataclass
class Total:
    euros: int = 0
    name: str = "shop"
"""
V2 = """
@dataclass
class Total:
    euros: int = 0
    name: str = "shop"
    times: int = 1
    notes: list[str] = field(default_factory=list)
"""
V3 = """
@dataclass
class Total:
    cents: int = 0
"""
UPGRADES = """
@dataclass
class TotalV2:
    euros: int = 0
    name: str = "shop"
    times: int = 1
    notes: list[str] = field(default_factory=list)

@dataclass
class TotalV1:
    euros: int = 0
    name: str = "shop"

@ms.upgrade
def counted(old: TotalV1) -> TotalV2:
    return TotalV2(old.euros)

@ms.upgrade
def in_cents(old: TotalV2) -> Total:
    return Total(old.euros * 100)
"""
IN_EUROS, IN_CENTS = "total.euros += e.euros", "total.cents += e.euros * 100"


class Shop:
    """The service's module, which can be written again."""

    def __init__(self, module: ModuleFile) -> None:
        self.module = module

    def write(self, *records: str, step: str = IN_EUROS, part: str = PART, head: str = HEAD) -> None:
        self.module.write("".join([head, part, *records, TAIL.format(step=step)]))

    def bench(self, entries: dict[bytes, bytes] | None = None) -> Bench:
        """With the state of an earlier program."""
        plan = plan_of(SERVICE)
        bench = Bench(plan.service, key_groups=1)
        bench.plan = plan
        bench.run.plan = plan
        bench.run.sim.states[0].apply(list((entries or {}).items()))
        return bench

    def sell(self, bench: Bench, shop: str, euros: int, at_ms: int) -> None:
        bench.send(sys.modules[MODULE].Sold(shop, euros, at_ms))

    def total(self, bench: Bench, shop: str) -> Any:
        return bench.state(plan_of(SERVICE).service.states["total"], shop)


@pytest.fixture
def shop(module_file: Callable[[str], ModuleFile]) -> Shop:
    return Shop(module_file(MODULE))


def written(shop: Shop) -> dict[bytes, bytes]:
    bench = shop.bench()
    shop.sell(bench, "a", 5, 1_000)
    shop.sell(bench, "b", 7, 2_000)
    return dict(bench.entries())


def bad(findings: list[Finding]) -> list[str]:
    return [f.text for f in findings if not f.ok]


def test_a_new_field_has_its_default(shop: Shop) -> None:
    shop.write(V1)
    release_service(SERVICE)
    before = written(shop)
    shop.write(V2)
    assert release_service(SERVICE) == ["state/Total/v2"]
    check_released(SERVICE)
    shop.write(V2)  # as another process would begin
    bench = shop.bench(before)
    shop.sell(bench, "a", 1, 3_000)
    total = sys.modules[MODULE].Total
    # one is of the new version by now, the other one still of the old
    assert (shop.total(bench, "a"), shop.total(bench, "b")) == (total(6), total(7))
    assert bad(findings_of(SERVICE)) == []


def test_a_field_can_be_named_as_a_keyword_of_python(shop: Shop) -> None:
    shop.write(V1.replace("name: str", "from_: str"))
    release_service(SERVICE)
    before = written(shop)
    shop.write(V2.replace("name: str", "from_: str"))
    assert release_service(SERVICE) == ["state/Total/v2"]
    shop.write(V2.replace("name: str", "from_: str"))
    assert shop.total(shop.bench(before), "b") == sys.modules[MODULE].Total(7, "shop")


@pytest.mark.parametrize("optional", ["", " | None"])
def test_symbols_that_avro_has_as_strings_need_no_function(shop: Shop, optional: str) -> None:
    name = f'Literal["", "shop"]{optional}'
    imports = "from typing import Literal\n"
    shop.write(imports + V1.replace("name: str", f"name: {name}"))
    release_service(SERVICE)
    before = written(shop)
    shop.write(imports + V2.replace("name: str", f"name: {name}"))
    assert release_service(SERVICE) == ["state/Total/v2"]
    shop.write(imports + V2.replace("name: str", f"name: {name}"))
    assert shop.total(shop.bench(before), "b") == sys.modules[MODULE].Total(7, "shop")


def test_a_decimal_keeps_its_scale_as_the_fingerprint_does_not_tell_it(shop: Shop) -> None:
    amount = "    rate: Annotated[ms.Decimal, ms.Digits({}, {})] = Decimal(0)\n"
    imports = "from decimal import Decimal\nfrom typing import Annotated\n"
    shop.write(imports + V1 + amount.format(3, 2))
    release_service(SERVICE)  # fewer digits than the golden bytes of others have
    check_released(SERVICE)
    shop.write(imports + V1 + amount.format(5, 2))
    check_released(SERVICE)
    shop.write(imports + V1 + amount.format(5, 3))
    with pytest.raises(ServiceError, match="found changes: state/Total"):
        check_released(SERVICE)
    with pytest.raises(ConfigError, match="the same bytes would change their meaning"):
        release_service(SERVICE)
    assert bad(findings_of(SERVICE))


def test_what_changes_its_meaning_needs_a_function_for_every_version(shop: Shop) -> None:
    shop.write(V1)
    release_service(SERVICE)
    oldest = written(shop)
    shop.write(V2)
    release_service(SERVICE)
    shop.write(V2)
    older = written(shop)
    shop.write(V3, step=IN_CENTS)
    with pytest.raises(ConfigError, match=r"no function v\d -> v\d.*@ms.upgrade"):
        release_service(SERVICE)
    with pytest.raises(ServiceError, match=r"state/Total.*moneystate schemas release"):
        check_released(SERVICE)
    shop.write(V3, UPGRADES, step=IN_CENTS)
    assert release_service(SERVICE) == ["state/Total/v3"]
    shop.write(V3, UPGRADES, step=IN_CENTS)
    for entries in (oldest, older):
        bench = shop.bench(entries)
        shop.sell(bench, "a", 1, 3_000)
        assert (shop.total(bench, "a").cents, shop.total(bench, "b").cents) == (600, 700)
    assert job_spec(SERVICE, {}).rules["state_versions"] == 4  # three of Total, one of Part


def test_entries_with_a_time_to_live_change_too(shop: Shop) -> None:
    shop.write(V1)
    release_service(SERVICE)
    before = written(shop)
    shop.write(V1, part=PART + "    n: int = 3\n")
    release_service(SERVICE)
    bench = shop.bench(before)
    shop.sell(bench, "b", 1, 3_000)
    entries = bench.state(plan_of(SERVICE).service.states["parts"], "a")
    assert {id: (part.euros, part.n) for id, part in entries.items()} == {"1000": (5, 3)}


def test_an_upgrade_rewrites_what_is_old_and_tells_it_from_what_is_not(shop: Shop) -> None:
    shop.write(V1)
    release_service(SERVICE)
    before = written(shop)
    shop.write(V2)
    release_service(SERVICE)
    shop.write(V2)
    versions = service_spec(SERVICE).state.versions
    rewritten = ServiceProcessor(plan_of(SERVICE)).rewrite(iter(before.items()))
    old = {key: value for key, value in before.items() if value[:10] in versions.up}
    assert len(old) == 2
    assert dict(rewritten) == {key: versions.up[value[:10]](value) for key, value in old.items()}
    again = {key: value for key, value in rewritten if value is not None}
    assert ServiceProcessor(plan_of(SERVICE)).rewrite(iter(again.items())) == []


def test_a_function_that_reads_differently_by_now_is_told(shop: Shop) -> None:
    shop.write(V1)
    release_service(SERVICE)
    shop.write(V3, UPGRADES, step=IN_CENTS)
    release_service(SERVICE)
    shop.write(V3, UPGRADES.replace("* 100", "* 1000"), step=IN_CENTS)
    (problem,) = bad(findings_of(SERVICE))
    assert problem.startswith("golden bytes are read as")
    shop.write(V3, UPGRADES, step=IN_CENTS)
    (folder_of(SERVICE) / "golden" / "Total" / "v1.json").unlink()
    assert bad(findings_of(SERVICE)) == ["no golden bytes in v1.json"]


def test_an_earlier_program_does_not_begin_to_read(shop: Shop) -> None:
    shop.write(V1)
    release_service(SERVICE)
    shop.write(V2)
    release_service(SERVICE)
    shop.write(V2)
    entries = written(shop)
    for version in ("Total/v2.avsc",):
        (folder_of(SERVICE) / "state" / version).unlink()
    shop.write(V1)
    bench = shop.bench(entries)
    shop.sell(bench, "a", 1, 3_000)
    with pytest.raises(Exception, match="schema that this program does not know: a newer program wrote it"):
        shop.total(bench, "a")


def test_an_event_that_was_buffered_in_an_earlier_version_is_processed(shop: Shop) -> None:
    shop.write(V1)
    release_service(SERVICE)
    (earlier,) = plan_of(SERVICE).inputs[0].values()
    value = earlier.codec.encode(sys.modules[MODULE].Sold("a", 5, 1_000))
    shop.write(V1, head=HEAD + "    channel: str = 'web'\n")
    assert release_service(SERVICE) == ["events/Sold/v2"]
    shop.write(V1, head=HEAD + "    channel: str = 'web'\n")
    item = (1_000, 0, 0, 0, 0, 7, 1_000, b"a", value)
    (work,) = ServiceProcessor(plan_of(SERVICE)).begin(MemoryState(), [item], [], NO_TIME)
    assert work is not None
    assert work.record == sys.modules[MODULE].Sold("a", 5, 1_000, "web")
    assert service_spec(SERVICE).state.event_view(value)["channel"] == "web"


def test_golden_bytes_are_those_of_the_release(shop: Shop) -> None:
    shop.write(V1)
    release_service(SERVICE)
    golden = json.loads((folder_of(SERVICE) / "golden" / "Total" / "v1.json").read_text())
    record = plan_of(SERVICE).kinds["total"].codec.decode(bytes.fromhex(golden["bytes"]))
    assert {"type": "Total", "euros": record.euros, "name": record.name} == golden["record"]


def test_a_record_that_refuses_values_is_told_before_anything_is_written(shop: Shop) -> None:
    shop.write(V1, part=PART + "    def __post_init__(self) -> None:\n        assert self.euros > 0, 'not positive'\n")
    with pytest.raises(ServiceError, match=r"Part of the state cannot hold any value.*not positive"):
        release_service(SERVICE)
    assert not (folder_of(SERVICE) / "released.json").exists()
