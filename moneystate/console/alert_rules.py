"""The alert rules that the console evaluates: those of ops/alerts.yml whose conditions have one of its forms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from moneystate.console.alert_forms import Condition, Counted, Gauge, IsUp, Quantile, Selected, Share

JOB: Final = "moneystate_job_"
LOOKUP: Final = "moneystate_lookup_"
QUERY: Final = "moneystate_query_"
REPLICA: Final = "moneystate_replica_"
INGEST: Final = "moneystate_ingest_"
DELIVER: Final = "moneystate_deliver_"
CRITICAL, WARNING = "critical", "warning"


@dataclass(frozen=True)
class Rule:
    """`for_m`: minutes for which the condition has to hold. `summary`: with labels and `value` in braces."""

    name: str
    condition: Condition
    severity: str
    summary: str
    for_m: int = 0

    @property
    def runbook(self) -> str:
        return f"docs/runbook.md#{self.name.lower()}"


RULES: Final = (
    Rule("MoneystateDown", IsUp(), CRITICAL, "{instance} does not answer.", 2),
    Rule(
        "MoneystateJobNotReady", Gauge(Selected(JOB + "ready"), "==", 0), CRITICAL,
        "{service} on {instance} has not been ready for 10 minutes.", 10,
    ),
    Rule(
        "MoneystateWatermarkStands", Gauge(Selected(JOB + "watermark_standing_seconds"), ">", 300), CRITICAL,
        "{service} reads records, but its watermark stands.",
    ),
    Rule(
        "MoneystateWatermarkLags", Gauge(Selected(JOB + "watermark_lag_seconds"), ">", 900), WARNING,
        "The watermark of {service} is {value} behind.", 15,
    ),
    Rule(
        "MoneystateBatchHangs", Gauge(Selected(JOB + "batch_running_seconds"), ">", 300), CRITICAL,
        "A batch of {service} has run for {value}.",
    ),
    Rule(
        "MoneystateBatchesSlow", Quantile(0.9, JOB + "batch_seconds", 30), WARNING,
        "A tenth of the batches of {service} take {value} or more.", 10,
    ),
    Rule(
        "MoneystateDeadLetters", Share(Selected(JOB + "dead_letters_total"), Selected(JOB + "records_total"), 0.01),
        WARNING, "More than 1% of the records of {service} are dead letters.", 5,
    ),
    Rule(
        "MoneystateLateRecords", Share(Selected(JOB + "late_total"), Selected(JOB + "records_total"), 0.05), WARNING,
        "More than 5% of the records of {service} are late.", 5,
    ),
    Rule(
        "MoneystateProducersRestart", Counted("changes", Selected(JOB + "producers_restarted_total"), 30, ">=", 3),
        WARNING, "{service} starts its producers again and again.",
    ),
    Rule(
        "MoneystateLookupServiceDown", Gauge(Selected(LOOKUP + "breaker_state", "state", ("closed",)), "==", 0),
        CRITICAL, "{instance} gets no answers from the session service.", 5,
    ),
    Rule(
        "MoneystateLookupsFail",
        Share(
            Selected(LOOKUP + "replies_total", "outcome", ("FAILED",)), Selected(LOOKUP + "replies_total"), 0.05,
            range_m=15,
        ),
        WARNING, "More than 5% of the lookups end as FAILED, which is final.", 5,
    ),
    Rule(
        "MoneystateLookupTransactionsAbort",
        Counted("increase", Selected(LOOKUP + "transactions_total", "end", ("aborted",)), 15, ">", 3),
        WARNING, "{instance} aborts transactions again and again.",
    ),
    Rule(
        "MoneystateLookupRequestsUndecodable", Counted("increase", Selected(LOOKUP + "undecodable_total"), 15, ">", 0),
        WARNING, "{instance} reads records that are no lookup requests.",
    ),
    Rule(
        "MoneystateReplicaNotCaughtUp", Gauge(Selected(REPLICA + "caught_up"), "==", 0), CRITICAL,
        "The query server {instance} has answered no query for 10 minutes.", 10,
    ),
    Rule(
        "MoneystateReplicaLags", Gauge(Selected(REPLICA + "lag_seconds"), ">", 60), WARNING,
        "The query server {instance} is {value} behind the changelog.", 5,
    ),
    Rule(
        "MoneystateQueriesFail",
        Share(
            Selected(QUERY + "calls_total", "code", ("INTERNAL", "UNAVAILABLE")), Selected(QUERY + "calls_total"), 0.01,
        ),
        WARNING, "More than 1% of the queries to {service} fail.", 5,
    ),
    Rule(
        "MoneystateQueriesSlow", Quantile(0.99, QUERY + "seconds", 0.5), WARNING,
        "A hundredth of the queries to {service} take {value} or more.", 10,
    ),
    Rule(
        "MoneystateIngestWithoutKafka", Gauge(Selected(INGEST + "kafka_reached"), "==", 0), CRITICAL,
        "The ingest server {instance} refuses all records, because it does not reach Kafka.", 2,
    ),
    Rule(
        "MoneystateIngestSlow", Quantile(0.99, INGEST + "request_seconds", 0.5, by="instance"), WARNING,
        "A hundredth of the requests to {instance} take {value} or more.", 10,
    ),
    Rule(
        "MoneystateDeliveriesBehind", Gauge(Selected(DELIVER + "behind_seconds"), ">", 60), WARNING,
        "The worker {instance} has not taken deliveries that are {value} old.", 5,
    ),
    Rule(
        "MoneystateDeliveriesUndelivered",
        Share(
            Selected(DELIVER + "outcomes_total", "outcome", ("DEAD", "OVERFLOW")),
            Selected(DELIVER + "outcomes_total"), 0.05,
        ),
        WARNING, "More than 5% of the messages end undelivered.", 5,
    ),
    Rule(
        "MoneystateDeliveryConnectionsScarce", Gauge(Selected(DELIVER + "connections_scarce"), "==", 1), WARNING,
        "The worker {instance} holds half of its connections, so each endpoint has only one.", 15,
    ),
    Rule(
        "MoneystateDeliveryTransactionsAbort",
        Counted("increase", Selected(DELIVER + "transactions_total", "end", ("aborted",)), 15, ">", 3),
        WARNING, "{instance} aborts transactions of deliveries again and again.",
    ),
)  # fmt: skip
