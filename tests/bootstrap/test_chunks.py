"""Chunks are the whole history, once, none too large; and they go through all partitions at the same event time."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from moneystate.bootstrap.chunks import cut_into_chunks
from moneystate.bootstrap.history import PartitionHistory
from tests.budget import examples


@st.composite
def histories(draw: st.DrawFn) -> list[PartitionHistory]:
    partitions = []
    for number in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, 50))
        end = start + draw(st.integers(0, 300))
        offsets = sorted(draw(st.sets(st.integers(start, max(start, end - 1)), max_size=6))) if end > start else []
        points = [(offset, draw(st.integers(0, 10_000))) for offset in offsets]
        partitions.append(PartitionHistory("t", number, start, end, points=points))
    return partitions


@settings(max_examples=examples(50))
@given(histories(), st.integers(5, 200))
def test_chunks_are_the_whole_history_once_and_none_is_too_large(partitions: list[PartitionHistory], most: int) -> None:
    chunks = cut_into_chunks(partitions, most)
    for p in partitions:
        spans = [chunk[p.tp] for chunk in chunks]
        assert spans[0][0] == p.start
        assert spans[-1][1] == p.end
        assert all(before[1] == after[0] for before, after in pairwise(spans))
    assert all(sum(end - start for start, end in chunk.values()) <= most for chunk in chunks)


def test_a_dense_partition_waits_for_a_sparse_one() -> None:
    hour = 3_600_000
    dense = PartitionHistory("t", 0, 0, 9_000, points=[(n, n * hour // 9_000) for n in range(0, 9_000, 500)])
    sparse = PartitionHistory("t", 1, 0, 900, points=[(n, n * hour // 900) for n in range(0, 900, 300)])
    for chunk in cut_into_chunks([dense, sparse], 1_000):
        for start, end in ((chunk["t", 0][0], chunk["t", 1][0]), (chunk["t", 0][1], chunk["t", 1][1])):
            assert abs(start / 9_000 - end / 900) < 0.05
