"""The calls of `moneystate.state.v1` over a bench's state, without a server: real files of a replica, real handlers."""

from __future__ import annotations

import asyncio
import inspect
import tempfile
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

from moneystate.replica import files
from moneystate.replica.applying import Applier
from moneystate.replica.loading import Loader
from moneystate.replica.model import Version
from moneystate.replica.reader import ReplicaReader
from moneystate.replica.store import Store
from moneystate.replica.transaction_assembler import BatchSlice, End, change_of
from moneystate.rpc.context import Context
from moneystate.runtime.plan import Plan
from moneystate.runtime.replica_model import ReplicaModel
from moneystate.serving.callers import READ, READ_PERSONAL, Caller
from moneystate.serving.calls import Call
from moneystate.serving.feed import Feed
from moneystate.serving.page_tokens import PageTokens
from moneystate.serving.state.calling import QueryRunner
from moneystate.serving.state.contract import Contract
from moneystate.serving.state.state_service import StateService
from moneystate.serving.state.watching import StateWatch
from moneystate.state.v1 import state_pb2 as s
from moneystate.testing import Bench

METHODS = {
    "Get": "get", "BatchGet": "batch_get", "List": "list_records", "ListEntries": "list_entries", "Call": "call",
    "Diff": "diff", "Explain": "explain", "GetSchema": "get_schema",
}  # fmt: skip


class BenchReplica(ReplicaModel):
    """The replica of a service that no module declares."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(f"{plan.name} of a test")
        self.plan = plan

    def plan_at(self, rules: Mapping[str, Any]) -> Plan:
        return self.plan


class Served:
    """`update` publishes the bench's state as a version. `call` is that of `moneystate.serving.client.Client`."""

    def __init__(self, bench: Bench, *, personal: bool = True) -> None:
        self.bench = bench
        self.model = BenchReplica(bench.plan)
        self.folder = tempfile.TemporaryDirectory(prefix="moneystate-test-")
        name = files.begin_generation(self.folder.name)
        self.store = Store(files.open_primary(self.folder.name, name), self.model)
        Loader(self.store).finish({}, 1, 1, {0: 0})
        self.applier = Applier(self.store)
        self.reader = ReplicaReader(self.model, self.store.db)
        self.runner = QueryRunner()
        self.contract = Contract(bench.plan)
        self.service = StateService(self.reader, self.contract, self.runner, PageTokens(b"k" * 32))
        self.caller = Caller("someone", "ipv4:127.0.0.1:1", frozenset({READ, READ_PERSONAL} if personal else {READ}))
        self.now: dict[bytes, bytes] = {}
        self.batch = 0
        self.calls: list[Call] = []
        self.target = SimpleNamespace(address="memory")
        self.update()

    def update(self) -> None:
        after = dict(self.bench.entries())
        changed = [(key, after.get(key)) for key in sorted({*self.now, *after}) if self.now.get(key) != after.get(key)]
        self.now = after
        self.put(changed)

    def put(self, changed: list[tuple[bytes, bytes | None]]) -> None:
        """Publishes changes of the changelog as the next version."""
        end = End(Version("e", self.batch), 1_000 + self.batch, (0,), 1, None, 1_000 + self.batch, 1, {})
        changes = [change_of(key, value, self.model) for key, value in changed]
        self.applier.apply(BatchSlice(end, changes, 0, self.batch, self.batch + 1), exact=True)
        self.batch += 1
        self.reader.refresh()

    def call(self, name: str, request: Any) -> Any:
        """Raises Failure."""
        call = Call(self.caller, cast(Context, SimpleNamespace(time_remaining=lambda: 60.0)))
        self.calls.append(call)
        answer = getattr(self.service, METHODS[name.removeprefix("State.")])(request, call)
        return asyncio.run(answer) if inspect.iscoroutine(answer) else answer

    def watched(self, after: int, key: str | None = None) -> list[s.WatchResponse]:
        """The answers of a watch up to the newest version."""
        watch = StateWatch(self.reader, Feed(self.reader))

        async def read() -> list[s.WatchResponse]:
            call = Call(self.caller, cast(Context, SimpleNamespace(time_remaining=lambda: 60.0)))
            request = s.WatchRequest(key=key)
            request.after.epoch, request.after.batch = "e", after
            feeding = asyncio.create_task(watch.feed.run())
            answers: list[s.WatchResponse] = []
            try:
                async for encoded in watch.watch(request, call):
                    answers.append(s.WatchResponse.FromString(encoded))
                    if answers[-1].header.version.batch == self.batch - 1 and not answers[-1].more:
                        return answers
            finally:
                feeding.cancel()
            return answers

        return asyncio.run(read())

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_: object) -> None:
        self.runner.close()
        self.store.close()
        self.folder.cleanup()
