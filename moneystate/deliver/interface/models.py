"""The bodies of requests and answers, for FastAPI and its pages. The rules of rows are elsewhere
(`moneystate.deliver.rows`, and the router's own)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class Body(BaseModel):
    """A misspelt field must not be passed over."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Auth(Body):
    kind: Literal["none", "bearer", "basic", "header"] = "none"
    secret: str | None = Field(None, description="Name of the secret: a token, `user:password`, or the header's value.")
    header: str | None = Field(None, description="Name of the header.")


class EndpointFields(Body):
    secrets: list[str] | None = Field(
        None, description="Names of the secrets that sign; the first ones are the newest."
    )
    auth: Auth | None = None
    maxInFlight: int | None = Field(None, description="Requests at a time; by default 4.")
    ratePerSecond: float | None = None
    timeoutMs: int | None = Field(None, description="By default 15,000.")
    paused: bool | None = None


class NewEndpoint(EndpointFields):
    endpointId: str | None = Field(None, description="By default a new one. Ids are never used again.")
    owner: str | None = Field(None, description="By default that of the token.")
    url: str
    headers: dict[str, str] | None = None


class ReplacedEndpoint(EndpointFields):
    """All of the endpoint's fields. `url` and `headers`, whose values are not shown, stay if they are left out."""

    url: str | None = None
    headers: dict[str, str] | None = None


class ShownEndpoint(BaseModel):
    model_config = ConfigDict(extra="allow")
    endpointId: str
    owner: str
    url: str = Field(description="Scheme, host and port.")


class SubscriptionFields(Body):
    endpointId: str
    types: list[str]
    scope: Literal["all"] | list[dict[str, Any]] = Field(description='`"all"`, or tenants with perhaps departments.')
    filter: dict[str, Any] | None = None
    mode: Literal["single", "batch"] | None = None
    batchFormat: Literal["array", "ndjson"] | None = None
    maxMessages: int | None = None
    maxBytes: int | None = None
    maxWaitMs: int | None = None
    ordering: Literal["none", "all", "tenant"] | None = None
    active: bool | None = None


class NewSubscription(SubscriptionFields):
    subscriptionId: str | None = Field(None, description="By default a new one. Ids are never used again.")


class ShownSubscription(BaseModel):
    model_config = ConfigDict(extra="allow")
    subscriptionId: str
    endpointId: str
    owner: str


class SecretValue(Body):
    value: str | None = Field(
        None, description="By default, a new secret is made. A value that is given is never shown."
    )


class MadeSecret(BaseModel):
    name: str
    value: str | None = Field(None, description="Of a secret that was made. It is shown this once.")


class Redelivery(Body):
    """One of `ids`, `since` and `until`, `dead`."""

    ids: list[str] | None = Field(None, description="Of messages or batches.", min_length=1, max_length=1_000)
    since: int | None = Field(None, description="Messages that ended from then on, in milliseconds since 1970.")
    until: int | None = Field(None, description="Messages that ended before.")
    dead: Literal[True] | None = Field(None, description="All whose last outcome is DEAD or OVERFLOW.")

    def is_one(self) -> bool:
        is_range = self.since is not None and self.until is not None and self.since < self.until
        has_half = (self.since is None) is not (self.until is None)
        return not has_half and [self.ids is not None, is_range, self.dead is not None].count(True) == 1


class Asked(BaseModel):
    """Workers do it soon."""

    commandId: str


class Message(BaseModel):
    model_config = ConfigDict(extra="allow")
    webhookId: str
    eventId: str
    body: str = Field(description="The event's own bytes, in Base64.")


class PageOf(BaseModel):
    next: int = Field(description="Give it as `after` to go on. It stays valid.")
    last: bool = Field(description="There are no more records so far.")
    gap: bool = Field(description="Records between `after` and this page are no longer kept.")


class Messages(PageOf):
    messages: list[Message]


class LogEntries(PageOf):
    """Cuts, attempts, outcomes and redeliveries."""

    entries: list[dict[str, Any]]


class EndpointStatus(BaseModel):
    status: Literal["CLOSED", "OPEN", "DISABLED"] = Field(
        description="CLOSED: it works. OPEN: it fails, and workers only probe it. DISABLED: until it is replaced."
    )
    reason: str
    failures: int = Field(description="In a row.")
    failingSince: int | None = Field(description="In milliseconds since 1970.")


class Problem(BaseModel):
    error: str = Field(description="A code that clients can rely on.")
    message: str
