"""The secrets of owners: given, made and rotated. A value that was given is never shown, and one that was made is shown
once."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from moneystate.deliver.interface.documents import Document
from moneystate.deliver.interface.owned import OWNER, RETRY_S, Owned
from moneystate.deliver.interface.refusals import Refused
from moneystate.deliver.interface.rights import Rights
from moneystate.deliver.secrets import InvalidSecret, Store
from moneystate.deliver.signing import PREFIX, key_of
from moneystate.errors import MoneystateError

MADE_BYTES: Final = 32
SECRETS: Final = "secrets"


class Made(NamedTuple):
    name: str
    value: str  # empty: it was given


class Keys:
    """All calls raise Refused."""

    def __init__(self, store: Store, owned: Owned) -> None:
        self._store = store
        self._owned = owned

    def names(self, rights: Rights, owner: str) -> list[str]:
        owner = rights.owner_of(owner)
        with _stored():
            return self._store.names(owner)

    def put(self, rights: Rights, owner: str, name: str, value: str | None) -> Made:
        """Without a value it makes one that signs."""
        owner = rights.owner_of(owner)
        if value is not None and self._owned.uses(owner, name, signing=True):
            _check_signs(value)
        made = _made() if value is None else value
        with _stored():
            self._store.put(owner, name, made)
        return Made(name, made if value is None else "")

    def delete(self, rights: Rights, owner: str, name: str) -> None:
        owner = rights.owner_of(owner)
        if self._owned.uses(owner, name):
            raise Refused("SECRET_USED", "expected a secret that no endpoint names.")
        with _stored():
            if not self._store.delete(owner, name):
                raise Refused("NOT_FOUND", "expected the name of a secret of this owner.")

    def rotate(self, rights: Rights, id: str, value: str | None) -> Made:
        """Adds a secret with which the endpoint's messages are signed, too. The others stay until they are retired. Its
        value is in the store before the row names it."""
        document = self._owned.endpoint(rights, id)
        name = f"signing-{os.urandom(8).hex()}"
        if value is not None:
            _check_signs(value)
        made = _made() if value is None else value
        with _stored():
            self._store.put(document[OWNER], name, made)
        self._owned.change_endpoint(rights, id, lambda row: {**row, SECRETS: [name, *_names(row)]})
        return Made(name, made if value is None else "")

    def retire(self, rights: Rights, id: str, name: str) -> None:
        """Messages of the endpoint are signed with it no more. The last one stays."""
        document = self._owned.change_endpoint(rights, id, lambda row: _without(row, name))
        if not self._owned.uses(document[OWNER], name):
            with _stored():
                self._store.delete(document[OWNER], name)


def _without(row: Document, name: str) -> Document:
    names = _names(row)
    if name not in names:
        raise Refused("NOT_FOUND", "expected the name of a secret that signs this endpoint's messages.")
    if len(names) == 1:
        raise Refused("SECRET_USED", "expected another secret that signs; add one first.")
    return {**row, SECRETS: [other for other in names if other != name]}


def _names(row: Document) -> list[str]:
    return list(row.get(SECRETS) or [])


def _made() -> str:
    return PREFIX + base64.b64encode(os.urandom(MADE_BYTES)).decode()


def _check_signs(value: str) -> None:
    try:
        key_of(value)
    except ValueError as e:
        raise Refused("INVALID_REQUEST", f"expected a secret that signs, but {e}.") from None


@contextmanager
def _stored() -> Iterator[None]:
    try:
        yield
    except InvalidSecret as e:
        raise Refused("INVALID_REQUEST", f"expected a secret that can be stored, but {e}.") from None
    except MoneystateError as e:
        raise Refused("UNAVAILABLE", e.message, RETRY_S) from None
