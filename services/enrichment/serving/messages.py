"""The replica's answers as protobuf messages. Personal fields are masked here and nowhere else."""

from __future__ import annotations

from typing import Final

from moneystate.query.v1 import query_pb2, user_pb2
from moneystate.replica.model import Source
from moneystate.serving.messages import Fields, source
from services.enrichment.replica import model

REASONS: Final = {
    model.Reason.WAITING: user_pb2.PENDING_REASON_WAITING_FOR_SESSION,
    model.Reason.LATE: user_pb2.PENDING_REASON_LOOKUP_LATE,
    model.Reason.OLD: user_pb2.PENDING_REASON_LOOKUP_OLD,
    model.Reason.SESSION_MISSING: user_pb2.PENDING_REASON_LOOKUP_SESSION_MISSING,
}
REASONS_BY_NUMBER: Final = {number: reason for reason, number in REASONS.items()}
OUTCOMES: Final = {
    "FOUND": user_pb2.LOOKUP_OUTCOME_FOUND,
    "NOT_FOUND": user_pb2.LOOKUP_OUTCOME_NOT_FOUND,
    "FAILED": user_pb2.LOOKUP_OUTCOME_FAILED,
}
PLACES: Final = {
    model.Where.WAITING: query_pb2.MONEY_WHERE_WAITING,
    model.Where.LOOKING_UP: query_pb2.MONEY_WHERE_LOOKING_UP,
    model.Where.SEEN: query_pb2.MONEY_WHERE_SEEN,
    model.Where.PUT_OUT: query_pb2.MONEY_WHERE_PUT_OUT,
}
ROLES: Final = {
    "money": query_pb2.ORIGIN_ROLE_MONEY,
    "session": query_pb2.ORIGIN_ROLE_SESSION,
    "birthYear": query_pb2.ORIGIN_ROLE_BIRTH_YEAR,
    "residentCountryCode": query_pb2.ORIGIN_ROLE_RESIDENT_COUNTRY_CODE,
    "firstOfType": query_pb2.ORIGIN_ROLE_FIRST_OF_TYPE,
    "reply": query_pb2.ORIGIN_ROLE_REPLY,
}


class Messages:
    """The messages for one caller."""

    def __init__(self, personal: bool) -> None:
        self.personal = personal  # the caller may read personal fields

    def known(self, value: model.Known | None) -> Fields | None:
        return None if value is None else self.text(value.value, value.source)

    def text(self, value: str | None, origin: Source | None = None) -> Fields | None:
        """A PersonalText."""
        if value is None:
            return None
        if self.personal:
            return {"value": value, "source": source(origin)}
        return {"masked": True, "source": source(origin)}

    def user(self, view: model.UserView) -> user_pb2.User:
        return user_pb2.User(
            user_id=view.user_id,
            birth_year=self.known(view.birth_year),
            resident_country_code=self.known(view.country),
            money_types=[{"type": t.type, "source": source(t.source)} for t in view.money_types],
            sessions=[self.session(s) for s in view.sessions],
            seen_money=[
                {"money_id": m.id, "seen_at_ms": m.seen_at_ms, "source": source(m.source)} for m in view.seen_money
            ],
            waiting=[self.pending(p) for p in view.waiting],
            looking_up=[self.pending(p) for p in view.looking_up],
            replies=[self.reply(r) for r in view.replies],
            schema_versions=view.schema_versions,
        )

    def session(self, session: model.Session) -> Fields:
        """A Session."""
        return {
            "session_id": session.id,
            "client_country_code": self.text(session.country),
            "expires_ms": session.expires_ms,
            "source": source(session.source),
        }

    def pending(self, money: model.Pending) -> user_pb2.PendingMoney:
        return user_pb2.PendingMoney(
            user_id=money.user_id,
            money_id=money.money_id,
            session_id=money.session_id,
            reason=REASONS[money.reason],
            order_time_ms=money.order_time_ms,
            requested_at_ms=money.requested_at_ms,
            first_occurrence=money.first_occurrence,
            amount=money.amount,
            currency=money.currency,
            money_type=money.money_type,
            birth_year=self.known(money.birth_year),
            resident_country_code=self.known(money.country),
            source=source(money.source),
        )

    def reply(self, reply: model.KeptReply) -> user_pb2.KeptReply:
        return user_pb2.KeptReply(
            money_id=reply.money_id,
            requested_at_ms=reply.requested_at_ms,
            outcome=OUTCOMES[reply.outcome],
            client_country_code=self.text(reply.country),
            source=source(reply.source),
        )

    def money(self, view: model.MoneyView) -> query_pb2.MoneyExplained:
        return query_pb2.MoneyExplained(
            money_id=view.money_id,
            user_id=view.user_id,
            where=PLACES[view.where],
            pending=None if view.pending is None else self.pending(view.pending),
            enriched=source(view.enriched),
            origins=[query_pb2.Origin(role=ROLES[role], source=source(origin)) for role, origin in view.origins],
        )
