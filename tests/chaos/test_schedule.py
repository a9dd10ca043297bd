"""What a schedule is made of, without running one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

from moneystate.engine.keygroup import key_group_of
from tests.chaos.damage import damage
from tests.chaos.schedule import FAILPOINTS, OF_A_HUNDRED, OPERATIONS, TARGETS, VARIANTS, schedule_of
from tests.chaos.schedules import read_results, table
from tests.chaos.targets import Difference, Enrichment, Joining, Outputs, difference, live_entries, move_to_partition
from tests.chaos.trial import Result
from tests.reference.model import LogRecord

THOUSAND = [schedule_of(seed) for seed in range(7_000, 8_000)]


def test_a_seed_always_gives_the_same_schedule() -> None:
    """Results are kept by seed, so this must not change once schedules have been run."""
    assert [str(schedule_of(seed)) for seed in (0, 1, 14, 23, 9_999)] == GOLDEN
    one = schedule_of(14)
    assert (one.records, one.batch_records, one.key_groups, one.partitions, one.topic_partitions) == GOLDEN_SIZES


def test_a_thousand_schedules_have_every_kind_and_every_failpoint_often_enough() -> None:
    kinds = Counter(s.faults[0].kind for s in THOUSAND)
    assert kinds == {kind: 10 * n for kind, n in OF_A_HUNDRED.items()}
    assert min(kinds.values()) >= 30
    steps = Counter((s.target, f.moment.step) for s in THOUSAND for f in s.faults if f.kind == "failpoint" and f.moment)
    assert min(steps[target, step] for target in TARGETS for step in FAILPOINTS) >= 10


def test_a_line_of_results_has_what_is_not_the_default_and_can_be_read_again(tmp_path: Path) -> None:
    good = Result(1, "joining: kill", "kill", "joining", starts=2, ends=["code 3: a long text"])
    bad = Result(2, "joining: kill", "kill", "joining", ends=["code 3: a long text"], lost=1)
    file = tmp_path / "results.jsonl"
    file.write_text(f"{bad.as_json()}\n{good.as_json()}\n")
    assert "problems" not in file.read_text()
    assert read_results(file) == [bad, replace(good, ends=["code 3"])]


def test_a_thousand_schedules_have_every_variant() -> None:
    seen = {(f.kind, f.variant, f.how) for s in THOUSAND for f in s.faults}
    every = {
        (kind, variant, how)
        for kind, variants in VARIANTS.items()
        for variant in variants
        for how in OPERATIONS.get(kind, ("",))
    }
    assert seen == every


def test_lost_doubled_and_wrong_records_are_counted_apart() -> None:
    want = Outputs({("t", "a"): [1, 2, 3], ("t", "b"): [4, 4]}, Counter(["x"]))
    assert difference(want, want) == Difference(0, 0, 0)
    assert not difference(want, want)
    assert difference(want, Outputs({("t", "a"): [1, 3], ("t", "b"): [4, 4]}, Counter(["x"]))) == Difference(1, 0, 0)
    assert difference(want, Outputs({("t", "a"): [1, 2, 3, 2], ("t", "b"): [4, 4]}, Counter(["x"]))).doubled == 1
    assert difference(want, Outputs({("t", "a"): [1, 2, 3], ("t", "b"): [4, 4, 9]}, Counter(["x"]))).wrong == 1
    assert difference(want, Outputs({("t", "a"): [2, 1, 3], ("t", "b"): [4, 4]}, Counter(["x"]))) == Difference(0, 0, 1)
    assert difference(want, Outputs(want.values, Counter(["x", "x"]))) == Difference(0, 1, 0)
    assert difference(want, Outputs(want.values, Counter(["y"]))) == Difference(1, 0, 1)
    assert difference(want, Outputs()) == Difference(6, 0, 0)


def test_records_that_go_to_another_partition_are_not_behind() -> None:
    target = Joining(schedule_of(23))
    least = max(time for time in target.times[:300] if time is not None)
    move_to_partition(target, "parts", 300, 7, least)
    moved = [n for n, record in enumerate(target.log) if record.partition == 7]
    assert moved
    assert all((target.times[n] or 0) >= least and n >= 300 for n in moved)
    assert [target.log[n].offset for n in moved] == list(range(len(moved)))


def test_entries_that_an_earlier_number_of_partitions_has_left_are_not_the_state() -> None:
    target, key = Enrichment(schedule_of(0)), b"uana"
    home = key_group_of(b"ana", 8) % 3
    log = [LogRecord("", home, 0, None, key, b"new"), LogRecord("", (home + 1) % 3, 0, None, key, b"old")]
    assert live_entries(target, log, key_groups=8, partitions=3) == {key: b"new"}


def test_damage_takes_one_of_the_last_files(tmp_path: Path) -> None:
    offsets = tmp_path / "offsets"
    offsets.mkdir()
    for n in (8, 9, 10):
        (offsets / str(n)).write_text("0123456789")
    for how, left in (("truncated", b"01234"), ("emptied", b"")):
        file = damage(tmp_path, "offsets", how, 1)
        assert file is not None
        assert file.name in ("9", "10")
        assert file.read_bytes() == left
        file.write_text("0123456789")
    removed = damage(tmp_path, "offsets", "removed", 1)
    assert removed is not None
    assert not removed.exists()
    assert damage(tmp_path, "commits", "removed", 1) is None


def test_the_table_counts_schedules_by_their_first_fault_and_faults_by_their_kind() -> None:
    held = Result(1, "", "kill", "joining", injected=["kill", "broker"], starts=3, seconds=10.0)
    lost = Result(2, "", "kill", "enrichment", injected=["kill"], starts=2, lost=5, seconds=20.0)
    lines = [line.split() for line in table([held, lost]).splitlines()]
    assert lines[1] == ["kill", "2", "1", "1", "2", "5", "5", "0", "0", "1", "15.0"]
    assert lines[2] == ["all", "2", "1", "1", "3", "5", "5", "0", "0", "1", "15.0"]


GOLDEN = [
    "enrichment: kill all at planned@0+144ms",
    "enrichment: failpoint all at claimed@0",
    "joining: kill worker at planned@1+45ms, broker kill at produced@2",
    "joining: partitions inputs",
    "enrichment: clock back at begun@2+113ms, broker stop at produced@0",
]
GOLDEN_SIZES = (900, 220, 8, 2, 2)
