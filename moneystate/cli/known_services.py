"""The short names of this project's services. A name can stand for services that run together."""

from __future__ import annotations

from typing import Final

KNOWN: Final[dict[str, tuple[str, ...]]] = {
    "changes": ("services.changes.service:changes",),
    "delivery": ("services.delivery.service:delivery",),
    "enrichment": ("services.enrichment.service:service",),
    "entities": ("services.entities.service:entities",),
    "joining": ("services.joining.service:joining",),
    "rollups": ("services.rollups.service:rollups",),
    "stock": ("services.stock.service:stock", "services.stock.orders:orders"),
    "sequencing": ("services.sequencing.service:sequencing",),
    "reconciliation": (
        "services.reconciliation.service:reconciliation",
        "services.reconciliation.completeness:completeness",
    ),
}
# Commands of services, by name, and groups of them
FAKES: Final = {"fake-session-service": "services.enrichment.cli.fake_session_service:fake_session_service"}
GROUPS: Final = {
    "delivery": "services.delivery.cli.commands:app",
    "reconciliation": "services.reconciliation.cli.status:app",
    "rollups": "services.rollups.cli.plot:app",
}
DEMOS: Final[dict[str, str]] = {
    "enrichment": "services.enrichment.cli.demo:demo",
    "apply": "moneystate.apply.demo:demo",
    "changes": "services.changes.demo:demo",
    "console": "services.rollups.console_demo:demo",
    "delivery": "services.delivery.demo:demo",
    "entities": "services.entities.demo:demo",
    "joining": "services.joining.demo:demo",
    "reconciliation": "services.reconciliation.demo:demo",
    "stock": "services.stock.demo:demo",
    "rollups": "services.rollups.demo:demo",
    "sequencing": "services.sequencing.demo:demo",
    "tables": "moneystate.tables.demo.story:demo",
}
