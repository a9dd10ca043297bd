"""A step that ends with an exception: the record is named, and a mended program goes on where nothing was written."""

from __future__ import annotations

from moneystate.errors import CheckpointError
from moneystate.spark.checkpoint import Checkpoint
from services.enrichment.rules import LOGIC_VERSION
from tests.job.harness import Finished, Setup, finished, small_workload
from tests.job.warm import Warm
from tests.log_lines import kinds
from tests.reference import codec
from tests.reference.model import WALLET, LogRecord, Rules

MENDED = LOGIC_VERSION + 1
FAILED, CHECKPOINT = 5, CheckpointError.exit_code
BOUNDED = ("--until-caught-up", "--drain", "--quiet", "--max-records-per-batch", "300")


WARM = Warm()


def program(setup: Setup, logic: int, poison: str, *flags: str) -> Finished:
    """One run of the job by a program of this version of the logic, which fails at the money with id `poison`."""
    arguments = [logic, poison, *setup.arguments(*BOUNDED, *flags)]
    return finished(arguments, setup.folder, WARM, module="tests.job.poison")


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


def test_the_record_is_named_and_the_mended_program_goes_on(setup: Setup) -> None:
    setup = setup._replace(partitions=1)
    setup.create_inputs(2)
    setup.send(small_workload("--events", "700", "--flush-marker", "--garbage", "0", "--odd", "0"))
    poison, record = last_money(setup.inputs()[0])
    failed = program(setup, LOGIC_VERSION, poison)
    assert failed.code == FAILED
    where = f"{setup.prefix}{WALLET}, partition {record.partition}, offset {record.offset}:"
    assert where in one_line(failed)
    assert "ZeroDivisionError: poison in two lines" in failed.err
    assert "poison.py, line " in failed.err
    checkpoint = Checkpoint(str(setup.checkpoint))
    planned = checkpoint.last_planned()
    assert planned == checkpoint.last_committed() + 1
    before = checkpoint.offset(planned)

    # other flags are no reason to leave the plan
    assert program(setup, MENDED, "", "--bound", "1s").code == CHECKPOINT
    # the mended program reads what was planned, by its own rules
    finished = program(setup, MENDED, "", "--bound", "1s", "--finish-batch")
    assert finished.code == 0, finished.err
    after = checkpoint.offset(planned)
    assert {**after, "rules": ""} == {**before, "rules": ""}
    assert checkpoint.rules(after["rules"])["logic"] == MENDED
    assert checkpoint.last_committed() >= planned
    done = program(setup, MENDED, "")
    assert done.code == 0, done.err
    setup.check_output(Rules(lookup=False), drain=True)


def test_where_a_part_is_written_the_rest_is_not_written_by_another_logic(setup: Setup) -> None:
    setup = setup._replace(partitions=1)
    setup.create_inputs(2)
    setup.send(small_workload("--events", "700", "--flush-marker"))
    setup.kill_at("committed@1", *BOUNDED)
    before = Checkpoint(str(setup.checkpoint)).offset(1)
    for flags in ((), ("--finish-batch",)):
        refused = program(setup, MENDED, "", *flags)
        assert refused.code == CHECKPOINT
        assert "logic" in one_line(refused)
        assert Checkpoint(str(setup.checkpoint)).offset(1) == before
    done = program(setup, LOGIC_VERSION, "")
    assert done.code == 0, done.err
    setup.check_output(Rules(lookup=False), drain=True)
