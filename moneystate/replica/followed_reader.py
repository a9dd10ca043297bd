"""Reads the files of a follower in another process, which may start, end and rebuild its database at any time."""

from __future__ import annotations

import time
from typing import Final

from moneystate.replica import files
from moneystate.replica.files import Secondary
from moneystate.replica.model import Version
from moneystate.replica.reader import ReplicaReader
from moneystate.replica.shared_status import SharedStatus, SharedStatusFile
from moneystate.runtime.replica_model import ReplicaModel

# A reader catches up once there are so many rows, even if the version is not complete: 0.2 ms.
CATCH_UP_ROWS: Final = 80
CATCH_UP_S: Final = 1.0  # the longest time before rows are caught up with
CHANGE_OVER_S: Final = 0.25  # how often to check whether the replica was rebuilt


class FollowedReader(ReplicaReader):
    """Opens the files that the follower has open."""

    def __init__(self, model: ReplicaModel, data: str) -> None:
        self.data = data
        self.generation: str | None = None
        self.status_seen = SharedStatus()
        self.caught_up_at = self.change_over_at = 0.0
        super().__init__(model)
        self._change_over()

    def newest(self) -> Version | None:
        now = time.monotonic()
        if now >= self.change_over_at:
            self.change_over_at = now + CHANGE_OVER_S
            if files.generation(self.data) != self.generation:
                self._change_over()
        if isinstance(self.db, Secondary):
            shared = self._shared_status()
            # not the last seen: a catch-up during a flush of the follower may miss the rows that the flush moves
            if shared.newest > self.record.newest or self._is_due(shared):
                self.status_seen, self.caught_up_at = shared, time.monotonic()
                self._catch_up(self.db)
        return None if self.newest_revision is None else self.newest_revision.version

    def _catch_up(self, db: Secondary) -> None:
        try:
            db.catch_up()
        except Exception:  # rocksdict has none of its own
            if files.generation(self.data) == self.generation:
                raise
            self.change_over_at = 0.0  # rebuilt meanwhile: the next check finds the new one
            return
        self.refresh()

    def _is_due(self, shared: SharedStatus) -> bool:
        """Whether to catch up although there is no new version: with rows of the next one, or of the retention
        sweep."""
        rows_behind = shared.written - self.status_seen.written
        waited = time.monotonic() - self.caught_up_at > CATCH_UP_S
        return not 0 <= rows_behind < CATCH_UP_ROWS or (rows_behind > 0 and waited)

    def _change_over(self) -> None:
        """Switches to the current generation, once its follower has opened it."""
        name = files.generation(self.data)
        if name is None or not files.is_open(self.data, name):
            return
        try:
            status_file = SharedStatusFile(files.folder(self.data, name))
            shared = status_file.read()  # read before the database, which is then never behind it
            db = Secondary(self.data, name)
        except Exception:  # rocksdict has none of its own
            if files.generation(self.data) == name:
                raise
            return  # rebuilt meanwhile: the next check finds the new one
        self.close()
        self.status_file, self.db, self.generation = status_file, db, name
        self.status_seen = shared
        self.newest_revision = None
        self.refresh()
