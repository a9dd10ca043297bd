"""State of an earlier version is read as what it says, and a way back loses nothing that the earlier version had."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moneystate.engine import clock as clocks
from moneystate.engine.avro import HEADER_BYTES, Malformed
from services.enrichment import migrations
from services.enrichment.migrations import to_current
from services.enrichment.state import decode_page_entry, decode_user, decode_waiting, encode_page_entry, encode_user
from tests.enrichment.test_state import read

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
V1 = sorted(path.stem for path in (GOLDEN / "v1").glob("*.hex") if path.stem.startswith(("Key", "User", "Waiting")))


def golden(name: str) -> bytes:
    return bytes.fromhex((GOLDEN / f"{name}.hex").read_text())


@pytest.mark.parametrize("name", V1)
def test_version_1_becomes_the_golden_bytes_of_version_2(name: str) -> None:
    assert to_current(golden(f"v1/{name}")).hex() == golden(f"v1-to-v2/{name}").hex()


@pytest.mark.parametrize("name", V1)
def test_the_way_back_gives_the_bytes_that_version_1_wrote(name: str) -> None:
    assert migrations.down(golden(f"v1-to-v2/{name}")) == golden(f"v1/{name}")


@pytest.mark.parametrize("name", sorted(path.stem for path in (GOLDEN / "v2").glob("*.hex")))
def test_the_way_back_from_version_2_drops_the_sources_alone(name: str) -> None:
    entry = golden(f"v2/{name}")
    if name == "KeyGroupClock":
        assert clocks.decode(clocks.clock_2_to_1(entry)).highs == clocks.decode(entry).highs
        return
    back = to_current(migrations.down(entry))
    record = name.partition("-")[0]
    assert without_sources(read(record, back)) == without_sources(read(record, entry))


def without_sources(value: Any) -> Any:
    if isinstance(value, list):
        return [without_sources(part) for part in value]
    if isinstance(value, dict):
        return {k: without_sources(v) for k, v in value.items() if k != "from" and not k.endswith("From")}
    return value


@pytest.mark.parametrize("name", V1)
def test_what_is_current_stays_as_it_is(name: str) -> None:
    entry = golden(f"v1-to-v2/{name}")
    assert to_current(entry) is entry


def test_readers_take_version_1() -> None:
    user = decode_user(b"ann", golden("v1/UserState"))
    assert (user.country, user.country_source) == (b"FI", b"")
    page = user.pages[0]
    assert [money_id for money_id, _, _ in page.each_id()] == [b"m1", b""]
    assert page.sessions[b"s1"][1:] == (b"CA", b"")
    assert encode_user(user) == golden("v1-to-v2/UserState")
    assert encode_page_entry(decode_page_entry(golden("v1/UserPage"))) == golden("v1-to-v2/UserPage")
    assert decode_waiting(golden("v1/WaitingMoney-asked")).requested_at > 0


def test_a_clock_of_version_1_goes_on_without_ages() -> None:
    clock = clocks.decode(golden("v1/KeyGroupClock"))
    assert (clock.state_version, clock.ages, clock.counts["waiting"]) == (1, {}, 4)
    assert clocks.clock_2_to_1(clocks.encode(clock)) == golden("v1/KeyGroupClock")


def test_letting_go_of_what_version_1_began_to_hold_counts_nothing() -> None:
    clock = clocks.decode(golden("v1/KeyGroupClock"))
    clock.add_ages({0: -1, 10_000: 2})
    assert clock.ages == {10_000: 2}


def test_a_newer_schema_is_refused() -> None:
    with pytest.raises(Malformed, match="newer"):
        to_current(b"\xc3\x01" + bytes(HEADER_BYTES))
