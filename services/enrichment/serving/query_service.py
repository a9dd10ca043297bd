"""The service Query (proto/moneystate/query/v1/query.proto).

A handler checks the request, reads, and fills the header. Reads that take longer than a point read run in bounded
pieces, so that other calls' point reads can run in between.
"""

from __future__ import annotations

from moneystate.query.v1 import query_pb2 as q
from moneystate.query.v1 import user_pb2
from moneystate.replica.model import NotFound, Page, UserChange
from moneystate.serving import messages, requests
from moneystate.serving.callers import READ_PERSONAL
from moneystate.serving.calls import MAX_ANSWER_BYTES, Call, too_big
from moneystate.serving.failures import Failure, malformed
from moneystate.serving.page_tokens import PageTokens
from moneystate.serving.paging import ITEMS_PER_YIELD, ROOM_BYTES, Pages, fill, note
from services.enrichment.replica.model import UserView
from services.enrichment.replica.reads import Reads, Snapshot
from services.enrichment.serving.messages import REASONS_BY_NUMBER, Messages


class QueryService:
    def __init__(self, reads: Reads, tokens: PageTokens) -> None:
        self.reads = reads
        self.pages = Pages(reads, tokens)

    def get_user(self, request: q.GetUserRequest, call: Call) -> q.GetUserResponse:
        user_id = requests.name(request.user_id, "user_id")
        snapshot = self.pages.pin(request, call)
        user = snapshot.user(user_id)
        note(call, user_id)
        message = Messages(call.caller.personal).user(user)
        return q.GetUserResponse(header=messages.header(snapshot.header), user=message)

    async def batch_get_users(self, request: q.BatchGetUsersRequest, call: Call) -> q.BatchGetUsersResponse:
        wanted = request.user_ids
        if not 1 <= len(wanted) <= requests.MAX_BATCH:
            raise malformed("user_ids", f"expected 1 to {requests.MAX_BATCH} ids, found {len(wanted)}")
        for user_id in wanted:
            requests.name(user_id, "user_ids")
        snapshot = self.pages.pin(request, call)
        answer = q.BatchGetUsersResponse(header=messages.header(snapshot.header))
        to = Messages(call.caller.personal)
        room = MAX_ANSWER_BYTES - ROOM_BYTES - sum(len(u.encode()) + 8 for u in wanted)
        for index, user_id in enumerate(wanted):
            if index and index % ITEMS_PER_YIELD == 0:
                await call.yield_control()
            result = q.UserResult(user_id=user_id, user=_user_or_none(snapshot, user_id, to))
            room -= result.ByteSize()
            if room < 0:
                if not index:
                    raise too_big(user_id, result.ByteSize())
                answer.unanswered_user_ids.extend(wanted[index:])
                break
            if result.HasField("user"):
                note(call, user_id)
            answer.results.append(result)
        return answer

    def get_session(self, request: q.GetSessionRequest, call: Call) -> q.GetSessionResponse:
        session_id = requests.name(request.session_id, "session_id")
        snapshot = self.pages.pin(request, call)
        user_id, session = snapshot.session(session_id)
        note(call, user_id)
        message = Messages(call.caller.personal).session(session)
        return q.GetSessionResponse(header=messages.header(snapshot.header), user_id=user_id, session=message)

    async def list_users(self, request: q.ListUsersRequest, call: Call) -> q.ListUsersResponse:
        for field in ("prefix", "start", "end", "resident_country_code"):
            requests.optional_name(getattr(request, field), field)
        country = request.resident_country_code
        if country:
            call.caller.require(READ_PERSONAL)
        snapshot, after = self.pages.resume(request, call)

        def read(limit: int, after: bytes | None) -> Page[UserView]:
            return snapshot.users(
                prefix=request.prefix, start=request.start, end=request.end, country=country, limit=limit, after=after
            )

        answer = q.ListUsersResponse(header=messages.header(snapshot.header))
        to = Messages(call.caller.personal)
        after = await fill(answer.users, read, to.user, request.page_size, after, call)
        note(call, *(u.user_id for u in answer.users))
        answer.next_page_token = self.pages.next_page(request, (snapshot,), after)
        return answer

    async def list_pending(self, request: q.ListPendingRequest, call: Call) -> q.ListPendingResponse:
        if request.reason and request.reason not in REASONS_BY_NUMBER:
            raise malformed("reason", f"expected a PendingReason, found {request.reason}")
        reason = REASONS_BY_NUMBER[request.reason] if request.reason else None
        snapshot, after = self.pages.resume(request, call)
        answer = q.ListPendingResponse(header=messages.header(snapshot.header))
        to = Messages(call.caller.personal)
        after = await fill(
            answer.pending,
            lambda limit, after: snapshot.pending(reason=reason, limit=limit, after=after),
            to.pending,
            request.page_size,
            after,
            call,
        )
        note(call, *dict.fromkeys(p.user_id for p in answer.pending))
        answer.next_page_token = self.pages.next_page(request, (snapshot,), after)
        return answer

    def explain(self, request: q.ExplainRequest, call: Call) -> q.ExplainResponse:
        subject = request.WhichOneof("subject")
        to = Messages(call.caller.personal)
        if subject == "money_id":
            money_id = requests.name(request.money_id, "money_id")
            snapshot = self.pages.pin(request, call)
            money = snapshot.money(money_id)
            if money.pending is not None:
                note(call, money.user_id)
            return q.ExplainResponse(header=messages.header(snapshot.header), money=to.money(money))
        if subject is None:
            raise malformed("subject", "expected money_id or user_field, found neither")
        user_id = requests.name(request.user_field.user_id, "user_field.user_id")
        field = request.user_field.field
        if field not in (q.USER_FIELD_BIRTH_YEAR, q.USER_FIELD_RESIDENT_COUNTRY_CODE):
            raise malformed("user_field.field", f"expected a UserField, found {field}")
        snapshot = self.pages.pin(request, call)
        user = snapshot.user(user_id)
        known = user.birth_year if field == q.USER_FIELD_BIRTH_YEAR else user.country
        if known is None:
            raise Failure("NOT_FOUND", f"{user_id}: the field is not known at this version")
        note(call, user_id)
        return q.ExplainResponse(header=messages.header(snapshot.header), user_field=to.known(known))

    def diff_user(self, request: q.DiffUserRequest, call: Call) -> q.DiffUserResponse:
        user_id = requests.name(request.user_id, "user_id")
        before, after = self.pages.pin_both(request, call)
        to = Messages(call.caller.personal)
        change = q.UserChange(
            user_id=user_id,
            before=_user_or_none(before, user_id, to),
            after=_user_or_none(after, user_id, to),
        )
        if not change.HasField("before") and not change.HasField("after"):
            raise Failure("NOT_FOUND", f"{user_id}: nothing is known of the user at either version")
        note(call, user_id)
        start = messages.version(before.header.version)
        answer = q.DiffUserResponse(header=messages.header(after.header), change=change)
        getattr(answer, "from").CopyFrom(start)
        return answer

    async def diff(self, request: q.DiffRequest, call: Call) -> q.DiffResponse:
        before, after, mark = self.pages.resume_both(request, call)
        to = Messages(call.caller.personal)
        answer = q.DiffResponse(header=messages.header(after.header))
        getattr(answer, "from").CopyFrom(messages.version(before.header.version))

        def message(change: UserChange[UserView]) -> q.UserChange:
            return q.UserChange(
                user_id=change.user_id,
                before=None if change.before is None else to.user(change.before),
                after=None if change.after is None else to.user(change.after),
            )

        mark = await fill(
            answer.changes,
            lambda limit, mark: self.reads.diff(before, after, limit=limit, mark=mark),
            message,
            request.page_size,
            mark,
            call,
        )
        note(call, *(c.user_id for c in answer.changes))
        answer.next_page_token = self.pages.next_page(request, (before, after), mark)
        return answer


def _user_or_none(snapshot: Snapshot, user_id: str, to: Messages) -> user_pb2.User | None:
    try:
        return to.user(snapshot.user(user_id))
    except NotFound:
        return None
