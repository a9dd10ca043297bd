"""Services of one bounded run that read of each other run one after the other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from moneystate.engine.processor import InputTopic
from moneystate.job.stages import stages


def job(name: str, reads: list[str], writes: list[str], bounded: bool) -> Any:
    inputs = [InputTopic(code, topic, True, 0) for code, topic in enumerate(reads)]
    spec = SimpleNamespace(name=name, inputs=inputs, streams=writes)
    return SimpleNamespace(spec=spec, options=SimpleNamespace(bounded=bounded))


def names(jobs: list[Any]) -> list[list[str]]:
    return [[one.spec.name for one in stage] for stage in stages(jobs)]


def chain(bounded: bool) -> list[Any]:
    return [
        job("last", ["middle-out", "other-out"], [], bounded),
        job("first", ["in"], ["first-out"], bounded),
        job("middle", ["first-out", "in"], ["middle-out"], bounded),
        job("other", ["in"], ["other-out"], bounded),
    ]


def test_in_a_bounded_run_a_reader_begins_when_its_writers_have_ended() -> None:
    assert names(chain(bounded=True)) == [["first", "other"], ["middle"], ["last"]]


def test_a_run_without_end_has_all_at_once() -> None:
    assert names(chain(bounded=False)) == [["last", "first", "middle", "other"]]


def test_a_loop_runs_at_once() -> None:
    loop = [job("asks", ["in", "answers"], ["questions"], True), job("answers", ["questions"], ["answers"], True)]
    assert names(loop) == [["asks", "answers"]]


def test_a_reader_of_a_pattern_begins_when_the_writers_of_its_topics_have_ended() -> None:
    chained = [job("last", ["*-out"], [], True), job("first", ["in"], ["first-out"], True)]
    assert names(chained) == [["first"], ["last"]]
