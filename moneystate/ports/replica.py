"""The port through which a replica reads a service's entries: keys, index, views, lineage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, TypeVar

View = TypeVar("View", covariant=True)


class Entries(Protocol):
    """The entries of one version. An entry is named by its escaped owner, its kind and its rest, one after the other
    (`moneystate.replica.rows`)."""

    def read(self, entry: bytes) -> bytes | None: ...

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Those that begin with this, with their values, in their order."""
        ...


class Trace(Protocol):
    """An output whose records say what they come from, in a header: so that they can be explained."""

    @property
    def topic(self) -> str:
        """Without prefix."""
        ...

    @property
    def header(self) -> str: ...

    def id_of(self, value: bytes) -> bytes | None:
        """What a record is found by; None where it is not told."""
        ...

    def event_time_ms(self, header: bytes) -> int | None:
        """Of the event that caused the record; None where it is not told."""
        ...


class ReplicaModel(Protocol[View]):
    """A service's entries, index and views. Pickled into the replica's processes.

    `index_keys` give the keys of a hint each: where to look, checked by who reads it. Those that begin with `x` are
    more: the replica keeps them by version, in their order. No two entries may give the same one of them, and a service
    that has them has no `proof`."""

    @property
    def changelog(self) -> str:
        """The topic, without prefix."""
        ...

    @property
    def trace(self) -> Trace | None: ...

    @property
    def held(self) -> bytes:
        """The kind of entries that hold an output back, empty for none: they are listed by order time."""
        ...

    @property
    def proof(self) -> bytes:
        """The kind of the entry that says that its owner was forgotten, empty for none: then nothing older stays."""
        ...

    @property
    def owners(self) -> str:
        """The name of the kind that owners are counted by."""
        ...

    @property
    def layout(self) -> str:
        """What `index_keys` depend on besides the entries: files that were made with another one are built anew. Empty:
        on nothing."""
        ...

    @property
    def fingerprint(self) -> str:
        """Of the schema that owners are written with now, 16 hexadecimal digits."""
        ...

    def split(self, key: bytes) -> tuple[bytes, bytes] | None:
        """Owner and rest of an entry's key: with the kind, its first letter, all that it says. None for a key that is
        none of this service."""
        ...

    def join(self, kind: bytes, owner: bytes, rest: bytes) -> bytes:
        """`split` the other way."""
        ...

    def schema(self, value: bytes) -> tuple[str, int]:
        """The name of the kind, and the version of the schema. Raises Malformed for one that is not known."""
        ...

    def index_keys(self, owner: bytes, kind: bytes, rest: bytes, value: bytes) -> set[bytes]:
        """Of an entry. `b"u"` is for the owner alone, and `b"x"` for keys that are kept by version."""
        ...

    def order_time(self, value: bytes) -> int:
        """In ms, of an entry of the kind `held`."""
        ...

    def forgotten_at(self, value: bytes) -> int:
        """In ms, of an entry of the kind `proof`: the request's order time."""
        ...

    def view(self, owner: bytes, entries: Entries, watermark_ms: int, rules: Mapping[str, Any]) -> View | None:
        """All that is known of an owner as of a version, without what is over at the watermark; None for nothing.
        `rules`: those that the version's batch ran by, as far as the log says them."""
        ...
