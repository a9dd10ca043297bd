"""What a record or a timer does to its id. docs/joining.md has the rules, under the same numbers."""

from __future__ import annotations

from dataclasses import dataclass

import moneystate as ms
from services.joining.config import Config
from services.joining.content import Status, content_of, digest_of_content
from services.joining.records import Cancelled, Joined, KeptPart, KeptRequest, Part, PartsRequested, Result
from services.joining.rules import expected_of, keep, present, status_at


@dataclass(frozen=True)
class Steps:
    joined: ms.Output[Joined]
    waited: ms.Timer
    ends: ms.Timer
    forgotten: ms.Timer

    def take_part(self, ctx: ms.Context[Config], e: Part, result: Result) -> None:
        new = KeptPart(e.produced_at, present(e.body), present(e.error))
        if (new.body is None) == (new.error is None):
            raise ms.Reject("body_or_error", "expected a body or an error")
        check_known(ctx, [e.service])
        if self.is_open(ctx, result):
            result.parts[e.service], repeated = keep(result.parts.get(e.service), new)
            self.show(ctx, result, repeated)

    def take_request(self, ctx: ms.Context[Config], e: PartsRequested, result: Result) -> None:
        check_known(ctx, e.services or [])
        if self.is_open(ctx, result):
            result.request, repeated = keep(result.request, KeptRequest(e.requested_at, e.services, present(e.body)))
            self.show(ctx, result, repeated)

    def cancel(self, ctx: ms.Context[Config], e: Cancelled, result: Result) -> None:
        """Rule 4."""
        if self.is_open(ctx, result):
            result.missing = missing_of(ctx, result)
            self.put(ctx, result, "CANCELLED")
            ctx.cancel(self.waited)
            ctx.cancel(self.ends)
            self.end(ctx, result)

    def show_partial(self, ctx: ms.Context[Config], result: Result) -> None:
        """Rule 3, at t0 + wait."""
        if result.missing:
            self.put(ctx, result, "PARTIAL")

    def end(self, ctx: ms.Context[Config], result: Result) -> None:
        """Rule 4: a mark is all that is kept, with the revision, which says whether the id is in the topic."""
        result.first_at, result.ended_at = None, ctx.now
        result.parts, result.request, result.missing, result.content = {}, None, [], b""
        ctx.at(self.forgotten, ctx.now + ctx.rules.mark_ms)

    def forget(self, ctx: ms.Context[Config], result: Result) -> None:
        """Rule 4, at the end of the mark."""
        if ctx.rules.tombstones and result.revision > 0:
            ctx.remove(self.joined, ctx.key)
        result.ended_at, result.revision = None, 0

    def is_open(self, ctx: ms.Context[Config], result: Result) -> bool:
        """Rules 3 and 4: the first record of an id begins it; after its end, records are counted."""
        if result.ended_at is not None:
            ctx.count("late_parts")
            return False
        if result.first_at is None:
            result.first_at = ctx.now
            if ctx.rules.partial == "emit":
                ctx.at(self.waited, ctx.now + ctx.rules.wait_ms)
            ctx.at(self.ends, ctx.now + ctx.rules.retention_ms)
        return True

    def show(self, ctx: ms.Context[Config], result: Result, repeated: bool) -> None:
        """Rule 3, after each record."""
        if repeated:
            ctx.count("duplicates")
        result.missing = missing_of(ctx, result)
        status = status_at(ctx.now, result, ctx.rules)
        if status is not None:
            self.put(ctx, result, status)

    def put(self, ctx: ms.Context[Config], result: Result, status: Status) -> None:
        """Rule 3: a content is put out where it is not the one that was put out last."""
        content = content_of(ctx.key, status, expected_of(result, ctx.rules), result, result.revision + 1)
        digest = digest_of_content(content)
        if digest != result.content:
            result.content = digest
            result.revision += 1
            ctx.emit(self.joined, content)


def check_known(ctx: ms.Context[Config], named: list[str]) -> None:
    """Rule 1."""
    for name in named:
        if name not in ctx.rules.services:
            raise ms.Reject("unknown_service", name)


def missing_of(ctx: ms.Context[Config], result: Result) -> list[str]:
    return [name for name in expected_of(result, ctx.rules) if name not in result.parts]
