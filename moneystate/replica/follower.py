"""The follower: the process that reads the changelog into the replica's files. It is their only writer.

1. *open*: open the current files, or new ones if the current ones cannot be continued (`_rebuild_reason`).
2. *load* (new files): read the compacted log up to its current end, in bulk. Nothing can be read yet. After a kill the
   load starts again. The first files may also be loaded from a saved state (`moneystate.replica.saved_state`).
3. *follow*: hold records back until a batch slice is complete (`moneystate.replica.transaction_assembler`), then write
   them with the position to resume from. After a kill, the log is read again from there.
4. *publish quiescent*: versions in which compaction may have left holes cannot be read. Once a quiet log has been read
   to its end, the last version can.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from multiprocessing.connection import Connection
from typing import Final

from confluent_kafka import KafkaException

from moneystate.errors import BrokerError, SetupError
from moneystate.log import get_log
from moneystate.replica import files, saved_state
from moneystate.replica.deferred_close import DeferredClose
from moneystate.replica.follower_loop import FollowerLoop
from moneystate.replica.log import Changelog, Options, Topics
from moneystate.replica.record import Record, read_layout, write_layout
from moneystate.replica.shared_status import SharedStatusFile
from moneystate.replica.store import Store
from moneystate.runtime.replica_model import ReplicaModel

log = get_log(__name__)

# Readers have priority: if CPU time is short, versions arrive later
NICENESS: Final = 3
AGAIN_S: Final = 1.0  # between two attempts to find a missing broker or topic
# The pause before a log with misplaced entries is loaded again: the job may be about to move them.
MISPLACED_AGAIN_S: Final = 10.0
MISPLACED_ADVICE: Final = (
    "begin a new checkpoint with the job's state: moneystate checkpoint export, then start it with --initial-state."
)
STOP_LOOK_S: Final = 0.2

OpenSaved = Callable[[], saved_state.SavedState]


def run(options: Options, model: ReplicaModel, parent: Connection, open_saved: OpenSaved | None = None) -> None:
    """Runs the follower as a process, until SIGTERM or until the parent has died. `open_saved`: opens the state to load
    first."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes: the parent tells this one to stop
    os.nice(NICENESS)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    Follower(options, model, lambda: stop.is_set() or parent.poll(), open_saved).run()


class Follower:
    def __init__(
        self,
        options: Options,
        model: ReplicaModel,
        stopped: Callable[[], bool],
        open_saved: OpenSaved | None = None,
    ) -> None:
        self.options = options
        self.model = model
        self.stopped = stopped
        self.open_saved = open_saved
        self.rebuild_reason = ""  # why the current files cannot be continued; empty: they can
        self.last_message = ""

    def run(self) -> None:
        """Runs until it is stopped. Raises SetupError for problems that waiting does not solve."""
        topics = Topics(self.options, self.model.changelog)
        while not self.stopped():
            changelog = self._describe(topics)
            if changelog is None:
                continue
            try:
                self._follow(topics, changelog)
            except files.Misplaced as e:
                self.rebuild_reason = "the load was not of a whole state"
                self._wait(f"the changelog cannot be served: {e.args[0]}; {MISPLACED_ADVICE}", MISPLACED_AGAIN_S)
            except files.Rebuild as e:
                self.rebuild_reason = str(e.args[0])
            except (BrokerError, KafkaException) as e:
                self._wait(str(e))

    def _describe(self, topics: Topics) -> Changelog | None:
        """Describes the topics. None: there is no broker or no topic yet; a replica may start before its job."""
        try:
            return topics.describe()
        except SetupError as e:
            self._wait(str(e))
            return None

    def _wait(self, why: str, for_s: float = AGAIN_S) -> None:
        if why != self.last_message:
            self.last_message = why
            log.warning(f"the replica waits: {why}")
        until_s = time.monotonic() + for_s
        while not self.stopped() and time.monotonic() < until_s:
            time.sleep(STOP_LOOK_S)

    def _follow(self, topics: Topics, changelog: Changelog) -> None:
        with ExitStack() as at_end:
            store, shared = self._open(changelog)
            at_end.enter_context(DeferredClose(store.db.folder))  # until the store is closed, which deletes files
            at_end.callback(store.close)
            at_end.callback(shared.close)
            loop = FollowerLoop(self.options, topics, changelog, store, shared)
            at_end.callback(loop.close)
            while not self.stopped():
                loop.step()

    def _open(self, changelog: Changelog) -> tuple[Store, SharedStatusFile]:
        """Raises SetupError."""
        data = self.options.data
        name = files.generation(data)
        is_first_load = name is None
        if name is not None:
            store = Store(files.open_primary(data, name), self.model)
            is_first_load = store.record.loading and not self.rebuild_reason
            why = self.rebuild_reason or _rebuild_reason(store.record, changelog)
            if not why and read_layout(store.db) != store.indexing.layout:
                why = "the service's indices have changed"
            if not why:
                return store, SharedStatusFile(files.folder(data, name), write=True)
            store.close()
            log.warning(f"the replica is rebuilt: {why}")
        self.rebuild_reason = ""
        name = files.begin_generation(data)
        store = Store(files.open_primary(data, name), self.model)
        write_layout(store.db, self.model.layout)
        store.record.topic_id = changelog.topic_id
        store.record.positions = {str(p): offset for p, offset in changelog.starts.items()}
        if is_first_load and self.open_saved is not None:
            self._load_saved(store, self.open_saved(), changelog)
        return store, SharedStatusFile(files.folder(data, name), write=True)

    @staticmethod
    def _load_saved(store: Store, saved: saved_state.SavedState, changelog: Changelog) -> None:
        why = saved_state.unusable(saved, changelog)
        if why:  # since the start of the server, which is refused
            log.warning(f"the replica is loaded from the changelog: {why}")
            return
        began_s = time.monotonic()
        saved_state.load(store, saved)
        log.info("the savepoint is loaded", version=str(saved.version), seconds=round(time.monotonic() - began_s, 1))


def _rebuild_reason(record: Record, changelog: Changelog) -> str:
    """Returns why the files must be rebuilt; empty: they can be continued."""
    if record.loading:
        return "the first load had not ended"
    if record.topic_id != changelog.topic_id:
        return "the changelog is another topic of the same name"
    positions = {int(p): offset for p, offset in record.positions.items()}
    if positions.keys() != changelog.starts.keys():
        return "the changelog has another number of partitions"
    if any(changelog.starts[p] > offset or changelog.ends[p] < offset for p, offset in positions.items()):
        return "the log no longer has the next records"
    away_ms = int(time.time() * 1000) - record.alive_ms
    if away_ms > changelog.delete_retention_ms // 2:
        # the log may have lost tombstones of entries that were removed meanwhile
        return f"it was down for {away_ms // 60_000} minutes, more than half of delete.retention.ms"
    return ""
