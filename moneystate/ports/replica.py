"""The port through which a replica reads a service's entries: keys, index, views, lineage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, TypeVar

from moneystate.errors import ServiceError

View = TypeVar("View", covariant=True)


class Entries(Protocol):
    """The entries of one version. An entry's name is its escaped owner, its kind and its rest, concatenated
    (`moneystate.replica.rows`)."""

    def read(self, entry: bytes) -> bytes | None: ...

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The entries whose names start with this prefix, with their values, in order."""
        ...


class Trace(Protocol):
    """An output whose records name their sources in a header, so that the server can explain them."""

    @property
    def topic(self) -> str:
        """The topic, without prefix."""
        ...

    @property
    def header(self) -> str: ...

    def id_of(self, value: bytes) -> bytes | None:
        """The id by which a record can be found; None if the record has none."""
        ...

    def event_time_ms(self, header: bytes) -> int | None:
        """The event time of the event that caused the record; None if the record does not say."""
        ...


class Unindexed(ServiceError):
    """Some indices cannot have an entry. `keys` are those of the other indices."""

    def __init__(self, problem: str, do: str, indices: list[str], keys: set[bytes]) -> None:
        super().__init__(problem, do)
        self.indices = indices
        self.keys = keys


class ReplicaModel(Protocol[View]):
    """A service's entries, index and views. It is pickled into the replica's processes.

    `index_keys` are hints: they say where to look, and the reader checks what it finds. Keys that start with `x` are
    exact: the replica keeps them by version, in order. No two entries may return the same `x` key, and a service that
    has them has no `proof`.
    """

    @property
    def changelog(self) -> str:
        """The changelog topic, without prefix."""
        ...

    @property
    def trace(self) -> Trace | None: ...

    @property
    def held(self) -> bytes:
        """The kind of entries that hold an output back, which the replica lists by order time; empty: there are
        none."""
        ...

    @property
    def proof(self) -> bytes:
        """The kind of the entry that says that its owner was forgotten; nothing older than it remains. Empty: there
        is none."""
        ...

    @property
    def owners(self) -> str:
        """The name of the kind by which owners are counted."""
        ...

    @property
    def layout(self) -> str:
        """Identifies the configuration that `index_keys` depend on. Files made with another layout are rebuilt.
        Empty: they depend on the entries alone."""
        ...

    def as_run(self, rules: Mapping[str, Any]) -> ReplicaModel[View]:
        """The model whose `index_keys` and `layout` are those of a run with these rules, as far as the log records
        them."""
        ...

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the schema that owners are written with now, 16 hexadecimal digits."""
        ...

    def split(self, key: bytes) -> tuple[bytes, bytes] | None:
        """Splits an entry's key into owner and rest. With the kind, which is the key's first letter, they are all
        that the key says. None: the key is not one of this service."""
        ...

    def join(self, kind: bytes, owner: bytes, rest: bytes) -> bytes:
        """The inverse of `split`."""
        ...

    def schema(self, value: bytes) -> tuple[str, int]:
        """The name of the kind, and the version of the schema. Raises Malformed for an unknown one."""
        ...

    def index_keys(self, owner: bytes, kind: bytes, rest: bytes, value: bytes) -> set[bytes]:
        """The index keys of an entry. `b"u"` is reserved for the owner, `b"x"` for keys that are kept by version.
        Raises Unindexed, and any error for an entry that is damaged."""
        ...

    def order_time(self, value: bytes) -> int:
        """The order time in ms of an entry of the kind `held`."""
        ...

    def forgotten_at(self, value: bytes) -> int:
        """The order time in ms of the request in an entry of the kind `proof`."""
        ...

    def view(self, owner: bytes, entries: Entries, watermark_ms: int, rules: Mapping[str, Any]) -> View | None:
        """Everything that is known of an owner as of a version, except what has expired at the watermark. None:
        nothing is known. `rules`: the rules of the version's batch, as far as the log records them."""
        ...
