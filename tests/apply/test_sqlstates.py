"""What an error of the database means."""

from __future__ import annotations

import pytest

from moneystate.apply.sqlstates import Verdict, verdict


@pytest.mark.parametrize(
    ("sqlstate", "wanted"),
    [
        (None, Verdict.again), ("08006", Verdict.again), ("40001", Verdict.again), ("40P01", Verdict.again),
        ("53300", Verdict.again), ("55P03", Verdict.again), ("57014", Verdict.again), ("57P01", Verdict.again),
        ("58030", Verdict.again), ("25006", Verdict.again), ("25P03", Verdict.again), ("25P04", Verdict.again),
        ("28P01", Verdict.refused), ("3D000", Verdict.refused), ("22003", Verdict.data), ("23505", Verdict.data),
        ("54000", Verdict.data), ("42P01", Verdict.stop), ("25001", Verdict.stop), ("0A000", Verdict.stop),
    ],
)  # fmt: skip
def test_the_state_decides(sqlstate: str | None, wanted: Verdict) -> None:
    assert verdict(sqlstate) is wanted


def test_a_plan_that_no_longer_fits_is_made_again() -> None:
    assert verdict("0A000", "cached plan must not change result type") is Verdict.again
