"""What a start with Spark refuses: one line that says so, an exit code that means something, and nothing written.

What any start refuses is in `tests/local/test_setup_errors.py`."""

from __future__ import annotations

import socket

import pytest

from moneystate.errors import CheckpointError
from tests.job.harness import Setup, processes_of
from tests.log_lines import kinds
from tests.waiting import until

CONFIG, SETUP = 2, 3
REFUSED_S = 60.0


def assert_nothing_written(setup: Setup) -> None:
    assert setup.topics() == set()
    assert not setup.checkpoint.exists()


def test_no_broker(setup: Setup) -> None:
    with socket.socket() as taken:  # bound and not listening: nobody answers there
        taken.bind(("127.0.0.1", 0))
        nobody = setup._replace(bootstrap_servers=f"127.0.0.1:{taken.getsockname()[1]}")
        assert nobody.refused().code == SETUP
    assert_nothing_written(setup)


def test_a_refusal_ends_the_jvm_that_starts_meanwhile(setup: Setup) -> None:
    """In a process of its own: the JVM of the one that stays is there already."""
    with setup.start("--no-create-topics") as job:
        session = job.process.pid
        done = job.finish()
        assert done.code == SETUP
        assert kinds(done.err) == ["error:"], done.err
        until(lambda: not processes_of(session), lambda: f"still there: {processes_of(session)}", REFUSED_S)
        assert {path.name for path in job.folder.iterdir()} == {"out", "err"}
    assert_nothing_written(setup)


@pytest.mark.parametrize(
    ("address", "code"),
    [
        ("dbfs:/checkpoint", CONFIG),
        ("file://host/checkpoint", CONFIG),
        ("s3://bucket/checkpoint", CheckpointError.exit_code),  # Spark has no jar for it
    ],
)
def test_a_checkpoint_in_a_store_that_cannot_be(setup: Setup, address: str, code: int) -> None:
    done = setup.refused("--checkpoint", address)
    assert done.code == code
    assert address in done.err
    assert_nothing_written(setup)
