"""What a user may name as a folder, and how Spark is told of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from moneystate.cli.main import app
from moneystate.errors import ConfigError
from moneystate.job.checkpoint import Checkpoint
from moneystate.job.local_path import local_folder, spark_path


@pytest.mark.parametrize("text", ["/a b/x", "file:/a b/x", "file:///a b/x", "FILE:///a b/x"])
def test_a_path_and_an_address_of_this_machine_are_the_same_folder(text: str) -> None:
    assert local_folder(text, "--checkpoint") == Path("/a b/x")
    assert Checkpoint(text).root == "/a b/x"
    assert spark_path(Path("/a b/x")) == "file:///a b/x"


@pytest.mark.parametrize("text", ["x", "./a:b", "a/b:c"])
def test_a_path_may_begin_here(text: str) -> None:
    assert local_folder(text, "--checkpoint") == Path.cwd() / text


@pytest.mark.parametrize("text", ["dbfs:/x", "s3://b/x", "hdfs:x", "file://host/x", "file:x", "a+b.c-1:/x"])
def test_an_address_of_another_file_system_is_refused_with_its_scheme(text: str) -> None:
    with pytest.raises(ConfigError, match=f"--archive {text.replace('+', '.')}: .* scheme"):
        local_folder(text, "--archive")


@pytest.mark.parametrize(
    "command",
    [
        ["bootstrap", "--service", "stock", "--from", "/nowhere", "--work", "/nowhere", "--out", "dbfs:/x"],
        ["checkpoint", "export", "--checkpoint", "/nowhere", "--out", "s3a:/x"],
        ["checkpoint", "show", "--checkpoint", "hdfs:/x"],
        ["bootstrap", "--service", "stock", "--from", "hdfs:/x", "--out", "/nowhere"],
        ["archive", "--service", "stock", "--bootstrap-servers", "127.0.0.1:1", "--archive", "abfss:/x"],
    ],
)
def test_a_command_refuses_a_store_without_a_host(command: list[str]) -> None:
    with pytest.raises(ConfigError, match="expected a path, file:///FOLDER or SCHEME://HOST/FOLDER"):
        app(command, standalone_mode=False)
