"""What a token lets its caller do.

The claim `scope` has `delivery.read`, `delivery.write` or `delivery.admin`. The claim `delivery_owner` is the owner
whose endpoints it is about, and `delivery_tenants` a list of the tenants whose events the owner may have. A token also
grants the tenant of the events about its owner's endpoints. Only `delivery.admin` reaches all owners, all tenants, and
events without a tenant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from moneystate.deliver.interface.refusals import Refused
from moneystate.deliver.status_events import tenant_of
from moneystate.serving.tokens import BadToken

READ: Final = "delivery.read"
WRITE: Final = "delivery.write"
ADMIN: Final = "delivery.admin"
OWNER: Final = "delivery_owner"
TENANTS: Final = "delivery_tenants"
ALL: Final = "all"


@dataclass(frozen=True, slots=True)
class Rights:
    scopes: frozenset[str]
    owner: str = ""
    tenants: frozenset[str] = frozenset()

    @property
    def is_admin(self) -> bool:
        return ADMIN in self.scopes

    def require(self, scope: str) -> None:
        """Raises Refused."""
        if scope not in self.scopes and not self.is_admin:
            raise Refused("SCOPE_MISSING", f"expected a token with the scope {scope}.")

    def owns(self, owner: str) -> bool:
        return self.is_admin or (bool(self.owner) and owner == self.owner)

    def owner_of(self, given: str | None) -> str:
        """The owner that a request is about. Raises Refused."""
        owner = given or self.owner
        if not owner:
            raise Refused("INVALID_REQUEST", "expected an owner.")
        if not self.owns(owner):
            raise Refused("OWNER_NOT_GRANTED", "expected a token of this owner.")
        return owner

    def sees(self, tenant: str | None) -> bool:
        """Whether it may have events of the tenant. None: those without one."""
        return self.is_admin or (tenant is not None and tenant in self._granted)

    def covers(self, scope: Any) -> bool:
        """Whether it may have all events of the scope of a subscription's row."""
        if self.is_admin:
            return True
        return isinstance(scope, list) and all(self.sees(tenant) for tenant in _tenants(scope))

    def tenant_list(self) -> list[str] | None:
        """None: all tenants."""
        return None if self.is_admin else sorted(self._granted)

    @property
    def _granted(self) -> frozenset[str]:
        return self.tenants | {tenant_of(self.owner)} if self.owner else self.tenants


EVERYTHING: Final = Rights(frozenset({ADMIN}))


def rights_of(claims: Mapping[str, Any]) -> Rights:
    """Raises BadToken for claims of another form: a bound that is not understood must not be ignored."""
    scope, owner, tenants = claims.get("scope", ""), claims.get(OWNER, ""), claims.get(TENANTS, [])
    if not isinstance(scope, str):
        raise BadToken("its claim scope is not a text")
    if not isinstance(owner, str):
        raise BadToken(f"its claim {OWNER} is not a text")
    if not isinstance(tenants, list) or not all(isinstance(tenant, str) for tenant in tenants):
        raise BadToken(f"its claim {TENANTS} is not a list of texts")
    return Rights(frozenset({READ, WRITE, ADMIN}.intersection(scope.split())), owner, frozenset(tenants))


def _tenants(scope: list[Any]) -> Iterable[str | None]:
    return (one.get("tenant") if isinstance(one, dict) else None for one in scope)
