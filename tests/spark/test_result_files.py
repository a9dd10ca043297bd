"""The operator's results in files: read whole, again if need be, and then removed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from moneystate.errors import JobError
from moneystate.job.result_files import ResultWriter, read_results, remove_results


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},{tmp_path / 'another'}")
    return tmp_path


def write_results(packed: Iterable[bytes]) -> bytes:
    with ResultWriter() as results:
        for one in packed:
            results.add(one)
    return results.row


@pytest.mark.parametrize("packed", [[], [b""], [b"a", b"", b"b" * 3_000_000]], ids=["none", "empty", "several"])
def test_results_come_back_as_they_were_and_leave_nothing(packed: list[bytes], scratch: Path) -> None:
    row = write_results(iter(packed))
    assert [path.name for path in scratch.iterdir()] == [Path(os.fsdecode(row)).name]
    assert [list(read_results(row)) for _ in range(2)] == [packed] * 2
    remove_results([row])
    assert list(scratch.iterdir()) == []


def test_each_write_has_a_file_of_its_own() -> None:
    rows = [write_results([bytes([n])]) for n in range(3)]
    assert [list(read_results(row)) for row in reversed(rows)] == [[b"\x02"], [b"\x01"], [b"\x00"]]


def test_results_that_are_gone_are_an_error_that_names_the_file() -> None:
    row = write_results([b"a"])
    remove_results([row])
    remove_results([row])
    with pytest.raises(JobError, match=os.fsdecode(row)):
        list(read_results(row))


def test_results_that_end_in_an_error_leave_nothing(scratch: Path) -> None:
    def failing() -> Iterator[bytes]:
        yield b"a"
        raise ValueError("in the operator")

    with pytest.raises(ValueError, match="in the operator"):
        write_results(failing())
    assert list(scratch.iterdir()) == []


def test_only_the_owner_can_read_them() -> None:
    assert os.stat(write_results([b"a"])).st_mode & 0o777 == 0o600
