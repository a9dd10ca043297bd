"""Comparing states and outputs: nothing where they are the same, else what differs and whose it is."""

from __future__ import annotations

from pathlib import Path

from moneystate.engine import clock as clocks
from moneystate.engine.plan import ACTIVE, PartitionPlan, Plan
from moneystate.engine.state import MemoryState
from moneystate.savepoint.compare import compare
from moneystate.savepoint.facts import facts
from moneystate.savepoint.fingerprint import Fingerprint, of_group
from moneystate.savepoint.format import Savepoint, begin, finish, write_state
from moneystate.savepoint.manifest import EXPORT, Manifest
from moneystate.savepoint.rescale import rescale
from moneystate.savepoint.view import owner_view
from moneystate.testing.simulation import Simulation
from state_tools.replay import compared, complete_keys, digest_of, drained
from tests.enrichment.harness import inputs, simulation
from tests.enrichment.jobs import STATE, Rules, enrichment_job
from tests.enrichment.topics import USER_EVENTS, WALLET_EVENTS
from tests.reference import model
from tests.workloads.workload_log import workload_log

RULES = model.Rules()
KEPT = enrichment_job(Rules(lookup=True)).rules
SILENT = [(USER_EVENTS, 8), (WALLET_EVENTS, 9)]


def ran(events: int = 400, key_groups: int = 4) -> Simulation:
    records, partitions = workload_log("--partitions", "2", "--users", "20", "--events", str(events), "--seed", "3")
    sim = simulation(RULES, partitions, key_groups)
    sim.batch(inputs(records))
    return sim


def written(out: Path, states: list[MemoryState]) -> Savepoint:
    folder = begin(out)
    groups = [sorted(state.entries.items()) for state in states]
    total = sum([of_group(n, entries, STATE, KEPT) for n, entries in enumerate(groups)], Fingerprint())
    counts: dict[str, int] = {}
    for state in states:
        for name, n in clocks.decode(state.entries[clocks.KEY]).counts.items():
            counts[name] = counts.get(name, 0) + n
    job = enrichment_job(Rules(lookup=True))
    finish(
        out,
        Manifest(
            EXPORT, "", job.name, [], dict(job.rules), len(states), 2, None,
            clocks.decode(states[0].entries[clocks.KEY]).watermark, counts, str(total),
            [write_state(folder, n, entries) for n, entries in enumerate(groups)],
        ),
    )  # fmt: skip
    return Savepoint(out)


def test_a_rescaled_savepoint_is_the_same_state(tmp_path: Path) -> None:
    one = written(tmp_path / "one", ran().states)
    rescale(STATE, one, tmp_path / "other", 7, lambda _: None)
    other = Savepoint(tmp_path / "other")
    assert other.manifest.key_groups == 7
    assert compare(STATE, one, other, 5).total == 0
    assert compare(STATE, other, one, 5).total == 0
    rescale(STATE, other, tmp_path / "back", 4, lambda _: None)
    back = Savepoint(tmp_path / "back")
    assert [dict(back.entries(n)).keys() - {clocks.KEY} for n in range(4)] == [
        dict(one.entries(n)).keys() - {clocks.KEY} for n in range(4)
    ]


def test_what_differs_is_told_with_its_user_and_both_contents(tmp_path: Path) -> None:
    sim, longer = ran(), ran(450)
    one = written(tmp_path / "one", sim.states)
    other = written(tmp_path / "other", longer.states)
    rescale(STATE, other, tmp_path / "rescaled", 3, lambda _: None)
    comparison = compare(STATE, one, other, 3)
    assert comparison.total > 3
    assert len(comparison.first) == 3
    assert comparison.total == compare(STATE, one, Savepoint(tmp_path / "rescaled"), 0).total
    watermark = next(d for d in compare(STATE, one, other, 10_000).first if d.kind == "watermark")
    assert (watermark.one, watermark.other) == ((sim.watermark,), (longer.watermark,))


def test_users_are_shown_with_all_that_the_state_has_of_them() -> None:
    sim = ran()
    entries = [entry for state in sim.states for entry in sorted(state.entries.items())]
    users = {fact.key for fact in facts(entries, STATE, KEPT, with_clock=False)}
    views = [owner_view(STATE, user, entries, KEPT) for user in users]
    shown = [view for view in views if view is not None]
    assert len(shown) == len(users)
    assert sum(len(view["buffered"]) for view in shown) == sim.buffered
    assert sum(len(view["state"]["session_lookup"]) for view in shown) == sim.counts["looking_up"] > 0
    assert all(view["timers"] for view in shown if view["state"]["waiting"])
    assert owner_view(STATE, b"nobody", entries, KEPT) is None


def test_a_replay_takes_a_drain_from_the_plan(tmp_path: Path) -> None:
    job = enrichment_job(Rules(lookup=True))
    names = {t.code: t.name for t in job.inputs}
    sim = ran()
    one = written(tmp_path / "one", sim.states)
    plan = Plan("", {}, {(names[t], p): PartitionPlan(0, ACTIVE) for t, p in sim.partitions}, drain=True)
    replayed = drained(one, tmp_path / "drained", plan, job)
    before = len(sim.outputs)
    sim.batch([], drain=True)
    want = written(tmp_path / "want", sim.states)
    assert replayed.manifest.fingerprint == want.manifest.fingerprint
    assert replayed.manifest.watermark == sim.watermark
    put_out = [output for group in range(4) for output in replayed.outputs(group)]
    assert sorted(map(repr, put_out)) == sorted(map(repr, sim.outputs[before:]))


A, B, C = (b"ana", b"1"), (b"ana", b"2"), (b"ben", b"1")


def in_topic(*records: tuple[bytes, bytes]) -> dict[bytes, tuple[int, bytes]]:
    return {digest_of(*record): (records.count(record), record[0]) for record in records}


def test_outputs_agree_exactly_when_both_have_each_record_as_often() -> None:
    assert compared(in_topic(A, B, B), [B, A, B], before=False).agrees()
    twice = compared(in_topic(A, B, B), [A, B], before=False)
    assert (twice.agrees(), twice.missing, twice.more, twice.examples) == (False, 0, 1, [b"ana"])
    lost = compared(in_topic(A), [A, C], before=False)
    assert (lost.agrees(), lost.missing, lost.more, lost.examples) == (False, 1, 0, [b"ben"])


def test_what_was_there_before_the_checkpoint_is_no_difference_what_is_missing_is() -> None:
    assert compared(in_topic(A, B, C), [A, C], before=True).agrees()
    assert not compared(in_topic(A), [A, C], before=True).agrees()


def test_a_compacted_topic_may_lack_records_that_a_later_one_of_their_key_replaced() -> None:
    topic, gone = in_topic(B), (b"ben", None)
    for groups in ([[A, B]], [[A, B, B]], [[A, B, C, gone]], [[A], [B]], [[B], [A]]):
        complete = complete_keys(topic, groups)
        assert compared(topic, [record for its in groups for record in its], False, complete).agrees(), groups
    for groups, missing in ([[B, A]], 1), ([[A, B, C]], 1), ([[A], [C]], 2):
        result = compared(topic, [record for its in groups for record in its], False, complete_keys(topic, groups))
        assert (result.agrees(), result.missing) == (False, missing), groups
    extra = compared(in_topic(A, B), [B], False, complete_keys(in_topic(A, B), [[B]]))
    assert (extra.agrees(), extra.missing, extra.more) == (False, 0, 1)
