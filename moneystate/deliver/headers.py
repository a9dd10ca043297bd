"""The headers of a request, and which of them an endpoint's row may set."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from moneystate.deliver.records import Delivery

SPEC_VERSION: Final = "1.0"
BATCH_TYPE: Final = "application/cloudevents-batch+json"
LINES_TYPE: Final = "application/x-ndjson"

# The worker sets these, or a connection needs them, or they are hop-by-hop ones (RFC 9110, section 7.6.1).
_RESERVED: Final = frozenset(
    {
        "accept-encoding", "authorization", "connection", "content-encoding", "content-length", "content-type",
        "cookie", "expect", "forwarded", "host", "http2-settings", "keep-alive", "te", "trailer",
        "transfer-encoding", "upgrade", "via",
    }
)  # fmt: skip
_RESERVED_STARTS: Final = ("webhook-", "ce-", "x-forwarded-", "proxy-", "sec-")
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_EXTENSION: Final = re.compile(r"[a-z0-9]{1,20}")  # a name by CloudEvents, section "Attribute Naming Convention"
_VALUE: Final = re.compile(r"[\t\x20-\x7e]{0,2000}")
# The HTTP binding of CloudEvents, section 3.1.3.2, encodes all but printable ASCII, and of that also space, quote and
# percent.
_PLAIN: Final = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')


def refusal(name: str, value: str) -> str:
    """Returns why a row may not set the header. Empty: it may."""
    lower = name.lower()
    if not _NAME.fullmatch(name):
        return "a header's name is not valid"
    if lower in _RESERVED or lower.startswith(_RESERVED_STARTS):
        return f"header {lower} is reserved"
    return "" if _VALUE.fullmatch(value) else f"the value of header {lower} is not printable ASCII"


def event_headers(delivery: Delivery) -> dict[str, str]:
    """The attributes of a single event, in the binary mode of CloudEvents."""
    return {f"ce-{name}": quote(value, safe=_PLAIN) for name, value in attributes(delivery).items()}


def attributes(delivery: Delivery) -> Mapping[str, str]:
    """The attributes of CloudEvents. Extensions have no upper case."""
    given = {
        "specversion": SPEC_VERSION,
        "id": delivery.event_id,
        "source": delivery.source or delivery.topic,  # CloudEvents refuses an empty one
        "type": delivery.type,
        "tenant": delivery.tenant or "",
        "department": delivery.department or "",
        "sequence": delivery.sequence,
    }
    further = {name.lower(): value for name, value in delivery.extensions.items() if _EXTENSION.fullmatch(name.lower())}
    return {name: value for name, value in {**further, **given}.items() if value}
