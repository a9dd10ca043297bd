"""The port to a replica's state: the available reads, each at a version.

Calls are synchronous and short. A point read takes some tens of µs, a listing as much for each of its `limit` items.
One thread (an event loop's) makes all calls. So the data does not change during a call. `newest` checks for new
versions. All calls except `status` and `newest` raise NotReady before the first full catch-up.

An id that is not in the log is not found, whatever characters it has.
"""

from __future__ import annotations

from typing import Protocol

from moneystate.replica.model import Changes, Entry, Header, Page, Status, UserChange, Version
from services.enrichment.replica.model import ForgottenView, MoneyView, Pending, Reason, Session, UserView


class Snapshot(Protocol):
    """The state of all users at one version. It never shows half of a batch, and it never changes.

    Each call raises Pruned once the version is no longer retained. That is a minute after new calls could last get the
    version, so that calls in progress can finish. Forgetting a user also removes it from all earlier versions.
    """

    @property
    def header(self) -> Header: ...

    @property
    def revision(self) -> int:
        """The replica's own number of the version."""
        ...

    @property
    def watermark_ms(self) -> int:
        """The engine's watermark, which may be NO_TIME or END_OF_TIME."""
        ...

    def find(self, owner: bytes, expired_ms: int | None = None) -> UserView | None:
        """Works like `user`, by the UTF-8 of the id. None: there is no such user. Items that have expired by
        `expired_ms` are left out; None: by the version's watermark."""
        ...

    def user(self, user_id: str) -> UserView:
        """Raises NotFound if there is no such user."""
        ...

    def users(
        self, *, prefix: str = "", start: str = "", end: str = "", country: str = "", limit: int, after: bytes | None
    ) -> Page[UserView]:
        """Users, ordered by the UTF-8 bytes of their ids. `prefix`: of the ids. `start`: the first id (inclusive).
        `end`: the last id (exclusive). `country`: the residentCountryCode. Empty arguments do not limit the listing.
        `after`: the end of the previous page; None for the first page. Raises Malformed if `after` is invalid."""
        ...

    def entries(self, *, prefix: str = "", limit: int, after: bytes | None) -> Page[Entry]:
        """The changelog's entries of the users whose ids begin with `prefix`, ordered by the UTF-8 bytes of the ids,
        then by kind. A page may end between two entries of one user. Raises Malformed like `users`."""
        ...

    def session(self, session_id: str) -> tuple[str, Session]:
        """The user and the session. If several users have a session with this id, the first user by id counts. Raises
        NotFound if no user has it, or it has expired at the version's watermark."""
        ...

    def pending(self, *, reason: Reason | None = None, limit: int, after: bytes | None) -> Page[Pending]:
        """Money that has not been written yet, the oldest order time first. Raises Malformed like `users`."""
        ...

    def money(self, money_id: str) -> MoneyView:
        """A money event. Raises NotFound if its id is unknown: it was never seen, or the TTL of the duplicate check has
        passed and the replica no longer retains its lineage."""
        ...

    def forgotten(self, user_id: str) -> ForgottenView:
        """Raises NotFound if the user was not forgotten."""
        ...


class Reads(Protocol):
    def newest(self) -> Version | None:
        """Checks for versions that the follower has written since, and returns the newest. Cheap if there is nothing
        new. None: not ready."""
        ...

    def latest(self) -> Snapshot:
        """The newest version for which the data of all key groups is complete."""
        ...

    def at_version(self, version: Version) -> Snapshot:
        """Raises Pruned, Future."""
        ...

    def at_time(self, event_time_ms: int) -> Snapshot:
        """The newest version whose watermark is not after this time. Raises Pruned if the oldest retained version has
        a later watermark."""
        ...

    def changes(
        self, after: Version, *, user_id: str | None = None, limit: int, mark: bytes | None = None
    ) -> Changes[UserView]:
        """The changes of the first version after `after` that has any (for `user_id`: of that user), ordered by the
        bytes of the ids, at most `limit` of them. With the `mark` of the previous call: the rest of that version's
        changes. If nothing changed, `changed` is empty and the header is that of the newest version, which may be
        `after` itself. Does not wait: call again when `newest` returns a new version. Raises Pruned if `after` is no
        longer retained, Future, Malformed."""
        ...

    def changed_since(self, after: Version, most: int) -> set[str] | None:
        """The users that changed in any version after `after`. None: there are more than `most` changes. Raises Pruned,
        Future."""
        ...

    def diff(
        self, before: Snapshot, after: Snapshot, *, limit: int, mark: bytes | None = None
    ) -> Page[UserChange[UserView]]:
        """The users whose state differs, ordered by the bytes of the ids. Items that only expired between
        the two do not count. The two versions may be in either order."""
        ...

    def status(self) -> Status:
        """Never raises NotReady."""
        ...

    def close(self) -> None: ...
