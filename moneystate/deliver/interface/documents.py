"""The rows that requests make, and how a row is shown."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping
from typing import Any, Final

from yarl import URL

from moneystate.deliver.interface.refusals import Refused
from moneystate.deliver.rows import AuthKind, Endpoint, InvalidRow, UrlRules, endpoint
from moneystate.engine.avro import Malformed
from moneystate.records.json_text import canonical_text, parse

MASK: Final = "***"
HIDDEN: Final[tuple[str, ...]] = ("url", "headers")
UNREADABLE: Final = "a text is not Unicode, or there are too many levels"
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")

Document = dict[str, Any]


def new_id(prefix: str, given: str | None) -> str:
    """Raises Refused."""
    if given is None:
        return f"{prefix}_{uuid.uuid4().hex}"
    if not _ID.fullmatch(given):
        raise Refused(
            "INVALID_REQUEST", "expected an id of up to 100 letters, digits and characters of _.-, after one of these."
        )
    return given


def bytes_of(document: Mapping[str, Any]) -> bytes:
    """As a load of the table would write it, so that equal rows are equal bytes. Raises Malformed."""
    text = json.dumps({name: value for name, value in document.items() if value is not None})
    return canonical_text(parse(text)).encode()


def checked_endpoint(document: Document, rules: UrlRules) -> Endpoint:
    """Raises Refused."""
    try:
        return endpoint(bytes_of(document), rules)
    except (InvalidRow, Malformed) as e:
        raise Refused("INVALID_ROW", f"expected an endpoint, but {_why(e)}.") from None


def _why(e: Exception) -> str:
    return str(e) if isinstance(e, InvalidRow) else UNREADABLE


def document_of(value: bytes) -> Document:
    """A row. Others may have written it: it has no fields if it is no object."""
    try:
        document = json.loads(value)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def with_hidden(document: Document, before: Document) -> Document:
    """A new row of an endpoint, with what its reader could not see and therefore left out."""
    hidden: Document = {name: before[name] for name in HIDDEN if document.get(name) is None and name in before}
    return {**document, **hidden}


def shown_endpoint(document: Document) -> Document:
    """Without what may be secret: the path of the URL, and values of headers."""
    shown = dict(document)
    if isinstance(document.get("url"), str):
        shown["url"] = masked_url(document["url"])
    if isinstance(document.get("headers"), dict):
        shown["headers"] = dict.fromkeys(document["headers"], MASK)
    return shown


def masked_url(text: str) -> str:
    """Its scheme, host and port."""
    try:
        url = URL(text)
        return f"{url.origin()}/{MASK}"
    except ValueError:
        return MASK


def secrets_of(its: Endpoint) -> list[str]:
    """The names of all secrets of an endpoint."""
    return [*its.secrets, *([its.auth.secret] if its.auth.kind is not AuthKind.NONE else [])]
