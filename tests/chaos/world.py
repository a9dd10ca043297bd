"""What one worker has for all its schedules: a broker, the network before it, and machines."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka.admin import AdminClient

from moneystate.devbroker import DevBroker
from tests.chaos.clock import Clock
from tests.chaos.machine import Machine
from tests.chaos.network import Proxy, second_listener
from tests.workloads.workload_log import log_producer


class World:
    def __init__(self, folder: Path) -> None:
        settings, ports = second_listener()
        self.folder = folder
        self.broker = DevBroker(folder / "broker", ports.broker, settings=settings)
        self.broker.start()
        self.servers = self.broker.bootstrap_servers
        self.producer = log_producer(self.servers)
        self.proxy = Proxy(ports.outer, ports.inner)
        self.first, self.second = Machine(folder / "first"), Machine(folder / "second")
        self.clock = Clock(folder)
        self._turned: Machine | None = None

    def machine_with_a_clock(self) -> Machine | None:
        """It has the time of `clock`; None: libfaketime is not installed."""
        environment = self.clock.environment()
        if self._turned is None and environment is not None:
            self._turned = Machine(self.folder / "turned", environment)
        return self._turned

    def delete_topics(self, prefix: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        names = [name for name in admin.list_topics(timeout=30).topics if name.startswith(prefix)]
        for future in (admin.delete_topics(names) if names else {}).values():
            future.result()

    def close(self) -> None:
        for machine in (self.first, self.second, self._turned):
            if machine is not None:
                machine.close()
        self.proxy.close()
        self.broker.stop()
