"""What a record or the timer does to its stream."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal

import moneystate as ms
from services.sequencing import records as r
from services.sequencing.config import Config

MOST: Final = (1 << 63) - 2  # the number after it must fit into 64 bits, too
DIGEST: Final = struct.Struct(">q8s")  # when the event went out, and its digest
NONE: Final = b"\x80"  # instead, where none did; as a time it is before all others
DIGESTS: Final = 32  # of an entry


def held_id(seq: int) -> str:  # in the order of the numbers
    return f"{seq:019}"


def digest_of(e: r.StreamEvent) -> bytes:
    return hashlib.sha256(f"{len(e.event_id)}:{e.event_id}{e.body.text}".encode()).digest()[:8]


def check(right: bool) -> None:
    if not right:
        raise ms.Reject("out_of_bounds")


@dataclass
class Sequencer:
    """One step. `passed`: the digests of what went out, many to an entry."""

    ctx: ms.Context[Config]
    outputs: Mapping[type, ms.Output[Any]]
    timer: ms.Timer
    stream: r.Stream
    held: ms.Entries[r.Held]
    numbers: ms.Entries[ms.Packed]
    of_runs: ms.Entries[r.Run]
    passed: ms.Entries[ms.Packed]

    def __post_init__(self) -> None:
        self.runs = ms.RangeMap("r", self.numbers, self.of_runs, self.stream.top)
        self.end = MOST if self.stream.last is None else self.stream.last

    def emit(self, record: Any) -> None:
        self.ctx.emit(self.outputs[type(record)], record)

    def record(self, e: Any) -> None:
        s, rules = self.stream, self.ctx.rules
        if not s.ended:
            self.stay()
        STEPS[type(e)](self, e)
        self.advance(self.ctx.now - 1)
        if s.held > rules.max_held and not s.held_limit:  # rule 9
            s.held_limit = True
            self.emit(r.HeldLimit(self.ctx.key, s.held))

    def stay(self) -> None:  # rule 9
        if self.ctx.rules.idle_retention_ms is not None:
            self.stream.forget_at = self.ctx.now + self.ctx.rules.idle_retention_ms

    def event(self, e: r.StreamEvent) -> None:
        s = self.stream
        check(1 <= e.seq <= MOST)
        if s.last is not None and (e.seq > s.last or s.ended):
            self.ctx.count("after_close")
            finding = r.AfterClose if e.seq > s.last else self.late_finding(e)
            if finding is not None:
                self.emit(finding(e.stream, e.seq, e))
        elif e.seq < s.next:
            self.report(self.late_finding(e), e)
        elif s.parked or e.seq > s.next or s.next <= max(s.known, s.top) or not self.put_out(e):
            self.hold(e)

    def late_finding(self, e: r.StreamEvent) -> type[r.Unused] | None:  # rule 2
        """Returns the finding about an event whose number was passed, or None if the event went out."""
        run = self.runs.at_or_after(e.seq)
        if run is not None and run.first <= e.seq:
            return r.LateAfterSkip
        entry = self.passed.get(str(e.seq // DIGESTS))
        if entry is None:
            return r.AfterRetention
        passed_ms, digest = DIGEST.unpack_from(entry.packed, e.seq % DIGESTS * DIGEST.size)
        if self.ctx.now > passed_ms + self.ctx.rules.digest_retention_ms:
            return r.AfterRetention
        return None if digest == digest_of(e) else r.SequenceConflict

    def report(self, finding: type[r.Unused] | None, e: r.StreamEvent) -> None:
        if finding is None:
            self.ctx.count("duplicates")
        else:
            self.emit(finding(e.stream, e.seq, e))

    def hold(self, e: r.StreamEvent) -> None:  # rule 3
        s = self.stream
        first = self.held.get(held_id(e.seq)) if e.seq <= s.known else None
        if first is not None:
            self.report(None if digest_of(first.event) == digest_of(e) else r.SequenceConflict, e)
        else:
            self.held.put(held_id(e.seq), r.Held(e))
            s.held += 1
            self.runs.cut(e.seq, e.seq)
            self.know(e.seq - 1)
            s.known = max(s.known, e.seq)

    def let_go(self, seq: int) -> None:
        self.held.delete(held_id(seq))
        self.stream.held -= 1

    def open(self, e: r.StreamOpened) -> None:  # rule 3
        s = self.stream
        check(1 <= e.first <= MOST)
        if s.opened or s.next > 1 or s.ended:
            raise ms.Reject("already_begun")
        s.opened, before = True, min(e.first - 1, self.end)
        for first, last in self.runs.uncovered(1, min(before, s.known)):
            for seq in range(first, last + 1):
                self.emit(r.LateAfterSkip(self.ctx.key, seq, self.held[held_id(seq)].event))
                self.let_go(seq)
        if before > 0:
            self.runs.cut(1, before)
            self.runs.put(r.Run(1, before, "skipped"))
            s.next = before + 1

    def restart(self, e: r.StreamRestarted) -> None:  # rule 11
        s = self.stream
        check(1 <= e.first <= MOST)
        if s.restarted is not None and e.time <= s.restarted:
            raise ms.Reject("already_restarted")
        if not s.ended:
            self.finish(e)
        for entries in (self.numbers, self.of_runs, self.passed):
            for id in entries.ids():
                entries.delete(id)
        begun = r.Stream(next=e.first, opened=True, timer=s.timer, restarted=e.time)
        for field in fields(begun):
            setattr(s, field.name, getattr(begun, field.name))
        self.runs.most, self.end = 0, MOST
        self.emit(r.SequenceRestarted(self.ctx.key, e.first))
        if e.first > 1:
            self.runs.put(r.Run(1, e.first - 1, "skipped"))
        self.stay()

    def finish(self, e: r.OnStream) -> None:
        """Puts out everything that is held: nothing is waited for, and nothing stays parked."""
        self.resume(e)
        if (highest := max(self.stream.known, self.runs.most)) > 0:
            self.give_up("skipped", 1, highest)
        self.advance(self.ctx.now)
        while self.stream.parked:
            self.resume(e)
            self.advance(self.ctx.now)

    def poison(self, e: r.Poisoned) -> None:  # rule 6
        self.give_up("void", e.seq, e.seq)
        self.ctx.dead_letter("poison")

    def resume(self, _: r.OnStream) -> None:  # rule 7
        s = self.stream
        if s.parked == "violation":
            self.put_out(self.held[held_id(s.next)].event)
        if s.parked:
            s.parked, s.asked = "", []
            for gap in self.gaps():
                self.begin_gap(gap.first, gap.last)

    def close(self, e: r.StreamClosed) -> None:  # rule 8
        s = self.stream
        check(0 <= e.last <= MOST)
        if s.last is None:
            if e.last < max(s.next - 1, s.known, s.top):
                raise ms.Reject("last_too_low")
            self.know(e.last)
            s.last = e.last
            s.close_at = self.ctx.now + self.ctx.rules.closed_wait_ms

    def give_up(self, kind: Literal["void", "skipped"], from_: int, to: int) -> None:
        """Gives up the numbers of the range that are missing or unknown. Skipped numbers can become void."""
        check(1 <= from_ <= to <= MOST)
        from_, to = max(from_, self.stream.next), min(to, self.end)
        for run in self.runs.between(from_, to):
            if run.kind == "missing" or kind == "void":
                first, last = max(from_, run.first), min(to, run.last)
                self.runs.cut(first, last)
                self.runs.put(r.Run(first, last, kind))
        for first, last in self.runs.uncovered(max(from_, self.stream.known + 1), to):
            self.runs.put(r.Run(first, last, kind))

    def know(self, to: int) -> None:
        """The missing ones of the numbers up to `to` are gaps from now on (rule 4)."""
        s = self.stream
        for first, last in self.runs.uncovered(max(s.known + 1, s.next), to):
            self.begin_gap(first, last)
        s.known = max(s.known, to)

    def begin_gap(self, first: int, last: int) -> None:
        self.runs.put(r.Run(first, last, "missing", self.ctx.now))
        if self.ctx.rules.k:
            self.arm(self.ctx.now + self.ctx.rules.g1_ms)

    def gaps(self, above: int = 0) -> Iterator[r.Run]:  # which became known in their order
        from_ = max(above + 1, self.stream.next)
        return (run for run in self.runs.between(from_, self.stream.known) if run.kind == "missing")

    def advance(self, until: int) -> None:
        """Put out what can go out, and apply the policy to first gaps whose time was over by `until`."""
        s = self.stream
        while s.next <= max(s.known, self.runs.most) and not s.parked:
            run = self.runs.at_or_after(s.next)
            if run is None or run.first > s.next:
                if s.next > s.known:
                    break
                self.put_out(self.held[held_id(s.next)].event)
            elif run.kind != "missing":
                self.pass_run(run)
            elif run.stalled or not self.is_over(run, until):
                break
        if s.last is not None and s.next > s.last and not (s.parked or s.ended):
            self.emit(r.StreamEnded(self.ctx.key, s.last))
            s.ended, s.close_at = True, None
            s.forget_at = self.ctx.now + self.ctx.rules.closed_retention_ms  # rule 8: till then the stream is a mark
        s.top = self.runs.most
        self.arm(s.close_at)
        self.arm(None if s.held else s.forget_at)

    def put_out(self, e: r.StreamEvent) -> bool:
        """False where it parks the stream instead (rule 10), as it does once."""
        s, rules, violates = self.stream, self.ctx.rules, []
        if not rules.follows:
            s.previous = None  # otherwise it would still count if there are rules again
        else:
            member = e.body.members().get(rules.follows_field)
            value = member.value() if member is not None and member.text.startswith('"') else None
            allowed = None if s.previous is None else rules.follows.get(s.previous)  # None: by rules of before
            if s.previous is not None and allowed is not None and value not in allowed:
                violates = [s.previous]
                if rules.violation == "park" and not s.parked:
                    self.park("violation")
                    return False
            s.previous = value if value in rules.follows else None
        self.emit(r.Sequenced(e.stream, e.seq, e.event_id, e.body, e.time, violates))
        id, slot = str(e.seq // DIGESTS), e.seq % DIGESTS * DIGEST.size
        entry = self.passed.get(id)
        before = entry.packed if entry is not None else b""  # which ends before `slot`, as numbers go out in order
        self.passed.put(id, ms.Packed(before.ljust(slot, NONE) + DIGEST.pack(self.ctx.now, digest_of(e))))
        if e.seq <= s.known:
            self.let_go(e.seq)
        s.next = e.seq + 1
        return True

    def pass_run(self, run: r.Run) -> None:  # rule 5, with those of its kind that follow it
        last = run.last
        while (more := self.runs.at_or_after(last + 1)) and (more.first, more.kind) == (last + 1, run.kind):
            last = more.last
        self.emit((r.GapVoid if run.kind == "void" else r.GapSkipped)(self.ctx.key, run.first, last))
        self.stream.next, self.stream.previous = last + 1, None

    def is_over(self, gap: r.Run, until: int) -> bool:
        """Whether the time of the first gap is over, and then the policy was applied to it (rule 4)."""
        rules, due = self.ctx.rules, gap.since + self.ctx.rules.g2_ms
        if due > until:
            self.arm(max(due, self.ctx.now))
            return False
        if rules.policy == "stall":
            self.runs.put(replace(gap, stalled=True))
            self.emit(r.StreamStalled(self.ctx.key, gap.first, gap.last))
        elif rules.policy == "park":
            self.park("gap")
        else:
            self.runs.put(r.Run(gap.first, gap.last, "skipped"))
        return True

    def park(self, reason: Literal["gap", "violation"]) -> None:
        self.stream.parked = reason
        self.emit(r.StreamParked(self.ctx.key, reason))

    def arm(self, due: int | None) -> None:
        """There is one timer, which is never later than what is due next."""
        if due is not None and (self.stream.timer is None or due < self.stream.timer):
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
            self.give_up("skipped", 1, s.known)
            self.advance(now)
        if s.forget_at is not None and s.forget_at <= now and not s.held:  # rules 8 and 9
            self.ctx.forget()

    def request(self) -> None:  # rule 4
        asked, rules, requests = self.stream.asked, self.ctx.rules, []
        asked += [0] * (rules.k - len(asked))
        for n in range(rules.k):
            for gap in self.gaps(above=asked[n]):
                due = gap.since + (n + 1) * rules.g1_ms
                if due > self.ctx.now:
                    self.arm(due)
                    break
                requests.append(r.EventsRequested(self.ctx.key, gap.first, gap.last, n + 1))
                asked[n] = gap.last
        for request in sorted(requests, key=lambda one: one.from_):
            self.emit(request)


STEPS: Final[dict[type, Callable[[Sequencer, Any], None]]] = {
    r.StreamEvent: Sequencer.event,
    r.EventsUnavailable: lambda step, e: step.give_up("void", e.from_, e.to),  # rule 5
    r.StreamOpened: Sequencer.open,
    r.StreamRestarted: Sequencer.restart,
    r.SkipGap: lambda step, e: step.give_up("skipped", 1, e.up_to),  # rule 5
    r.Resume: Sequencer.resume,
    r.StreamClosed: Sequencer.close,
    r.Poisoned: Sequencer.poison,
}


@dataclass(frozen=True)
class Steps:
    """`states`: those of a stream, as `Sequencer` takes them."""

    outputs: Mapping[type, ms.Output[Any]]
    timer: ms.Timer

    def step(self, ctx: ms.Context[Config], e: Any, *states: Any) -> None:
        Sequencer(ctx, self.outputs, self.timer, *states).record(e)

    def tick(self, ctx: ms.Context[Config], *states: Any) -> None:
        Sequencer(ctx, self.outputs, self.timer, *states).tick()
