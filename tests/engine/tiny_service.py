"""The tiny processor as a whole service: the second user of everything that the platform does with one.

`python -m tests.engine.tiny_service WHAT ARGUMENT...` does one thing with a real job of it, in a process of its own,
and prints JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from moneystate.bootstrap.options import BootstrapOptions
from moneystate.engine.items import Item
from moneystate.job.run_options import RunOptions
from moneystate.ports.service import JobSpec
from moneystate.ports.state import ENGINE_SCHEMAS, KEYS, Fact, Field, Pair, Row, Versions
from moneystate.savepoint.rescale import rescale
from moneystate.spark.job import Job
from state_tools.offline import open_state
from state_tools.replay import Replay, open_for_replay
from tests.engine.tiny import BOUND_MS, DEAD_LETTERS, INPUTS, Tiny, TinyDecoder, decode_window

KIND = b"t"
DECODER = TinyDecoder()


class TinyState:
    kinds = KIND
    topics: Mapping[int, str] = {t.code: t.name for t in INPUTS}
    versions = Versions(ENGINE_SCHEMAS)

    def owner_of(self, key: bytes) -> bytes | None:
        return key[1:] if key.startswith(KIND) else None

    def counts_owner(self, key: bytes) -> bool:
        return True

    def facts(self, key: bytes, value: bytes, watermark: int, rules: Mapping[str, Any]) -> Iterator[Fact]:
        yield Fact(KEYS, "window", key[1:], (), decode_window(value))

    def held_since(self, key: bytes, value: bytes) -> int | None:
        return None

    def view(self, entries: Iterable[Pair], watermark: int, rules: Mapping[str, Any]) -> Row:
        return {"windows": [dict(zip(("count", "sum"), decode_window(value), strict=True)) for _, value in entries]}

    def event_view(self, value: bytes) -> Any:
        return value[12:].decode()

    def fact_view(self, kind: str, content: tuple[Field, ...]) -> Row | None:
        return None

    def timer_view(self, item: Item) -> str:
        return "end of a window"


STATE = TinyState()


def tiny_job() -> JobSpec:
    return JobSpec(
        name="tiny",
        inputs=INPUTS,
        decoder="tests.engine.tiny_service:DECODER",
        make=partial(Tiny, [], []),
        streams=["tiny-totals", "tiny-others", "tiny-dead-letters"],
        dead_letter_stream=DEAD_LETTERS,
        changelog="tiny-state",
        commits="tiny-commits",
        rules={"bound_ms": BOUND_MS, "logic": 1},
        bound_ms=BOUND_MS,
        max_future_ms=600_000,
        asked_again=lambda key, value: None,
        state=STATE,
    )


def run(options: str) -> dict[str, Any]:
    report = Job(tiny_job(), RunOptions(**json.loads(options)), lambda progress: None).run()
    return {"counts": report.counts}


def export_as(checkpoint: str, out: str, key_groups: str) -> dict[str, Any]:
    with open_state(STATE, checkpoint, can_go_on=True) as whole:
        rescale(STATE, whole, Path(out), int(key_groups), lambda group: None)
        return {"fingerprint": whole.manifest.fingerprint}


def replay(checkpoint: str, scratch: str, brokers: str) -> dict[str, Any]:
    options = BootstrapOptions(sources=[], out=Path(scratch) / "replay", bootstrap_servers=brokers)
    replayer = Replay(tiny_job(), open_for_replay(checkpoint), options, 5)
    replayer.check()
    verdict = replayer.run(Path(scratch), lambda progress: None)
    output = verdict.output
    return {
        "agrees": verdict.agrees(),
        "records": verdict.records,
        "output": None if output is None else [output.expected, output.missing, output.more],
        "fingerprint": verdict.fingerprint,
    }


def main() -> None:
    """`tests.job.warm` runs it."""
    commands: dict[str, Callable[..., dict[str, Any]]] = {"run": run, "export": export_as, "replay": replay}
    print(json.dumps(commands[sys.argv[1]](*sys.argv[2:])))
