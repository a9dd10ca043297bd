"""The loads that counted keys give, and what is answer about them."""

from __future__ import annotations

from collections import Counter

import pytest

from moneystate.engine.keygroup import key_group_of
from moneystate.skew.advice import LEAST_IN_GROUP, advice
from moneystate.skew.loads import (
    Load,
    Sample,
    by_chance,
    hot_keys,
    of_key_groups,
    of_operator_partitions,
    speed_ups,
)
from moneystate.spark.placement import murmur3_int, placed_keys

UNIFORM = Counter({f"key-{n}".encode(): 10 for n in range(20_000)})
ONE_HOT = UNIFORM + Counter({b"hot": 50_000})  # a fifth of the whole
# half of the load on a few hundred keys: a key group or two more decides
LUMPY = UNIFORM + Counter({f"lump-{n}".encode(): 1_000 for n in range(200)})


def test_a_load_is_compared_with_an_even_one() -> None:
    load = Load((10, 40, 20, 10))
    assert (load.total, load.heaviest, load.heaviest_share) == (80, 1, 0.5)
    assert (load.max_to_mean, load.speed_up) == (2.0, 2.0)
    assert (Load(()).heaviest_share, Load((0, 0)).speed_up) == (0.0, 0.0)


def test_key_groups_are_those_of_a_job() -> None:
    by_key = Counter({b"a": 3, b"b": 5})
    groups = of_key_groups(by_key, 64)
    assert groups.total == 8
    assert groups.parts[key_group_of(b"a", 64)] >= 3
    assert groups.parts[key_group_of(b"b", 64)] >= 5


@pytest.mark.parametrize("partitions", [1, 3, 4, 16, 64, 100])
def test_operator_partitions_are_those_on_which_a_job_places_key_groups(partitions: int) -> None:
    groups = of_key_groups(LUMPY, 64)
    loads = [0] * partitions
    for group, key in enumerate(placed_keys(64, partitions)):
        loads[murmur3_int(key) % partitions] += groups.parts[group]
    assert of_operator_partitions(groups, partitions).parts == tuple(loads)


def test_hot_keys_are_ranked_with_the_error_of_their_estimate() -> None:
    first, second = hot_keys(Counter({b"a": 100, b"b": 250, b"c": 50}), 2, is_whole=False)
    assert (first.key, first.records, first.share) == (b"b", 250, 0.625)
    assert (second.key, second.share) == (b"a", 0.25)
    assert first.plus_minus == pytest.approx(0.0474, abs=0.001)
    assert hot_keys(Counter({b"a": 1}), 1, is_whole=True)[0].plus_minus == 0


def test_what_a_sample_shows_of_an_even_load_is_about_what_chance_gives() -> None:
    shown = of_key_groups(Counter({f"{n}".encode(): 1 for n in range(10_000)}), 64).max_to_mean
    assert 1 < shown < 1.5
    assert shown == pytest.approx(by_chance(64, 10_000), abs=0.15)
    assert by_chance(1, 100) == by_chance(64, 0) == 1


def test_a_record_with_several_keys_counts_for_each_and_one_without_for_none() -> None:
    sample = Sample()
    for keys in ([b"a", b"b"], [b"a"], []):
        sample.add(keys)
    sample.add_undecodable()
    assert (sample.records, sample.steps, sample.without_key, sample.undecodable) == (4, 3, 1, 1)
    assert sample.by_key == {b"a": 2, b"b": 1}


def test_even_keys_need_nothing() -> None:
    got = speed_ups(UNIFORM, 1_024, [16])[16]
    assert advice(UNIFORM, 1_024, 16, True) == (
        f"The load is even: 16 operator partitions give {got:.1f} times the speed of one."
    )


def test_more_key_groups_are_advised_where_they_help() -> None:
    answer = advice(UNIFORM, 16, 64, True)
    assert answer.startswith("More key groups help: with ")
    groups = int(answer.split("with ")[1].split(" ")[0].replace(",", ""))
    assert groups > 16
    assert speed_ups(UNIFORM, groups, [64])[64] > 2 * speed_ups(UNIFORM, 16, [64])[64]


def test_a_hot_key_bounds_the_speed_up_whatever_the_key_groups() -> None:
    answer = advice(ONE_HOT, 1_024, 64, True)
    assert answer.startswith("One key has 20.0% of the records")
    assert "64 operator partitions give 4.7 times the speed of one and no number gives more than 5.0 times" in answer
    assert all(speed_ups(ONE_HOT, n, [64])[64] <= 5 for n in (64, 1_024, 16_384))


def test_a_hot_key_does_not_matter_to_a_few_partitions() -> None:
    assert advice(ONE_HOT, 1_024, 2, True).startswith("The load is even")


def test_a_sample_that_is_too_small_asks_for_a_larger_one() -> None:
    few = Counter({f"{n}".encode(): 1 for n in range(50)})
    assert advice(few, 64, 4, False) == f"The sample is small for 64 key groups: give --sample {64 * LEAST_IN_GROUP}."
    assert "sample" not in advice(few, 64, 4, True)


def test_without_keys_the_flags_are_to_be_checked() -> None:
    assert advice(Counter(), 64, 4, True) == "No record of the sample has a key: check --key and --format."
