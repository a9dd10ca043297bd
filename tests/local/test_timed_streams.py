"""Three services in a row over timed streams, on a log in memory, write what Bench says of the same records; also when
they are killed, rescaled and replayed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from moneystate.job.local.memory_clients import memory_log
from tests.job.harness import Finished
from tests.job.test_timed_streams import ENDS, EVENTS, TWO, Chain, check_marks, check_output
from tests.local.in_memory import command, good, killed_at

BEFORE = 160


class LocalChain(Chain):
    way = ("--local",)

    def moneystate(self, *arguments: object) -> Finished:
        return good(arguments)

    def killed(self, step: str, checkpoint: str, services: list[str], *more: object) -> None:
        with killed_at(step):
            command(self.arguments(checkpoint, services, *more))


@pytest.fixture
def released(tmp_path: Path) -> Iterator[LocalChain]:
    """No job has run."""
    with memory_log() as (_, address):
        made = LocalChain(address, tmp_path, "local_chain.py")
        made.release()
        yield made


def test_the_chain_writes_what_bench_says(released: LocalChain) -> None:
    released.send(EVENTS)
    released.run("all", ["accounts", "branches"], *TWO, *ENDS)
    released.run("book", ["book"], *TWO, "--until-caught-up")
    check_output(released)
    check_marks(released)


def test_a_killed_and_rescaled_chain_writes_the_same_and_so_does_its_replay(released: LocalChain) -> None:
    """The first two are killed, and the first is rescaled."""
    made, folder = released, released.folder
    made.send(EVENTS[:BEFORE])
    few = ("--max-records-per-batch", "40")
    made.killed("marked@1", "all", ["accounts", "branches", "book"], *TWO, *few)
    made.run("all/accounts", ["accounts"], *TWO, "--until-caught-up")
    replays = [made.replay("all/accounts", "accounts")]
    made.moneystate(
        *("checkpoint", "export", "--checkpoint", folder / "all" / "accounts", "--out", folder / "savepoint"),
        *("--key-groups", "6", "--service", *made.names("accounts"), "--quiet"),
    )
    made.send(EVENTS[BEFORE:])
    more = ("--key-groups", "6", "--partitions", "3", "--initial-state", folder / "savepoint")
    made.run("rescaled", ["accounts"], *more, *ENDS)
    made.killed("produced@3", "all/branches", ["branches"], *TWO, *few)
    made.run("all/branches", ["branches"], *TWO, *ENDS)
    replays.append(made.replay("all/branches", "branches"))
    made.run("all/book", ["book"], *TWO, "--until-caught-up")
    check_output(made)
    check_marks(made)
    for replay in replays:
        assert replay["agrees"]
        assert replay["output_expected"] > 100
