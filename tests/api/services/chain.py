"""Three services in a row over timed streams: moves of accounts, their balances, and a journal of each branch."""

from __future__ import annotations

from dataclasses import dataclass, field

import moneystate as ms


@ms.named("chain.Moved")
@dataclass(frozen=True)
class Moved:
    """Between two accounts: processed once for each."""

    id: str
    accounts: list[str]
    cents: int
    at: ms.Millis


@ms.named("chain.Closing")
@dataclass(frozen=True)
class Closing:
    branch: str
    at: ms.Millis


@ms.named("chain.Stands")
@dataclass(frozen=True)
class Stands:
    account: str
    branch: str
    cents: int
    why: str


@ms.named("chain.Noted")
@dataclass(frozen=True)
class Noted:
    branch: str
    text: str


@ms.named("chain.Entry")
@dataclass(frozen=True)
class Entry:
    number: int
    text: str


@dataclass
class Account:
    cents: int = 0
    left: int = 0


@dataclass
class Journal:
    lines: int = 0
    lasts: list[str] = field(default_factory=list)


accounts = ms.Service("accounts")
moved = accounts.input("moves", Moved, key=lambda e: e.accounts, time="at", bound_ms=2_000)
stands = accounts.output("stands", Stands, key="account", timed=True)
account = accounts.value("account", Account)
reminder = accounts.timer("reminder")
again = accounts.timer("again")


def branch_of(account: str) -> str:
    return account[0]


@accounts.on(moved, account)
def move(ctx: ms.Context[None], e: Moved, account: Account) -> None:
    account.cents += e.cents
    ctx.emit(stands, Stands(ctx.key, branch_of(ctx.key), account.cents, e.id))
    if e.cents % 7 == 0:
        raise ms.Reject("seven")
    ctx.emit(stands, Stands(ctx.key, branch_of(ctx.key), account.cents, f"{e.id} again"))
    ctx.at(reminder, ctx.now + 1_000)
    if e.cents % 3 == 0:
        account.left = 3
        ctx.at(again, ctx.now)


@accounts.on(reminder, account)
def remind(ctx: ms.Context[None], account: Account) -> None:
    ctx.emit(stands, Stands(ctx.key, branch_of(ctx.key), account.cents, "reminder"))


@accounts.on(again, account)
def once_more(ctx: ms.Context[None], account: Account) -> None:
    """It runs several times at one time."""
    account.left -= 1
    ctx.emit(stands, Stands(ctx.key, branch_of(ctx.key), account.cents, f"left {account.left}"))
    if account.left:
        ctx.at(again, ctx.now)


branches = ms.Service("branches")
closing = branches.input("closings", Closing, key="branch", time="at", bound_ms=500)
changed = branches.input("stands", Stands, key="branch", timed=True)
noted = branches.output("notes", Noted, key="text", timed=True)
journal = branches.value("journal", Journal)
pause = branches.timer("pause")
pause_too = branches.timer("a_pause")


@branches.on(changed, journal)
def change(ctx: ms.Context[None], e: Stands, journal: Journal) -> None:
    assert not ctx.late
    journal.lines += 1
    journal.lasts = [*journal.lasts[-3:], f"{e.account}={e.cents} {e.why}"]
    ctx.emit(noted, Noted(ctx.key, f"{ctx.now} {journal.lines} {journal.lasts[-1]}"))
    ctx.at(pause if e.cents % 2 else pause_too, ctx.now + 700)


@branches.on(closing, journal)
def close(ctx: ms.Context[None], e: Closing, journal: Journal) -> None:
    ctx.emit(noted, Noted(ctx.key, f"{ctx.now} closed with {journal.lines}"))


@branches.on(pause, journal)
def quiet(ctx: ms.Context[None], journal: Journal) -> None:
    ctx.emit(noted, Noted(ctx.key, f"{ctx.now} quiet after {journal.lasts}"))


