"""Settings of Kafka clients: secrets are looked up by the client that is made, and no error tells a value."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from moneystate.errors import ConfigError
from moneystate.kafka.client import admin_client, base_config, new_client
from moneystate.kafka.settings import kafka_settings, resolved

SECRET = "hunter2;#=${x}"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OF_THE_TEST", SECRET)
    (tmp_path / "token").write_text(f"{SECRET}\n")
    path = tmp_path / "kafka.properties"
    path.write_text(
        "# of the job\n\n! too\nsasl.username = job\n"
        f"sasl.password={SECRET}\n"
        "ssl.key.password=${env:OF_THE_TEST}\n"
        f"sasl.oauthbearer.client.secret=${{file:{tmp_path}/token}}\n"
        "sasl.oauthbearer.config=principal=job secret=${env:OF_THE_TEST}\n"
    )
    return path


def test_secrets_stand_in_the_settings_of_a_client_alone(file: Path) -> None:
    settings = kafka_settings(file, {"sasl.username": "flag", "client.id": "${env:OF_THE_TEST}"})
    assert "hunter2" not in repr(settings)
    assert resolved(settings) == {
        "sasl.username": "flag",
        "sasl.password": SECRET,
        "ssl.key.password": SECRET,
        "sasl.oauthbearer.client.secret": SECRET,
        "sasl.oauthbearer.config": f"principal=job secret={SECRET}",
        "client.id": SECRET,
    }
    assert base_config("b:1", settings)["sasl.password"] == SECRET


def test_a_client_that_is_made_later_has_the_new_value(file: Path) -> None:
    settings = kafka_settings(file, {})
    file.write_text("sasl.password=other")
    assert resolved({"sasl.password": settings["sasl.password"]}) == {"sasl.password": "other"}


@pytest.mark.parametrize(
    "name",
    [
        "sasl.password",
        "ssl.key.password",
        "ssl.keystore.password",
        "ssl.key.pem",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.config",
        "sasl.oauthbearer.assertion.private.key.pem",
        "sasl.oauthbearer.assertion.private.key.passphrase",
    ],
)
def test_a_secret_is_refused_on_the_command_line(name: str) -> None:
    with pytest.raises(ConfigError, match=name) as refused:
        kafka_settings(None, {name: "hunter2"})
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("${env:NOT_THERE}", "NOT_THERE"),
        ("${file:/no/such/file}", "/no/such/file"),
        ("${file:/no/such/file:sasl.password}", "/no/such/file"),
        ("${file:FILE:other}", "other="),
    ],
)
def test_a_reference_to_nothing_says_what_is_missing(file: Path, value: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        admin_client("127.0.0.1:1", {"sasl.password": value.replace("FILE", str(file))})
    assert "sasl.password" in str(refused.value)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("content", [b"sasl.password hunter2", b"=hunter2", b"\xff hunter2"])
def test_a_file_that_is_malformed_is_told_by_its_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "kafka.properties"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=str(path)) as refused:
        kafka_settings(path, {})
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("make", [AdminClient, Consumer, Producer])
@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"sasl.passwrod": "hunter2"}, "no setting sasl.passwrod"),
        ({"security.protocol": "hunter2"}, "refuses the value of security.protocol"),
        ({"reconnect.backoff.ms": "99999999"}, r"reconnect.backoff.ms, allowed are 0\.\.3600000"),
        ({"ssl.key.pem": "hunter2", "security.protocol": "ssl"}, "ssl.key.pem"),
        ({"error_cb": "hunter2"}, "error_cb"),
    ],
)
def test_what_librdkafka_refuses_is_told_without_its_value(make: type, settings: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=told) as refused:
        new_client(make, {**base_config("127.0.0.1:1", settings), "group.id": "g"})
    assert "hunter2" not in str(refused.value)
    assert "99999999" not in str(refused.value)
