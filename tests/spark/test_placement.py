"""Key groups are where we say that they are."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, spark_partition_id
from pyspark.sql.functions import hash as spark_hash
from pyspark.sql.types import IntegerType, StructField, StructType

from moneystate.spark.placement import first_groups, murmur3_int, placed_keys

EDGES = [0, 1, -1, 2**31 - 1, -(2**31), 255, 256, 65_535, 65_536]


@pytest.mark.parametrize(
    ("key_groups", "partitions"), [(1, 1), (1, 4), (64, 1), (64, 2), (64, 3), (64, 7), (5, 8), (128, 200)]
)
def test_keys_are_different_and_give_their_groups_back(key_groups: int, partitions: int) -> None:
    keys = placed_keys(key_groups, partitions)
    assert [key % key_groups for key in keys] == list(range(key_groups))
    assert [murmur3_int(key) % partitions for key in keys] == [group % partitions for group in range(key_groups)]
    assert max(keys) < 2**31


@pytest.mark.parametrize(("key_groups", "partitions"), [(1, 1), (1, 4), (64, 2), (64, 7), (5, 8), (128, 200)])
def test_each_partition_with_key_groups_has_one_that_comes_first(key_groups: int, partitions: int) -> None:
    keys = placed_keys(key_groups, partitions)
    first = first_groups(keys, partitions)
    assert sorted(group % partitions for group in first) == list(range(min(key_groups, partitions)))
    for group, key in enumerate(keys):
        (leader,) = (one for one in first if one % partitions == group % partitions)
        assert keys[leader] <= key


def test_murmur3_is_sparks_hash(spark: SparkSession) -> None:
    rng = random.Random(7)
    numbers = EDGES + [rng.randrange(-(2**31), 2**31) for _ in range(20_000)]
    schema = StructType([StructField("n", IntegerType(), False)])
    rows = spark.createDataFrame([(n,) for n in numbers], schema).select("n", spark_hash("n").alias("h")).collect()
    assert [(row.n, row.h) for row in rows] == [(n, murmur3_int(n)) for n in numbers]


@pytest.mark.parametrize(("key_groups", "partitions"), [(64, 2), (64, 3), (16, 5), (3, 7)])
def test_spark_puts_key_group_g_on_partition_g_mod_n(spark: SparkSession, key_groups: int, partitions: int) -> None:
    schema = StructType([StructField("key", IntegerType(), False)])
    frame = spark.createDataFrame([(key,) for key in placed_keys(key_groups, partitions)], schema)
    placed = frame.repartition(partitions, col("key")).select("key", spark_partition_id().alias("position")).collect()
    assert len(placed) == key_groups
    assert {row.key % key_groups: row.position for row in placed} == {g: g % partitions for g in range(key_groups)}
