"""Services that are made from a configuration."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import moneystate as ms
from moneystate.api.rules import from_text, plain, read
from moneystate.cli.durations import parse_ms
from moneystate.cli.services import load
from moneystate.errors import ConfigError, ServiceError
from moneystate.runtime.job import job_spec, service_spec
from moneystate.runtime.plans import plan_of
from moneystate.runtime.reference import made_at, with_rules
from moneystate.testing import Bench
from tests.api.services.made import Came, Config, Door, Greeted, Ignored, greeter

GREETER = "tests.api.services.made:greeter"
TOML = """
words = "good day"
wait = "30s"
keep = "1d"
[[doors]]
topic = "front"
[[doors]]
topic = "back"
rank = 1
greets = false
"""
CONFIG = Config((Door("front"), Door("back", 1, greets=False)), "good day", wait_ms=30_000, keep_ms=86_400_000)


def test_a_configuration_file_is_read_into_the_dataclass() -> None:
    assert read(Config, tomllib.loads(TOML), "[greeter]", parse_ms) == CONFIG


def test_a_table_leaves_what_it_does_not_name_as_the_service_has_it() -> None:
    own = Config((Door("side", 2),), "welcome", "loud", 1_000)
    given = read(Config, tomllib.loads('wait = "30s"'), "[greeter]", parse_ms, own)
    assert given == Config((Door("side", 2),), "welcome", "loud", 30_000)


def test_a_service_that_is_no_factory_keeps_its_own_rules_beside_its_table(tmp_path: Path) -> None:
    (tmp_path / "patient.py").write_text(
        "from tests.api.services.made import Config, Door, greeter\n"
        "patient = greeter(Config((Door('side'),), 'welcome', wait_ms=99_000))\n"
    )
    reference = load(f"{tmp_path}/patient.py:patient", {"greeter": {"style": "loud"}})
    assert made_at(reference).rules == Config((Door("side"),), "welcome", "loud", 99_000)


def test_rules_stand_in_a_plan_as_json() -> None:
    assert read(Config, json.loads(json.dumps(plain(CONFIG))), "plan") == CONFIG


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('worts = "x"', r"\[greeter\]: expected a known key, found 'worts'. Do: use .*words"),
        ("words = 3", r"\[greeter\].words: expected a string, found 3"),
        ("wait = 30", r"\[greeter\].wait: expected a duration, found 30"),
        ('wait = "30"', r"\[greeter\].wait 30: expected a number and a unit"),
        ('style = "shy"', r"\[greeter\].style: expected one of plain, loud, found 'shy'"),
        ('doors = "front"', r"\[greeter\].doors: expected a list"),
        ("doors = [{rank = 1}]", r"\[greeter\].doors\[0\]: expected the key 'topic'"),
        ('doors = [{topic = "a", rank = true}]', r"\[greeter\].doors\[0\].rank: expected a whole number, found True"),
    ],
)
def test_a_wrong_key_or_value_is_named(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        read(Config, tomllib.loads(text), "[greeter]", parse_ms)


@dataclass(frozen=True)
class Limits:
    share: float = 0.5
    pair: tuple[str, int] = ("a", 1)


def test_a_tuple_of_fixed_parts_is_read_part_by_part() -> None:
    assert read(Limits, {"pair": ["b", 2]}, "[limits]", parse_ms) == Limits(pair=("b", 2))
    assert read(Limits, json.loads(json.dumps(plain(Limits(pair=("c", 3))))), "plan") == Limits(pair=("c", 3))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("share = nan", r"\[limits\].share: expected a finite number, found nan"),
        ("share = inf", r"\[limits\].share: expected a finite number, found inf"),
        ('pair = ["b"]', r"\[limits\].pair: expected a list of 2, found one of 1"),
        ('pair = ["b", "c"]', r"\[limits\].pair\[1\]: expected a whole number, found 'c'"),
    ],
)
def test_what_a_plan_could_not_keep_is_no_rule(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        read(Limits, tomllib.loads(text), "[limits]", parse_ms)


@pytest.mark.parametrize("text", ["nan", "inf", "-inf"])
def test_a_flag_is_a_finite_number(text: str) -> None:
    with pytest.raises(ConfigError, match=f"--share {text}: expected a finite number"):
        from_text(float, text, is_duration=False, where="--share", duration=parse_ms)


def test_a_service_does_not_have_nan_as_a_rule() -> None:
    with pytest.raises(ServiceError, match="share is nan, which JSON cannot represent"):
        ms.Service("limits", rules=Limits(share=float("nan")))


def test_a_factory_makes_the_service_of_its_configuration() -> None:
    bench = Bench(greeter(CONFIG))
    front, back = bench.service.inputs
    bench.send(Came("eve", 1), to=front)
    bench.send(Came("bob", 2), to=back)
    first, second = bench.service.outputs
    assert bench.out(first, second) == [Greeted("eve", "good day"), Ignored("bob")]
    assert (bench.out(first), bench.out(second)) == ([Greeted("eve", "good day")], [Ignored("bob")])
    bench.end()


def test_a_job_knows_its_configuration_from_its_rules_alone() -> None:
    job = job_spec(with_rules(GREETER, plain(CONFIG)), {})
    saved = json.loads(json.dumps(job.rules))
    again = service_spec(GREETER, saved).job(saved)
    assert again.rules == job.rules
    assert [t.name for t in again.inputs] == ["front", "back"]
    assert again.decoder == job.decoder
    assert again.streams == ["greeted", "greeter-dead-letters"]


def test_a_flag_overrides_the_file() -> None:
    job = job_spec(with_rules(GREETER, plain(CONFIG)), {"style": "loud", "bound_ms": 5})
    assert made_at(job.service).rules.style == "loud"
    assert plan_of(job.service).rules.words == "good day"
    assert job.bound_ms == 5


@pytest.mark.parametrize(
    ("name", "rules", "says"),
    [
        ("no_config", {}, "expected a function of one configuration"),
        ("other_rules", {"words": "x"}, "expected the factory to pass its configuration as rules"),
        ("Config", {}, "expected a function of one configuration"),
        ("nothing", {}, "expected a service or its factory, found nothing"),
        ("greeter", {"wait_ms": 0}, "wait=0 ms. Do: give a time above 0"),
    ],
)
def test_what_makes_no_service_is_refused(name: str, rules: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        made_at(with_rules(f"tests.api.services.made:{name}", rules))
