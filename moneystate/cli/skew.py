"""`moneystate skew`: how evenly the keys of a topic would load a job."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from moneystate.cli import services
from moneystate.cli.flag_groups import ClusterFlags, FormatFlags
from moneystate.cli.option import NUMBER, Flags, Panel, flag
from moneystate.cli.options import AnyService, Json, KeyGroups, Quiet
from moneystate.cli.tables import print_table
from moneystate.cli.work_progress import WorkProgress
from moneystate.errors import ConfigError
from moneystate.kafka.client import check_reachable
from moneystate.runtime.json_topic import AVRO
from moneystate.skew.advice import advice
from moneystate.skew.key_fields import field_keys, kafka_key, parser
from moneystate.skew.loads import Load, Sample, by_chance, hot_keys, of_key_groups, of_operator_partitions
from moneystate.skew.reading import Topic, look_at, read_sample

MOST_KEYS: Final = 10
MOST_PARTITIONS: Final = 10_000


@dataclass(frozen=True)
class Report:
    """Holds what the sample says."""

    topic: Topic
    sample: Sample
    key_groups: int
    simulated: list[int]
    is_whole: bool  # the sample has all records

    @property
    def kafka(self) -> Load:
        return self.topic.load()

    @property
    def groups(self) -> Load:
        return of_key_groups(self.sample.by_key, self.key_groups)

    @property
    def operators(self) -> dict[int, Load]:
        groups = self.groups
        return {n: of_operator_partitions(groups, n) for n in self.simulated}

    def advice(self) -> str:
        return advice(self.sample.by_key, self.key_groups, max(self.simulated), self.is_whole)


@dataclass(frozen=True)
class SkewFlags(Flags):
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic, without its prefix.", show_default=False)]
    cluster: ClusterFlags
    format_flags: FormatFlags
    key: str = flag(
        "", "Field of the value that is the job's key, such as user.id.", Panel.question, "FIELD.FIELD", scope="SKEW",
        shown="the Kafka key",
    )  # fmt: skip
    key_groups: KeyGroups = 64
    simulate: str = flag("4,16,64", "Numbers of operator partitions to compare.", Panel.question, "N,...")
    sample: int = flag(100_000, "About how many records to read.", Panel.question, NUMBER, least=1)
    service: AnyService = ""
    quiet: Quiet = False
    json_output: Json = False


def skew(context: typer.Context, flags: SkewFlags) -> None:
    """Say how evenly the keys of a topic would load a job.

    It reads a sample from all parts of all partitions and writes nothing. With --key, values are read as --format says:
    avro by the schemas of --service, json as it is, confluent by the writers' schemas.
    """
    simulated = _numbers(flags.simulate)
    values = flags.format_flags.by_topic([flags.topic]).get(flags.topic, AVRO)
    service = services.chosen_if_given(context, flags.service)
    registry = flags.format_flags.schema_registry
    keys = field_keys(flags.key, parser(values, service, registry)) if flags.key else kafka_key
    servers, settings = flags.cluster.bootstrap_servers, flags.cluster.settings()
    check_reachable(servers, settings)
    seen = look_at(servers, settings, flags.cluster.topic_prefix + flags.topic)
    with WorkProgress(flags.quiet) as progress:
        taken = read_sample(servers, settings, seen, keys, flags.sample, partial(progress.show, "records read"))
    report = Report(seen, taken, flags.key_groups, simulated, is_whole=seen.load().total <= flags.sample)
    if flags.json_output:
        typer.echo(json.dumps(as_json(report)))
    else:
        print_report(Console(highlight=False), report)


def _numbers(text: str) -> list[int]:
    """Raises ConfigError."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and 1 <= int(part) <= MOST_PARTITIONS for part in parts):
        raise ConfigError(
            f"--simulate {text}: expected whole numbers from 1 to {MOST_PARTITIONS}, separated by commas.",
            "give numbers of operator partitions, such as 4,16,64.",
        )
    return [int(part) for part in parts]


def as_json(report: Report) -> dict[str, Any]:
    sample = report.sample
    return {
        "topic": report.topic.name,
        "offsets": report.kafka.total,
        "sampled": sample.records,
        "without_key": sample.without_key,
        "undecodable": sample.undecodable,
        "distinct_keys": len(sample.by_key),
        "kafka_partitions": _load(report.kafka),
        "key_groups": {**_load(report.groups), "max_to_mean_by_chance": _by_chance(report, report.groups)},
        "operator_partitions": [
            {**_load(load), "speed_up": round(load.speed_up, 3)} for load in report.operators.values()
        ],
        "hot_keys": [
            {"key": _text(one.key), "sampled": one.records, "share": one.share, "plus_minus": one.plus_minus}
            for one in hot_keys(sample.by_key, MOST_KEYS, report.is_whole)
        ],
        "advice": report.advice(),
    }


def _load(load: Load) -> dict[str, Any]:
    return {
        "count": len(load.parts),
        "max_to_mean": round(load.max_to_mean, 3),
        "heaviest": load.heaviest,
        "heaviest_share": load.heaviest_share,
    }


def _by_chance(report: Report, load: Load) -> float:
    return 1.0 if report.is_whole else round(by_chance(len(load.parts), load.total), 3)


def print_report(console: Console, report: Report) -> None:
    sample, groups = report.sample, report.groups
    share = sample.records / max(1, report.kafka.total)
    console.print(
        f"{report.topic.name}: {sample.records:,} records sampled ({share:.1%} of the offsets), "
        f"{len(sample.by_key):,} keys, {sample.without_key:,} records without a key, {sample.undecodable:,} that do "
        "not decode",
        soft_wrap=True,
    )
    rows = [_row("Kafka partitions", report.kafka, False), _row("key groups", groups, False)]
    rows += [_row("operator partitions", load, True) for load in report.operators.values()]
    numbers = ["number", "max/mean", "heaviest share", "speed-up"]
    print_table(console, ["of", *numbers], rows, right=numbers)
    if not report.is_whole:
        console.print(
            f"key groups that are in fact even show about {_by_chance(report, groups):.2f} in a sample of this size",
            soft_wrap=True,
        )
    hot = [
        [_text(one.key), f"{one.share:.2%}", f"{one.plus_minus:.2%}", f"{one.records:,}"]
        for one in hot_keys(sample.by_key, MOST_KEYS, report.is_whole)
    ]
    print_table(console, ["key", "share", "plus or minus", "sampled"], hot, right=["share", "plus or minus", "sampled"])
    console.print(report.advice(), soft_wrap=True)


def _row(name: str, load: Load, shows_speed: bool) -> list[str]:
    speed = f"{load.speed_up:.1f}" if shows_speed else ""
    return [name, f"{len(load.parts):,}", f"{load.max_to_mean:.2f}", f"{load.heaviest_share:.2%}", speed]


def _text(key: bytes) -> str:
    """Bytes that are no UTF-8 are shown as escapes."""
    return key.decode("utf-8", "backslashreplace")
