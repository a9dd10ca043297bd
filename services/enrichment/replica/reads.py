"""The port to a replica's state: the available reads, each as of a version.

Calls are synchronous and short: a point read costs some tens of µs, a listing as much for each of its `limit` items.
They are made from one thread (an event loop's): what a call sees does not move under it, and `newest` looks whether
there is more. All raise NotReady before the first full catch-up, `status` and `newest` excepted.

Texts that are no user, session or money id of the log are simply not found.
"""

from __future__ import annotations

from typing import Protocol

from moneystate.replica.model import Changes, Entry, Header, Page, Status, UserChange, Version
from services.enrichment.replica.model import ForgottenView, MoneyView, Pending, Reason, Session, UserView


class Snapshot(Protocol):
    """The state at one version, of all users: it never shows half of a batch, and stays as it is however often it is
    asked. Each call raises Pruned once the version is no longer kept: that is a minute after it stopped being given
    out, so that what has begun can end.

    A user that is forgotten is gone from all versions before as well.
    """

    @property
    def header(self) -> Header: ...

    @property
    def revision(self) -> int:
        """The replica's own number of the version."""
        ...

    @property
    def watermark_ms(self) -> int:
        """As the engine has it, including NO_TIME and END_OF_TIME."""
        ...

    def find(self, owner: bytes, expired_ms: int | None = None) -> UserView | None:
        """Like `user`, by the UTF-8 of the id; None: nothing is known of it. `expired_ms`: sessions that expired by
        this event time are left out; None: the version's watermark."""
        ...

    def user(self, user_id: str) -> UserView:
        """Raises NotFound where nothing is known of the user."""
        ...

    def users(
        self, *, prefix: str = "", start: str = "", end: str = "", country: str = "", limit: int, after: bytes | None
    ) -> Page[UserView]:
        """Users in the order of their ids' UTF-8 bytes. `prefix`: of the ids; `start`: first id, inclusive; `end`:
        last id, exclusive; `country`: the residentCountryCode; empty: no limit. `after`: where the previous page
        ended, None for the first page. Raises Malformed for an `after` that was made elsewhere."""
        ...

    def entries(self, *, prefix: str = "", limit: int, after: bytes | None) -> Page[Entry]:
        """The changelog's entries of the users whose ids begin with `prefix`, in the order of the ids' UTF-8 bytes,
        then of the kinds. A page may end between two entries of one user. Raises Malformed as `users` does."""
        ...

    def session(self, session_id: str) -> tuple[str, Session]:
        """User and session. Raises NotFound where no user has it or it has expired at the version's watermark; where
        several users have one of that id, the first in the order of their ids answers."""
        ...

    def pending(self, *, reason: Reason | None = None, limit: int, after: bytes | None) -> Page[Pending]:
        """Money that is not put out yet, oldest order time first. Raises Malformed as `users` does."""
        ...

    def money(self, money_id: str) -> MoneyView:
        """Looks up a money event. Raises NotFound if its id is unknown: it was never seen, or was forgotten after
        the TTL of the duplicate check and its record is no longer followed."""
        ...

    def forgotten(self, user_id: str) -> ForgottenView:
        """Raises NotFound where the user was not forgotten."""
        ...


class Reads(Protocol):
    def newest(self) -> Version | None:
        """The newest version that can be read; looks for what the follower has written since. Cheap when there is
        nothing new. None: not ready."""
        ...

    def latest(self) -> Snapshot:
        """The newest version at which all key groups are whole."""
        ...

    def at_version(self, version: Version) -> Snapshot:
        """Raises Pruned, Future."""
        ...

    def at_time(self, event_time_ms: int) -> Snapshot:
        """The newest version whose watermark is not after this time. Raises Pruned where the oldest that is kept has a
        later one."""
        ...

    def changes(
        self, after: Version, *, user_id: str | None = None, limit: int, mark: bytes | None = None
    ) -> Changes[UserView]:
        """The changes of the next version after `after` that changed anything (for `user_id`: that user), in the order
        of the ids' bytes, at most `limit` of them. Where nothing changed, `changed` is empty and the header is that of
        the newest version: the same as `after` if there is none newer. With a `mark` of the call before: the rest of
        that version's. Never waits: call again once `newest` says something new. Raises Pruned where `after` is no
        longer kept, Future, Malformed."""
        ...

    def changed_since(self, after: Version, most: int) -> set[str] | None:
        """The users that were changed in any version after `after`; None where there were more than `most` changes.
        Raises Pruned, Future."""
        ...

    def diff(
        self, before: Snapshot, after: Snapshot, *, limit: int, mark: bytes | None = None
    ) -> Page[UserChange[UserView]]:
        """The users whose state differs by more than the time that has passed, in the order of the ids' bytes. The two
        may be in either order."""
        ...

    def status(self) -> Status:
        """Answers at any time."""
        ...

    def close(self) -> None: ...
