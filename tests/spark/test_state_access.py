"""Both ways to Spark's state store, held to the contract inside a real `transformWithState` query.

The checks run in the Python workers of the query, and their verdicts come out as its rows: nothing stands in
for the state socket.
"""

from __future__ import annotations

import os
import pickle
import socket
import struct
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.proto.StateMessage_pb2 import StateRequest, StateResponse
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import StringType, StructField, StructType

from moneystate.engine.state import StateAccess
from moneystate.spark.operator import KEY_SCHEMA, STATE_NAME, VALUE_SCHEMA
from moneystate.spark.state_access import Pipe, PipelinedAccess, PipelineError, PublicAccess, PublicStores, stores_of
from tests.engine import state_contract
from tests.engine.state_contract import CHECKS

VERDICTS = StructType(
    [StructField(name, StringType(), False) for name in ("access", "batch", "key", "check", "verdict")]
)
KINDS = {"public": False, "pipelined": True}
# The public calls wait for the answer to each key.
FEWER: dict[str, state_contract.Check] = {
    "many_keys_at_once": partial(state_contract.check_many_keys_at_once, many=500),
    "a_scan_gives_every_entry_once": partial(state_contract.check_a_scan_gives_every_entry_once, many=500),
}
ENTRY = b"kept\x00entry"
KEY = 4_711
Verdicts = dict[tuple[str, str, str, str], str]


def verdict(check: Callable[[StateAccess], None], access: StateAccess) -> str:
    try:
        check(access)
    except Exception:
        return traceback.format_exc()
    return "ok"


class ContractOperator(StatefulProcessor):
    """Runs every check for each key, and leaves an entry for the next batch. Its input is (key, batch)."""

    def __init__(self, kind: str, pipelined: bool, checks: dict[str, Callable[[StateAccess], None]]) -> None:
        self.kind = kind
        self.pipelined = pipelined
        self.checks = checks

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.entries = handle.getMapState(STATE_NAME, KEY_SCHEMA, VALUE_SCHEMA)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        batch, name = str(next(iter(rows)).batch), str(key[0])
        list(rows)
        self.stores = stores_of(self.entries, self.pipelined)
        access = self.stores.store(int(name))
        checks = {
            **self.checks,
            "kind": self._check_kind,
            "isolation": self._check_isolation(name),
            "mixed": self._check_mixed,
            "of each": self._check_of_each(int(name)),
        }
        for check, run in checks.items():
            yield Row(access=self.kind, batch=batch, key=name, check=check, verdict=verdict(run, access))
        stored = access.get_many([ENTRY])[0]
        access.apply([(ENTRY, f"{name} batch {batch}".encode())])
        yield Row(access=self.kind, batch=batch, key=name, check="kept", verdict=repr(stored))

    def _check_kind(self, access: StateAccess) -> None:
        assert type(access).__name__ == ("PipelinedAccess" if self.pipelined else "PublicAccess")
        assert type(self.stores).__name__ == ("PipelinedStores" if self.pipelined else "PublicStores")

    def _check_of_each(self, key: int) -> Callable[[StateAccess], None]:
        """What is put for several keys at once is there for each of them, and for no other."""

        def check(access: StateAccess) -> None:
            mine = [key, key + 1_000, key + 2_000] if self.stores.together else [key]
            self.stores.apply_to_each([(k, [(b"each", b"%d" % k), (b"more", b"")]) for k in mine])
            assert self.stores.get_of_each(mine, b"each") == [b"%d" % k for k in mine]
            assert access.get_many([b"each", b"more"]) == [b"%d" % key, b""]
            assert self.entries.getValue((b"each",)) is not None
            for k in mine:
                entries = dict(self.stores.store(k).scan())
                assert (entries[b"each"], entries[b"more"]) == (b"%d" % k, b"")
            self.stores.apply_to_each([(k, [(b"each", None), (b"more", None)]) for k in mine])
            assert self.stores.get_of_each(mine, b"each") == [None] * len(mine)
            assert access.get_many([b"each"]) == [None]

        return check

    def _check_isolation(self, name: str) -> Callable[[StateAccess], None]:
        """No key sees what another has put under the same entry key."""

        def check(access: StateAccess) -> None:
            assert access.get_many([b"mine"])[0] in (None, name.encode())
            access.apply([(b"mine", name.encode())])
            assert access.get_many([b"mine"]) == [name.encode()]

        return check

    def _check_mixed(self, access: StateAccess) -> None:
        """The public calls see what ours have written, and the socket is in step for both."""
        access.apply([(b"mixed", b"by us")])
        row = self.entries.getValue((b"mixed",))
        assert row is not None
        assert bytes(row[0]) == b"by us"
        self.entries.updateValue((b"mixed",), (b"by Spark",))
        assert access.get_many([b"mixed", b"none"]) == [b"by Spark", None]
        assert not self.entries.containsKey((b"none",))
        self.entries.removeKey((b"mixed",))
        assert access.get_many([b"mixed"]) == [None]

    def close(self) -> None:
        pass


