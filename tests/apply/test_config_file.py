"""The configuration file: what it says, and one line with its place for each mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from moneystate.apply.config import HandlerTarget, Mode, Nul, RowsTarget, Start, StateTarget, TopicSource
from moneystate.apply.config_file import read_settings
from moneystate.errors import ConfigError

TOP = 'application = "shop"\nbootstrap-servers = "b:1"\ndsn-env = "DSN"\n'
ROWS = '[rows.orders]\ntopic = "orders"\nkey = "id"\ntable = ["public", "orders"]\n'


def read(tmp_path: Path, text: str) -> object:
    file = tmp_path / "apply.toml"
    file.write_text(text)
    return read_settings(file)


def test_all_kinds_of_targets_are_read(tmp_path: Path) -> None:
    settings = read(
        tmp_path,
        TOP
        + ROWS
        + 'mode = "append"\nnul = "remove"\nstart = "latest"\n[rows.orders.columns]\nid = "id"\nsize = "box.size"\n'
        + '[handler.h]\ntopic = "t"\nhandler = "m:f"\nnotifications = "n"\nbatch = true\n'
        + '[state.s]\nservice = "m:s"\nschema = "shop"\npersonal = true\n',
    )
    assert settings.targets == (  # type: ignore[attr-defined]
        RowsTarget(
            "orders", TopicSource("orders", start=Start.latest), ("public", "orders"), ("id",),
            {"id": "id", "size": "box.size"}, Mode.append, Nul.remove,
        ),
        HandlerTarget("h", TopicSource("t"), "m:f", "n", batch=True),
        StateTarget("s", "m:s", "shop", personal=True),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("x =", "expected a TOML file"),
        (TOP, "expected a target"),
        (ROWS, "application: expected a value"),
        (TOP.replace("shop", "a b") + ROWS, "application: expected letters"),
        (TOP + 'dsn-file = "f"\n' + ROWS, "one of dsn-file and dsn-env, found both"),
        (TOP + ROWS + 'tabel = "x"\n', r"\[rows.orders\] tabel: expected a known setting"),
        (TOP + ROWS.replace('"id"', "7"), r"\[rows.orders\] key: expected a text or a list of texts, found 7"),
        (TOP + ROWS.replace('"public", ', ""), r"\[rows.orders\] table: expected \[\"SCHEMA\", \"NAME\"\]"),
        (TOP + ROWS.replace("public", "p" * 64), "expected a name of 1 to 63 bytes, found 64"),
        (TOP + ROWS + 'mode = "merge"\n', r"\[rows.orders\] mode: expected one of upsert, append, found 'merge'"),
        (TOP + ROWS + '[rows.orders.columns]\nsize = "size"\n', r"columns: expected a column for each part of the key"),
        (TOP + ROWS + 'service = "m:s"\nschemas = "f"\n', "one of service and schemas, found both"),
        (TOP + ROWS + '[handler.orders]\ntopic = "t"\nhandler = "m:f"\n', "two targets of this name"),
        (TOP + '[handler.h]\ntopic = "t"\nhandler = "m"\n', r"\[handler.h\] handler: expected MODULE:NAME, found 'm'"),
        (TOP + '[handler.h]\ntopic = "t"\nhandler = "m:f"\nbatch = 1\n', "batch: expected true or false, found 1"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_with_its_place(tmp_path: Path, text: str, where: str) -> None:
    with pytest.raises(ConfigError, match=where) as refused:
        read(tmp_path, text)
    assert "\n" not in str(refused.value).strip()
