"""A small schema registry client, just enough to read and write `confluent` values.

The calls are Confluent's: `GET /schemas/ids/{id}`, `GET /subjects/{subject}/versions/{version}` for references,
and `POST /subjects/{subject}/versions`. An id or version stands for the same schema for ever, so answers are kept
for good: known schemas go on being read while the registry is down. That the registry does not know an id is not kept
at all, as the next id that it gives out may be just that one. Such an id is waited for (`RegistryClient.awaited`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from moneystate.errors import BrokerError, ConfigError, UnknownSchemaId
from moneystate.http import HttpCall, HttpFailure, HttpReply, SendOnce, ServiceUrl, send_once

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
NO_SUCH_SCHEMA = 40403  # the registry's own code. A bare 404 may come from a proxy or a wrong path and proves nothing
NO_SUCH_VERSION = (40401, 40402, NO_SUCH_SCHEMA)  # no such subject, or no such version of it
HIGHEST_ID = 2**31 - 1  # ids are Java ints; a registry answers a larger one with a bare 404
RETRIED = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)
# A registry's followers learn of a new id within seconds, a restore of its topic takes longer. An id of another
# registry never comes: the operator should hear of it within the time that a batch may reasonably take.
ID_WAIT_S = 60.0
LONGEST_WAIT_S = 5.0  # between two questions for the same id


class RegistryUnavailable(BrokerError):
    """The registry cannot be reached or gives no usable answer: no record is to blame, the batch stops."""


@dataclass(frozen=True)
class Reference:
    """Leads from a schema to one that defines types for it."""

    subject: str
    version: int  # 0: the registry did not say which


@dataclass(frozen=True)
class RegisteredSchema:
    text: str
    schema_type: str = "AVRO"  # else JSON or PROTOBUF
    references: tuple[Reference, ...] = ()


@dataclass
class Answers:
    """Holds what one registry has said, for good."""

    schemas: dict[int, RegisteredSchema] = field(default_factory=dict)
    versions: dict[Reference, RegisteredSchema] = field(default_factory=dict)
    ids: dict[tuple[str, str], int] = field(default_factory=dict)


# Answers are kept by registry, for the life of the process: Spark unpickles a new client for each task, in workers that
# are reused.
ANSWERS: dict[str, Answers] = {}


class RegistryClient:
    """Reads and registers schemas.

    It keeps no connection open between requests: requests are rare, and processes that Spark forks and drops should
    hold no sockets. The attempts are enough for a restart of one registry node behind a balancer. Longer outages are
    left to whoever runs the batch again.
    """

    def __init__(
        self,
        url: str,
        *,
        attempts: int = 4,
        first_wait_s: float = 0.25,
        timeout_s: float = 5.0,
        sleep: Callable[[float], None] = time.sleep,
        send: SendOnce = send_once,
    ) -> None:
        """`url` may hold a user and password, and a path before `/schemas`. Raises ConfigError if it is none."""
        service = _service(url)
        self.shown_url = service.url.rstrip("/")  # without the password: it goes into messages
        accept = {"Accept": f"{CONTENT_TYPE}, application/json"}
        self._headers = {**accept, "Content-Type": CONTENT_TYPE, **service.headers}
        self._attempts = attempts
        self._first_wait_s = first_wait_s  # before the second attempt; doubles with each one
        self._timeout_s = timeout_s  # of one attempt
        self._sleep = sleep
        self._send = send

    def schema(self, schema_id: int) -> RegisteredSchema | None:
        """The schema of that id, None if the registry does not know the id. Raises RegistryUnavailable."""
        known = self._answers.schemas.get(schema_id)
        if known is None:
            path = f"/schemas/ids/{schema_id}"
            response = self._request("GET", path)
            if _is_unknown(response, NO_SUCH_SCHEMA):
                return None
            known = self._answers.schemas[schema_id] = self._registered(response, f"GET {path}")
        return known

    def version(self, reference: Reference) -> RegisteredSchema | None:
        """The schema of that version of a subject, also of one that was deleted after others had referred to it. None
        if the registry does not know it. Raises RegistryUnavailable."""
        known = self._answers.versions.get(reference)
        if known is None:
            path = f"/subjects/{quote(reference.subject, safe='')}/versions/{reference.version}"
            response = self._request("GET", path)
            if _is_unknown(response, *NO_SUCH_VERSION):
                response = self._request("GET", f"{path}?deleted=true")
            if _is_unknown(response, *NO_SUCH_VERSION):
                return None
            known = self._answers.versions[reference] = self._registered(response, f"GET {path}")
        return known

    def awaited(self, schema_id: int, patience_s: float) -> RegisteredSchema:
        """The schema of that id, asked for again until `patience_s` has passed. Raises UnknownSchemaId."""
        return self._awaited(lambda: self.schema(schema_id), f"of id {schema_id}", "id", patience_s)

    def awaited_version(self, reference: Reference, patience_s: float) -> RegisteredSchema:
        """Works like `awaited`."""
        name = f"of {reference.subject}, version {reference.version}"
        return self._awaited(lambda: self.version(reference), name, "version", patience_s)

    def _awaited(
        self, ask: Callable[[], RegisteredSchema | None], name: str, kind: str, patience_s: float
    ) -> RegisteredSchema:
        waited, pause = 0.0, self._first_wait_s
        while (schema := ask()) is None:
            if waited >= patience_s:
                raise UnknownSchemaId(
                    f"The schema registry {self.shown_url}: expected the schema {name}, it knew no such {kind} for "
                    f"{waited:.0f} s.",
                    "register the schema, or give the registry that the producers use; then start the job again.",
                )
            self._sleep(pause)
            waited, pause = waited + pause, min(2 * pause, LONGEST_WAIT_S)
        return schema

    def register(self, subject: str, schema_text: str) -> int:
        """The id of the schema below `subject`, which is registered if it was not there.

        Raises RegistryUnavailable, also where the registry refuses it (not compatible, no permission).
        """
        key = (subject, schema_text)
        known = self._answers.ids.get(key)
        if known is None:
            path = f"/subjects/{quote(subject, safe='')}/versions"
            response = self._request("POST", path, {"schema": schema_text})
            answered = _json(response).get("id") if response.is_success else None
            if type(answered) is not int or not 0 <= answered <= HIGHEST_ID:
                raise self._unusable(response, f"POST {path}")
            known = self._answers.ids[key] = answered
        return known

    @property
    def _answers(self) -> Answers:
        return ANSWERS.setdefault(self.shown_url, Answers())

    def _registered(self, response: HttpReply, request: str) -> RegisteredSchema:
        answer = _json(response) if response.is_success else {}
        if not isinstance(answer.get("schema"), str):
            raise self._unusable(response, request)
        listed = answer.get("references")
        references = tuple(_reference(one) for one in listed) if isinstance(listed, list) else ()
        return RegisteredSchema(answer["schema"], answer.get("schemaType") or "AVRO", references)

    def _request(self, method: str, path: str, body: dict[str, str] | None = None) -> HttpReply:
        content = None if body is None else json.dumps(body).encode()
        call = HttpCall(self.shown_url + path, method, self._headers, content)
        problem = ""
        for attempt in range(self._attempts):
            if attempt:
                self._sleep(self._first_wait_s * 2 ** (attempt - 1))
            try:
                response = self._send(call, self._timeout_s)
            except HttpFailure as error:
                problem = error.reason
                continue
            if not response.is_server_error and response.status not in RETRIED:
                return response
            problem = f"HTTP {response.status}"
        raise RegistryUnavailable(
            f"The schema registry {self.shown_url} did not answer {method} {path}, {self._attempts} tries: {problem}.",
            "see that the registry runs and can be reached from here, then start the job again.",
        )

    def _unusable(self, response: HttpReply, request: str) -> RegistryUnavailable:
        detail = str(_json(response).get("message", "no usable schema or id"))[:200]
        return RegistryUnavailable(
            f"The schema registry {self.shown_url} answered {request} with HTTP {response.status}: {detail}.",
            "check the registry's URL, the user's permissions and the subject's compatibility rule.",
        )


def _service(url: str) -> ServiceUrl:
    try:
        return ServiceUrl.parse(url)
    except ValueError as e:
        raise ConfigError(f"The schema registry's URL is {e}.", "give it as http://host:port.") from None


def _reference(listed: Any) -> Reference:
    members = listed if isinstance(listed, dict) else {}
    version = members.get("version")
    return Reference(str(members.get("subject")), version if type(version) is int else 0)


def _is_unknown(response: HttpReply, *codes: int) -> bool:
    """Whether the registry says by one of its own codes that it does not know what was asked for."""
    return response.status == HTTPStatus.NOT_FOUND and _json(response).get("error_code") in codes


def _json(response: HttpReply) -> dict[str, Any]:
    """The answer's object, an empty one if it is something else."""
    try:
        answer = json.loads(response.body)
    except (ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}
