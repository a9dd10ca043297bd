"""What `moneystate reconciliation status` shows, on the screen and as SVG."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from rich.console import Console

from moneystate.errors import BrokerError
from moneystate.records.codec import Codec
from moneystate.records.shapes import Shapes
from services.reconciliation.cli.board import Board, percent_text
from services.reconciliation.cli.follow import reader
from services.reconciliation.records import Completeness, Finding

HOUR = 3_600_000


def record(pair: str, hour: int, expected: int, matched: int, missing: int, revision: int = 1) -> Completeness:
    pending = expected - matched - missing
    percent = 100.0 * matched / expected if expected else 100.0
    start = hour * HOUR
    return Completeness(
        pair, start, start + HOUR, expected, matched, missing, pending, 1, 2, 3, percent, revision, revision == 9
    )


def lines(board: Board, width: int = 140, height: int = 1_000) -> list[list[str]]:
    console = Console(file=io.StringIO(), width=width)
    with console.capture() as capture:
        console.print(board.view(width, height))
    return [line.split() for line in capture.get().splitlines() if line.strip()]


def board(*records: Completeness, intervals: int = 2, pair: str = "") -> Board:
    made = Board(intervals, pair)
    for one in records:
        made.take(one)
    return made


def test_the_last_intervals_of_each_pair_are_shown_each_by_its_latest_record() -> None:
    b = board(record("b", 1, 4, 4, 0), record("a", 1, 1, 1, 0), record("a", 2, 4, 1, 1), record("a", 3, 9, 0, 0))
    b.take(record("a", 3, 2000, 1999, 1, revision=9))
    rows = lines(b)[2:]
    day, text = "1970-01-01", "█"
    counts = ["2,000", "1,999", "1", "0", "1", "2", "3"]
    bar = text * 20
    assert rows[0] == ["a", day, "03:00:00", "04:00:00", "99.95%", bar, *counts, "final"]
    assert [row[row.index(day) + 1] for row in rows] == ["03:00:00", "02:00:00", "01:00:00"]
    assert [row[0] for row in rows] == ["a", day, "b"]
    assert "█" * 5 + "▒" * 10 + "█" * 5 in rows[1]


def test_a_narrow_screen_shows_what_matters_most() -> None:
    b = board(record("shop-lake-2", 1, 1_000_000, 4, 1))
    wanted = ["shop-lake-2", "1970-01-01", "01:00:00", "0.00%", "1", "999,995", "1"]
    assert lines(b, 80)[2] == wanted


@pytest.mark.parametrize("width", [20, 40, 80, 100, 140, 300])
def test_no_name_and_no_number_is_cut_off(width: int) -> None:
    name = "shop-" * 39

    def shown(end: str, missing: int) -> list[list[str]]:
        return lines(board(record(name + end, 1, 2_000_000_000, 5, missing), intervals=1), width)

    assert shown("1", 1_000_000_001) != shown("2", 1_000_000_001)
    assert shown("1", 1_000_000_001) != shown("1", 1_000_000_002)
    assert "…" not in str(shown("1", 1_000_000_001))


def test_no_more_intervals_are_shown_than_the_screen_has_lines_for() -> None:
    b = board(*[record(pair, hour, 4, 4, 0) for pair in "ab" for hour in range(9)], intervals=8)
    rows = lines(b, height=9)[2:]
    assert [row[0] for row in rows] == ["a", "1970-01-01", "1970-01-01", "b", "1970-01-01", "1970-01-01"]
    assert len(lines(b)[2:]) == 16
    assert len(lines(b, height=1)[2:]) == 2


def test_one_pair_alone_and_none_at_all() -> None:
    b = board(record("b", 1, 4, 4, 0), record("a", 1, 1, 1, 0), pair="b")
    assert [row[0] for row in lines(b)[2:]] == ["b"]
    assert lines(board())[-1] == ["no", "interval", "yet"]


def test_what_is_not_complete_is_never_shown_as_100() -> None:
    assert [percent_text(p) for p in (100.0, 99.99999999999999, 0.0, 50.0)] == ["100.00%", "99.99%", "0.00%", "50.00%"]


def test_a_percentage_is_cut_off_and_not_lower_than_that() -> None:
    fractions = [(29, 10_000), (113, 10_000), (1, 3), (6_666, 10_000), (1, 10**9), (10**9 - 1, 10**9)]
    wanted = ["0.29%", "1.13%", "33.33%", "66.66%", "0.00%", "99.99%"]
    assert [percent_text(100 * n / whole) for n, whole in fractions] == wanted


@pytest.mark.parametrize(
    ("start_ms", "shown"), [(253_402_300_500_000, "9999-12-31"), (-62_135_597_100_000, "0000-12-31")]
)
def test_an_interval_beyond_the_years_1_to_9999_is_shown(start_ms: int, shown: str) -> None:
    one = replace(record("a", 1, 4, 4, 0), interval_start=start_ms, interval_end=start_ms + 300_000)
    assert lines(board(one))[2][1] == shown
    assert "100.00%" in "".join(ET.fromstring(board(one).svg()).itertext()).replace("\xa0", " ")


def test_the_svg_is_whole_and_asks_nothing_of_the_internet() -> None:
    names = ["shop-" * 39 + end for end in "12"]
    most = record("a", 2, 4_000_000_000, 1_000_000_000, 1)
    svg = board(most, record("<&>", 3, 9, 9, 0), *[record(name, 3, 9, 9, 0) for name in names]).svg()
    tree = ET.fromstring(svg)
    text = "".join(tree.itertext())
    assert "25.00%" in text.replace("\xa0", " ")
    assert "<&>" in text
    assert "…" not in text
    assert text.count("shop-") == 2 * 39
    assert "2,999,999,999" in text
    assert "http" not in svg.replace("http://www.w3.org/2000/svg", "")


def test_records_are_read_in_avro_and_in_json() -> None:
    codec = Codec(Shapes("reconciliation").record(Completeness, "a test"))
    one = record("a", 2, 4, 1, 1)
    assert reader(Completeness)(codec.encode(one)) == reader(Completeness)(codec.to_json(one)) == one
    with pytest.raises(BrokerError, match="expected a record of Completeness"):
        reader(Completeness)(
            Codec(Shapes("reconciliation").record(Finding, "a test")).encode(Finding("p", "s", "e", None, "LOST", 1, 2))
        )
