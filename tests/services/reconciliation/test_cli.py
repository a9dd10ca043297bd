"""The name `reconciliation` on the command line: of two services, of a table, and of a command."""

from __future__ import annotations

from pathlib import Path

import pytest

from moneystate.cli import services
from moneystate.cli.main import app
from moneystate.cli.service_config import read_file
from moneystate.errors import ServiceError
from moneystate.runtime.reference import made_at
from services.reconciliation.completeness import COMPLETENESS
from services.reconciliation.config import Config, Pair, Side

TABLE = """
[reconciliation]
format = "avro"
[[reconciliation.inputs]]
topic = "inventory-items"
bound = "5s"
[[reconciliation.inputs]]
topic = "payments"
store = "bank"
role = "ACTUAL"
fields = { id = "payment.id", source = "region", time = "at" }
[[reconciliation.pairs]]
name = "p"
expected = { store = "shop", role = "PRODUCER_EXPECTED" }
actual = { store = "bank", role = "ACTUAL" }
n = "1m"
m = "1h"
o = "5m"
report_duplicates = true
"""


def moneystate(*arguments: str) -> None:
    app(list(arguments), prog_name="moneystate", standalone_mode=False)


def test_both_services_get_the_table(tmp_path: Path) -> None:
    file = tmp_path / "reconciliation.toml"
    file.write_text(TABLE)
    made = [made_at(reference) for reference in services.load_all("reconciliation", read_file(file))]
    assert [one.service.name for one in made] == ["reconciliation", "reconciliation-completeness"]
    assert made[0].rules == made[1].rules
    config: Config = made[0].rules
    sides = Side("shop", "PRODUCER_EXPECTED"), Side("bank", "ACTUAL")
    assert config.pairs == (Pair("p", *sides, 60_000, 3_600_000, 300_000, report_duplicates=True),)
    assert [(given.topic, given.bound_ms) for given in config.inputs] == [
        ("inventory-items", 5_000),
        ("payments", None),
    ]


def test_one_of_them_by_itself_gets_the_table_too(tmp_path: Path) -> None:
    file = tmp_path / "reconciliation.toml"
    file.write_text(TABLE)
    module = "services.reconciliation.completeness:completeness"
    for given, name in ((module, COMPLETENESS), (COMPLETENESS, COMPLETENESS), ("reconciliation", "reconciliation")):
        made = made_at(services.load(given, read_file(file)))
        assert made.service.name == name
        assert [pair.name for pair in made.rules.pairs] == ["p"]


@pytest.mark.parametrize("where", ["variable", "flag"])
def test_run_reads_the_table_though_a_command_has_its_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, where: str
) -> None:
    file = tmp_path / "reconciliation.toml"
    file.write_text(TABLE.replace('m = "1h"', 'm = "59s"'))
    config = ("--config", str(file)) if where == "flag" else ()
    if where == "variable":
        monkeypatch.setenv("MONEYSTATE_CONFIG", str(file))
    flags = ("--bootstrap-servers", "127.0.0.1:1", "--checkpoint", str(tmp_path / "checkpoint"))
    with pytest.raises(ServiceError, match=r"pair 'p': m \(59000 ms\) is less than n"):
        moneystate("run", "reconciliation", *config, *flags)


def test_the_table_is_no_table_of_the_commands_flags(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "reconciliation.toml"
    file.write_text(TABLE)
    moneystate("reconciliation", "status", "--config", str(file), "--help")
    assert "--svg" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["run", "plan"])
@pytest.mark.parametrize("name", ["reconciliation", COMPLETENESS])
def test_without_pairs_it_is_refused_and_says_what_to_write(command: str, name: str, tmp_path: Path) -> None:
    flags = ("--bootstrap-servers", "127.0.0.1:1", "--checkpoint", str(tmp_path / "checkpoint"))
    with pytest.raises(ServiceError, match=r"pairs: .* found none\. Do: give --config .*\[\[reconciliation\.pairs"):
        moneystate(command, name, *flags)
