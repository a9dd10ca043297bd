"""The call Query.ListEntries: the stored entries of the state, for comparisons."""

from __future__ import annotations

from moneystate.query.v1 import query_pb2 as q
from moneystate.replica.model import Entry
from moneystate.replica.rows import text
from moneystate.serving import messages, requests
from moneystate.serving.callers import READ_PERSONAL
from moneystate.serving.calls import Call
from moneystate.serving.page_tokens import PageTokens
from moneystate.serving.paging import Pages, fill, note
from services.enrichment.replica.reads import Reads
from services.enrichment.state import owner_of


class Entries:
    def __init__(self, reads: Reads, tokens: PageTokens) -> None:
        self.pages = Pages(reads, tokens)

    async def list_entries(self, request: q.ListEntriesRequest, call: Call) -> q.ListEntriesResponse:
        requests.optional_name(request.prefix, "prefix")
        call.caller.require(READ_PERSONAL)  # the entries' original bytes cannot be masked
        snapshot, after = self.pages.resume(request, call)
        answer = q.ListEntriesResponse(header=messages.header(snapshot.header))
        after = await fill(
            answer.entries,
            lambda limit, after: snapshot.entries(prefix=request.prefix, limit=limit, after=after),
            _message,
            request.page_size,
            after,
            call,
        )
        users = dict.fromkeys(owner_of(entry.key) for entry in answer.entries)
        note(call, *(text(user) for user in users if user is not None))
        answer.next_page_token = self.pages.next_page(request, (snapshot,), after)
        return answer


def _message(entry: Entry) -> q.Entry:
    return q.Entry(key=entry.key, value=entry.value)
