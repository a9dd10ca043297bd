"""The declaration of a lookup: a question that a step asks an HTTP service through the log (docs/lookups.md).

A step writes a request to a topic. A worker (`moneystate.lookup`) asks the service and writes one reply for each
request. The service reads the replies as an unordered input. Until the reply, the state has an entry for the request.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import make_dataclass
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar, overload

from moneystate.api.handles import Input, Map, Output
from moneystate.records.reading import Key

Q = TypeVar("Q")
A = TypeVar("A")
H = TypeVar("H")
O = TypeVar("O")  # noqa: E741

Outcome = Literal["FOUND", "NOT_FOUND", "FAILED"]
FOUND: Final = "FOUND"
NOT_FOUND: Final = "NOT_FOUND"
FAILED: Final = "FAILED"
Url: TypeAlias = str | Callable[[Q], str]


class Asked(Generic[Q]):
    """The entry of an open lookup."""

    request: Q


class AskedHolding(Asked[Q], Generic[Q, H]):
    """The entry of an open lookup that holds a record for the reply."""

    held: H


class Lookup(Generic[Q, A, H, O]):
    """A lookup. `Q`: its requests, `A`: its replies, `H`: what a step gets back with the reply, `O`: its entries."""

    def __init__(self, service: str, name: str, requests: Output[Q], replies: Input[A], open: Map[O]) -> None:
        self.service = service
        self.name = name
        self.requests = requests
        self.replies = replies
        self.open = open  # the requests without a reply, by key; a map for queries and indices, not for steps
        # `DeclaresLookups.lookup` explains these
        self.url: Url[Q] = ""
        self.time = ""
        self.by: tuple[str, ...] | None = None
        self.accept: Callable[[A], bool] | None = None
        self.held: type | None = None

    def __repr__(self) -> str:
        return f"lookup {self.name!r}"


class DeclaresLookups:
    """The declaration of lookups, as a part of `moneystate.api.service.Service`."""

    lookups: dict[str, Lookup[Any, Any, Any, Any]]

    @overload
    def lookup(
        self, name: str, *, request: type[Q], reply: type[A], key: Key, time: str, url: Url[Q],
        by: tuple[str, ...] | None = None, accept: Callable[[A], bool] | None = None,
        requests: str = "", replies: str = "", format: str = "avro", partitions: int | None = None,
    ) -> Lookup[Q, A, Q, Asked[Q]]: ...  # fmt: skip
    @overload
    def lookup(
        self, name: str, *, request: type[Q], reply: type[A], key: Key, time: str, url: Url[Q], held: type[H],
        by: tuple[str, ...] | None = None, accept: Callable[[A], bool] | None = None,
        requests: str = "", replies: str = "", format: str = "avro", partitions: int | None = None,
    ) -> Lookup[Q, A, H, AskedHolding[Q, H]]: ...  # fmt: skip
    def lookup(
        self: Any, name: str, *, request: type, reply: type, key: Key, time: str, url: Url[Any],
        held: type | None = None, by: tuple[str, ...] | None = None, accept: Callable[[Any], bool] | None = None,
        requests: str = "", replies: str = "", format: str = "avro", partitions: int | None = None,
    ) -> Any:  # fmt: skip
        """Declares a question to an HTTP service, which steps ask with `ctx.ask` (docs/lookups.md). A function that
        `on` registers for the lookup gets each reply.

        - `request`, `reply`: the records. The reply has `outcome: ms.Outcome`, and repeats fields of the request. These
          tell which request it answers. `attempts` and `completed_at` are filled in if it has them. Other fields are
          members of the HTTP service's JSON answer.
        - `key`, `time`: fields of both records: the key, and the order time of the step that asks.
        - `url`: the path, such as `"/sessions/{id}"`, with fields of the request in braces, or a function from a
          request to a path. The worker's `--url` says where the HTTP service is.
        - `by`: the fields that tell requests of one key and time apart. None: all that a reply repeats.
        - `accept`: whether a reply with an answer can be used. None: every answer with these members can.
        - `held`: the type of a record that a step keeps for the reply, instead of the request itself.
        - `requests`, `replies`: the topics. By default `NAME-requests` and `NAME-results`.
        """
        topic = name.replace("_", "-")
        declared: Lookup[Any, Any, Any, Any] = Lookup(
            self.name,
            name,
            self.output(requests or f"{topic}-requests", request, key=key, partitions=partitions, format=format),
            self.input(replies or f"{topic}-results", reply, key=key, time=time, ordered=False, format=format),
            self.map(name, _entry(name, request, held)),
        )
        declared.url, declared.time, declared.by, declared.accept, declared.held = url, time, by, accept, held
        self.lookups[name] = declared
        return declared


def _entry(name: str, request: type, held: type | None) -> type:
    """The record of an open lookup: `SessionLookup` for `session_lookup`."""
    title = "".join(part[:1].upper() + part[1:] for part in name.split("_"))
    if held is None:
        return make_dataclass(title, [("request", request)], bases=(Asked,), frozen=True)
    return make_dataclass(title, [("request", request), ("held", held)], bases=(AskedHolding,), frozen=True)
