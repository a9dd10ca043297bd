"""What a start leaves out is as in its checkpoint. No broker is needed: the jobs are only prepared."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

import moneystate as ms
from moneystate.api.rules import plain, read
from moneystate.cli.option import flagged
from moneystate.cli.remembered import notes_of
from moneystate.cli.rule_flags import rules_by_service
from moneystate.cli.service_jobs import Prepared, prepare
from moneystate.engine import plan as plans
from moneystate.errors import ConfigError, ServiceError
from moneystate.job.checkpoint import Checkpoint
from moneystate.job.startup import settings_of
from moneystate.runtime.job import job_spec
from state_tools.replay import changed_functions, other_rules

ORDERS = "examples.orders.orders:service"
TOPIC_IDS = {"orders": "id", "payments": "id"}
READ = {(topic, 0): plans.PartitionPlan(7, plans.ACTIVE) for topic in TOPIC_IDS}
LIMITED = "tests.cli.test_remembered:limited"


@dataclass(frozen=True)
class Limits:
    limit_cents: Annotated[int, ms.Rule(minimum=0, maximum=1_000)] = 100
    wait_ms: Annotated[int | None, ms.Rule(minimum=1)] = None
    least: int = 0

    def __post_init__(self) -> None:
        if self.least > self.limit_cents:
            raise ValueError("least is above limit_cents")


@dataclass(frozen=True)
class Came:
    id: str
    came_at: ms.Millis


limited = ms.Service("limited", rules=Limits())
came = limited.input("came", Came, key="id", time="came_at")


@limited.on(came)
def take(ctx: ms.Context[Limits], e: Came) -> None: ...


def prepared(*words: str) -> Prepared:
    """The job that `run` would start."""
    jobs: list[Prepared] = []

    def command(prepared: list[Prepared]) -> None:
        jobs.extend(prepared)

    app = typer.Typer()
    app.command(context_settings={"ignore_unknown_options": True})(flagged(command, "prepared", prepare))
    result = CliRunner().invoke(app, [ORDERS, "--bootstrap-servers", "127.0.0.1:1", *words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return jobs[0]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    """The checkpoint of a job with other rules, key groups and partitions than the declared ones."""
    made = Checkpoint(str(tmp_path))
    rules = job_spec(ORDERS, {"wait_ms": 60_000, "bound_ms": 7_000, "on_error": "dead-letter"}).rules
    made.keep_rules(rules)
    offset = plans.Plan(plans.rules_hash(rules), TOPIC_IDS, READ).to_offset()
    made.begin(settings_of("orders", 128, 100, "orders", ""), {"superseded": [], "offset": offset})
    return made


def test_what_a_start_leaves_out_is_as_before(checkpoint: Checkpoint) -> None:
    job = prepared("--checkpoint", checkpoint.root)
    rules = job.spec.rules
    assert (rules["wait_ms"], rules["bound_ms"], rules["on_error"]) == (60_000, 7_000, "dead-letter")
    assert (job.options.key_groups, job.options.partitions) == (128, 100)
    assert job.stay == {"wait_ms": (60_000, 1_800_000)}


def test_what_a_start_gives_is_taken_even_if_it_is_the_default(checkpoint: Checkpoint) -> None:
    given = ("--wait", "30m", "--bound", "20s", "--on-error", "fail", "--partitions", "4")
    job = prepared("--checkpoint", checkpoint.root, *given)
    rules = job.spec.rules
    assert (rules["wait_ms"], rules["bound_ms"], rules["on_error"]) == (1_800_000, 20_000, "fail")
    assert (job.options.key_groups, job.options.partitions) == (128, 4)
    assert job.stay == {}
    names = [name for name, _ in logged(job)]
    assert names == ["setting partitions changes", *[f"rule {n} changes" for n in ("bound_ms", "on_error", "wait_ms")]]


def test_a_start_logs_what_stays_although_it_is_declared_otherwise(checkpoint: Checkpoint) -> None:
    about = {"value": 60_000, "declared": 1_800_000}
    assert logged(prepared("--checkpoint", checkpoint.root)) == [("rule wait_ms stays as in the checkpoint", about)]


def test_a_new_checkpoint_has_the_defaults(tmp_path: Path) -> None:
    job = prepared("--checkpoint", str(tmp_path / "new"))
    assert (job.spec.rules["wait_ms"], job.options.key_groups, job.options.partitions) == (1_800_000, 64, 4)
    assert logged(job) == []


def test_a_rule_of_the_checkpoint_that_is_none_any_more_is_refused(checkpoint: Checkpoint) -> None:
    rules = {**checkpoint.latest_rules(), "wait_ms": "long"}
    checkpoint.keep_rules(rules)
    offset = plans.Plan(plans.rules_hash(rules), TOPIC_IDS, READ).to_offset()
    checkpoint.begin(checkpoint.settings(), {"superseded": [], "offset": offset})
    with pytest.raises(ConfigError, match=r"expected rules that this program has, but .*wait_ms: expected a whole num"):
        prepared("--checkpoint", checkpoint.root)


def test_only_other_rules_are_noted(checkpoint: Checkpoint) -> None:
    rules = checkpoint.latest_rules()
    checkpoint.keep_rules({**rules, "known_schemas": [], "state_versions": 9, "state_schemas": {}})
    assert other_rules(checkpoint, rules) == []
    checkpoint.keep_rules({**rules, "wait_ms": 1})
    assert other_rules(checkpoint, rules) == ["wait_ms"]


def test_functions_that_changed_since_the_last_start_are_noted(checkpoint: Checkpoint) -> None:
    assert changed_functions(checkpoint, {"take": "0a"}) == []  # not known
    checkpoint.keep_code("", {"take": "0a", "place": "0b"})
    assert changed_functions(checkpoint, {"take": "0c", "place": "0b", "expire": "0d"}) == ["expire", "take"]


def logged(job: Prepared) -> list[tuple[str, dict[str, Any]]]:
    return [(note.event, note.about) for note in notes_of(*job)]


@pytest.mark.parametrize(
    ("flag", "text", "message"),
    [
        ("--limit-cents", "-4", "--limit-cents: expected 0 or more, found -4."),
        ("--limit-cents", "1001", "--limit-cents: expected 1000 or less, found 1001."),
        ("--wait", "0s", "--wait: expected 1 or more, found 0s."),
    ],
)
def test_a_rule_outside_its_limits_is_refused_with_its_flag(flag: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        rules_by_service([LIMITED], [(flag, text)])
    assert refused.value.message == message


def test_a_value_at_its_limit_is_taken() -> None:
    given = [("--limit-cents", "1000"), ("--wait", "1ms")]
    assert rules_by_service([LIMITED], given) == [{"limit_cents": 1_000, "wait_ms": 1}]


def test_rules_that_contradict_each_other_are_one_line() -> None:
    with pytest.raises(ConfigError, match=r"rules that Limits accepts, but ValueError: least is above limit_c"):
        job_spec(LIMITED, {"least": 101})
    with pytest.raises(ConfigError, match=r"\[limited\]\.limit_cents: expected 0 or more, found -1"):
        read(Limits, {**plain(Limits()), "limit_cents": -1}, "[limited]")


def test_declared_rules_are_within_their_limits() -> None:
    with pytest.raises(ServiceError, match="rules: limit_cents is -4, expected 0 or more"):
        ms.Service("wrong", rules=Limits(-4, least=-9))
