"""A daemon with a sink host as a program: for each line of its stdin it forks a worker that hands one batch over.

Lines are JSON. In: `Order`'s fields. Out: first `{"host": pid}`; then for each worker `{"worker": pid}` once it has
handed over its values and waits to go on, where it is told to (SIGUSR1 lets it), and in the end what came of it,
`Outcome`'s fields.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import psutil

from moneystate.engine import clock
from moneystate.engine.items import Output
from moneystate.engine.keygroup import BatchResult
from moneystate.job import sink_host
from moneystate.job.batch_writing import SinkSpec
from moneystate.job.figures import GroupFigures
from moneystate.job.group_results import group_result, pack
from moneystate.job.result_files import ResultWriter
from moneystate.kafka.sink import BatchId, SinkConfig
from moneystate.spark.sink import hand_over, write_partition

GO_ON = signal.SIGUSR1


@dataclass(frozen=True)
class Order:
    """One batch of an output partition: `values` go out under one key; `waits`: before it tells their end; `raw`: what
    stands in place of results, in hexadecimal; `breaks`: Spark's end of the worker's input does, before their end."""

    spec: dict[str, Any]
    partition: int
    batch: dict[str, Any]
    values: list[str]
    waits: bool = False
    raw: str = ""
    breaks: bool = False


@dataclass(frozen=True)
class Outcome:
    worker: int
    written: bool = False
    outputs: int = 0
    error: str = ""
    text: str = ""


def row(values: list[str]) -> bytes:
    """One key group's result, as the operator gives it."""
    outputs: list[Output] = [(0, b"key", value.encode(), []) for value in values]
    result = group_result(0, BatchResult(outputs, [], clock.decode(None), [], [], [], 0, 0, 0), GroupFigures())
    with ResultWriter() as results:
        results.add(pack(result))
    return results.row


def say(line: dict[str, Any]) -> None:
    os.write(1, json.dumps(line).encode() + b"\n")


def frames(order: Order) -> Iterator[bytes]:
    yield bytes.fromhex(order.raw) if order.raw else row(order.values)
    if order.waits:
        say({"worker": os.getpid()})
        signal.sigwait({GO_ON})
    if order.breaks:
        raise ConnectionResetError


def work(order: Order) -> Outcome:
    spec = SinkSpec(**{**order.spec, "config": SinkConfig(**order.spec["config"])})
    try:
        report = hand_over(spec, order.partition, BatchId(**order.batch), frames(order))
    except Exception as e:
        return Outcome(os.getpid(), error=type(e).__name__, text=str(e))
    return Outcome(os.getpid(), report.written, report.outputs)


def main() -> None:
    sink_host.start(write_partition)
    say({"host": psutil.Process().children()[0].pid})
    signal.pthread_sigmask(signal.SIG_BLOCK, {GO_ON})
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # as Spark's daemon has it
    for line in sys.stdin:
        if os.fork() == 0:
            say(asdict(work(Order(**json.loads(line)))))
            os._exit(0)


if __name__ == "__main__":
    main()
