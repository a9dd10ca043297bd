"""The broker itself: a real Kafka, started, stopped, killed and refused."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from moneystate.devbroker import DevBroker
from moneystate.devbroker.record import RECORD_FILE, running_process, write_record
from moneystate.errors import SetupError

DEADLINE_S = 90.0


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[DevBroker]:
    """A broker for a test that stops or kills it."""
    with DevBroker(tmp_path / "broker") as running:
        yield running


def create_topic(broker: DevBroker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(topic, 1)])[topic].result(DEADLINE_S)


def produce(broker: DevBroker, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "acks": "all"})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(DEADLINE_S) == 0


def consume(broker: DevBroker, topic: str, count: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "test"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        return [record.value() for record in consumer.consume(count, DEADLINE_S)]
    finally:
        consumer.close()


def test_records_written_can_be_read(broker: DevBroker, topic_prefix: str) -> None:
    topic = f"{topic_prefix}t"
    create_topic(broker, topic)
    produce(broker, topic, [b"a", b"b"])
    assert consume(broker, topic, 2) == [b"a", b"b"]


def test_transactions_work_on_one_node(broker: DevBroker, topic_prefix: str) -> None:
    topic = f"{topic_prefix}t"
    create_topic(broker, topic)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": f"{topic_prefix}id"})
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    producer.produce(topic, b"a")
    producer.commit_transaction(DEADLINE_S)
    assert consume(broker, topic, 1) == [b"a"]


def test_it_listens_on_loopback_only(broker: DevBroker) -> None:
    connections = psutil.Process(broker.pid).net_connections()
    hosts = {c.laddr.ip.removeprefix("::ffff:") for c in connections if c.status == psutil.CONN_LISTEN}
    assert hosts == {"127.0.0.1"}


def test_topics_are_not_made_by_asking_for_them(broker: DevBroker, topic_prefix: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    asked = admin.list_topics(f"{topic_prefix}missing", timeout=DEADLINE_S)
    assert asked.topics[f"{topic_prefix}missing"].error is not None
    assert f"{topic_prefix}missing" not in admin.list_topics(timeout=DEADLINE_S).topics


def test_stop_ends_the_process_and_forgets_it(own_broker: DevBroker, tmp_path: Path) -> None:
    pid = own_broker.pid
    own_broker.stop()
    assert not psutil.pid_exists(pid)
    assert own_broker.running is None
    assert not (tmp_path / "broker" / RECORD_FILE).exists()
    own_broker.stop()  # a second time is no error
    with pytest.raises(SetupError):
        _ = own_broker.bootstrap_servers


def test_kill_and_restart_keeps_data_and_port(own_broker: DevBroker) -> None:
    create_topic(own_broker, "t")
    produce(own_broker, "t", [b"a", b"b"])
    before, pid = own_broker.bootstrap_servers, own_broker.pid
    own_broker.kill()
    assert own_broker.running is None
    own_broker.start()
    assert own_broker.bootstrap_servers == before
    assert own_broker.pid != pid
    assert consume(own_broker, "t", 2) == [b"a", b"b"]


def test_another_object_on_the_folder_finds_and_stops_it(own_broker: DevBroker, tmp_path: Path) -> None:
    other = DevBroker(tmp_path / "broker")
    assert other.running == own_broker.running
    other.stop()
    assert own_broker.running is None


def test_a_second_start_on_a_folder_in_use_is_refused(own_broker: DevBroker, tmp_path: Path) -> None:
    pid = own_broker.pid
    with pytest.raises(SetupError, match="expected no running broker"):
        DevBroker(tmp_path / "broker").start()
    assert own_broker.pid == pid


def test_a_port_in_use_is_refused_and_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        broker = DevBroker(tmp_path / "broker", port)
        with pytest.raises(SetupError, match=f"port {port}"):
            broker.start()
        assert broker.running is None


def test_a_broker_that_cannot_start_shows_the_end_of_its_log(tmp_path: Path) -> None:
    broker = DevBroker(tmp_path / "broker", settings={"num.io.threads": "none"})
    with pytest.raises(SetupError, match=r"num\.io\.threads"):
        broker.start()
    assert broker.running is None


def test_a_failure_after_formatting_shows_the_end_of_its_log_too(tmp_path: Path) -> None:
    with DevBroker(tmp_path / "broker"):
        pass
    with pytest.raises(SetupError, match=r"did not|ended at once") as failed:
        DevBroker(tmp_path / "broker", heap="1k").start()
    assert "heap" in str(failed.value).lower()


def test_another_process_with_a_broker_s_id_is_left_alone(tmp_path: Path) -> None:
    """The record names a process that lives and was started at that time, but does not run this folder's broker."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as bystander:
        write_record(tmp_path, bystander.pid, 9092)
        broker = DevBroker(tmp_path)
        assert broker.running is None
        broker.kill()
        broker.stop()
        assert bystander.poll() is None
        bystander.terminate()


def test_a_reused_process_id_is_left_alone(own_broker: DevBroker, tmp_path: Path) -> None:
    """As after a reboot: the id is taken again, even by a broker of this folder, but not by the process recorded."""
    record_file = tmp_path / "broker" / RECORD_FILE
    recorded = record_file.read_text()
    stale = json.loads(recorded)
    stale["created_s"] -= 3600
    record_file.write_text(json.dumps(stale))
    assert running_process(tmp_path / "broker") is None
    record_file.write_text(recorded)
    assert own_broker.running is not None


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": 1}'])
def test_a_damaged_record_is_as_none(tmp_path: Path, content: str) -> None:
    (tmp_path / RECORD_FILE).write_text(content)
    assert DevBroker(tmp_path).running is None


def test_it_starts_over_a_stale_record(tmp_path: Path) -> None:
    folder = tmp_path / "broker"
    folder.mkdir()
    (folder / RECORD_FILE).write_text(json.dumps({"pid": os.getpid(), "port": 9092, "created_s": 0.0}))
    with DevBroker(folder) as broker:
        assert broker.pid != os.getpid()


def test_it_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from moneystate.devbroker import DevBroker\n"
        "broker = DevBroker(Path(sys.argv[1])); broker.start(); print(broker.pid, flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "broker")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    ) as starter:
        assert starter.stdout is not None
        broker = psutil.Process(int(starter.stdout.readline()))
        starter.send_signal(signal.SIGKILL)
        broker.wait(DEADLINE_S)  # raises if it lives on
