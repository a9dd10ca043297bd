"""The transactions of one application: which are open, and how to end those of an application that does not come back.

An application has a transactional id for each output partition, and one that writes its claims. The commits topic has a
partition for each output partition, so their number is known without its checkpoint.

A start of the application ends all its open transactions. `abort` does the same without a batch: it claims the output
partitions of the transactions (`moneystate.kafka.claims`), which aborts them. If the run is alive after all, it ends as
if another instance had been started, and writes nothing more. The next start continues after its last committed batch.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Sequence

import psutil
from confluent_kafka.admin import AdminClient

from moneystate.engine.marker import CLAIM, decode_claim, marker_key
from moneystate.errors import ConfigError, InstanceError
from moneystate.kafka import claims
from moneystate.kafka.client import admin_client
from moneystate.kafka.offsets import topic_states
from moneystate.kafka.sink import SinkConfig, transactional_id
from moneystate.kafka.transaction_log import Transaction, transactions, whole_log

# A run that is alive changes a transaction at least this often, unless a batch takes longer.
ALIVE_S = 10.0


class Application:
    """An application id, and the commits topic (with prefix) that has its claims."""

    def __init__(self, bootstrap_servers: str, extra: dict[str, str], application_id: str, commits: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.extra = extra
        self.application_id = application_id
        self.commits = commits
        self.admin: AdminClient = admin_client(bootstrap_servers, extra)

    def ids(self) -> list[str]:
        """All transactional ids that the application can have. Raises SetupError if there is no commits topic."""
        numbered = [transactional_id(self.application_id, partition) for partition in self._partitions()]
        return [claims.claim_id(self.application_id), *numbered]

    def transactions(self) -> list[Transaction]:
        """The states of the ids that the brokers know, in the order of `ids`."""
        ids = self.ids()
        open_ones = transactions(self.bootstrap_servers, self.extra, ids)
        return [open_ones[one] for one in ids if one in open_ones]

    def abort(self, ids: Sequence[str], fence_running: bool) -> list[Transaction]:
        """Aborts the open transactions, only those of `ids` if there are any. Returns them.

        Raises ConfigError for ids of others, and InstanceError if a run of the application seems to be alive, unless
        `fence_running`.
        """
        self._check_own(ids)
        claimants = self._claimants()
        seen = self.transactions()
        wanted = [t for t in seen if t.is_open and (not ids or t.transactional_id in ids)]
        if not wanted:
            return []
        if not fence_running:
            _check_not_alive(self.application_id, claimants, seen, "--fence-running ends a run that is alive.")
        open_ids = {t.transactional_id for t in wanted}
        partitions = [p for p in self._partitions() if transactional_id(self.application_id, p) in open_ids]
        claims.claim(self._config(), f"moneystate transactions abort, {claims.this_process()}", partitions, -1)
        return wanted

    def processes(self) -> list[psutil.Process]:
        """The processes of the application's runs on this machine that are alive."""
        alive = [claims.process_of(who) for who in self._claimants()]
        return list(dict.fromkeys(process for process in alive if process is not None))

    def check_stopped(self) -> None:
        """Raises InstanceError if a run of the application seems to be alive."""
        claimants = self._claimants()
        elsewhere = [who for who in claimants if claims.is_alive(who) is None]
        seen = self.transactions() if elsewhere else []
        _check_not_alive(self.application_id, claimants, seen, "--stop stops a run on this machine.")

    def _partitions(self) -> tuple[int, ...]:
        return topic_states(self.admin, [self.commits])[self.commits].partitions

    def _check_own(self, ids: Iterable[str]) -> None:
        others = set(ids) - set(self.ids())
        if others:
            raise ConfigError(
                f"{min(others)}: expected a transactional id of application {self.application_id}, found one of "
                "another.",
                "give the --service, --topic-prefix and --application-id that it belongs to; moneystate transactions "
                "list shows the ids.",
            )

    def _claimants(self) -> list[str]:
        """All runs whose claims the commits topic still has, the last one last. A claim that was not committed takes
        nothing over, so the last one alone does not tell which run may be alive. Raises ConfigError if the topic has
        nothing of the application: its id may be that of a job with other topics."""
        prefix = marker_key(self.application_id, 0)[:-1]
        log = whole_log(self.bootstrap_servers, self.extra, self.commits, self._partitions())
        mine = [message for message in log if (message.key() or b"").startswith(prefix)]
        if not mine:
            raise ConfigError(
                f"{self.commits}: expected claims of application {self.application_id}, found none: its jobs have "
                "other topics.",
                "check --service, --topic-prefix and --application-id.",
            )
        made = [message for message in mine if (message.key() or b"").endswith(CLAIM)]
        made.sort(key=lambda message: message.timestamp()[1])
        return [decode_claim(message.value() or b"").who for message in made] or ["a program without claims"]

    def _config(self) -> SinkConfig:
        return SinkConfig(
            bootstrap_servers=self.bootstrap_servers,
            extra=self.extra,
            application_id=self.application_id,
            streams=[],
            commits=self.commits,
            changelog=None,
            changelog_partitions=0,
            key_groups=0,
            instance=uuid.uuid4().hex,
        )


def _check_not_alive(application_id: str, claimants: Sequence[str], seen: Sequence[Transaction], more: str) -> None:
    """`seen`: the transactions, which tell about runs on other machines; `more`: what else there is to do."""
    alive = {who: claims.is_alive(who) for who in claimants}
    here = [who for who in alive if alive[who]]
    unknown = [who for who in alive if alive[who] is None]
    ago_s = time.time() - max((t.changed_ms for t in seen), default=0) / 1000
    if here or (unknown and ago_s < ALIVE_S):
        recently = f"a transaction of it changed {max(ago_s, 0):.0f} s ago"
        sign = f"it runs ({here[-1]})" if here else f"{recently} ({unknown[-1]})"
        raise InstanceError(
            f"application {application_id}: expected one that does not run, but {sign}.",
            f"stop it first. If it is gone, try again in a moment; {more}",
        )
