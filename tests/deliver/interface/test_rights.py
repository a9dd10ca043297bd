"""What tokens grant."""

from __future__ import annotations

from typing import Any

import pytest

from moneystate.deliver.interface.refusals import Refused
from moneystate.deliver.interface.rights import ADMIN, READ, WRITE, Rights, rights_of
from moneystate.serving.tokens import BadToken

CLAIMS: dict[str, Any] = {"scope": f"{READ} other", "delivery_owner": "acme", "delivery_tenants": ["t1", "t2"]}


def test_a_token_is_of_one_owner_and_its_tenants() -> None:
    rights = rights_of(CLAIMS)
    rights.require(READ)
    with pytest.raises(Refused):
        rights.require(WRITE)
    assert (rights.owns("acme"), rights.owns("globex"), rights.owns("")) == (True, False, False)
    assert (rights.sees("t1"), rights.sees("t3"), rights.sees(None)) == (True, False, False)
    assert rights.owner_of(None) == "acme"
    with pytest.raises(Refused):
        rights.owner_of("globex")


def test_a_scope_is_granted_as_a_whole_or_not() -> None:
    rights = rights_of(CLAIMS)
    assert rights.covers([{"tenant": "t1"}, {"tenant": "t2", "departments": ["d"]}])
    others: list[Any] = ["all", None, [{"tenant": "t1"}, {"tenant": "t3"}], [{}], ["t1"], {"tenant": "t1"}]
    for scope in others:
        assert not rights.covers(scope)


def test_an_administrator_has_all_owners_and_tenants() -> None:
    rights = rights_of({"scope": ADMIN})
    rights.require(WRITE)
    assert rights.owns("globex")
    assert rights.sees(None)
    assert rights.covers("all")
    assert rights.tenant_list() is None
    with pytest.raises(Refused):
        rights.owner_of(None)


def test_a_token_without_claims_grants_nothing() -> None:
    rights = rights_of({"sub": "x"})
    assert rights == Rights(frozenset())
    assert not rights.owns("")


@pytest.mark.parametrize(
    "change", [{"scope": [ADMIN]}, {"delivery_owner": 1}, {"delivery_tenants": "t1"}, {"delivery_tenants": [1]}]
)
def test_a_claim_that_is_not_understood_is_no_right(change: dict[str, Any]) -> None:
    with pytest.raises(BadToken):
        rights_of({**CLAIMS, **change})
