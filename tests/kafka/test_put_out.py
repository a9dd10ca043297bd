"""What the last batches put out decides how many records the next one reads."""

from __future__ import annotations

from pathlib import Path

from moneystate.kafka.put_out import BATCHES, LEAST_RECORDS, MOST_BYTES, PutOut, most_records


def test_the_last_batches_count_together(tmp_path: Path) -> None:
    put_out = PutOut(tmp_path / "stop.out")
    assert most_records(put_out.file) is None
    put_out.add(100, 0)
    assert most_records(put_out.file) is None
    put_out.add(100, 400)
    assert most_records(put_out.file) == MOST_BYTES // 2
    put_out.add(200, 400_000)
    assert most_records(put_out.file) == MOST_BYTES * 400 // 400_400
    for _ in range(BATCHES):
        put_out.add(10, 10)
    assert most_records(put_out.file) == MOST_BYTES


def test_records_for_ten_thousand_each_still_go_on(tmp_path: Path) -> None:
    put_out = PutOut(tmp_path / "stop.out")
    put_out.add(1, 10 * MOST_BYTES)
    put_out.add(0, MOST_BYTES)
    assert most_records(put_out.file) == LEAST_RECORDS
