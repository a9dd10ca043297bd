"""Page tokens and addresses, by themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moneystate.errors import ConfigError
from moneystate.replica.model import Version
from moneystate.serving import addresses
from moneystate.serving.failures import Failure
from moneystate.serving.page_tokens import KEY_BYTES, PagePosition, PageTokens, key_of
from moneystate.state.v1 import state_pb2

TOKENS = PageTokens(b"k" * KEY_BYTES)
PLACES = st.builds(
    PagePosition,
    st.lists(st.builds(Version, st.text(min_size=1), st.integers(0, 2**62)), min_size=1, max_size=2).map(tuple),
    st.binary(max_size=200),
)


def listing(prefix: str, **more: Any) -> state_pb2.ListRequest:
    return state_pb2.ListRequest(state="user", keys=state_pb2.KeyRange(prefix=prefix), **more)


@given(PLACES, st.text())
def test_a_token_leads_back_to_its_place(place: PagePosition, prefix: str) -> None:
    request = listing(prefix, page_size=5)
    token = TOKENS.issue(request, place)
    assert TOKENS.read(listing(prefix, page_size=9, page_token=token), token) == place


@given(PLACES, st.text())
def test_a_token_of_another_installation_is_refused(place: PagePosition, prefix: str) -> None:
    request = listing(prefix)
    with pytest.raises(Failure) as refused:
        PageTokens(b"o" * KEY_BYTES).read(request, TOKENS.issue(request, place))
    assert refused.value.reason == "BAD_PAGE_TOKEN"


@given(st.text())
def test_any_text_is_refused(text: str) -> None:
    with pytest.raises(Failure) as refused:
        TOKENS.read(listing(""), text)
    assert refused.value.reason == "BAD_PAGE_TOKEN"


def test_the_key_is_made_once_for_the_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "key"
    key = key_of(path)
    assert len(key) == KEY_BYTES
    assert key_of(path) == key
    assert path.stat().st_mode & 0o077 == 0
    path.write_bytes(b"short")
    with pytest.raises(ConfigError):
        key_of(path)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "[::1]:8484", "localhost:0", "127.9.9.9:65535"])
def test_loopback(address: str) -> None:
    assert addresses.is_loopback(address)


@pytest.mark.parametrize(
    "address", ["0.0.0.0:1", "[::]:8484", "example.org:80", "10.0.0.1:1", "localhost.example.org:1"]
)
def test_not_loopback(address: str) -> None:
    assert not addresses.is_loopback(address)


@pytest.mark.parametrize(
    "address", ["", "8484", ":8484", "host", "host:", "host:99999", "::1:8484", "a:b:1", "unix:/x"]
)
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(ConfigError, match="HOST:PORT"):
        addresses.split(address, "--listen")
