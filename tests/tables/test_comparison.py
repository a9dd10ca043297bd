"""The first pass: what differs between a source and a topic, against a model of dictionaries."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moneystate.errors import InstanceError, SetupError, SourceError
from moneystate.tables.comparison import Comparison, Counts, differences
from moneystate.tables.digests import Digests, Position, Seen
from moneystate.tables.guard import check_deletions
from moneystate.tables.pending import pending
from moneystate.tables.records import Made
from moneystate.tables.rows import LINE, Problem
from tests.budget import examples

KEYS = st.sampled_from([b"", b"a", b"aa", b"b", b"\xff"])
VALUES = st.sampled_from([b"1", b"2"])
ROWS = st.lists(st.tuples(KEYS, st.one_of(VALUES, st.none())), max_size=6)


def compared(
    topic: dict[bytes, bytes], rows: Sequence[tuple[bytes | None, bytes | None]], chunk: int
) -> tuple[Counts, dict[bytes, bytes | None], list[Problem]]:
    made = [Made(n, key, value, "" if value else "bad") for n, (key, value) in enumerate(rows, 1)]
    with tempfile.TemporaryDirectory() as folder:
        digests = Digests(Path(folder) / "digests")
        digests.take("id", [Seen(key, value, 0, 0) for key, value in topic.items()], {0: Position(len(topic), 0)})
        with pending(Path(folder) / "pending") as between:
            comparison = Comparison(digests, between, LINE)
            problems = [p for n in range(0, len(made), chunk) for p in comparison.add(made[n : n + chunk])]
            counts = comparison.finish()
            written = dict(differences(between))
        digests.close()
        assert [path.name for path in Path(folder).iterdir()] == ["digests"]
    return counts, written, problems


@settings(max_examples=examples(90))
@given(st.dictionaries(KEYS, VALUES), ROWS, st.integers(1, 6), st.booleans())
def test_differences_are_those_of_the_rows_that_can_be_loaded(
    topic: dict[bytes, bytes], rows: list[tuple[bytes | None, bytes | None]], chunk: int, unknown: bool
) -> None:
    if unknown:
        rows = [*rows, (None, None)]
    keys = [key for key, _ in rows]
    good = {key: value for key, value in rows if value is not None and key is not None and keys.count(key) == 1}
    expected: dict[bytes, bytes | None] = {k: v for k, v in good.items() if topic.get(k) != v}
    gone = [key for key in topic if key not in keys]
    if not unknown:
        expected |= dict.fromkeys(gone)
    counts, written, problems = compared(topic, rows, chunk)
    assert written == expected
    deleted, held_back = (0, len(gone)) if unknown else (len(gone), 0)
    changed = sum(value is not None for value in expected.values())
    assert counts == Counts(len(good), changed, deleted, len(topic), held_back)
    bad = [n for n, (key, value) in enumerate(rows, 1) if value is None or key in keys[: n - 1]]
    assert sorted(p.number for p in problems) == bad


def test_a_key_that_occurs_twice_is_named_by_both_lines() -> None:
    _, written, problems = compared({b"a": b"1"}, [(b"a", b"2"), (b"b", b"1"), (b"a", b"3"), (b"a", b"1")], 2)
    assert problems == [Problem(3, "the key of line 1 again"), Problem(4, "the key of line 1 again")]
    assert written == {b"b": b"1"}


@pytest.mark.parametrize(
    ("rows", "known", "deleted", "is_fine"),
    [
        (1, 11, 10, True),
        (1, 12, 11, False),
        (44, 55, 11, True),
        (43, 54, 11, False),
        (0, 0, 0, False),
        (0, 5, 5, False),
    ],
)  # fmt: skip
def test_many_deletions_and_an_empty_source_are_taken_for_a_mistake(
    rows: int, known: int, deleted: int, is_fine: bool
) -> None:
    try:
        check_deletions("the query", rows, known, deleted)
    except SourceError:
        assert not is_fine
    else:
        assert is_fine


def test_of_records_in_several_partitions_the_one_with_the_greater_place_holds(tmp_path: Path) -> None:
    digests = Digests(tmp_path / "d")
    later, earlier = Seen(b"k", b"new", 20, 1), Seen(b"k", b"old", 10, 0)
    tie, gone = Seen(b"t", b"new", 10, 1), Seen(b"g", None, 20, 1)
    digests.take("id", [later, gone], {1: Position(2, 20)})
    digests.take("id", [tie, Seen(b"t", b"old", 10, 0), earlier, Seen(b"g", b"old", 10, 0)], {0: Position(3, 10)})
    new, old = digests.of([b"k", b"t"]), digests.of([b"g", b"x"])
    assert old == [None, None]
    digests.take("id", [Seen(b"k", b"new", 30, 0), Seen(b"t", b"new", 30, 0)], {})
    assert digests.of([b"k", b"t"]) == new
    assert list(digests.keys()) == [b"k", b"t"]
    assert digests.positions("id") == {0: Position(3, 10), 1: Position(2, 20)}
    assert digests.positions("another topic's id") == {}
    digests.close()


def test_a_folder_of_digests_is_of_one_loader_and_one_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    digests = Digests(tmp_path / "d")
    with pytest.raises(InstanceError):
        Digests(tmp_path / "d")
    digests.close()
    (tmp_path / "file").write_text("")
    with pytest.raises(SetupError):
        Digests(tmp_path / "file")


def test_what_a_killed_load_has_left_is_removed(tmp_path: Path) -> None:
    left = tmp_path / "p"
    left.mkdir()
    (left / "CURRENT").write_text("damaged")
    with pending(left) as rows:
        assert list(rows.entries()) == []
    assert not left.exists()
