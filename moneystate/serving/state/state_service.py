"""The service State (proto/moneystate/state/v1/state.proto), all but Watch."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from moneystate.engine.avro import Malformed
from moneystate.errors import ArgumentError, StepError
from moneystate.records.json_text import parse
from moneystate.replica.differences import differences
from moneystate.replica.model import Entry, Item, Page
from moneystate.replica.reader import ReplicaReader
from moneystate.replica.snapshot import Snapshot
from moneystate.runtime import layout
from moneystate.serving import header_messages, requests
from moneystate.serving.callers import READ_PERSONAL
from moneystate.serving.calls import MAX_ANSWER_BYTES, Call, title_of, too_big
from moneystate.serving.failures import Failure, malformed
from moneystate.serving.page_tokens import PageTokens
from moneystate.serving.paging import ITEMS_PER_YIELD, ROOM_BYTES, Pages, check_fits, fill, note
from moneystate.serving.state.calling import QueryRunner
from moneystate.serving.state.contract import Contract, key_of, span
from moneystate.serving.state.record_messages import RecordMessages, shown
from moneystate.state.v1 import state_pb2 as s

STEPS: Final = 100
FRAME_BYTES: Final = 8  # around an item of an answer


class StateService:
    def __init__(self, reader: ReplicaReader, contract: Contract, runner: QueryRunner, tokens: PageTokens) -> None:
        self.reader = reader
        self.contract = contract
        self.runner = runner
        self.pages = Pages(reader, tokens)

    def get(self, request: s.GetRequest, call: Call) -> s.GetResponse:
        key = key_of(request.name.key, "name.key")
        snapshot = self.pages.pin(request, call)
        to = self._messages(snapshot, request, call)
        maps: list[str] = []
        if request.name.state:
            kind, key, id = self.contract.named(snapshot.plan, request.name, "name")
            items = [Item(kind.name, key, id, snapshot.record(kind, key, id))]
        elif request.name.id:
            raise malformed("name.state", "expected the map of the id")
        else:
            items = snapshot.values(key)
            kinds = [kind for kind in snapshot.plan.kinds.values() if self.contract.is_map(kind)]
            maps = [kind.name for kind in kinds if snapshot.may_have_entries(kind, key)]
        items = [item for item in items if item.record is not None]
        if not items and not maps:
            raise Failure("NOT_FOUND", f"{self._title(request.name)}: there is no such record at this version")
        self._note(call, snapshot, items)
        records = [to.item(item) for item in items]
        for record in records:
            check_fits(record)
        return s.GetResponse(header=header_messages.header(snapshot.header), records=records, maps=maps)

    async def batch_get(self, request: s.BatchGetRequest, call: Call) -> s.BatchGetResponse:
        names = request.names
        if not 1 <= len(names) <= requests.MAX_BATCH:
            raise malformed("names", f"expected 1 to {requests.MAX_BATCH} names, found {len(names)}")
        snapshot = self.pages.pin(request, call)
        wanted = [self.contract.named(snapshot.plan, name, "names") for name in names]
        to = self._messages(snapshot, request, call)
        answer = s.BatchGetResponse(header=header_messages.header(snapshot.header))
        room = MAX_ANSWER_BYTES - ROOM_BYTES - sum(name.ByteSize() + 8 for name in names)
        for index, (kind, key, id) in enumerate(wanted):
            if index and index % ITEMS_PER_YIELD == 0:
                await call.yield_control()
            item = Item(kind.name, key, id, snapshot.record(kind, key, id))
            record = to.item(item)
            room -= record.ByteSize()
            if room < 0:
                if not index:
                    raise too_big(title_of(record), record.ByteSize())
                answer.unanswered.extend(names[index:])
                break
            self._note(call, snapshot, [item])
            answer.records.append(record)
        return answer

    async def list_records(self, request: s.ListRequest, call: Call) -> s.ListResponse:
        snapshot, after = self.pages.resume(request, call)
        answer = s.ListResponse(header=header_messages.header(snapshot.header))
        read = self._listing(snapshot, request, call)
        answer.next_page_token = await self._page(answer.records, snapshot, read, request, after, call)
        return answer

    def _listing(
        self, snapshot: Snapshot, request: s.ListRequest, call: Call
    ) -> Callable[[int, bytes | None], Page[Item]]:
        by = request.WhichOneof("by")
        if by == "state":
            if request.HasField("equals") or request.HasField("range"):
                raise malformed("by", "expected an index with equals or range")
            kind = self.contract.kind(snapshot.plan, request.state, "state")
            prefix, start, end = (
                requests.optional_name(getattr(request.keys, name), f"keys.{name}").encode()
                for name in ("prefix", "start", "end")
            )
            return partial(snapshot.keys, kind, prefix, start, end)
        if by is None:
            raise malformed("by", "expected a state or an index, found neither")
        if request.HasField("keys"):
            raise malformed("keys", "expected a state with a range of keys")
        index = self.contract.index(snapshot.plan, request.index, call)
        return partial(snapshot.matching, index, span(request, index))

    async def list_entries(self, request: s.ListEntriesRequest, call: Call) -> s.ListEntriesResponse:
        key = key_of(request.key, "key")
        prefix = requests.optional_name(request.prefix, "prefix").encode()
        snapshot, after = self.pages.resume(request, call)
        kind = self.contract.a_map(snapshot.plan, request.map, "map")
        answer = s.ListEntriesResponse(header=header_messages.header(snapshot.header))
        read = partial(snapshot.entries_of, kind, key, prefix)
        answer.next_page_token = await self._page(answer.records, snapshot, read, request, after, call)
        return answer

    async def list_stored(self, request: s.ListStoredRequest, call: Call) -> s.ListStoredResponse:
        call.caller.require(READ_PERSONAL)  # the original bytes cannot be masked
        snapshot, after = self.pages.resume(request, call)
        rules = json.dumps(snapshot.rules, sort_keys=True)
        answer = s.ListStoredResponse(header=header_messages.header(snapshot.header), rules=rules)

        def read(limit: int, after: bytes | None) -> Page[Entry]:
            return snapshot.entries(limit=limit, after=after)

        after = await fill(answer.entries, read, _stored, request.page_size, after, call)
        owners = dict.fromkeys(layout.owner_of(entry.key) for entry in answer.entries)
        note(call, *(shown(owner) for owner in owners if owner is not None))
        answer.next_page_token = self.pages.next_page(request, (snapshot,), after)
        return answer

    async def _page(
        self,
        into: Any,
        snapshot: Snapshot,
        read: Callable[[int, bytes | None], Page[Item]],
        request: Any,
        after: bytes | None,
        call: Call,
    ) -> str:
        to = self._messages(snapshot, request, call)
        after = await fill(into, read, to.item, request.page_size, after, call)
        self._note_records(call, into)
        return self.pages.next_page(request, (snapshot,), after)

    async def call(self, request: s.CallRequest, call: Call) -> s.CallResponse:
        query = self.contract.query(request.query, call)
        try:
            arguments = query.parse_arguments(request.arguments)
            unknown = query.unknown(set(parse(request.arguments or "{}")))
        except Malformed as e:
            raise malformed("arguments", f"{query.name}: {e}") from None
        if unknown:
            raise malformed("arguments", f"{query.name}: there is no argument {', '.join(sorted(unknown))}")
        snapshot = self.pages.pin(request, call)
        try:
            value = await self.runner.run(snapshot, call, lambda view: query.function(view, **arguments))
        except ArgumentError as e:
            raise malformed("arguments", f"{query.name}: {e}") from None
        except Malformed as e:
            raise Failure("UNREADABLE", f"{query.name}: expected records that can be decoded, but {e}") from None
        try:
            result = self._messages(snapshot, request, call).result(query, value)
        except StepError:  # its text may have the value
            raise Failure(
                "UNREADABLE", f"{query.name}: expected a result as declared, found a value that it cannot have"
            ) from None
        answer = s.CallResponse(header=header_messages.header(snapshot.header), result=result)
        if answer.ByteSize() > MAX_ANSWER_BYTES:
            raise too_big(f"the result of {query.name}", answer.ByteSize())
        if call.caller.personal and (query.result.personal or query.name in self.contract.personal_queries):
            call.touched.append(f"query {query.name}")
        return answer

    async def diff(self, request: s.DiffRequest, call: Call) -> s.DiffResponse:
        before, after, mark = self.pages.resume_both(request, call)
        to = self._messages(after, request, call)
        answer = s.DiffResponse(header=header_messages.header(after.header))
        getattr(answer, "from").CopyFrom(header_messages.version(before.header.version))
        mark = await fill(
            answer.changes,
            partial(differences, before, after),
            to.change,
            request.page_size,
            mark,
            call,
        )
        self._note_records(call, [c.after for c in answer.changes])
        answer.next_page_token = self.pages.next_page(request, (before, after), mark)
        return answer

    def explain(self, request: s.ExplainRequest, call: Call) -> s.ExplainResponse:
        snapshot = self.pages.pin(request, call)
        kind, key, id = self.contract.named(snapshot.plan, request.name, "name")
        steps = self.reader.steps(key, kind, id, snapshot, STEPS)
        if not steps:
            raise Failure(
                "NOT_FOUND",
                f"{self._title(request.name)}: there is no such record in the versions that the replica has",
            )
        to = self._messages(snapshot, request, call)
        answer = s.ExplainResponse(header=header_messages.header(snapshot.header))
        room = MAX_ANSWER_BYTES - ROOM_BYTES
        for step in steps:
            item = Item(kind.name, key, id, step.record)
            told = s.Step(
                header=None if step.header is None else header_messages.header(step.header),
                from_watermark_ms=step.before_ms,
                record=to.item(item),
            )
            check_fits(told.record)
            room -= told.ByteSize() + FRAME_BYTES
            if room < 0:
                answer.more = True
                break
            self._note(call, snapshot, [item])
            answer.steps.append(told)
        for t in snapshot.timers(key, STEPS):
            timer = s.Timer(name=t.name, id=shown(t.id), due_ms=t.due_ms, set_by=header_messages.source(t.source))
            room -= timer.ByteSize() + FRAME_BYTES
            if room < 0:
                answer.more = True
                break
            answer.timers.append(timer)
        return answer

    def get_schema(self, _: s.GetSchemaRequest, call: Call) -> s.GetSchemaResponse:
        return self.contract.schema()

    def _title(self, name: s.RecordName) -> str:
        """The record in an error. Of a map it says that no id is the empty one."""
        kind = self.contract.plan.kinds.get(name.state)
        if kind is None or not self.contract.is_map(kind):
            return name.key or '""'
        return f"{name.state}, key {name.key or chr(34) * 2}, id {name.id or chr(34) * 2}"

    def _messages(self, snapshot: Snapshot, request: Any, call: Call) -> RecordMessages:
        return RecordMessages(snapshot.plan, call.caller.personal, request.encoding, call.note_unreadable)

    def _note(self, call: Call, snapshot: Snapshot, items: list[Item]) -> None:
        """Records keys whose personal fields are returned."""
        for item in items:
            if item.record is not None and snapshot.plan.kinds[item.state].codec.personal:
                note(call, shown(item.owner))

    def _note_records(self, call: Call, records: Any) -> None:
        kinds = self.contract.plan.kinds
        keys = [r.name.key for r in records if kinds[r.name.state].codec.personal]
        note(call, *dict.fromkeys(keys))


def _stored(entry: Entry) -> s.StoredEntry:
    return s.StoredEntry(key=entry.key, value=entry.value)
