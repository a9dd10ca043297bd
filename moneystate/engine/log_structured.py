"""A key group's entries as a log of segments (`moneystate.engine.segments`), with a cache beside the process that uses
them.

The segments in Spark's state store are the state. The cache is a fast copy of them that may be lost at any time. It
holds only committed changes: a batch's changes wait in memory until the manifest of the next batch shows that they were
committed (`Pending`). So a batch that runs again finds the cache as in its first attempt. If other processes ran some
batches, the cache reads the segments of these batches.

State without segments (state version 1, and programs from before segments) has single entries in the state store. It is
read in this form and written as segments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from moneystate.engine import segments
from moneystate.engine.processor import Change
from moneystate.engine.segments import Manifest, Segment
from moneystate.engine.state import StateAccess


class Pending(NamedTuple):
    """The changes of the last batch that a key group ran here. They count once a manifest confirms them."""

    origin: int
    number: int
    check: int
    changes: dict[bytes, bytes | None]


class SegmentCache(Protocol):
    """Copies of segments that all processes of this machine share."""

    def chunks(self, group: int, origin: int, segment: Segment) -> list[bytes] | None:
        """The chunks of a segment; None: it must be read from the store."""
        ...

    def keep(self, group: int, origin: int, segment: Segment, chunks: Sequence[bytes]) -> None: ...

    def forget(self, group: int, origin: int, segment: Segment) -> None: ...


class EntryCache(Protocol):
    """Copies of key groups' entries, for this process alone."""

    @property
    def files(self) -> SegmentCache: ...

    def position(self, group: int) -> tuple[int, int]:
        """Origin and number of the last batch that is in the copy."""
        ...

    def pending(self, group: int) -> Pending | None: ...

    def expect(self, group: int, pending: Pending) -> None: ...

    def get_many(self, group: int, keys: Sequence[bytes]) -> list[bytes | None]: ...

    def put(self, group: int, changes: Mapping[bytes, bytes | None], origin: int, number: int) -> None:
        """Applies the changes up to batch `number`. Nothing is pending afterwards."""
        ...

    def clear(self, group: int) -> None: ...

    def items(self, group: int, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """The entries whose keys start with `prefix`."""
        ...


class LogStructuredState:
    """`StateAccess` for one batch of one key group, until `end`.

    `first` is the entry under `segments.MANIFEST_KEY`. `origin` is a number that no other batch has; the segments get
    it if they begin with this batch.
    """

    def __init__(self, store: StateAccess, first: bytes | None, cache: EntryCache, group: int, origin: int) -> None:
        self.store = store  # the key group's entries in Spark's state store
        self.cache = cache
        self.group = group
        self.changed: dict[bytes, bytes | None] = {}
        self.plain: dict[bytes, bytes] | None = None  # single entries in the store, of state without segments
        if first is not None and segments.is_manifest(first):
            self.manifest = segments.decode_manifest(first)
        else:
            self.manifest = Manifest(origin)
            if first is not None:
                self.plain = dict(store.scan())
                self.changed.update(self.plain)
        self._catch_up()

    def _catch_up(self) -> None:
        """Brings the cache up to the manifest."""
        cache, group, manifest = self.cache, self.group, self.manifest
        origin, cached_number = cache.position(group)
        pending = cache.pending(group)
        if pending is None and (origin, cached_number) == (manifest.origin, manifest.number):
            return
        shown = (manifest.origin, manifest.number, manifest.check)
        if pending is not None and pending[:3] == shown and (origin, cached_number + 1) == shown[:2]:
            cache.put(group, pending.changes, manifest.origin, manifest.number)
            return
        newer = manifest.after(cached_number)
        if (
            origin != manifest.origin
            or cached_number > manifest.number
            or (cached_number and newer and newer[0].is_whole())
        ):
            # entries missing from a whole segment may have been removed: merges drop the removals
            cache.clear(group)
            newer = manifest.segments
        cache.put(group, self._read(newer), manifest.origin, manifest.number)

    def _read(self, wanted: list[Segment]) -> dict[bytes, bytes | None]:
        """The entries of segments, the oldest first, merged."""
        files, group, origin = self.cache.files, self.group, self.manifest.origin
        here = {segment.name: files.chunks(group, origin, segment) for segment in wanted}
        missing = [segment for segment in wanted if here[segment.name] is None]
        stored = iter(self.store.get_many([key for segment in missing for key in segment.chunk_keys()]))
        entries: dict[bytes, bytes | None] = {}
        for segment in wanted:
            chunks: Sequence[bytes | None] | None = here[segment.name]
            if chunks is None:
                chunks = [next(stored) for _ in range(segment.chunks)]
                files.keep(group, origin, segment, [chunk for chunk in chunks if chunk is not None])
            for chunk in chunks:
                segments.decode_chunk(chunk, entries)
        return entries

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        if self.plain is not None:
            return [self.changed.get(key) for key in keys]
        cached = self.cache.get_many(self.group, keys)
        changed = self.changed
        if changed:
            return [changed.get(key, value) for key, value in zip(keys, cached, strict=True)]
        return cached

    def apply(self, changes: Sequence[Change]) -> None:
        self.changed.update(changes)

    def scan(self, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        if self.plain is None and not self.changed:  # as long as steps run
            return self.cache.items(self.group, prefix)
        return self._scan_changed(prefix)

    def _scan_changed(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        changed = {key: value for key, value in self.changed.items() if key.startswith(prefix)}
        if self.plain is None:
            for key, value in self.cache.items(self.group, prefix):
                if key not in changed:
                    yield key, value
        for key, changed_value in changed.items():
            if changed_value is not None:
                yield key, changed_value

    def stored_bytes(self) -> int:
        """The size of all segments; 0 for state without segments."""
        return sum([segment.size for segment in self.manifest.segments])

    def end(self) -> list[Change]:
        """The writes to the store that persist the changes: a segment, and the manifest."""
        manifest, number = self.manifest, self.manifest.number + 1
        puts: list[Change] = []
        if self.plain is not None:
            puts.extend([(key, None) for key in self.plain if key != segments.MANIFEST_KEY])
        chunks = segments.encode_segment(self.changed)
        merged, tier = segments.merge_inputs(manifest, segments.tier_due(number, segments.phase_of(self.group)))
        if not manifest.segments:
            tier = segments.tier_of_size(sum([len(chunk) for chunk in chunks]))
        content = self.changed
        if merged:
            content = self._read(merged)
            content.update(self.changed)
        added = segments.add_segment(manifest, tier, content, merged, chunks)
        puts.extend(added)
        for segment in merged:
            self.cache.files.forget(self.group, manifest.origin, segment)
        made = [value for key, value in added if value is not None and key != segments.MANIFEST_KEY]
        self.cache.files.keep(self.group, manifest.origin, manifest.segments[-1], made)
        self.cache.expect(self.group, Pending(manifest.origin, manifest.number, manifest.check, self.changed))
        return puts
