"""What a sink task may do, by the marker in Kafka: every case of docs/model.md section 5."""

from __future__ import annotations

import pytest

from moneystate.engine.marker import Decision, Marker, WrongMarker, decide, decode, marker_key

HERE = "epoch-here"


def ask(marker: Marker | None, batch: int, superseded: list[str] | None = None) -> Decision:
    """Batch `batch` goes from the offset with digest d<batch> to that with d<batch + 1>."""
    return decide(marker, HERE, superseded or [], batch, f"d{batch}", f"d{batch + 1}")


def test_the_first_batch_needs_no_marker() -> None:
    assert ask(None, 0) is Decision.WRITE


def test_a_marker_of_the_batch_before_lets_the_batch_go_on() -> None:
    assert ask(Marker(HERE, 4, "d4"), 4) is Decision.WRITE


@pytest.mark.parametrize("batch", [0, 4])
def test_a_marker_of_this_batch_says_that_it_is_written(batch: int) -> None:
    assert ask(Marker(HERE, batch + 1, f"d{batch + 1}"), batch) is Decision.ALREADY_WRITTEN


@pytest.mark.parametrize(
    ("marker", "batch", "message"),
    [
        (None, 1, "commits topic was lost"),
        (Marker("another", 4, "d4"), 4, "another checkpoint"),
        (Marker("another", 1, "d1"), 0, "another checkpoint"),
        (Marker(HERE, 4, "other"), 4, "starts elsewhere"),
        (Marker(HERE, 5, "other"), 4, "rolled back and went on"),
        (Marker(HERE, 1, "other"), 0, "rolled back and went on"),
        (Marker(HERE, 6, "d6"), 4, "rolled back or restored"),
        (Marker(HERE, 3, "d3"), 4, "output topics were rolled back"),
    ],
)
def test_anything_else_is_an_error_that_says_what_happened(marker: Marker | None, batch: int, message: str) -> None:
    with pytest.raises(WrongMarker, match=message):
        ask(marker, batch)


def test_a_superseded_epochs_marker_counts_as_none_in_the_first_batch_only() -> None:
    old = Marker("old", 900, "d900")
    assert ask(old, 0, ["old"]) is Decision.WRITE
    with pytest.raises(WrongMarker):
        ask(old, 1, ["old"])
    with pytest.raises(WrongMarker):
        ask(Marker("older", 900, "d900"), 0, ["old"])


def test_ones_own_epoch_is_never_superseded() -> None:
    assert ask(Marker(HERE, 1, "d1"), 0, [HERE]) is Decision.ALREADY_WRITTEN
    with pytest.raises(WrongMarker):
        ask(Marker(HERE, 5, "d5"), 0, [HERE])


def test_a_marker_survives_its_encoding_and_its_bytes_are_these() -> None:
    marker = Marker(HERE, 7, "abc")
    assert decode(marker.encode()) == marker
    assert marker.encode() == b'{"digest":"abc","epoch":"epoch-here","nextBatch":7,"version":1}'
    assert marker_key("app", 3) == b"app/3"
