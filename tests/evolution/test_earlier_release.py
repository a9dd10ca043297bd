"""A checkpoint of an earlier release goes on under this program: its state is read as what it says."""

from __future__ import annotations

from collections.abc import Sequence

from tests.evolution.restore import Restored, restore
from tests.evolution.workload import RULES
from tests.job.harness import DEAD_LETTERS, ENRICHED, Setup, letters, model_values_by_user, values_by_user
from tests.kafka.logs import wait_until_stable
from tests.reference import model

CAUGHT_UP = ("--until-caught-up", "--json")


def reference(setup: Setup) -> model.Result:
    """What the model makes of the inputs as they are now, replies with them."""
    records, partitions = setup.inputs()
    return model.run(records, partitions, RULES, lookup_results=setup.read(model.LOOKUP_RESULTS))


def check_whole_output(setup: Setup) -> model.Result:
    """The output of both releases together is the model's, nothing twice. Where in a user's records a reply's stands
    depends on when it was read, so order has no part in it."""
    wait_until_stable(setup.admin(), [setup.prefix + topic for topic in (ENRICHED, DEAD_LETTERS)])
    want = reference(setup)
    got = values_by_user(setup.read(ENRICHED))
    assert _sorted(got) == _sorted(model_values_by_user(want))
    places = [tuple(letter) for letter in want.dead_letters]
    assert sorted(letters(setup.read(DEAD_LETTERS), setup.prefix).elements()) == sorted(places)
    return want


def _sorted(values: dict[str, list[bytes | None]] | dict[str, list[bytes]]) -> dict[str, list[bytes]]:
    return {user: sorted(value or b"" for value in mine) for user, mine in values.items()}


def go_on(setup: Setup, restored: Restored, more: Sequence[str] = ()) -> None:
    """The second part of the input under this program, in several batches, and the whole output held to the model."""
    setup.send(restored.second)
    done = setup.run(*CAUGHT_UP, *restored.flags, "--max-records-per-batch", "300", *more)
    want = check_whole_output(setup)
    assert done.totals["records"] == len(restored.second)  # no replay
    totals = {name: done.totals[name] for name in ("buffered", "waiting", "looking_up", "duplicates", "late")}
    assert totals == {name: getattr(want, name) for name in totals}


def test_a_checkpoint_of_version_1_goes_on_with_the_right_output(setup: Setup) -> None:
    restored = restore(1, setup)
    before = reference(setup)
    assert min(before.buffered, before.waiting, before.looking_up, before.duplicates) > 0
    assert max(len(user.seen_money) for user in before.users.values()) > 64
    go_on(setup, restored)
