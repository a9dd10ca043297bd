"""Which starts a drained checkpoint refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from moneystate.engine.plan import Plan
from moneystate.errors import DrainedError
from moneystate.job.checkpoint import Checkpoint

TIME = 1_000


def drained(folder: Path, until_ms: int | None, open_requests: int) -> Checkpoint:
    checkpoint = Checkpoint(str(folder))
    for name in ("offsets", "commits"):
        (folder / name).mkdir()
    offset = Plan("rules", {}, {}, drain=True, drain_until_ms=until_ms).to_offset()
    (folder / "offsets" / "0").write_text(f"v1\n{{}}\n{json.dumps(offset)}")
    (folder / "commits" / "0").write_text("v1\n{}")
    checkpoint.save_open_requests(0, open_requests)
    return checkpoint


@pytest.mark.parametrize("open_requests", [0, 3])
@pytest.mark.parametrize(
    ("drained_ms", "start_ms", "refused"),
    [
        # without open requests, and with some that the start reads the replies to
        (None, None, (True, False)),
        (None, TIME, (True, True)),
        (TIME, None, (True, False)),
        (TIME, TIME - 1, (True, True)),
        (TIME, TIME, (True, False)),
        (TIME, TIME + 1, (False, False)),
    ],
)
def test_it_takes_replies_to_open_requests_or_a_later_end_of_the_drain(
    tmp_path: Path, open_requests: int, drained_ms: int | None, start_ms: int | None, refused: tuple[bool, bool]
) -> None:
    checkpoint = drained(tmp_path, drained_ms, open_requests)
    if refused[open_requests > 0]:
        with pytest.raises(DrainedError, match="--drain has ended"):
            checkpoint.check_not_drained(True, start_ms)
    else:
        checkpoint.check_not_drained(True, start_ms)


def test_it_names_the_time_up_to_which_it_can_be_drained_further(tmp_path: Path) -> None:
    with pytest.raises(DrainedError, match=r"--drain has ended at 1970-01-01T00:00:01\.000Z.*later --drain-until"):
        drained(tmp_path, TIME, 0).check_not_drained(False)
