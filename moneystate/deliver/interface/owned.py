"""Endpoints and subscriptions, as callers may see and change them.

The checks of a change and its transaction are one step: no other change comes between them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from moneystate.deliver.interface.documents import (
    UNREADABLE,
    Document,
    bytes_of,
    checked_endpoint,
    document_of,
    new_id,
    secrets_of,
    with_hidden,
)
from moneystate.deliver.interface.refusals import Refused, another_writer, not_found
from moneystate.deliver.interface.rights import Rights
from moneystate.deliver.interface.tables import Table
from moneystate.deliver.rows import UrlRules
from moneystate.deliver.secrets import Store, UnknownSecret
from moneystate.deliver.signing import key_of
from moneystate.engine.avro import Malformed
from moneystate.errors import InstanceError, MoneystateError

ENDPOINTS, SUBSCRIPTIONS = "endpoints", "subscriptions"
ENDPOINT_ID, SUBSCRIPTION_ID, OWNER = "endpointId", "subscriptionId", "owner"
AN_ENDPOINT, A_SUBSCRIPTION = "an endpoint", "a subscription"
RETRY_S: Final = 1.0

CheckSubscription = Callable[[str, bytes], str]
"""Gets the id and value of a row. Returns the rule that it breaks, or nothing."""


class Owned:
    """All calls raise Refused."""

    def __init__(
        self, endpoints: Table, subscriptions: Table, secrets: Store, rules: UrlRules, check: CheckSubscription
    ) -> None:
        self._endpoints = endpoints
        self._subscriptions = subscriptions
        self._secrets = secrets
        self._rules = rules
        self._check = check
        self._lock = threading.Lock()
        self._trouble = ""  # why the tables could not be read last

    # Endpoints

    def endpoints(self, rights: Rights) -> list[Document]:
        with self._latest():
            return [its for its in _documents(self._endpoints) if rights.owns(its.get(OWNER, "")) and _is_there(its)]

    def endpoint(self, rights: Rights, id: str) -> Document:
        with self._latest():
            return self._endpoint(rights, id)

    def create_endpoint(self, rights: Rights, given: Document) -> Document:
        owner = rights.owner_of(given.get(OWNER))
        with self._latest():
            id = new_id("ep", given.get(ENDPOINT_ID))
            _check_unused(self._endpoints, id)
            document = {**given, ENDPOINT_ID: id, OWNER: owner}
            self._check_endpoint(document)
            self._write(self._endpoints, id, document)
        return document

    def replace_endpoint(self, rights: Rights, id: str, given: Document) -> Document:
        """An endpoint stays with its owner. What is not shown stays unless it is given."""
        with self._latest():
            before = self._endpoint(rights, id)
            self.check_covered(rights, id)
            document = {**with_hidden(given, before), ENDPOINT_ID: id, OWNER: before[OWNER]}
            self._check_endpoint(document)
            self._write(self._endpoints, id, document)
        return document

    def change_endpoint(self, rights: Rights, id: str, change: Callable[[Document], Document]) -> Document:
        """`change` may raise Refused."""
        with self._latest():
            document = change(self._endpoint(rights, id))
            self._check_endpoint(document)
            self._write(self._endpoints, id, document)
        return document

    def delete_endpoint(self, rights: Rights, id: str) -> None:
        with self._latest():
            before = self._endpoint(rights, id)
            self.check_covered(rights, id)
            self._write(self._endpoints, id, {**before, "deleted": True})

    def reachable(self, rights: Rights, id: str) -> Document:
        """The endpoint, if the caller may have all that is sent to it."""
        with self._latest():
            document = self._endpoint(rights, id)
            self.check_covered(rights, id)
        return document

    def uses(self, owner: str, secret: str, signing: bool = False) -> list[str]:
        """The ids of the owner's endpoints that name a secret. With `signing`, only those that sign with it."""
        with self._latest():
            return [its[ENDPOINT_ID] for its in _documents(self._endpoints) if self._names(its, owner, secret, signing)]

    def _names(self, document: Document, owner: str, secret: str, signing: bool) -> bool:
        if document.get(OWNER) != owner or not _is_there(document):
            return False
        try:
            its = checked_endpoint(document, self._rules)
        except Refused:  # workers do not use such a row
            return False
        return secret in (its.secrets if signing else secrets_of(its))

    def _endpoint(self, rights: Rights, id: str) -> Document:
        value = self._endpoints.get(id)
        document = {} if value is None else document_of(value)
        if not document or not _is_there(document) or not rights.owns(document.get(OWNER, "")):
            raise not_found(AN_ENDPOINT)
        return document

    def check_covered(self, rights: Rights, id: str) -> None:
        """A caller who may not have the events of a tenant must not lead them somewhere else."""
        for its in _documents(self._subscriptions):
            if its.get(ENDPOINT_ID) == id and its.get("active", True) and not rights.covers(its.get("scope", "all")):
                raise Refused(
                    "TENANT_NOT_GRANTED", "expected a token for all tenants that this endpoint subscribes to."
                )

    def _check_endpoint(self, document: Document) -> None:
        its = checked_endpoint(document, self._rules)
        for name in secrets_of(its):
            try:
                value = self._secrets.value(its.owner, name)
                if name in its.secrets:
                    key_of(value)
            except UnknownSecret:
                raise Refused("UNKNOWN_SECRET", f"expected a secret of the owner, found no {name}.") from None
            except MoneystateError as e:
                raise Refused("UNAVAILABLE", e.message, RETRY_S) from None
            except ValueError as e:
                raise Refused("INVALID_ROW", f"expected a secret that signs, but {name} does not: {e}.") from None

    # Subscriptions

    def subscriptions(self, rights: Rights, endpoint_id: str | None = None) -> list[Document]:
        with self._latest():
            return [
                its
                for its in _documents(self._subscriptions)
                if rights.owns(its.get(OWNER, "")) and endpoint_id in (None, its.get(ENDPOINT_ID))
            ]

    def subscription(self, rights: Rights, id: str) -> Document:
        with self._latest():
            return self._subscription(rights, id)

    def create_subscription(self, rights: Rights, given: Document) -> Document:
        with self._latest():
            owner = self._endpoint(rights, given.get(ENDPOINT_ID, ""))[OWNER]
            id = new_id("sub", given.get(SUBSCRIPTION_ID))
            _check_unused(self._subscriptions, id)
            return self._put_subscription(rights, {**given, SUBSCRIPTION_ID: id, OWNER: owner})

    def replace_subscription(self, rights: Rights, id: str, given: Document) -> Document:
        with self._latest():
            before = self._subscription(rights, id)
            if self._endpoint(rights, given.get(ENDPOINT_ID, ""))[OWNER] != before[OWNER]:
                raise Refused("INVALID_REQUEST", "expected an endpoint of the subscription's owner.")
            return self._put_subscription(rights, {**given, SUBSCRIPTION_ID: id, OWNER: before[OWNER]})

    def delete_subscription(self, rights: Rights, id: str) -> None:
        with self._latest():
            self._subscription(rights, id)
            self._change(self._subscriptions, id, None)

    def _subscription(self, rights: Rights, id: str) -> Document:
        value = self._subscriptions.get(id)
        document = {} if value is None else document_of(value)
        if not document or not rights.owns(document.get(OWNER, "")):
            raise not_found(A_SUBSCRIPTION)
        return document

    def _put_subscription(self, rights: Rights, document: Document) -> Document:
        if not rights.covers(document.get("scope") or "all"):
            raise Refused("TENANT_NOT_GRANTED", "expected a scope of tenants that the token grants.")
        try:
            problem = self._check(document[SUBSCRIPTION_ID], bytes_of(document))
        except Malformed:
            problem = UNREADABLE
        if problem:
            raise Refused("INVALID_ROW", f"expected a subscription, but {problem}.")
        self._write(self._subscriptions, document[SUBSCRIPTION_ID], document)
        return document

    # Both

    def follow(self) -> None:
        """Reads what is new, so that a request has little to read."""
        with self._latest():
            pass

    def check_health(self) -> None:
        """As of the last time that the tables were read."""
        if self._trouble:
            raise Refused("UNAVAILABLE", self._trouble, RETRY_S)
        if not (self._endpoints.is_ours and self._subscriptions.is_ours):
            raise another_writer()

    @contextmanager
    def _latest(self) -> Iterator[None]:
        """Both tables as they are now, for one caller at a time."""
        with self._lock:
            try:
                self._endpoints.follow()
                self._subscriptions.follow()
            except MoneystateError as e:
                self._trouble = e.message
                raise Refused("UNAVAILABLE", e.message, RETRY_S) from None
            self._trouble = ""
            yield

    def _write(self, table: Table, id: str, document: Document) -> None:
        self._change(table, id, bytes_of(document))

    def _change(self, table: Table, id: str, value: bytes | None) -> None:
        try:
            table.write({id: value})
        except InstanceError:
            raise another_writer() from None
        except MoneystateError as e:
            raise Refused("UNAVAILABLE", e.message, RETRY_S) from None


def _documents(table: Table) -> Iterator[Document]:
    return (document for _, value in table.items() if (document := document_of(value)))


def _is_there(document: Document) -> bool:
    return document.get("deleted") is not True


def _check_unused(table: Table, id: str) -> None:
    if table.was_used(id):
        raise Refused("ID_USED", "expected an id that was never used.")
