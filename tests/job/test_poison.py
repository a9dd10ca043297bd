"""A step that ends with an exception in a worker of Spark: the record is named.

How the mended program goes on is in `tests/local/test_poison.py`."""

from __future__ import annotations

from moneystate.runtime.job import LOGIC_VERSION
from tests.job.harness import Finished, Setup, finished, small_workload
from tests.job.warm import Warm
from tests.log_lines import kinds
from tests.reference import codec
from tests.reference.model import WALLET, LogRecord

FAILED = 5
BOUNDED = ("--until-caught-up", "--quiet", "--max-records-per-batch", "300")
WARM = Warm()


def last_money(records: list[LogRecord]) -> tuple[str, LogRecord]:
    """An id that only one record has, and that record, as late in the log as there is one."""
    by_id: dict[str, list[LogRecord]] = {}
    for record in records:
        if record.topic == WALLET:
            kind, fields = codec.decode(record.value or b"")
            if kind == "PaymentEvent":
                by_id.setdefault(fields["id"], []).append(record)
    return next((money_id, mine[0]) for money_id, mine in reversed(by_id.items()) if len(mine) == 1)


def one_line(done: Finished) -> str:
    assert kinds(done.err) == ["error:"], done.err
    return done.err


def test_the_record_is_named(setup: Setup) -> None:
    setup = setup._replace(partitions=1)
    setup.create_inputs(2)
    setup.send(small_workload("--events", "300", "--flush-marker", "--garbage", "0", "--odd", "0"))
    poison, record = last_money(setup.inputs()[0])
    arguments = [LOGIC_VERSION, poison, *setup.arguments(*BOUNDED)]
    failed = finished(arguments, setup.folder, WARM, module="tests.job.poison")
    assert failed.code == FAILED
    where = f"{setup.prefix}{WALLET}, partition {record.partition}, offset {record.offset}:"
    assert where in one_line(failed)
    assert "ZeroDivisionError: poison in two lines" in failed.err
    assert "poison.py, line " in failed.err