@branches.on(pause_too, journal)
def quiet_too(ctx: ms.Context[None], journal: Journal) -> None:
    ctx.emit(noted, Noted(ctx.key, f"{ctx.now} quiet, too, after {journal.lines}"))


book = ms.Service("book")
note = book.input("notes", Noted, key=lambda e: "all", timed=True)
entries = book.output("entries", Entry, key=lambda e: "all")
kept = book.value("kept", Journal)


@book.on(note, kept)
def write(ctx: ms.Context[None], e: Noted, kept: Journal) -> None:
    assert not ctx.late
    kept.lines += 1
    ctx.emit(entries, Entry(kept.lines, f"{ctx.now} {e.branch}: {e.text}"))


# One that rejects, and says where its records come from


@dataclass(frozen=True)
class Source:
    topic: str
    partition: int
    offset: int


picky = ms.Service("picky")
given = picky.input("stands", Stands, key="branch", timed=True)
sources = picky.output("sources", Source, key="topic")
alarm = picky.timer("alarm")


@picky.on(given)
def pick(ctx: ms.Context[None], e: Stands) -> None:
    if e.cents == 7:
        raise ms.Reject("seven")
    ctx.emit(sources, Source(*ctx.source))
    if e.cents == 1:
        ctx.at(alarm, ctx.now + 1)


@picky.on(alarm)
def rang(ctx: ms.Context[None]) -> None:
    ctx.emit(sources, Source(*ctx.source))


# Two in a loop


@dataclass(frozen=True)
class Asked:
    id: str
    times: int
    at: ms.Millis


@ms.named("chain.Question")
@dataclass(frozen=True)
class Question:
    id: str
    left: int
    at: ms.Millis


@ms.named("chain.Answer")
@dataclass(frozen=True)
class Answer:
    id: str
    left: int
    at: ms.Millis


@dataclass(frozen=True)
class Told:
    id: str
    left: int


asking = ms.Service("asking")
asked = asking.input("asked", Asked, key="id", time="at")
answered = asking.input("answers", Answer, key="id", time="at", format="json")
questions = asking.output("questions", Question, key="id")
told = asking.output("told", Told, key="id")


@asking.on(asked | answered)
def ask(ctx: ms.Context[None], e: Asked | Answer) -> None:
    left = e.times if isinstance(e, Asked) else e.left
    if left:
        ctx.emit(questions, Question(e.id, left, ctx.now))
    else:
        ctx.emit(told, Told(e.id, left))


answering = ms.Service("answering")
question = answering.input("questions", Question, key="id", time="at")
answers = answering.output("answers", Answer, key="id", format="json")


@answering.on(question)
def answer(ctx: ms.Context[None], e: Question) -> None:
    ctx.count("answered")
    ctx.emit(answers, Answer(e.id, e.left - 1, ctx.now))


# One whose timers set timers for their own time


@dataclass(frozen=True)
class Tick:
    id: str
    at: ms.Millis


ticking = ms.Service("ticking")
ticks = ticking.input("ticks", Tick, key="id", time="at")
ticked = ticking.output("stands", Stands, key="account", timed=True)
run_down = ticking.value("run_down", Account)
zig = ticking.timer("zig")
also = ticking.timer("also")


@ticking.on(ticks)
def tick(ctx: ms.Context[None], e: Tick) -> None:
    ctx.at(zig, ctx.now)


@ticking.on(zig, run_down)
def zigged(ctx: ms.Context[None], run_down: Account) -> None:
    ctx.emit(ticked, Stands("first", "x", 0, ctx.key))
    ctx.at(also, ctx.now)  # it stands before zig in the order


@ticking.on(also, run_down)
def ticked_also(ctx: ms.Context[None], run_down: Account) -> None:
    run_down.left += 1
    ctx.emit(ticked, Stands(f"account {run_down.left}", "x", run_down.left, ctx.key))
    if run_down.left < 6:
        ctx.at(also, ctx.now)  # the same timer at the same time