# the workers cannot import tests: what they run of these modules travels with the query
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
cloudpickle.register_pickle_by_value(state_contract)  # type: ignore[no-untyped-call]


@pytest.fixture(scope="module")
def verdicts(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Verdicts:
    """Two batches over two keys for each access, the second after a restart of the query."""
    by_check: Verdicts = {}
    for kind, pipelined in KINDS.items():
        folder = tmp_path_factory.mktemp(kind)
        checks = CHECKS if pipelined else {**CHECKS, **FEWER}
        for batch in (0, 1):
            by_check.update(run_query(spark, folder, batch, ContractOperator(kind, pipelined, checks)))
    return by_check


def run_query(spark: SparkSession, folder: Path, batch: int, operator: ContractOperator) -> Verdicts:
    (folder / "in").mkdir(exist_ok=True)
    waiting = folder / f"{batch}.json"
    waiting.write_text("".join(f'{{"key": {key}, "batch": {batch}}}\n' for key in (1, 2)))
    waiting.rename(folder / "in" / waiting.name)
    rows: list[Row] = []
    source = spark.readStream.schema("key int, batch int").json(str(folder / "in"))
    states = source.groupBy("key").transformWithState(operator, VERDICTS, "append", "none")
    query = (
        states.writeStream.foreachBatch(lambda frame, _: rows.extend(frame.collect()))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(240)
    return {(row.access, row.batch, row.key, row.check): row.verdict for row in rows}


@pytest.mark.parametrize("check", [*CHECKS, "kind", "isolation", "mixed", "of each"])
@pytest.mark.parametrize("kind", KINDS)
def test_contract(verdicts: Verdicts, kind: str, check: str) -> None:
    for batch in ("0", "1"):
        for key in ("1", "2"):
            assert verdicts[kind, batch, key, check] == "ok"


@pytest.mark.parametrize("kind", KINDS)
def test_entries_are_there_in_the_next_batch(verdicts: Verdicts, kind: str) -> None:
    for key in ("1", "2"):
        assert verdicts[kind, "0", key, "kept"] == "None"
        assert verdicts[kind, "1", key, "kept"] == repr(f"{key} batch 0".encode())


# Without Spark: which access is chosen, and what a server that misbehaves leads to


class NotThatClient:
    _stateName = "entries"


def test_another_pyspark_gets_the_public_calls() -> None:
    assert isinstance(stores_of(NotThatClient()), PublicStores)


def frames(data: bytes) -> Iterator[bytes]:
    """The requests in `data`: version 0, length, message."""
    pos = 0
    while pos < len(data):
        version, length = struct.unpack_from(">ii", data, pos)
        assert version == 0
        yield data[pos + 8 : pos + 8 + length]
        pos += 8 + length


def response(status: int = 0, error: bytes = b"", value: bytes = b"") -> bytes:
    message = StateResponse(statusCode=status, errorMessage=error.decode(), value=value).SerializeToString()
    return struct.pack(">i", len(message)) + message


def exchange(answer: bytes, keys: list[bytes]) -> tuple[list[bytes | None], bytes]:
    """What a get of `keys` of key KEY gives where the server sends `answer` and closes; and what it was sent."""
    ours, theirs = socket.socketpair()
    received = bytearray()

    def serve() -> None:
        with theirs:
            theirs.sendall(answer)
            theirs.shutdown(socket.SHUT_WR)
            while data := theirs.recv(65_536):
                received.extend(data)

    server = threading.Thread(target=serve)
    server.start()
    try:
        got = PipelinedAccess(Pipe(ours, "entries"), PublicAccess(None), KEY).get_many(keys)
    finally:
        ours.close()
        server.join(30)
    return got, bytes(received)


def test_requests_are_sparks_messages() -> None:
    keys = [b"", b"a\x00b", os.urandom(300)]
    got, sent = exchange(response() + response() + response(value=pickle.dumps((b"v",))) + response(), keys)
    assert got == [None, b"v", None]
    first, *rest = [StateRequest.FromString(frame) for frame in frames(sent)]
    assert pickle.loads(first.implicitGroupingKeyRequest.setImplicitKey.key) == (KEY,)
    calls = [request.stateVariableRequest.mapStateCall for request in rest]
    assert [(call.stateName, pickle.loads(call.getValue.userKey)) for call in calls] == [
        ("entries", (key,)) for key in keys
    ]


def test_a_refused_call_is_an_error_with_the_servers_words() -> None:
    with pytest.raises(PipelineError, match="answered 1: no such state"):
        exchange(response(1, b"no such state"), [b"key"])


@pytest.mark.parametrize("answer", [b"", b"\x00\x00", response(value=b"x" * 100)[:-1]])
def test_a_server_that_closes_in_the_middle_is_an_error(answer: bytes) -> None:
    with pytest.raises(PipelineError, match="closed"):
        exchange(answer, [b"key"])
