"""What a record or the timer does to its stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import moneystate as ms
from services.sequencing import digests
from services.sequencing import records as r
from services.sequencing.config import Config
from services.sequencing.missing import Missing

MOST: Final = (1 << 63) - 2  # the number after it must fit into 64 bits, too


@dataclass
class Sequencer:
    """One step. `passed`: the digests of what went out."""

    ctx: ms.Context[Config]
    outputs: Mapping[type, ms.Output[Any]]
    timer: ms.Timer
    stream: r.Stream
    held: ms.Entries[r.Held]
    clocks: ms.Entries[r.Clock]
    numbers: ms.Entries[ms.Packed]
    passed: ms.Entries[ms.Packed]

    def __post_init__(self) -> None:
        self.rules = self.ctx.rules
        self.missing = Missing(self.stream, self.numbers)

    def emit(self, record: Any) -> None:
        self.ctx.emit(self.outputs[type(record)], record)

    def record(self, e: Any) -> None:
        s = self.stream
        STEPS[type(e)](self, e)
        self.advance(self.ctx.now - 1)
        if s.held > self.rules.max_held and not s.held_limit:  # rule 9
            s.held_limit = True
            self.emit(r.HeldLimit(self.ctx.key, s.held))
        if self.rules.idle_retention_ms is not None and not s.ended:
            s.forget_at = self.ctx.now + self.rules.idle_retention_ms
            self.arm(s.forget_at)

    # Events

    def event(self, e: r.StreamEvent) -> None:
        s = self.stream
        check(1 <= e.seq <= MOST)
        if s.last is not None and (e.seq > s.last or s.ended):
            self.ctx.count("after_close")
            if not s.ended:
                self.emit(r.AfterClose(e.stream, e.seq, e))
        elif e.seq < s.next:
            self.come_late(e)
        elif e.seq > s.next or s.parked or not self.put_out(e):
            self.hold(e)

    def come_late(self, e: r.StreamEvent) -> None:
        """Rule 2."""
        first = digests.digest_at(self.passed, e.seq)
        if first is not None:
            over_at = first[0] + self.rules.digest_retention_ms
            self.come_again(e, self.ctx.now > over_at or first[1] == digests.digest_of(e))
        elif self.missing.passed_by.holds(e.seq, self.stream.next):
            self.emit(r.LateAfterSkip(e.stream, e.seq, e))
        else:
            self.ctx.count("duplicates")

    def come_again(self, e: r.StreamEvent, same: bool) -> None:
        if same:
            self.ctx.count("duplicates")
        else:
            self.emit(r.SequenceConflict(e.stream, e.seq, e))

    def hold(self, e: r.StreamEvent) -> None:
        """Rule 3."""
        first = self.held.get(str(e.seq))
        if first is None:
            self.held.put(str(e.seq), r.Held(e))
            self.missing.held.add(e.seq)
            self.stream.held += 1
            self.know(e.seq - 1, e.seq)
        else:
            self.come_again(e, (first.event.event_id, first.event.body) == (e.event_id, e.body))

    def let_go(self, seq: int) -> None:
        self.held.delete(str(seq))
        self.missing.held.discard(seq)
        self.stream.held -= 1

    # Other records

    def open(self, e: r.StreamOpened) -> None:
        """Rule 3."""
        s = self.stream
        check(1 <= e.first <= MOST)
        if s.opened or s.next > 1 or s.ended:
            raise ms.Reject("already_begun")
        s.opened = True
        before = self.clipped(e.first - 1)
        for seq in self.missing.held.between(1, before):
            self.emit(r.LateAfterSkip(self.ctx.key, seq, self.held[str(seq)].event))
            self.let_go(seq)
        if before:
            self.pass_by(1, before)

    def poison(self, e: r.Poisoned) -> None:
        """Rule 6."""
        self.unavailable(r.EventsUnavailable(e.stream, e.seq, e.seq, e.time))
        self.ctx.dead_letter("poison")

    def unavailable(self, e: r.EventsUnavailable) -> None:
        """Rule 5. Those of the numbers that are held stay held."""
        s = self.stream
        check(1 <= e.from_ <= e.to <= MOST)
        from_, to = max(e.from_, s.next), self.clipped(e.to)
        if from_ <= to:
            self.missing.void.add(from_, to, s.void_to)
            s.void_to = max(s.void_to, to)

    def skip(self, e: r.SkipGap) -> None:
        """Rule 5."""
        check(1 <= e.up_to <= MOST)
        self.stream.skip_to = max(self.stream.skip_to, self.clipped(e.up_to))

    def resume(self, e: r.Resume) -> None:
        """Rule 7: the clocks of all gaps begin again."""
        s = self.stream
        if s.parked:
            s.allowed = s.next if s.parked == "violation" else 0
            s.parked = ""
            while s.first_clock < s.next_clock:
                self.drop_clock()
            known, s.known, s.stalled_to = s.known, 0, 0
            self.know(known, known)

    def close(self, e: r.StreamClosed) -> None:
        """Rule 8."""
        s = self.stream
        check(0 <= e.last <= MOST)
        if s.last is None:
            if e.last < max(s.next - 1, s.known, s.void_to, s.skip_to):
                raise ms.Reject("last_too_low")
            self.know(e.last, e.last)
            s.last = e.last
            s.close_at = self.ctx.now + self.rules.closed_wait_ms
            self.arm(s.close_at)

    def clipped(self, number: int) -> int:
        return number if self.stream.last is None else min(number, self.stream.last)

    # What goes out

    def advance(self, until: int) -> None:
        """Put out what can go out, and give up first gaps whose time was over by `until` (rule 4)."""
        s = self.stream
        self.drain()
        while (due := self.over_at()) is not None and due <= until:
            from_, to = next(self.missing.gaps(s.next, s.known))
            if self.rules.policy == "stall":
                s.stalled_to = to
                self.emit(r.StreamStalled(self.ctx.key, from_, to))
            elif self.rules.policy == "park":
                self.park("gap")
            else:
                s.skip_to = to
                self.drain()
        if due is not None:
            self.arm(max(due, self.ctx.now))

    def drain(self) -> None:
        s = self.stream
        before = s.next
        while not s.parked:
            held = self.held.get(str(s.next)) if s.held else None
            if held is not None:
                if self.put_out(held.event):
                    self.let_go(held.event.seq)
            elif not self.pass_run():
                break
        if s.next > before:
            self.missing.void.remove_up_to(s.next - 1)
        if s.last is not None and s.next > s.last and not s.parked and not s.ended:
            self.emit(r.StreamEnded(self.ctx.key, s.last))
            self.missing.passed_by.remove_up_to(s.last)
            s.ended, s.close_at = True, None
            s.forget_at = self.ctx.now + self.rules.closed_retention_ms  # rule 8: till then the stream is a mark
            self.arm(s.forget_at)

    def put_out(self, e: r.StreamEvent) -> bool:
        """False where it parks the stream (rule 10)."""
        s, violates = self.stream, []
        if self.rules.follows:
            member = e.body.members().get(self.rules.follows_field)
            value = member.value() if member is not None and member.text.startswith('"') else None
            if s.previous is not None and value not in self.rules.follows[s.previous]:
                violates = [s.previous]
                if self.rules.violation == "park" and s.allowed != e.seq:
                    self.park("violation")
                    return False
            s.previous = value if value in self.rules.follows else None
        self.emit(r.Sequenced(e.stream, e.seq, e.event_id, e.body, e.time, violates))
        digests.keep(self.passed, e, self.ctx.now)
        s.next = e.seq + 1
        return True

    def pass_run(self) -> bool:
        """Whether `next` was void or skipped, and so was passed with those after it (rule 5)."""
        s, missing = self.stream, self.missing
        void = missing.void_from(s.next)
        if void is not None and void.first <= s.next:
            numbers = next(ms.uncovered(s.next, void.last, missing.held_from))
            self.emit(r.GapVoid(self.ctx.key, *numbers))
        elif s.next <= s.skip_to:
            numbers = next(ms.uncovered(s.next, s.skip_to, missing.held_from, missing.void_from))
            self.emit(r.GapSkipped(self.ctx.key, *numbers))
        else:
            return False
        self.pass_by(*numbers)
        return True

    def pass_by(self, from_: int, to: int) -> None:
        self.missing.passed_by.add(from_, to, self.stream.next)
        self.stream.next = to + 1
        self.stream.previous = None

    def park(self, reason: Literal["gap", "violation"]) -> None:
        self.stream.parked = reason
        self.emit(r.StreamParked(self.ctx.key, reason))

    # Clocks of gaps (rule 4). Numbers become known in their order, so the clocks are a queue for each attempt.

    def know(self, to: int, known: int) -> None:
        """The missing ones of the numbers up to `to` are known from now on."""
        s = self.stream
        from_ = max(s.known + 1, s.next)
        s.known = max(s.known, known)
        if from_ <= to:
            self.clocks.put(str(s.next_clock), r.Clock(from_, to, self.ctx.now))
            s.asked = s.asked or [s.next_clock] * self.rules.k
            s.next_clock += 1
            self.arm(self.ctx.now + (self.rules.g1_ms if self.rules.k else self.rules.g2_ms))

    def drop_clock(self) -> None:
        s = self.stream
        self.clocks.delete(str(s.first_clock))
        s.first_clock += 1
        s.asked = [max(number, s.first_clock) for number in s.asked]
        if s.first_clock == s.next_clock:
            s.first_clock, s.next_clock, s.asked = 0, 0, []

    def over_at(self) -> int | None:
        """When the first gap has been waited for long enough; None: there is none, or it was dealt with."""
        s = self.stream
        while s.first_clock < s.next_clock and self.clocks[str(s.first_clock)].to < s.next:
            self.drop_clock()
        if s.parked or s.first_clock == s.next_clock or s.next <= s.stalled_to:
            return None
        return self.clocks[str(s.first_clock)].since + self.rules.g2_ms

    def request(self) -> None:
        s, due = self.stream, []
        for n, number in enumerate(s.asked[: self.rules.k]):
            start = self.ctx.now - (n + 1) * self.rules.g1_ms
            while number < s.next_clock and (clock := self.clocks[str(number)]).since <= start:
                due += [(*gap, n + 1) for gap in self.missing.gaps(clock.from_, clock.to)]
                number += 1
            s.asked[n] = number
        for gap in sorted(due):
            self.emit(r.EventsRequested(self.ctx.key, *gap))

    # Time: one timer, which is never later than what is due next

    def arm(self, due: int) -> None:
        if self.stream.timer is None or due < self.stream.timer:
            self.stream.timer = due
            self.ctx.at(self.timer, due)

    def tick(self) -> None:
        s, now = self.stream, self.ctx.now
        s.timer = None
        if not s.parked:
            self.request()
        self.advance(now)
        if s.close_at is not None and s.close_at <= now:
            s.close_at = None
            s.skip_to = s.known
            self.advance(now)
        gone_at = None if s.held else s.forget_at  # rules 8 and 9
        if gone_at is not None and gone_at <= now:
            self.ctx.forget()
            return
        dues = [gone_at, s.close_at, self.over_at()]
        if not s.parked:
            pending = [(n, number) for n, number in enumerate(s.asked[: self.rules.k], 1) if number < s.next_clock]
            dues += [self.clocks[str(number)].since + n * self.rules.g1_ms for n, number in pending]
        for due in [due for due in dues if due is not None]:
            self.arm(due)


def check(right: bool) -> None:
    if not right:
        raise ms.Reject("out_of_bounds")


STEPS: Final[dict[type, Callable[[Sequencer, Any], None]]] = {
    r.StreamEvent: Sequencer.event,
    r.EventsUnavailable: Sequencer.unavailable,
    r.StreamOpened: Sequencer.open,
    r.SkipGap: Sequencer.skip,
    r.Resume: Sequencer.resume,
    r.StreamClosed: Sequencer.close,
    r.Poisoned: Sequencer.poison,
}
