"""A source task's blocks on their way to Spark."""

from __future__ import annotations

import pytest

from moneystate.spark import source

ROWS = [(3, b"aa"), (1, b"b" * 11), (2, b"c"), (4, b"d" * 8), (0, b"e")]


@pytest.mark.parametrize(("most", "sizes"), [(10, [1, 1, 3]), (14, [3, 2]), (1, [1] * 5), (100, [5])])
def test_blocks_that_do_not_fit_into_one_arrow_batch_go_in_several(
    most: int, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "ARROW_BYTES", most)
    batches = list(source.arrow_batches([key for key, _ in ROWS], [block for _, block in ROWS], 7))
    assert [batch.num_rows for batch in batches] == sizes
    rows = [(row["key"], row["block"], row["source_ms"]) for batch in batches for row in batch.to_pylist()]
    assert rows == [(*row, 7) for row in ROWS]
