"""Displays the demo on the terminal, or as plain text in 80 columns. Results go to stdout, progress to stderr.

Colour only repeats what the words say.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from services.enrichment.demo.job import RULES
from services.enrichment.demo.promises import ChapterVerdict, StepVerdict
from services.enrichment.demo.questions import Answer
from services.enrichment.demo.runner import Outcome
from services.enrichment.demo.scenario import Chapter, Enriched, Send

STATUS_STYLES = {"JOINED": "green", "LOOKED_UP": "green", "LOOKUP_FAILED": "yellow"}
BROKEN = "bold white on red"


class View:
    def __init__(self, out: Console | None = None, progress: Console | None = None) -> None:
        self.out = out or Console(highlight=False)
        self.progress = progress or Console(stderr=True, highlight=False)
        self.begun = time.monotonic()

    def intro(self, chapters: list[Chapter]) -> None:
        steps = {s for c in chapters for s in c.steps}
        rules = ", ".join(f"{name} {value}" for name, value in RULES.items() if name != "idle-timeout")
        self.out.print(
            f"[bold]{len(steps)} steps through a real Kafka broker and the real Spark job.[/] Each shows what was "
            "sent, what came out of Kafka for it (read_committed), and whether that is what was promised. "
            f"All times are of the year {chapters[0].advance_to[:4]}, UTC.\n[dim]{rules}[/]\n"
        )

    @contextmanager
    def busy(self, activity: str) -> Iterator[None]:
        """Shows an activity: on a terminal as an animated line until it is done, otherwise as one line before it."""
        if self.progress.is_terminal:
            with self.progress.status(Text(activity)):
                yield
        else:
            self.note(activity + " ...")
            yield

    def note(self, line: str) -> None:
        self.progress.print(Text(line))

    def chapter(self, verdict: ChapterVerdict, seconds: float, with_start: bool) -> None:
        table = Table(box=box.SIMPLE_HEAD, expand=self.out.width <= 100, pad_edge=False, show_lines=False)
        table.add_column("Step", justify="right", no_wrap=True)
        table.add_column("Sent", ratio=5, min_width=35)  # the longest topic with a time
        table.add_column("Came out", ratio=4)
        table.add_column("Promise", no_wrap=True)
        for step in verdict.steps:
            held = Text("held", "bold green") if step.held else Text("BROKEN", BROKEN)
            table.add_row(Text(str(step.step)), _sent(step.sends), _came_out(step), held)
            table.add_section()
        self.out.print(table)
        came = sum(len(s.outputs) for s in verdict.steps)
        start = ", most of it Spark's start" if with_start else ""
        self.out.print(
            f"Then a Heartbeat in every input partition: event time {_time(verdict.chapter.advance_to)}.\n"
            f"{came} of {verdict.chapter.wanted} expected records came out, {seconds:.1f} s after the sending{start}.",
            style="dim",
        )
        self._strays(list(verdict.strays))

    def answers(self, answers: list[Answer]) -> None:
        """Shows the answers of the queries as the commands print them. Lines that are too long for the terminal are
        cut."""
        self.out.print("\n[bold]What the job knows now[/], asked of a replica of its state:")
        for answer in answers:
            self.out.print(Text(f"\n$ {answer.command}", "cyan"))
            self.out.print(Text(answer.printed.rstrip()), no_wrap=True, overflow="ellipsis", crop=True)

    def summary(self, outcome: Outcome) -> None:
        self._strays(outcome.strays)
        steps = [s for v in outcome.verdicts for s in v.steps]
        broken = [str(s.step) for s in steps if not s.held]
        seconds = f"{time.monotonic() - self.begun:.0f} s in all; the broker, the job and their folder are gone again."
        if outcome.held:
            result = f"All {len(steps)} steps held: what was promised came out, and nothing else."
            self.out.print(f"\n[bold green]{result}[/] {seconds}")
            return
        problem = f"broken in step {', '.join(broken)}" if broken else "broken by records that nobody was promised"
        self.out.print(f"\n[{BROKEN}]{len(steps) - len(broken)} of {len(steps)} steps held; {problem}.[/] {seconds}")

    def _strays(self, strays: list[str]) -> None:
        for stray in strays:
            self.out.print(Text.assemble(("BROKEN", BROKEN), f" There came also {stray}."))


def _sent(sends: tuple[Send, ...]) -> Text:
    return Text("\n").join(
        Text.assemble(send.title, "\n", (f"{send.topic}, {_time(send.time)}", "dim")) for send in sends
    )


def _came_out(step: StepVerdict) -> Group:
    parts = [_outcome(out) for out in step.outputs] or [_nothing(step)]
    parts += [Text(f"a dead letter: {why}", "red") for why in step.refused]
    if not step.held:
        parts.append(Text("promised was:", "bold red"))
        parts += [_outcome(out) for out in step.promised] or [_nothing(step)]
    elif step.promise is not None and step.promise.asks_service:
        parts.append(Text("(asked of the session service)", "dim"))
    return Group(*parts)


def _nothing(step: StepVerdict) -> Text:
    if step.promise is None:
        return Text("nothing by itself: kept for the user's money", "dim")
    return Text("nothing", "cyan") if step.promise.outcome is None else Text("nothing")


def _outcome(out: Enriched) -> Text:
    session = f"session in {out.client_country}" if out.client_country else "no session info"
    first = ("first of its type", "bold cyan") if out.first_occurrence else ("not the first of its type", "")
    return Text.assemble(
        (out.status, STATUS_STYLES.get(out.status, "")), f", {session}\n", f"{_user(out.user_info)}\n", first
    )


def _user(info: tuple[str | None, str | None] | None) -> str:
    if info is None:
        return "no user info"
    born, country = info
    return f"born {born or 'unknown'}, resident in {country or 'unknown'}"


def _time(iso: str) -> str:
    """A time without the year, which the introduction shows."""
    return iso[5:].replace("T", " ").removesuffix("Z")
