from __future__ import annotations

import random
from copy import deepcopy
from itertools import permutations, product
from typing import Any

import pytest

from services.entities.merge import Merge, Stamp, cause_and_time, command_stamp, event_stamp
from tests.services.entities.naive import Write, in_order, patched

# Bodies of each kind at each depth: a value, null, an object, an empty one, and what is below it.
BODIES: list[dict[str, Any]] = [
    {"a": 1},
    {"a": None},
    {"a": {}},
    {"a": {"b": 2}},
    {"a": {"b": None, "c": 3}},
    {"a": {"b": {"d": 4}}},
    {"a": {"b": {"d": None}}, "c": [{"d": None}]},
]
WRITES = [*(("patched", body) for body in BODIES), ("created", {"a": {"e": 5}}), ("deleted", {})]


def stamp_of(n: int) -> Stamp:
    return event_stamp(n, f"e{n}")


def merged(writes: list[Write]) -> Merge:
    merge = Merge()
    for stamp, kind, body in writes:
        merge.write(stamp, kind, deepcopy(body))
    return merge


def check(merge: Merge, writes: list[Write]) -> None:
    status, document = in_order(writes)
    assert (merge.status, merge.document) == (status, document or {}), writes


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_every_order_of_arrival_of_every_small_set_gives_the_entity(size: int) -> None:
    orders = [*permutations(range(size))]
    for kinds in product(WRITES, repeat=size):
        if size == 4 and len({str(kind) for kind in kinds}) < 4:
            continue  # twice the same is nothing new
        writes = [Write(stamp_of(n), *kind) for n, kind in enumerate(kinds)]
        first = merged(writes)
        check(first, writes)
        for order in orders[1:]:
            assert merged([writes[n] for n in order]) == first, [writes[n] for n in order]


def test_stamps_sort_by_time_then_events_by_their_ids_then_commands_by_their_places() -> None:
    parts = [
        event_stamp(-1 << 62, "z"),
        command_stamp(-2, 1 << 20, 1 << 40, "z:1"),
        event_stamp(-1, ":z"),
        event_stamp(9, ""),
        event_stamp(9, "a"),
        event_stamp(9, "a\0"),
        event_stamp(9, "b"),
        event_stamp(9, "\uffff"),
        event_stamp(9, "\U00010000"),
        command_stamp(9, 2, 10, "z"),
        command_stamp(9, 2, 9_999_999_999, "y"),
        command_stamp(9, 10, 3, "a"),
        event_stamp(10, "a"),
        event_stamp(1 << 62, ""),
    ]
    assert sorted(parts) == parts
    told = [cause_and_time(stamp) for stamp in parts]
    assert told[:5] == [("z", -1 << 62), ("z:1", -2), (":z", -1), ("", 9), ("a", 9)]


def tree(chance: random.Random, depth: int) -> dict[str, Any]:
    return {name: value(chance, depth) for name in chance.sample("abcd", chance.randrange(1, 4))}


def value(chance: random.Random, depth: int) -> Any:
    if depth and chance.random() < 0.5:
        return tree(chance, depth - 1) if chance.random() < 0.9 else {}
    return chance.choice([None, None, 1, "x", [1, {"a": None}], False])


def random_writes(chance: random.Random, count: int) -> list[Write]:
    """Many of the same time, told apart by ids, places and kinds."""
    stamps = [event_stamp(chance.randrange(count // 3), f"e{n}") for n in range(count // 2)]
    stamps += [command_stamp(chance.randrange(count // 3), n % 2, n, f"c{n}") for n in range(count - count // 2)]
    chance.shuffle(stamps)
    kinds = chance.choices(["created", "patched", "deleted"], weights=[4, 40, 1], k=count)
    return [Write(stamp, kind, tree(chance, 3)) for stamp, kind in zip(stamps, kinds, strict=True)]


@pytest.mark.parametrize("seed", range(60))
def test_any_order_of_a_large_set_gives_the_entity(seed: int) -> None:
    chance = random.Random(seed)
    writes = random_writes(chance, chance.choice([10, 40, 120]))
    first = merged(writes)
    for _ in range(3):
        chance.shuffle(writes)
        result = merged(writes)
        check(result, writes)
        assert result == first


@pytest.mark.parametrize("seed", range(60))
def test_what_is_forgotten_makes_no_difference_to_newer_writes(seed: int) -> None:
    chance = random.Random(seed)
    writes = random_writes(chance, 60)
    limit = chance.randrange(20)
    old = [write for write in writes if cause_and_time(write.stamp)[1] <= limit]
    new = [write for write in writes if cause_and_time(write.stamp)[1] > limit]
    early = chance.randrange(len(new) + 1)
    merge = merged([*old, *new[:early]])
    before = deepcopy(merge.document)
    merge.forget(limit)
    assert merge.document == before
    assert all(cause_and_time(stamp)[1] > limit for stamp in merge.stamps)
    for write in new[early:]:
        merge.write(write.stamp, write.kind, deepcopy(write.body))
        if chance.random() < 0.5:
            merge.forget(limit)
    check(merge, writes)


def patches(*bodies: tuple[int, dict[str, Any]]) -> Merge:
    return merged([Write(stamp_of(n), "patched", body) for n, body in bodies])


def test_forgetting_everything_leaves_the_document_alone() -> None:
    merge = patches((1, {"a": {"b": 1}}), (2, {"a": {"c": None}, "d": {}}))
    merge.forget(2)
    assert (merge.document, merge.marks, merge.stamps) == ({"a": {"b": 1}, "d": {}}, {}, [])


def test_each_value_knows_what_wrote_it() -> None:
    merge = patches((2, {"a": {"b": 1}, "x/y": 1, "o": {}}), (1, {"a": {"b": 0, "c~": 2}, "z": 3}))
    causes = {pointer: stamp and cause_and_time(stamp)[0] for pointer, stamp in merge.causes()}
    assert causes == {"/a/b": "e2", "/a/c~0": "e1", "/x~1y": "e2", "/o": "e2", "/z": "e1"}
    merge.forget(1)
    assert dict(merge.causes())["/z"] is None


def test_no_more_stamps_are_kept_than_two_for_each_path() -> None:
    chance = random.Random(7)
    merge = patches(*[(n, patched({}, tree(chance, 1))) for n in range(300)])
    assert len(merge.stamps) <= 2 * (4 + 4 * 4)
